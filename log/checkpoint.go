package log

import (
	"errors"
	"fmt"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kcoord/kcoord/log/journal"
	"github.com/kcoord/kcoord/log/record"
)

// A checkpointer is the state of checkpoints: they sync the partition logs and
// then, by one rename, move the place where replay begins.
type checkpointer struct {
	sync.Mutex // held for a whole checkpoint
	last       time.Duration
	rests      time.Duration // until when no checkpoint is made after a recovery
	lastKafka  time.Duration // when Kafka's checkpoint files were written
	requested  atomic.Bool
	// replay is where replay begins for the snapshot on disk. Guarded by mu; read
	// by the flusher too.
	mu struct {
		sync.Mutex // leaf
		replay     journal.Position
	}
	done atomic.Int64 // checkpoints that wrote a snapshot
}

// kafkaFilesInterval is how often Kafka's checkpoint files are brought up to
// date while running; they are for Kafka's eyes only.
const kafkaFilesInterval = time.Minute

// checkpointRetry is when a checkpoint that failed is tried again.
const checkpointRetry = time.Second

// RequestCheckpoint asks for a checkpoint soon: something waits for the recovery
// point to pass it.
func (s *Store) RequestCheckpoint() {
	s.check.requested.Store(true)
	s.wakeCheckpointer()
}

func (s *Store) wakeCheckpointer() {
	select {
	case s.checkpointWake <- struct{}{}:
	default:
	}
}

// checkpointDueBytes reports whether the journal has grown enough since the
// last checkpoint.
func (s *Store) checkpointDueBytes() bool { return s.j.Space().Used >= s.o.CheckpointBytes }

// CheckpointStep makes a checkpoint if one is due and tells when to look again.
// An error must end the process; what can be tried again is not one.
func (s *Store) CheckpointStep() (next time.Duration, err error) {
	now := s.o.Mono()
	if s.waiting.Load() { // nothing is written that a checkpoint could be made of
		return s.o.CheckpointInterval, nil
	}
	due := s.check.last + s.o.CheckpointInterval
	if now < due && !s.check.requested.Load() && !s.checkpointDueBytes() {
		return due - now, nil
	}
	if now < s.check.rests && s.j.Space().Used < s.o.JournalMaxBytes/2 {
		return s.check.rests - now, nil
	}
	s.check.requested.Store(false)
	err = s.Checkpoint()
	s.check.last = s.o.Mono()
	var final *commitError
	if errors.As(err, &final) {
		s.refuse(refuseFailed)
		return -1, err
	}
	if err != nil {
		s.warn("checkpoint", err.Error())
		return checkpointRetry, nil
	}
	return s.o.CheckpointInterval, nil
}

// Checkpoint makes a checkpoint now, unless nothing has changed since the last.
func (s *Store) Checkpoint() error {
	s.check.Lock()
	defer s.check.Unlock()
	if s.waiting.Load() {
		return nil
	}
	return s.checkpoint(false)
}

// A point is a partition's new recovery point, synced but not yet in a snapshot.
type point struct {
	p *Partition
	recoveryPointRecord
}

// checkpoint syncs all partition logs, writes a snapshot and frees the journal
// below it. clean: nothing will follow, the folder is being closed. A
// *commitError must end the process. REQUIRES s.check.
func (s *Store) checkpoint(clean bool) error {
	began := s.o.Mono()
	s.mu.Lock()
	cut := s.mu.cut
	s.mu.Unlock()
	points, files, cut, err := s.syncPartitions(cut, clean)
	if err != nil {
		return err
	}
	if err := s.gone.putAsideAll(s); err != nil {
		return err
	}
	changed := s.foldersChanged.Swap(false)
	if !clean && files == 0 && !changed && cut == s.check.replay() {
		return nil
	}
	if changed {
		if err := syncDir(s.fs, s.o.Dir); err != nil {
			s.foldersChanged.Store(true)
			return err
		}
	}
	if clean {
		if err := s.writeKafkaFiles(points, true); err != nil {
			return err
		}
		cut = s.j.AfterClean()
	}
	if err := s.writeSnapshot(s.snapshotOf(points, cut, clean)); err != nil {
		return err
	}
	s.check.setReplay(cut)
	for i := range points {
		pt := &points[i]
		pt.p.disk.Lock()
		pt.p.rp.Store(pt.offset)
		pt.p.disk.rpBase, pt.p.disk.rpPosition = pt.base, pt.position
		pt.p.disk.syncFailed = false
		pt.p.disk.Unlock()
	}
	s.check.done.Add(1)
	if f := s.o.Events.Checkpoint; f != nil {
		f(files, s.o.Mono()-began)
	}
	if clean {
		return nil
	}
	s.j.Recycle(cut)
	s.wakePreparer()
	s.checkSpace()
	s.syncWanted.Store(true)
	if now := s.o.Mono(); now-s.check.lastKafka >= kafkaFilesInterval {
		s.check.lastKafka = now
		if err := s.writeKafkaFiles(points, false); err != nil {
			s.warn("kafka-checkpoint", err.Error())
		}
	}
	s.wakeRetention() // what waited for the recovery point
	return nil
}

