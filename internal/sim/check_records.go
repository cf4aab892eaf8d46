package sim

import (
	"fmt"

	"github.com/kcoord/kcoord/log/record"
)

const (
	dataTopic = "data"
	// dataPartitions of the topic. The last one is for producers without idempotence:
	// records are deleted from it.
	dataPartitions   = 3
	deletedPartition = dataPartitions - 1
)

// A logHistory is what clients know of one partition's log.
type logHistory struct {
	partition int32
	// known is the value at each offset that a producer was told or a consumer was
	// given. Invariant: it never changes, and stays readable from start on.
	known map[int64]string
	// places are the offsets of values that must not be there twice.
	places map[string]int64
	end    int64 // beyond the last offset known: no reader is told less from then on
	start  int64 // log start that was told
}

func (w *World) log(partition int32) *logHistory {
	l := w.logs[partition]
	if l == nil {
		l = &logHistory{partition: partition, known: map[int64]string{}, places: map[string]int64{}}
		w.logs[partition] = l
	}
	return l
}

// at notes that a value is durable at an offset. Those of idempotent producers
// must be nowhere else.
func (l *logHistory) at(w *World, offset int64, value string) {
	if other, known := l.known[offset]; known && other != value {
		w.violated(checkRecords, "%s-%d: offset %d holds %s and %s", dataTopic, l.partition, offset, other, value)
	}
	l.known[offset] = value
	l.end = max(l.end, offset+1)
	if !idempotent(value) {
		return
	}
	if other, twice := l.places[value]; twice && other != offset {
		w.violated(checkRecords, "%s-%d: %s is at %d and at %d", dataTopic, l.partition, value, other, offset)
	}
	l.places[value] = offset
}

// forget notes that what lies before offset may be gone.
func (l *logHistory) forget(offset int64) {
	for at := range l.known {
		if at < offset {
			delete(l.known, at)
		}
	}
}

// bounds is what was known of a log when somebody asked.
type bounds struct{ start, end int64 }

func (l *logHistory) bounds() bounds { return bounds{l.start, l.end} }

// ends checks a log's bounds as an answer tells them; negative: it does not.
func (l *logHistory) ends(w *World, what string, before bounds, start, end int64) {
	if start >= 0 && start < before.start {
		w.violated(checkRecords, "%s-%d: %s tells log start %d, it was %d", dataTopic, l.partition, what, start, before.start)
	}
	if end >= 0 && end < before.end {
		w.violated(checkRecords, "%s-%d: %s tells the end %d, it was %d", dataTopic, l.partition, what, end, before.end)
	}
	l.start, l.end = max(l.start, start), max(l.end, end)
}

// fetched checks the records of an answer to a fetch from position; it returns
// the next position.
func (l *logHistory) fetched(w *World, position int64, data []byte) int64 {
	first := true
	for len(data) > 0 {
		if len(data) < record.HeaderSize || record.Batch(data).Size() > int64(len(data)) {
			w.violated(checkRecords, "%s-%d: a batch is cut off at %d bytes", dataTopic, l.partition, len(data))
		}
		b := record.Batch(data[:record.Batch(data).Size()])
		data = data[len(b):]
		if b.CRC() != b.ComputeCRC() {
			w.violated(checkRecords, "%s-%d: the batch at %d has a wrong checksum", dataTopic, l.partition, b.BaseOffset())
		}
		if base := b.BaseOffset(); base != position && !(first && base < position && b.LastOffset() >= position) {
			w.violated(checkRecords, "%s-%d: asked for %d, the next batch is %d to %d", dataTopic, l.partition, position, base, b.LastOffset())
		}
		next := b.BaseOffset()
		err := b.Each(func(r record.Record) error {
			if r.Offset != next {
				return fmt.Errorf("offset %d follows %d", r.Offset, next-1)
			}
			next++
			l.at(w, r.Offset, string(r.Value))
			return nil
		})
		if err != nil || next != b.NextOffset() {
			w.violated(checkRecords, "%s-%d: the batch at %d ends before %d: %v", dataTopic, l.partition, b.BaseOffset(), next, err)
		}
		position, first = next, false
	}
	return position
}
