package log

import (
	"errors"
	"fmt"
	"io"

	"github.com/kcoord/kcoord/log/record"
)

// errFound ends an iteration over records.
var errFound = errors.New("found")

// OffsetForTimestamp returns the earliest offset whose timestamp is ts or
// later, that record's timestamp and its batch's leader epoch; -1, -1, -1 if
// there is none.
func (p *Partition) OffsetForTimestamp(ts int64) (offset, timestamp int64, epoch int32, err error) {
	if err := p.readable(p.hw.Load()); err != nil {
		return -1, -1, -1, err
	}
	for _, g := range p.list() {
		if !g.acquire() {
			continue // removed since: below the log start, or its successor follows in the next list
		}
		offset, timestamp, epoch, err := p.searchSegment(g, ts)
		if err != nil {
			err = p.readFailed(g, err)
		}
		g.release()
		if err != nil {
			return -1, -1, -1, err
		}
		if offset >= 0 {
			return offset, timestamp, epoch, nil
		}
	}
	return -1, -1, -1, nil
}

// MaxTimestamp returns the earliest offset that has the largest timestamp
// (KIP-734); -1, -1, -1 if the log is empty.
func (p *Partition) MaxTimestamp() (offset, timestamp int64, epoch int32, err error) {
	if err := p.readable(p.hw.Load()); err != nil {
		return -1, -1, -1, err
	}
	most := int64(-1)
	for _, g := range p.list() {
		if err := p.look(g); err != nil {
			return -1, -1, -1, p.readFailed(g, err)
		}
		most = max(most, g.largest.Load())
	}
	if most < 0 {
		return -1, -1, -1, nil
	}
	return p.OffsetForTimestamp(most)
}

// searchSegment looks in a segment for the first record with a timestamp of at least
// ts.
func (p *Partition) searchSegment(g *segment, ts int64) (offset, timestamp int64, epoch int32, err error) {
	if err := p.look(g); err != nil {
		return -1, -1, -1, err
	}
	if g.largest.Load() < ts {
		return -1, -1, -1, nil
	}
	e, ok := p.olderThan(g, ts)
	offset, timestamp, epoch, err = p.searchFrom(g, e, ok, ts)
	if errors.Is(err, errWrongEntry) {
		p.reindex(g, err)
		return p.searchFrom(g, timeEntry{}, false, ts)
	}
	return offset, timestamp, epoch, err
}

// searchFrom is searchSegment from the batch of a time index entry on, which must say
// what is there (errWrongEntry), or from the segment's beginning.
func (p *Partition) searchFrom(g *segment, e timeEntry, indexed bool, ts int64) (offset, timestamp int64, epoch int32, err error) {
	pos, next := int64(0), g.base
	if indexed {
		next += int64(e.relative)
		if pos, _, _, err = p.find(g, g.base+int64(e.relative), g.size.Load()); err != nil {
			return -1, -1, -1, err
		}
	}
	start := p.logStart.Load()
	reader := record.Reader{InflateMax: p.s.o.InflateMaxBytes}
	offset = -1
	s := newScanner(g.file, pos, g.size.Load(), true, nil)
	for {
		b, err := s.next()
		if errors.Is(err, io.EOF) && indexed {
			return -1, -1, -1, fmt.Errorf("%w: the log ends before offset %d", errWrongEntry, g.base+int64(e.relative))
		}
		if errors.Is(err, io.EOF) {
			return -1, -1, -1, nil
		}
		if err != nil {
			return -1, -1, -1, g.corrupt(err, next)
		}
		if indexed && (b.LastOffset() != g.base+int64(e.relative) || b.MaxTimestamp() != e.timestamp) {
			return -1, -1, -1, fmt.Errorf("%w: no batch with timestamp %d ends with offset %d", errWrongEntry, e.timestamp, g.base+int64(e.relative))
		}
		indexed, next = false, b.NextOffset() // only of the first one
		if b.MaxTimestamp() < ts || b.LastOffset() < start {
			continue
		}
		err = reader.Each(b, func(r record.Record) error {
			if r.Timestamp < ts || r.Offset < start {
				return nil
			}
			offset, timestamp = r.Offset, r.Timestamp
			return errFound
		})
		if errors.Is(err, errFound) {
			return offset, timestamp, b.LeaderEpoch(), nil
		}
		if err != nil {
			return -1, -1, -1, g.corrupt(&scanError{s.pos - b.Size(), err}, b.BaseOffset())
		}
	}
}
