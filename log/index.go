package log

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sort"

	"github.com/kcoord/kcoord/log/record"
)

// An offset index entry (.index, 8 bytes): the batch that starts at byte
// position has last offset base+relative. Both rise strictly; the batch at
// position 0 never has an entry.
type indexEntry struct {
	relative int32
	position int32
}

// A time index entry (.timeindex, 12 bytes): the largest timestamp so far, and
// the last offset (relative to base) of the first batch that has it.
// Timestamps rise strictly.
type timeEntry struct {
	timestamp int64
	relative  int32
}

const (
	indexEntrySize = 8
	timeEntrySize  = 12
)

// appendIndex and appendTimeIndex encode entries as they stand in the files.
func appendIndex(dst []byte, entries []indexEntry) []byte {
	for _, e := range entries {
		dst = binary.BigEndian.AppendUint32(dst, uint32(e.relative))
		dst = binary.BigEndian.AppendUint32(dst, uint32(e.position))
	}
	return dst
}

func appendTimeIndex(dst []byte, entries []timeEntry) []byte {
	for _, e := range entries {
		dst = binary.BigEndian.AppendUint64(dst, uint64(e.timestamp))
		dst = binary.BigEndian.AppendUint32(dst, uint32(e.relative))
	}
	return dst
}

func indexEntryAt(b []byte) indexEntry {
	return indexEntry{int32(binary.BigEndian.Uint32(b)), int32(binary.BigEndian.Uint32(b[4:]))}
}

func timeEntryAt(b []byte) timeEntry {
	return timeEntry{int64(binary.BigEndian.Uint64(b)), int32(binary.BigEndian.Uint32(b[8:]))}
}

var errIndex = errors.New("index is not usable")

// parseIndex decodes an offset index whose log has logSize bytes. Anything that
// is not as it must be is errIndex.
func parseIndex(b []byte, logSize int64) ([]indexEntry, error) {
	if len(b)%indexEntrySize != 0 {
		return nil, fmt.Errorf("%w: %d bytes", errIndex, len(b))
	}
	entries := make([]indexEntry, 0, len(b)/indexEntrySize)
	last := indexEntry{relative: -1, position: 0}
	for ; len(b) > 0; b = b[indexEntrySize:] {
		e := indexEntryAt(b)
		if e.relative <= last.relative || e.position <= last.position || int64(e.position) >= logSize {
			return nil, fmt.Errorf("%w: entry (%d, %d) after (%d, %d) in a log of %d bytes",
				errIndex, e.relative, e.position, last.relative, last.position, logSize)
		}
		entries, last = append(entries, e), e
	}
	return entries, nil
}

// parseTimeIndex decodes a time index.
func parseTimeIndex(b []byte) ([]timeEntry, error) {
	if len(b)%timeEntrySize != 0 {
		return nil, fmt.Errorf("%w: %d bytes", errIndex, len(b))
	}
	entries := make([]timeEntry, 0, len(b)/timeEntrySize)
	last := timeEntry{timestamp: -1, relative: 0}
	for ; len(b) > 0; b = b[timeEntrySize:] {
		e := timeEntryAt(b)
		// A first entry of zeros is what a power cut leaves of a sector that was not
		// written.
		zero := len(entries) == 0 && e == timeEntry{}
		if zero || e.timestamp <= last.timestamp || e.relative < last.relative {
			return nil, fmt.Errorf("%w: entry (%d, %d) after (%d, %d)",
				errIndex, e.timestamp, e.relative, last.timestamp, last.relative)
		}
		entries, last = append(entries, e), e
	}
	return entries, nil
}

// floorEntry returns the last offset index entry at or below a relative offset; ok is
// false, and the entry that of the log's beginning, if there is none.
func floorEntry(index []indexEntry, relative int64) (e indexEntry, ok bool) {
	i := sort.Search(len(index), func(i int) bool { return int64(index[i].relative) > relative })
	if i == 0 {
		return e, false
	}
	return index[i-1], true
}

// tail is what an append to a segment has to know of what is in it already. It
// is a value: a copy is a state to go back to.
type tail struct {
	size       int64 // bytes of whole batches
	next       int64 // offset behind the last batch; the base when empty
	sinceIndex int64 // bytes since the last offset index entry
	indexed    int   // offset index entries
	timed      int   // time index entries
	firstTime  int64 // max timestamp of the first batch; -1: none
	maxTime    int64 // largest timestamp of batches with records; -1: none
	maxTimeEnd int64 // last offset of the first batch that has it
	lastTimed  int64 // timestamp of the last time index entry; -1: none
	// emptyTime and emptyTimeEnd are maxTime and maxTimeEnd of batches without
	// records: they count only if no other timestamp exists, since a reader finds
	// no record there.
	emptyTime    int64
	emptyTimeEnd int64
	epoch        int32 // leader epoch of the last batch; -1: none
}

func newTail(base int64) tail {
	return tail{next: base, firstTime: -1, maxTime: -1, lastTimed: -1, emptyTime: -1, epoch: -1}
}

// entries are the index entries that one batch adds.
type entries struct {
	index    indexEntry
	hasIndex bool
	time     timeEntry
	hasTime  bool
}

// add accounts for batch b, written at t.size of the segment named base, and
// returns the index entries that it gets. Kafka's rule: an entry for the first
// batch that starts more than interval bytes after the last one that has one,
// and with it a time entry if the largest timestamp has grown.
func (t *tail) add(b record.Batch, base, interval int64) (e entries) {
	last := b.LastOffset()
	if t.size == 0 {
		t.firstTime = b.MaxTimestamp()
	}
	switch ts := b.MaxTimestamp(); {
	case b.Count() == 0:
		if ts > t.emptyTime {
			t.emptyTime, t.emptyTimeEnd = ts, last
		}
	case ts > t.maxTime:
		t.maxTime, t.maxTimeEnd = ts, last
	}
	if t.sinceIndex > interval {
		e.index, e.hasIndex = indexEntry{int32(last - base), int32(t.size)}, true
		t.indexed++
		t.sinceIndex = 0
		e.time, e.hasTime = t.timeEntry(base)
	}
	t.size += b.Size()
	t.sinceIndex += b.Size()
	t.next = last + 1
	if epoch := b.LeaderEpoch(); epoch > t.epoch {
		t.epoch = epoch
	}
	return e
}

// timeEntry is the time index entry that is due: none if the largest timestamp
// has an entry already or does not exist.
func (t *tail) timeEntry(base int64) (timeEntry, bool) {
	if t.maxTime <= t.lastTimed {
		return timeEntry{}, false
	}
	t.lastTimed = t.maxTime
	t.timed++
	return timeEntry{t.maxTime, int32(t.maxTimeEnd - base)}, true
}

// closing is the time index entry that a segment gets when nothing more will be
// appended, so that its last entry has its largest timestamp.
func (t *tail) closing(base int64) (timeEntry, bool) {
	if t.maxTime < 0 && t.lastTimed < 0 && t.emptyTime >= 0 {
		t.lastTimed = t.emptyTime
		t.timed++
		return timeEntry{t.emptyTime, int32(t.emptyTimeEnd - base)}, true
	}
	return t.timeEntry(base)
}

// largest is the largest timestamp, -1 if there is none.
func (t *tail) largest() int64 { return max(t.maxTime, t.emptyTime) }
