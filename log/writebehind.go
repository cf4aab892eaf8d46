package log

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"syscall"
	"time"

	"github.com/kcoord/kcoord/log/journal"
	"github.com/kcoord/kcoord/log/record"
)

const (
	// writeEnough is how many waiting bytes make a partition due at once.
	writeEnough = 256 << 10
	// writeMost is the most that one write to a partition log combines.
	writeMost = 1 << 20
	// retryFirst and retryMost bound the pause after a failed write.
	retryFirst = 100 * time.Millisecond
	retryMost  = time.Second
)

func (s *Store) wakeWriter() {
	select {
	case s.writeWake <- struct{}{}:
	default:
	}
}

// WriteStep writes batches that are due to one partition log and tells when
// to call again (0: at once; negative: when something was appended).
func (s *Store) WriteStep() (next time.Duration, err error) {
	now := s.o.Mono()
	s.mu.Lock()
	p := s.mu.queued.pop(now)
	if p == nil {
		due := s.mu.queued.earliest()
		s.mu.queued.sleepsUntil = due
		s.mu.Unlock()
		if due == forever {
			return -1, nil
		}
		return due - now, nil
	}
	s.mu.queued.sleepsUntil = 0
	s.mu.Unlock()
	p.disk.Lock()
	_ = p.writeLocked() // shows in Err; the queue has it again
	p.disk.Unlock()
	return 0, nil
}

// CatchUp writes what is durable to the partition log.
func (p *Partition) CatchUp() error {
	if p.hw.Load() >= p.durable.Load() {
		return nil
	}
	p.disk.Lock()
	defer p.disk.Unlock()
	return p.writeLocked()
}

// Watch adds delta to the number of readers that wait for the partition; while
// it is over zero, durable batches are written to the partition log at once.
func (p *Partition) Watch(delta int32) {
	if p.watchers.Add(delta) <= 0 || p.hw.Load() >= p.durable.Load() {
		return
	}
	s := p.s
	s.mu.Lock()
	wake := false
	if p.slot.place != 0 {
		s.mu.queued.add(p, 0)
		wake = s.mu.queued.sleepsUntil != 0
	}
	s.mu.Unlock()
	if wake {
		s.wakeWriter()
	}
}

// writeLocked writes all durable batches to the partition log. What could not
// be written stays first in line and is tried again later. REQUIRES p.disk.
func (p *Partition) writeLocked() error {
	s := p.s
	s.mu.Lock()
	p.takeQueueLocked()
	s.mu.Unlock()
	if len(p.disk.pending) == 0 && !p.disk.excess {
		return p.Err()
	}
	if p.disk.removed {
		p.dropPending(len(p.disk.pending))
		return ErrDeleted
	}
	for len(p.disk.pending) > 0 {
		if err := p.writeRun(); err != nil {
			return p.writeFailed(err)
		}
	}
	if err := p.cutExcess(); err != nil {
		return p.writeFailed(err)
	}
	p.writeHealed()
	if f := s.o.OnAdvance; f != nil {
		f(p.id, p.n, p.hw.Load())
	}
	return nil
}

// cutExcess ends the active segment's file behind its tail. REQUIRES p.disk.
func (p *Partition) cutExcess() error {
	g := p.active()
	if !p.disk.excess || g == nil {
		return nil
	}
	size, err := g.file.Size()
	if err == nil && size > g.tail.size {
		err = g.file.Truncate(g.tail.size)
		g.unsynced = true
	}
	if err != nil {
		return fmt.Errorf("cutting %s at %d: %w", g.name(suffixLog), g.tail.size, err)
	}
	p.disk.excess = false
	return nil
}

// takeQueueLocked moves the queue to pending. REQUIRES p.disk, s.mu.
func (p *Partition) takeQueueLocked() {
	if len(p.disk.pending) == 0 {
		p.disk.pending, p.queue = p.queue, p.disk.pending[:0]
	} else {
		p.disk.pending = append(p.disk.pending, p.queue...)
		clear(p.queue)
		p.queue = p.queue[:0]
	}
	p.queueBytes = 0
	p.slot.restsUntil = p.s.o.Mono() + restFactor*p.s.o.SegmentWriteDelay
	p.s.mu.queued.remove(p)
}

// dropPending releases the first n pending batches.
func (p *Partition) dropPending(n int) {
	s := p.s
	s.mu.Lock()
	s.mu.release(p.disk.pending[:n])
	if s.mu.behind < maxBehindBytes {
		s.admit(refuseBehind)
	}
	s.mu.Unlock()
	left := copy(p.disk.pending, p.disk.pending[n:])
	clear(p.disk.pending[left:])
	p.disk.pending = p.disk.pending[:left]
}

