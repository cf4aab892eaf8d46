package compaction

import (
	"errors"
	"math"

	"github.com/kcoord/kcoord/log/record"
)

// filter decides what stays of each batch. It sees all batches of a round in
// order, from the log start on.
type filter struct {
	newest *offsetMap
	// alive are the offsets that newest knows, rising, without those behind which
	// batches have come already; nil: not known. They count for the batches from mapped
	// on: a plain one without any of them keeps nothing and need not be decoded.
	alive  []int64
	mapped int64

	end     int64 // E: batches from here on are no part of the round
	now     int64 // wall clock, ms
	horizon int64 // what tombstones without a delete horizon get, ms
	aborted map[int64][]span
	// last is each producer's last offset below end. A producer that is not in it
	// has its last batch in the part that was cleaned before.
	last map[int64]int64
	// kept are the producers with a transaction of which records have been kept
	// and whose marker has not come yet.
	kept map[int64]bool

	reader record.Reader
	writer record.Rewriter
	out    []byte

	stats Stats
}

// span is a range of offsets, both inclusive.
type span struct{ first, last int64 }

// Stats is what a round kept and dropped.
type Stats struct {
	RecordsBefore, RecordsAfter int64
	// Tombstones are those that were kept.
	Tombstones Tombstones
	// Unreadable counts batches whose records could not be decoded; they were
	// copied as they are.
	Unreadable int64
}

// Tombstones are bytes of tombstones by the minute after which they may go: the
// delete horizon in ms, rounded up.
type Tombstones map[int64]int64

const minute = 60_000

func (t Tombstones) add(horizon, bytes int64) { t[(horizon+minute-1)/minute*minute] += bytes }

// Bytes is their sum.
func (t Tombstones) Bytes() (sum int64) {
	for _, n := range t {
		sum += n
	}
	return sum
}

// expired returns how many bytes may go at wall (ms), and the earliest horizon.
func (t Tombstones) expired(wall int64) (bytes, oldest int64) {
	oldest = math.MaxInt64
	for horizon, n := range t {
		if oldest = min(oldest, horizon); horizon <= wall {
			bytes += n
		}
	}
	return bytes, oldest
}

// batch returns what stays of b: b itself if nothing changes, nil if nothing
// stays. mustStay keeps at least an empty batch. The result is valid until the
// next call.
func (f *filter) batch(b record.Batch, mustStay bool) (record.Batch, error) {
	f.stats.RecordsBefore += int64(b.Count())
	out, err := f.decide(b, mustStay)
	if err == nil && out != nil {
		f.stats.RecordsAfter += int64(out.Count())
	}
	return out, err
}

func (f *filter) decide(b record.Batch, mustStay bool) (record.Batch, error) {
	switch {
	case b.BaseOffset() >= f.end:
		return b, nil
	case b.Control():
		return f.control(b, mustStay)
	case b.Transactional() && f.isAborted(b):
		return f.nothing(b, mustStay), nil
	case f.superseded(b):
		return f.nothing(b, mustStay), nil
	}
	out, err := f.records(b, mustStay)
	if err == nil && b.Transactional() && out != nil && out.Count() > 0 {
		f.kept[b.ProducerID()] = true
	}
	return out, err
}

// superseded reports whether every key of a batch is known to come again behind it.
// Where a few keys are overwritten all the time this is nearly every batch.
func (f *filter) superseded(b record.Batch) bool {
	if f.alive == nil || b.BaseOffset() < f.mapped || b.Transactional() {
		return false
	}
	for len(f.alive) > 0 && f.alive[0] < b.BaseOffset() {
		f.alive = f.alive[1:]
	}
	return len(f.alive) == 0 || f.alive[0] > b.LastOffset()
}

// isAborted looks a batch's transaction up. Spans that lie behind are dropped:
// batches come in order.
func (f *filter) isAborted(b record.Batch) bool {
	spans := f.aborted[b.ProducerID()]
	for len(spans) > 0 && spans[0].last < b.BaseOffset() {
		spans = spans[1:]
	}
	f.aborted[b.ProducerID()] = spans
	return len(spans) > 0 && spans[0].first <= b.BaseOffset()
}