func (c *checkpointer) replay() journal.Position {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.replay
}

func (c *checkpointer) setReplay(at journal.Position) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.replay = at
}

// syncPartitions syncs every partition log and returns the new recovery points,
// how many files were synced, and cut or the earlier place that a log which
// cannot be written holds it back to.
func (s *Store) syncPartitions(cut journal.Position, clean bool) (points []point, files int, _ journal.Position, err error) {
	type result struct {
		pt    point
		files int
		held  *journal.Position
		err   error
	}
	var all []*Partition
	s.EachPartition(func(p *Partition) { all = append(all, p) })
	done := make([]result, len(all))
	one := func(i int) {
		r := &done[i]
		r.pt, r.files, r.held, r.err = all[i].checkpoint(clean)
	}
	if clean { // nobody commits any more who would feel many syncs at once
		s.several(len(all), one)
	}
	for i := range done {
		if !clean {
			one(i)
		}
		r := &done[i]
		if r.err != nil {
			return points, files, cut, r.err
		}
		files += r.files
		if r.held != nil && r.held.Sequence < cut.Sequence {
			cut = *r.held
		}
		points = append(points, r.pt)
	}
	return points, files, cut, nil
}

// A syncTask is what a partition has to have synced.
type syncTask struct {
	segments []*segment // whose data is not synced; each referenced
	indexes  []string
	others   []string
	dir      bool
}

// checkpoint writes what is durable to the partition log, syncs it, and returns
// where its recovery point may move to.
func (p *Partition) checkpoint(clean bool) (pt point, files int, held *journal.Position, err error) {
	var producers []byte // their lock comes before the log's
	if clean {
		producers = p.producerSnapshot()
	}
	p.disk.Lock()
	if werr := p.writeLocked(); werr != nil && clean && !errors.Is(werr, ErrDeleted) && p.disk.retries > 0 {
		p.disk.Unlock()
		return pt, 0, nil, werr
	}
	if at, ok := p.oldestUnwritten(); ok {
		held = &at
	}
	pt = p.pointLocked()
	if clean && p.active() != nil && p.closeActive() {
		p.disk.dirty = true
	}
	if producers != nil && p.active() != nil && !p.disk.removed && !p.disk.foreign {
		if err := p.saveProducers(producers); err != nil {
			p.disk.Unlock()
			return pt, 0, held, fmt.Errorf("%s: %w", p, err)
		}
	}
	if !p.disk.dirty || p.disk.removed || p.disk.foreign {
		p.disk.Unlock()
		return pt, 0, held, nil
	}
	task, err := p.prepareSync(clean)
	pt = p.pointLocked()
	p.disk.Unlock()
	if err != nil {
		return pt, 0, held, fmt.Errorf("%s: %w", p, err)
	}
	files, err = p.sync(&task)
	if err == nil {
		return pt, files, held, nil
	}
	p.s.warn("segment-sync", fmt.Sprintf("%s: %v: its log is written again from the journal", p, err))
	pt, files, err = p.repair(err)
	return pt, files, held, err
}