// writeRun writes as many pending batches as go into one write, after rolling
// the active segment if the first one asks for it. The newest segment may be one below
// that of the recovery point, if that one was empty and is gone: it is closed.
func (p *Partition) writeRun() error {
	cfg := &p.topic.Load().Config
	g := p.active()
	first := record.Batch(p.disk.pending[0].data)
	if g == nil || g.base < p.disk.rpBase || p.shouldRoll(g, &g.tail, first, cfg) {
		if err := p.roll(first.BaseOffset()); err != nil {
			return err
		}
		g = p.active()
	}
	run, buf := p.collect(g, cfg)
	defer p.s.putBuf(run.buf)
	if err := writeFull(g.file, buf, g.tail.size); err != nil {
		// Only bytes behind the good length are in doubt, and nobody reads them.
		_ = g.file.Truncate(g.tail.size)
		return fmt.Errorf("writing %s at %d: %w", g.name(suffixLog), g.tail.size, err)
	}
	for _, b := range p.disk.pending[:run.n] {
		v := record.Batch(b.data)
		p.epochs.add(v.LeaderEpoch(), v.BaseOffset())
	}
	g.mu.Lock()
	g.mu.index = append(g.mu.index, run.index...)
	g.mu.times = append(g.mu.times, run.times...)
	g.mu.Unlock()
	g.tail, g.unsynced, p.disk.dirty = run.tail, true, true
	p.bytes.Add(run.tail.size - g.size.Load())
	g.largest.Store(run.tail.maxTime)
	g.size.Store(run.tail.size)
	p.hw.Store(run.tail.next)
	p.dropPending(run.n)
	return nil
}

// A run is what one write adds to a segment.
type run struct {
	n     int // batches
	tail  tail
	index []indexEntry
	times []timeEntry
	buf   []byte // from Store.getBuf; nil if nothing was copied
}

// collect takes pending batches for one write to g: one batch as it is, several
// copied together.
func (p *Partition) collect(g *segment, cfg *TopicConfig) (r run, buf []byte) {
	r.tail = g.tail
	for _, b := range p.disk.pending {
		v := record.Batch(b.data)
		if r.n > 0 && (len(buf)+len(v) > writeMost || p.shouldRoll(g, &r.tail, v, cfg)) {
			break
		}
		if v.BaseOffset() < r.tail.next {
			panic(fmt.Sprintf("log: writing offset %d to %s, whose log ends at %d", v.BaseOffset(), p, r.tail.next))
		}
		e := r.tail.add(v, g.base, cfg.IndexIntervalBytes)
		if e.hasIndex {
			r.index = append(r.index, e.index)
		}
		if e.hasTime {
			r.times = append(r.times, e.time)
		}
		switch r.n {
		case 0:
			buf = b.data
		case 1:
			r.buf = append(slices.Grow(p.s.getBuf(), min(p.pendingBytes(), writeMost)), buf...)
			fallthrough
		default:
			r.buf = append(r.buf, b.data...)
			buf = r.buf
		}
		r.n++
	}
	return r, buf
}

// pendingBytes is the size of all pending batches. REQUIRES p.disk.
func (p *Partition) pendingBytes() (n int) {
	for _, b := range p.disk.pending {
		n += len(b.data)
	}
	return n
}

// getBuf and putBuf lend buffers for combining writes.
func (s *Store) getBuf() []byte {
	if b, ok := s.bufs.Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, 64<<10)
}

func (s *Store) putBuf(b []byte) {
	if cap(b) > 0 {
		s.bufs.Put(&b)
	}
}

// shouldRoll says whether batch b belongs into a new segment, Kafka's rules: no
// room, too old, an index full, or offsets too far from the base.
func (p *Partition) shouldRoll(g *segment, t *tail, b record.Batch, cfg *TopicConfig) bool {
	if t.size > cfg.SegmentBytes-b.Size() && t.size > 0 {
		return true
	}
	if b.LastOffset()-g.base > 1<<31-1 {
		return true
	}
	if int64(t.indexed) >= max(cfg.SegmentIndexBytes/indexEntrySize, 1) || int64(t.timed) >= max(cfg.SegmentIndexBytes/timeEntrySize-1, 1) {
		return true
	}
	if t.size == 0 {
		return false
	}
	limit := cfg.SegmentMillis
	if cfg.Compact && cfg.MaxCompactionLag > 0 {
		limit = min(limit, cfg.MaxCompactionLag)
	}
	var waited int64
	if t.firstTime >= 0 && b.MaxTimestamp() >= 0 {
		waited = b.MaxTimestamp() - t.firstTime
	} else {
		waited = p.s.o.Now().UnixMilli() - g.created
	}
	return limit > 0 && waited > limit-g.jitter
}

