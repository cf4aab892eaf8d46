package log

import (
	"fmt"
	"time"

	"github.com/kcoord/kcoord/log/journal"
	"github.com/kcoord/kcoord/log/record"
)

// A replay is what Scan found for the partitions.
type replay struct {
	batches []replayed
	// rest is the entry from which on the journal has to be read again: what is kept
	// in memory is bounded.
	rest journal.Position
}

// A replayed batch lies in memory that is not used again.
type replayed struct {
	topic     TopicID
	partition int32
	data      record.Batch
	at        journal.Position
}

const (
	// replayKept is how much of the journal is kept in memory for the partitions,
	// whose logs are written later on: less than what closes the door to new writes.
	replayKept = maxBehindBytes / 4 * 3
	// recoveredRest is how long the partition logs are left alone after a recovery:
	// groups load from what is in memory, and the disk and the CPU are theirs.
	recoveredRest = 500 * time.Millisecond
	// restWorth is up to how many bytes of the journal are written right after the
	// start: who looks into the folder of a small broker finds what was acknowledged,
	// without what a crash left behind it.
	restWorth = 1 << 20
)

// replayJournal gives every batch of the journal to its partition: those below
// the recovery point are there, the next ones wait to be written, those that are
// not in memory are written now.
func (s *Store) replayJournal(found *replay) error {
	due, bytes := s.o.Mono(), 0
	for i := range found.batches {
		bytes += len(found.batches[i].data)
	}
	if bytes > restWorth || found.rest.Sequence != 0 {
		due += recoveredRest
	}
	for i := range found.batches {
		r := &found.batches[i]
		p := s.Partition(r.topic, r.partition)
		if p == nil {
			continue // the topic was deleted later on
		}
		if err := p.replayable(r.data, r.at); err != nil {
			return err
		}
		if r.data.LastOffset() >= p.end {
			p.replayLocked(&batch{p: p, data: r.data, kept: true}, r.at, due)
		}
	}
	if found.rest.Sequence == 0 {
		return nil
	}
	err := s.j.Replay(found.rest, func(it *journal.Item) error {
		if it.Kind != journal.Batch {
			return nil
		}
		b := record.Batch(it.Data)
		if err := batchHeader(b, it.Entry); err != nil {
			return err
		}
		p := s.Partition(TopicID(it.Topic), it.Partition)
		if p == nil {
			return nil
		}
		if err := p.replayable(b, it.Entry); err != nil || b.LastOffset() < p.end {
			return err
		}
		p.replayWrite(b, it.Entry)
		return nil
	})
	if err != nil {
		return s.journalError(err)
	}
	return s.inParallel(func(p *Partition) error {
		p.disk.Lock()
		defer p.disk.Unlock()
		_ = p.writeLocked() // what finds no room stays queued, and is in the journal
		return nil
	})
}

// replayable checks that a batch lies below the log's end, where it is known, or
// begins there.
func (p *Partition) replayable(b record.Batch, at journal.Position) error {
	if b.LastOffset() >= p.end && b.BaseOffset() != p.end {
		return fmt.Errorf("%w: journal entry %s holds offsets %d to %d of %s, whose log ends at %d",
			ErrDamaged, at, b.BaseOffset(), b.LastOffset(), p, p.end)
	}
	return nil
}

// replayLocked queues a batch of the journal, to be written at due. REQUIRES s.mu,
// or that nobody else has the store yet.
func (p *Partition) replayLocked(q *batch, at journal.Position, due time.Duration) {
	s := p.s
	b := record.Batch(q.data)
	q.first, q.next, q.at = b.BaseOffset(), b.NextOffset(), at
	p.queue = append(p.queue, q)
	p.queueBytes += len(b)
	s.mu.behind += len(b)
	s.mu.queued.add(p, due)
	p.slot.restsUntil = due
	p.end, p.inflightEnd = q.next, q.next
	p.logEnd.Store(p.end)
	p.durable.Store(p.end)
}

// replayWrite takes a batch from the journal's buffer: large ones are written at
// once, of small ones a copy is queued until enough has gathered.
func (p *Partition) replayWrite(b record.Batch, at journal.Position) {
	s := p.s
	s.mu.Lock()
	q := s.mu.newBatch(p)
	direct := len(b) >= replayDirect && p.disk.retries == 0
	if q.data = b; !direct {
		q.build.Buf = append(q.build.Buf[:0], b...)
		q.data = q.build.Buf
	}
	p.replayLocked(q, at, 0)
	full := direct || p.queueBytes >= writeMost && p.disk.retries == 0
	s.mu.Unlock()
	if full {
		p.disk.Lock()
		_ = p.writeLocked() // what finds no room stays queued
		p.disk.Unlock()
		if direct {
			p.keepPending(b)
		}
	}
}

// replayDirect is from which size on a batch is written without being copied.
const replayDirect = 16 << 10

// keepPending makes the last pending batch, if it still is b, independent of the
// journal's buffer.
func (p *Partition) keepPending(b record.Batch) {
	if n := len(p.disk.pending); n > 0 && &p.disk.pending[n-1].data[0] == &b[0] {
		p.disk.pending[n-1].data = append([]byte(nil), b...)
	}
}