// pointLocked is the recovery point that a sync of everything written makes
// true. REQUIRES p.disk.
func (p *Partition) pointLocked() point {
	g := p.active()
	r := recoveryPointRecord{id: p.id, partition: p.n, offset: p.rp.Load(), base: p.disk.rpBase, position: p.disk.rpPosition}
	if g != nil && g.known && g.base >= p.disk.rpBase {
		r.offset, r.base, r.position = p.hw.Load(), g.base, g.tail.size
	}
	return point{p, r}
}

// closeActive writes the active segment's indexes as they stay, and reports
// whether that changed them.
func (p *Partition) closeActive() bool {
	g := p.active()
	if !g.known {
		return false
	}
	g.closeTimes()
	return g.indexesBehind()
}

// prepareSync writes indexes and epochs and collects what has to be synced.
// REQUIRES p.disk.
func (p *Partition) prepareSync(clean bool) (t syncTask, err error) {
	s := p.s
	list := p.list()
	if len(list) == 0 { // nothing was ever written: there is nothing to lose
		p.disk.dirty = false
		return t, nil
	}
	for i, g := range list {
		if !g.known || !g.indexesBehind() {
			continue
		}
		if err := g.writeIndexes(s.fs); err != nil {
			if clean {
				return t, err
			}
			s.warn("index-write", err.Error())
		}
		if i+1 < len(list) {
			g.shed()
		}
		p.disk.dirUnsynced = true // they may be new
	}
	saved, err := p.epochs.save(s.fs, p.disk.dir, true)
	if err != nil {
		return t, err
	}
	// Nothing fails from here on: what is taken for synced will be, or the log is
	// written again.
	for i, g := range list {
		if g.indexUnsynced && (clean || i+1 < len(list)) {
			if g.indexOut > 0 {
				t.indexes = append(t.indexes, g.name(suffixIndex))
			}
			if g.timesOut > 0 {
				t.indexes = append(t.indexes, g.name(suffixTimeIndex))
			}
			g.indexUnsynced = false
		}
		if g.unsynced && g.acquire() {
			t.segments = append(t.segments, g)
			g.unsynced = false
		}
	}
	if p.disk.metaUnsynced {
		t.others = append(t.others, path.Join(p.disk.dir, partitionMetadata))
		p.disk.metaUnsynced = false
	}
	t.dir = p.disk.dirUnsynced || saved
	p.disk.dirUnsynced, p.disk.dirty = false, false
	return t, nil
}

// sync does what the task says and counts the files.
func (p *Partition) sync(t *syncTask) (files int, err error) {
	s := p.s
	for _, g := range t.segments {
		if err == nil {
			if e := g.file.Datasync(); e != nil {
				err = fmt.Errorf("syncing %s: %w", g.name(suffixLog), e)
			}
			files++
		}
		g.release()
	}
	if err != nil {
		return files, err
	}
	for _, name := range append(t.indexes, t.others...) {
		files++
		if err := syncFile(s.fs, name, true); err != nil {
			return files, err
		}
	}
	if t.dir {
		files++
		if err := syncDir(s.fs, p.disk.dir); err != nil {
			return files, err
		}
	}
	return files, nil
}

// repair deals with a failed sync. The kernel may have dropped the data and call
// the next sync a success, so a sync is never just repeated: the log is cut back
// to its recovery point and written again from the journal, then synced. A
// second failure before a checkpoint succeeds ends the process.
func (p *Partition) repair(cause error) (pt point, files int, err error) {
	s := p.s
	p.disk.Lock()
	if p.disk.syncFailed {
		p.disk.Unlock()
		return pt, 0, &commitError{fmt.Errorf("%s: a sync failed again: %w", p, cause)}
	}
	p.disk.syncFailed = true
	p.failed.Store(&failure{err: fmt.Errorf("%w: %s: %w", ErrStorage, p, cause)})
	err = p.rewrite()
	if err == nil {
		p.failed.Store(nil)
	}
	var task syncTask
	if err == nil {
		p.disk.dirUnsynced, p.disk.dirty = true, true
		task, err = p.prepareSync(false)
	}
	pt = p.pointLocked()
	p.disk.Unlock()
	if err == nil {
		files, err = p.sync(&task)
	}
	if err != nil {
		s.refuse(refuseFailed)
		return pt, files, &commitError{fmt.Errorf("%s: writing again from the journal after a failed sync (%w): %w", p, cause, err)}
	}
	return pt, files, nil
}

