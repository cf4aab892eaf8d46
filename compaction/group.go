package compaction

import (
	"fmt"
	"slices"

	"github.com/kcoord/kcoord/log"
	"github.com/kcoord/kcoord/log/record"
)

const (
	// maxOffsetSpan is how far offsets of one segment may be apart: indexes hold
	// them relative to the base, as int32.
	maxOffsetSpan = 1<<31 - 1
	// maxSegment bounds an output: positions in an index are int32.
	maxSegment = 1<<31 - 1
	// timeEntryBytes is the size of a time index entry, the larger of the two.
	timeEntryBytes = 12
)

// groups divides the segments below end into runs that become one segment each:
// together no larger than segment.bytes, index files within
// segment.index.bytes, offsets within an int32. Segments without batches make no
// end of a group: an output ends where the last of its segments ends.
func groups(segs []*log.CleanSegment, end int64, c log.TopicConfig) [][]*log.CleanSegment {
	var all [][]*log.CleanSegment
	interval := max(c.IndexIntervalBytes, 1)
	for i := 0; i < len(segs) && segs[i].Base < end; {
		bytes, n := segs[i].Bytes, i+1
		fits := n
		for ; n < len(segs) && segs[n].Base < end; n++ {
			bytes += segs[n].Bytes
			if bytes > c.SegmentBytes || bytes/interval*timeEntryBytes > c.SegmentIndexBytes ||
				segs[n].NextOffset-segs[i].Base > maxOffsetSpan {
				break
			}
			if segs[n].Bytes > 0 {
				fits = n + 1
			}
		}
		if segs[i].Bytes > 0 || fits > i+1 {
			all = append(all, segs[i:fits])
		}
		i = fits
	}
	return all
}

// sink takes what stays of a group, batch by batch. The output is made when the
// first difference shows; until then the input's beginning needs no copy.
type sink struct {
	c     *log.Cleaning
	group []*log.CleanSegment
	out   *log.Output
	// same is how many bytes at the beginning of the group's only segment are to
	// stay as they are.
	same int64
	copy reader

	// mergeBytes is the size up to which neighbouring batches become one; 0: never.
	mergeBytes int
	// held is the last batch taken, which may still grow. merging: its records are
	// in writer, and lastOffset is where it ends.
	held       []byte
	holds      bool
	changed    bool // held is not what it was in the input
	merging    bool
	lastOffset int64
	reader     record.Reader
	writer     record.Rewriter
	buf        []byte
}

// begin starts a group. One of several segments is written anew in any case.
func (s *sink) begin(c *log.Cleaning, group []*log.CleanSegment) error {
	s.c, s.group, s.out, s.same = c, group, nil, 0
	s.holds, s.merging = false, false
	if len(group) > 1 {
		return s.create()
	}
	return nil
}

// create makes the output and copies what was the same so far.
func (s *sink) create() (err error) {
	if s.out != nil {
		return nil
	}
	if s.out, err = s.c.Create(s.group[0].Base); err != nil {
		return err
	}
	s.copy.open(s.group[0])
	for s.copy.pos < s.same {
		b, err := s.copy.next()
		if err != nil {
			return err
		}
		if err := s.append(b); err != nil {
			return err
		}
	}
	return nil
}

func (s *sink) append(b record.Batch) error {
	if s.out.Bytes()+b.Size() > maxSegment {
		return fmt.Errorf("compaction: segment %d of %s would exceed %d bytes", s.group[0].Base, "the output", maxSegment)
	}
	return s.out.Append(b)
}

// drop notes that a batch of the input does not stay.
func (s *sink) drop() error { return s.create() }

// add takes a batch that stays; changed says whether it differs from the input.
func (s *sink) add(b record.Batch, changed bool) error {
	if s.holds && s.joins(b) {
		return s.join(b)
	}
	if err := s.flush(); err != nil {
		return err
	}
	s.held, s.holds, s.changed = append(s.held[:0], b...), true, changed
	return nil
}

// flush lets go of the held batch.
func (s *sink) flush() error {
	if !s.holds {
		return nil
	}
	b := record.Batch(s.held)
	if s.merging {
		var err error
		if s.buf, err = s.writer.Append(s.buf[:0], s.lastOffset); err != nil {
			return err
		}
		b = s.buf
	}
	changed := s.changed || s.merging
	s.holds, s.merging = false, false
	if changed {
		if err := s.create(); err != nil {
			return err
		}
	}
	if s.out == nil {
		s.same += b.Size()
		return nil
	}
	return s.append(b)
}

// joins reports whether b can become a part of the held batch: no producer, no
// compression, the same epoch, kind of timestamps and delete horizon, and
// together small enough. A batch without records only lends its end.
func (s *sink) joins(b record.Batch) bool {
	h := record.Batch(s.held)
	const kinds = record.CodecMask | record.BitLogAppendTime | record.BitTransactional | record.BitControl
	if s.mergeBytes == 0 || h.Attributes()&kinds != 0 || b.Attributes()&kinds != 0 ||
		h.ProducerID() >= 0 || b.ProducerID() >= 0 || h.Count() == 0 ||
		h.LeaderEpoch() != b.LeaderEpoch() || h.BaseSequence() != b.BaseSequence() || h.ProducerEpoch() != b.ProducerEpoch() {
		return false
	}
	if b.Count() > 0 && (h.HasDeleteHorizon() != b.HasDeleteHorizon() || h.HasDeleteHorizon() && h.BaseTimestamp() != b.BaseTimestamp()) {
		return false
	}
	size := len(s.held)
	if s.merging {
		size = s.writer.Size()
	}
	return size+len(b)-record.HeaderSize <= s.mergeBytes && b.LastOffset()-h.BaseOffset() <= maxOffsetSpan
}

func (s *sink) join(b record.Batch) error {
	h := record.Batch(s.held)
	if !s.merging {
		horizon := record.NoHorizon
		if h.HasDeleteHorizon() {
			horizon = h.BaseTimestamp()
		}
		s.writer.Begin(h, record.CodecNone, horizon)
		if err := s.records(h); err != nil {
			return err
		}
		s.merging = true
	}
	if err := s.records(b); err != nil {
		return err
	}
	s.lastOffset = b.LastOffset()
	return nil
}

func (s *sink) records(b record.Batch) error {
	return s.reader.Each(b, func(r record.Record) error {
		s.writer.Add(r)
		return nil
	})
}

// end completes the group and installs its output, if there is one.
func (s *sink) end() (replaced bool, err error) {
	if err := s.flush(); err != nil || s.out == nil {
		return false, err
	}
	out := s.out
	s.out = nil
	if err := s.c.Replace(slices.Clone(s.group), out); err != nil {
		return false, err
	}
	return true, nil
}

// abandon throws an unfinished output away.
func (s *sink) abandon() {
	if s.out != nil {
		s.out.Discard()
		s.out = nil
	}
}