// nothing is what stays of a batch without records: an empty one if it must
// stay or is a producer's last one, which tells its epoch and sequence.
func (f *filter) nothing(b record.Batch, mustStay bool) record.Batch {
	if !mustStay && !f.isLast(b) {
		return nil
	}
	if b.Count() == 0 {
		return b
	}
	f.out = record.AppendEmpty(f.out[:0], b)
	return f.out
}

func (f *filter) isLast(b record.Batch) bool {
	if b.ProducerID() < 0 {
		return false
	}
	last, ok := f.last[b.ProducerID()]
	return !ok || last == b.LastOffset()
}

// control treats a marker: it stays while records of its transaction do, then
// until a delete horizon. Control records are never matched by key.
func (f *filter) control(b record.Batch, mustStay bool) (record.Batch, error) {
	if b.Count() == 0 {
		return f.nothing(b, mustStay), nil
	}
	endTxn := false
	err := f.reader.Each(b, func(r record.Record) error {
		kind, err := record.ControlKey(r.Key)
		endTxn = kind == record.ControlAbort || kind == record.ControlCommit
		return err
	})
	if err != nil {
		return f.unreadable(b, err)
	}
	if !endTxn {
		return b, nil
	}
	if f.kept[b.ProducerID()] {
		delete(f.kept, b.ProducerID())
		return b, nil
	}
	if b.HasDeleteHorizon() {
		if f.now < b.BaseTimestamp() {
			return b, nil
		}
		return f.nothing(b, mustStay), nil
	}
	f.writer.Begin(b, b.Codec(), f.horizon)
	if err := f.reader.Each(b, func(r record.Record) error {
		f.writer.Add(r)
		return nil
	}); err != nil {
		return nil, err
	}
	return f.encode(b)
}

// unreadable keeps a batch that has a right checksum but cannot be decoded, as
// it is: an operator may want it, and dropping it is not for a cleaner.
func (f *filter) unreadable(b record.Batch, err error) (record.Batch, error) {
	if isUnreadable(err) {
		f.stats.Unreadable++
		return b, nil
	}
	return nil, err
}

func isUnreadable(err error) bool {
	return errors.Is(err, record.ErrMalformed) || errors.Is(err, record.ErrInflate)
}

// keep says whether a record stays.
func (f *filter) keep(b record.Batch, r *record.Record) bool {
	switch {
	case r.Key == nil:
		return false
	case r.Offset < f.newest.newest(r.Key):
		return false
	case r.Value == nil:
		return !b.HasDeleteHorizon() || f.now < b.BaseTimestamp()
	}
	return true
}

// records applies keep to an ordinary batch.
func (f *filter) records(b record.Batch, mustStay bool) (record.Batch, error) {
	kept, tombstones := int32(0), int64(0)
	err := f.reader.Each(b, func(r record.Record) error {
		if f.keep(b, &r) {
			kept++
			if r.Value == nil {
				tombstones += int64(record.MaxRecordSize(r.Key, nil))
			}
		}
		return nil
	})
	if err != nil {
		return f.unreadable(b, err)
	}
	horizon := record.NoHorizon
	switch {
	case b.HasDeleteHorizon():
		horizon = b.BaseTimestamp()
	case tombstones > 0:
		horizon = f.horizon
	}
	if tombstones > 0 {
		f.stats.Tombstones.add(horizon, tombstones)
	}
	switch {
	case kept == 0:
		return f.nothing(b, mustStay), nil
	case kept == b.Count() && (horizon == record.NoHorizon || b.HasDeleteHorizon()):
		return b, nil
	}
	f.writer.Begin(b, b.Codec(), horizon)
	err = f.reader.Each(b, func(r record.Record) error {
		if f.keep(b, &r) {
			f.writer.Add(r)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return f.encode(b)
}

func (f *filter) encode(b record.Batch) (record.Batch, error) {
	out, err := f.writer.Append(f.out[:0], b.LastOffset())
	if err != nil {
		return nil, err
	}
	f.out = out
	return out, nil
}