// roll closes the active segment and opens one that begins at base, without any
// sync: a checkpoint sees to that. REQUIRES p.disk.
func (p *Partition) roll(base int64) error {
	s := p.s
	if err := p.makeFolder(); err != nil {
		return err
	}
	old := p.active()
	if old != nil && old.base >= p.disk.rpBase {
		if err := p.cutExcess(); err != nil {
			return err
		}
		old.closeTimes()
		if err := old.writeIndexes(s.fs); err != nil {
			s.warn("index-write", err.Error()) // rebuilt when needed
		}
	}
	g, err := newSegment(s.fs, p.disk.dir, base, s.o.Now().UnixMilli())
	if err != nil {
		return err
	}
	if jitter := p.topic.Load().Config.SegmentJitter; jitter > 0 {
		g.jitter = s.random(jitter)
	}
	list := append(append([]*segment(nil), p.list()...), g)
	p.segments.Store(&list)
	if old != nil {
		old.shed()
	}
	p.disk.dirty, p.disk.dirUnsynced = true, true
	p.disk.generation++
	return nil
}

// makeFolder makes the partition's folder and partition.metadata if they are
// not there. REQUIRES p.disk.
func (p *Partition) makeFolder() error {
	if p.disk.foreign {
		return fmt.Errorf("%s is not this partition's", p.disk.dir)
	}
	if p.disk.made {
		return nil
	}
	s := p.s
	// A topic of the same name may have been deleted a moment ago.
	if err := s.gone.putAside(s, p.disk.dir); err != nil {
		return err
	}
	if _, err := p.makeRoom(true); err != nil {
		return err
	}
	if err := s.fs.Mkdir(p.disk.dir); err != nil {
		return err
	}
	if err := replaceFile(s.fs, path.Join(p.disk.dir, partitionMetadata), partitionMetadataBytes(p.id), false); err != nil {
		return err
	}
	p.disk.made, p.disk.dirUnsynced, p.disk.dirty, p.disk.metaUnsynced = true, true, true, true
	s.foldersChanged.Store(true)
	return nil
}

const partitionMetadata = "partition.metadata"

func partitionMetadataBytes(id TopicID) []byte {
	return fmt.Appendf(nil, "version: 0\ntopic_id: %s\n", uuidString(id))
}

// outOfSpace reports whether an error says that there is no room.
func outOfSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// writeFailed keeps what was not written for another try: reads of what is
// there go on, the partition takes no Produce, and without space nobody takes
// anything.
func (p *Partition) writeFailed(err error) error {
	s := p.s
	if outOfSpace(err) && !p.disk.noSpace {
		p.disk.noSpace = true
		s.outOfSpace.Add(1)
		s.refuse(refuseDisk)
	}
	err = fmt.Errorf("%w: %s: %w", ErrStorage, p, err)
	if f := p.failed.Load(); f == nil || !f.permanent {
		if f == nil {
			s.warn("segment-write", err.Error())
		}
		p.failed.Store(&failure{err: err})
	}
	pause := min(retryFirst<<min(p.disk.retries, 4), retryMost)
	p.disk.retries++
	due := s.o.Mono() + pause
	s.mu.Lock()
	p.slot.retryAt = due
	s.mu.queued.add(p, due)
	wake := due < s.mu.queued.sleepsUntil
	s.mu.Unlock()
	if wake {
		s.wakeWriter()
	}
	return err
}

// writeHealed undoes what writeFailed did.
func (p *Partition) writeHealed() {
	if p.disk.retries == 0 {
		return
	}
	p.disk.retries = 0
	p.s.mu.Lock()
	p.slot.retryAt = 0
	p.s.mu.Unlock()
	if f := p.failed.Load(); f != nil && !f.permanent {
		p.failed.Store(nil)
		if report := p.s.o.Events.Refused; report != nil {
			report(p.topic.Load().Name, p.n, nil)
		}
	}
	if p.disk.noSpace {
		p.disk.noSpace = false
		if p.s.outOfSpace.Add(-1) == 0 {
			p.s.admit(refuseDisk)
		}
	}
}

// oldestUnwritten is where the journal holds the oldest batch that is durable
// and not in the partition log; ok is false if there is none. REQUIRES p.disk.
func (p *Partition) oldestUnwritten() (at journal.Position, ok bool) {
	if len(p.disk.pending) > 0 {
		return p.disk.pending[0].at, true
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if len(p.queue) > 0 {
		return p.queue[0].at, true
	}
	return at, false
}