// rewrite cuts the partition log to its recovery point and writes what follows
// from the journal. REQUIRES p.disk.
func (p *Partition) rewrite() error {
	s := p.s
	to := p.hw.Load()
	if err := p.cutToRecoveryPoint(); err != nil {
		return err
	}
	s.mu.Lock()
	cut := s.mu.cut
	s.mu.Unlock()
	next := p.rp.Load()
	var again []*batch
	err := s.j.Read(s.check.replay(), cut, func(it *journal.Item) error {
		if it.Kind != journal.Batch || TopicID(it.Topic) != p.id || it.Partition != p.n {
			return nil
		}
		b := record.Batch(it.Data)
		if b.LastOffset() < next || b.BaseOffset() >= to {
			return nil
		}
		if b.BaseOffset() != next {
			return fmt.Errorf("journal entry %s holds offset %d of %s, expected %d", it.Entry, b.BaseOffset(), p, next)
		}
		next = b.NextOffset()
		again = append(again, &batch{p: p, data: append([]byte(nil), b...), first: b.BaseOffset(), next: next, at: it.Entry})
		return nil
	})
	if err != nil {
		return err
	}
	if next != to {
		return fmt.Errorf("the journal ends at offset %d of %s, expected %d", next, p, to)
	}
	s.mu.Lock()
	for _, b := range again {
		s.mu.behind += len(b.data)
	}
	s.mu.Unlock()
	p.disk.pending = append(again, p.disk.pending...)
	for len(p.disk.pending) > 0 {
		if err := p.writeRun(); err != nil {
			return err
		}
	}
	return nil
}

// cutToRecoveryPoint removes everything above the recovery point from the
// partition log; readers get an error meanwhile. REQUIRES p.disk, p.failed set.
func (p *Partition) cutToRecoveryPoint() error {
	s := p.s
	var keep []*segment
	for _, g := range p.list() {
		switch {
		case g.base < p.disk.rpBase || g.base == p.disk.rpBase && p.disk.rpPosition > 0:
			keep = append(keep, g)
		default:
			for _, suffix := range []string{suffixLog, suffixIndex, suffixTimeIndex} {
				if err := removeIfThere(s.fs, g.name(suffix)); err != nil {
					return err
				}
			}
			defer g.release()
		}
	}
	p.segments.Store(&keep)
	p.disk.generation++
	p.hw.Store(p.rp.Load())
	p.epochs.trim(p.logStart.Load(), p.rp.Load())
	if g := p.active(); g != nil && g.base == p.disk.rpBase {
		g.size.Store(p.disk.rpPosition)
		if err := g.file.Truncate(p.disk.rpPosition); err != nil {
			return err
		}
		g.unsynced = true
		if err := p.load(g, false); err != nil {
			return err
		}
		g.stale = true
	}
	p.sumSize()
	return nil
}

// snapshotNow is the snapshot of the partitions' present recovery points.
func (s *Store) snapshotNow(at journal.Position, clean bool) *snapshot {
	var points []point
	s.EachPartition(func(p *Partition) {
		p.disk.Lock()
		points = append(points, point{p, recoveryPointRecord{id: p.id, partition: p.n, offset: p.rp.Load(), base: p.disk.rpBase, position: p.disk.rpPosition}})
		p.disk.Unlock()
	})
	s.check.setReplay(at)
	return s.snapshotOf(points, at, clean)
}

// snapshotOf puts a snapshot together.
func (s *Store) snapshotOf(points []point, at journal.Position, clean bool) *snapshot {
	sn := &snapshot{clean: clean, folder: s.id, replay: at}
	sn.records = s.o.Metadata.AppendRecords(nil)
	sn.records = append(sn.records, startRecord{s.epoch, s.o.Durability, s.o.Version}.append(nil))
	for i := range points {
		pt := &points[i]
		if start := pt.p.logStart.Load(); start > 0 {
			sn.records = append(sn.records, logStartRecord{pt.id, pt.partition, start}.append(nil))
		}
		sn.records = append(sn.records, pt.recoveryPointRecord.append(nil))
	}
	return sn
}
