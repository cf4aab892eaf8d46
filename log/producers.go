package log

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/kcoord/kcoord/log/record"
)

const (
	// keptBatches is how many batches of a producer are remembered: as many as a
	// client may have in flight.
	keptBatches = 5
	// producerExpiration is how long an idle producer is remembered, by default.
	producerExpiration = 24 * time.Hour
	// producerCheck is how often those that expired are removed, by default.
	producerCheck = 10 * time.Minute
)

// A producedBatch is what tells a batch from its repetition.
type producedBatch struct {
	first, last int32 // sequence numbers
	base        int64 // offset of first
}

// A producer is what a partition knows of one idempotent producer.
type producer struct {
	epoch   int16
	time    int64 // when its newest batch came, ms; for what a start found: the start
	batches []producedBatch
}

// producers is the state of a partition's idempotent producers. Nothing of it is
// stored for kcoord (a clean stop writes it for Kafka): it is what the batches in the log say, read when the first producer
// comes after a start.
//
// Its lock is held from the check of a batch to its append, and while the log is
// read: only this partition's idempotent producers wait for it. It comes before
// the partition's log lock.
type producers struct {
	mu struct {
		sync.Mutex
		loaded  bool
		known   map[int64]*producer
		sweepAt time.Duration // monotonic
	}
}

// appendIdempotent appends a batch of a producer unless it is there already.
func (p *Partition) appendIdempotent(b record.Batch) (base int64, duplicate bool, err error) {
	s := &p.producers
	s.mu.Lock()
	defer s.mu.Unlock()
	now := p.s.o.Now().UnixMilli()
	if err := p.loadProducersLocked(now); err != nil {
		return -1, false, err
	}
	p.sweepProducersLocked(now)
	known := s.mu.known[b.ProducerID()]
	if known != nil {
		if base, ok := known.find(b); ok {
			return base, true, nil
		}
		if err := known.check(b); err != nil {
			return -1, false, err
		}
	}
	if base, err = p.appendWhole(b, len(b)); err != nil {
		return -1, false, err
	}
	s.noteLocked(b, base, now)
	return base, false, nil
}

// find returns the base offset of a batch that b repeats.
func (k *producer) find(b record.Batch) (base int64, ok bool) {
	if b.ProducerEpoch() != k.epoch {
		return 0, false
	}
	for _, have := range k.batches {
		if have.first == b.BaseSequence() && have.last == lastSequence(b) {
			return have.base, true
		}
	}
	return 0, false
}

// check says whether b follows what the producer has sent.
func (k *producer) check(b record.Batch) error {
	switch epoch, first := b.ProducerEpoch(), b.BaseSequence(); {
	case epoch < k.epoch:
		return fmt.Errorf("%w: %d after %d", ErrInvalidProducerEpoch, epoch, k.epoch)
	case epoch > k.epoch && first != 0:
		return fmt.Errorf("%w: %d is not the first of epoch %d", ErrOutOfOrderSequence, first, epoch)
	case epoch > k.epoch || len(k.batches) == 0:
		return nil
	default:
		last := k.batches[len(k.batches)-1].last
		if first != nextSequence(last) {
			return fmt.Errorf("%w: %d after %d", ErrOutOfOrderSequence, first, last)
		}
	}
	return nil
}

// nextSequence is the sequence number behind seq: after the largest comes 0.
func nextSequence(seq int32) int32 { return (seq + 1) & (1<<31 - 1) }

func lastSequence(b record.Batch) int32 {
	return int32((int64(b.BaseSequence()) + int64(b.LastOffsetDelta())) & (1<<31 - 1))
}

// noteLocked remembers a batch that is in the log.
func (s *producers) noteLocked(b record.Batch, base, time int64) {
	k := s.mu.known[b.ProducerID()]
	if k == nil {
		k = &producer{epoch: b.ProducerEpoch()}
		s.mu.known[b.ProducerID()] = k
	}
	if b.ProducerEpoch() != k.epoch {
		k.epoch, k.batches = b.ProducerEpoch(), k.batches[:0]
	}
	if len(k.batches) == keptBatches {
		k.batches = append(k.batches[:0], k.batches[1:]...)
	}
	k.batches = append(k.batches, producedBatch{first: b.BaseSequence(), last: lastSequence(b), base: base})
	k.time = max(k.time, time)
}

// sweepProducersLocked removes producers that have been idle too long, if it is
// time to look.
func (p *Partition) sweepProducersLocked(now int64) {
	s, o, mono := &p.producers, &p.s.o, p.s.o.Mono()
	if mono < s.mu.sweepAt {
		return
	}
	s.mu.sweepAt = mono + o.ProducerCheck
	for id, k := range s.mu.known {
		if now-k.time > o.ProducerExpiration().Milliseconds() {
			delete(s.mu.known, id)
		}
	}
}

// loadProducersLocked reads what the log says of its producers, once. No batch
// of a producer has been appended since the start before that, so everything is
// in the log once it has caught up. Files that have not been written to for long
// are left out. Timestamps of batches are the producers' and decide nothing.
func (p *Partition) loadProducersLocked(now int64) error {
	s := &p.producers
	if s.mu.loaded {
		return nil
	}
	if err := p.CatchUp(); err != nil {
		return err
	}
	s.mu.known, s.mu.sweepAt = map[int64]*producer{}, p.s.o.Mono()+p.s.o.ProducerCheck
	buf := p.s.getBuf()
	defer p.s.putBuf(buf)
	for offset, more := p.LogStart(), true; more; {
		var g *segment
		var err error
		if g, more, err = p.segmentAt(offset); err != nil {
			return err
		}
		if g == nil { // nothing was ever written
			break
		}
		info, statErr := p.s.fs.Stat(g.name(suffixLog))
		if statErr != nil || now-info.ModTime <= p.s.o.ProducerExpiration().Milliseconds() {
			if err = p.scanProducersLocked(g, now, buf); err != nil {
				err = p.readFailed(g, err)
			}
		}
		base := g.base
		g.release()
		if err != nil {
			return err
		}
		if more {
			offset = max(offset+1, p.baseAfter(base))
		}
	}
	s.mu.loaded = true
	return nil
}

// scanProducersLocked notes the batches of one segment.
func (p *Partition) scanProducersLocked(g *segment, now int64, buf []byte) error {
	s := &p.producers
	scan, next := newScanner(g.file, 0, g.size.Load(), false, buf), g.base
	for {
		b, err := scan.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return g.corrupt(err, next)
		}
		next = b.NextOffset()
		if b.ProducerID() >= 0 && !b.Control() {
			s.noteLocked(b, b.BaseOffset(), now)
		}
	}
}
