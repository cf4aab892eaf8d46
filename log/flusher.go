package log

import (
	"errors"
	"fmt"
	"time"

	"github.com/kcoord/kcoord/log/journal"
)

// The flusher makes rounds durable, one after the other: at any time one round
// is in flight and one is open. Its state below belongs to whoever calls
// FlushStep: one goroutine at a time, and Close after that.
type flusher struct {
	wake    chan struct{} // capacity 1
	entries *journal.Round
	// lastSync is when the journal was synced last, unsynced whether anything was
	// written since (DurabilityInterval, DurabilityOS).
	lastSync time.Duration
	unsynced bool
	waiters  []Waiter     // of the round just published; reused
	first    []*Partition // without a file until the round just published; reused
}

// firstWrites is up to how many partitions of a round get their first file
// before the round's answers go.
const firstWrites = 4

// retryAppend is how long the flusher waits for prepared space.
const retryAppend = 10 * time.Millisecond

// wakeForRound wakes the flusher for what was appended, unless it would only
// wait for more.
func (s *Store) wakeForRound() {
	if !s.gathering() {
		s.wakeFlusher()
	}
}

// gathering reports whether the open round is left open for what is about to come.
func (s *Store) gathering() bool { return s.o.Gathering != nil && s.o.Gathering() }

// Gathered is called after Options.Gathering has turned false.
func (s *Store) Gathered() { s.wakeFlusher() }

// wakeFlusher makes the flusher's loop call FlushStep.
func (s *Store) wakeFlusher() {
	select {
	case s.flush.wake <- struct{}{}:
	default:
	}
}

// FlushStep makes the open round durable, if there is anything in it. An error
// must end the process: what was in flight may or may not survive, and nothing
// of it has been answered.
func (s *Store) FlushStep() (next time.Duration, err error) {
	if s.waiting.Load() || s.gathering() {
		return -1, nil
	}
	r := s.takeRound()
	if r == nil {
		return s.syncInterval()
	}
	if err := s.writeRound(r); err != nil {
		if errors.Is(err, journal.ErrNoSpace) {
			s.wakePreparer()
			return retryAppend, nil
		}
		s.refuse(refuseFailed)
		return -1, fmt.Errorf("log: the journal failed, nothing of the last round was answered: %w", err)
	}
	if err := s.publish(r); err != nil {
		s.refuse(refuseFailed)
		return -1, err
	}
	return 0, nil
}

// takeRound moves the open round in flight and opens a new one. A round that is
// in flight already, since there was no space for it, is returned again. nil:
// nothing to do.
func (s *Store) takeRound() *round {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.inflight != nil {
		return s.mu.inflight
	}
	r := s.mu.open
	if len(r.items) == 0 && (len(r.waiters) == 0 || s.refused(refuseBehind)) {
		s.mu.idle = true
		return nil
	}
	next := s.mu.spare
	s.mu.spare = nil
	if next == nil {
		next = &round{}
	}
	next.number = r.number + 1
	s.mu.open, s.mu.inflight = next, r
	for i := range r.items {
		if b := r.items[i].batch; b != nil {
			b.p.openBatch = nil
			b.p.inflightEnd = b.next
		}
	}
	s.admit(refuseRound)
	s.syncing.Store(int64(s.o.Mono()))
	return r
}

// writeRound builds the round's entries and appends them to the journal.
func (s *Store) writeRound(r *round) error {
	if len(r.items) == 0 {
		return nil
	}
	e := s.flush.entries
	e.Reset()
	r.at = s.j.Next()
	for i := range r.items {
		it := &r.items[i]
		if it.batch == nil {
			e.Append(journal.Metadata, journal.TopicID{}, 0, it.meta)
			continue
		}
		b := it.batch
		e.Append(journal.Batch, journal.TopicID(b.p.id), b.p.n, b.close())
		b.at = r.at
	}
	began := s.o.Mono()
	if err := s.j.Append(e); err != nil {
		return err
	}
	s.useFree(e.Bytes())
	s.flush.unsynced = s.o.Durability != DurabilitySync
	if f := s.o.Events.Round; f != nil {
		f(e.Bytes(), e.Items(), s.o.Mono()-began)
	}
	return nil
}

// publish makes the durable round visible: metadata first, then the partitions'
// durable ends, then the waiters are released. Batches are queued for the
// partition logs in the same step, so that a reader who sees a durable end finds
// them.
func (s *Store) publish(r *round) error {
	if err := s.publishMetadata(r); err != nil {
		return fmt.Errorf("log: applying metadata that is durable: %w", err)
	}
	now := s.o.Mono()
	s.mu.Lock()
	for i := range r.items {
		b := r.items[i].batch
		if b == nil {
			continue
		}
		p := b.p
		if p.deleted {
			s.mu.release1(b)
			continue
		}
		p.durable.Store(b.next)
		p.queue = append(p.queue, b)
		p.queueBytes += len(b.data)
		s.mu.behind += len(b.data)
		s.mu.queued.add(p, p.dueAt(now))
		if len(p.list()) == 0 && len(s.flush.first) < firstWrites {
			s.flush.first = append(s.flush.first, p)
		}
	}
	if s.mu.behind >= maxBehindBytes {
		s.refuse(refuseBehind)
	}
	s.mu.cut = s.j.Next()
	s.mu.inflight = nil
	s.durableRound.Store(uint64(r.number))
	s.flush.waiters, r.waiters = r.waiters, s.flush.waiters[:0]
	writerIdle := s.mu.queued.earliest() < s.mu.queued.sleepsUntil
	if writerIdle {
		s.mu.queued.sleepsUntil = s.mu.queued.earliest()
	}
	s.mu.Unlock()
	s.syncing.Store(0)

	s.makeFirst()
	if len(s.flush.waiters) > 0 && s.o.OnDurable != nil {
		s.o.OnDurable(s.flush.waiters)
	}
	clear(s.flush.waiters)
	s.flush.waiters = s.flush.waiters[:0]
	if writerIdle {
		s.wakeWriter()
	}
	s.afterRound(r)
	return nil
}

// publishMetadata applies a round's metadata records, all at once: a request may
// have changed thousands of topics.
func (s *Store) publishMetadata(r *round) error {
	var records [][]byte
	for i := range r.items {
		if m := r.items[i].meta; m != nil {
			records = append(records, m)
		}
	}
	if len(records) == 0 {
		return nil
	}
	if err := s.applyMetadata(records...); err != nil {
		return err
	}
	s.refresh()
	return nil
}

// makeFirst writes the first batches of partitions that have no file yet: who
// looks into the folder of a broker that was killed finds every partition that
// ever was written, as with Apache Kafka. It happens once for a partition, and a
// round with many of them leaves the rest to the writer.
func (s *Store) makeFirst() {
	for _, p := range s.flush.first {
		_ = p.CatchUp() // shows in Err; the queue has it again
		s.mu.Lock()
		p.slot.restsUntil = 0 // what comes next is soon in the file, too
		s.mu.Unlock()
	}
	clear(s.flush.first)
	s.flush.first = s.flush.first[:0]
}

// afterRound is what can wait until the answers are on their way.
func (s *Store) afterRound(r *round) {
	r.reset()
	s.mu.Lock()
	if s.mu.spare == nil {
		s.mu.spare = r
	}
	s.mu.Unlock()
	s.checkSpace()
	if s.checkpointDueBytes() {
		s.wakeCheckpointer()
	}
}

// syncInterval syncs the journal when the policy asks for it and tells when to
// look again.
func (s *Store) syncInterval() (next time.Duration, err error) {
	if !s.flush.unsynced || s.o.Durability == DurabilitySync {
		return -1, nil
	}
	now := s.o.Mono()
	due := s.flush.lastSync + s.o.DurabilityInterval
	if s.o.Durability == DurabilityOS {
		if !s.syncWanted.Load() {
			return -1, nil
		}
		due = now
	}
	if now < due {
		return due - now, nil
	}
	s.syncWanted.Store(false)
	if err := s.j.Sync(); err != nil {
		s.refuse(refuseFailed)
		return -1, fmt.Errorf("log: syncing the journal: %w", err)
	}
	s.flush.lastSync, s.flush.unsynced = now, false
	return -1, nil
}
