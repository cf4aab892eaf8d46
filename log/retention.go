package log

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"
)

// retention is the state of the retention task.
type retention struct {
	next time.Duration // when all partitions are looked at next; owner: RetentionStep
	mu   struct {
		sync.Mutex // leaf
		files      []deletion
	}
}

const (
	removeRetry = time.Minute
)

// A deletion is a file or folder that waits for its removal.
type deletion struct {
	name   string
	due    time.Duration
	folder bool
}

func (s *Store) wakeRetention() {
	select {
	case s.retentionWake <- struct{}{}:
	default:
	}
}

// RetentionStep removes what lies below log starts at once, applies retention by
// size and time to all partitions every RetentionInterval, and removes files whose
// delay is over.
func (s *Store) RetentionStep() (next time.Duration, err error) {
	now := s.o.Mono()
	if s.waiting.Load() { // log starts cannot rise; files that nobody needs may go
		return min(s.removeDue(now), s.o.RetentionInterval), nil
	}
	if s.keep.next == 0 {
		s.keep.next = now + max(s.o.RetentionDelay, 1)
	}
	if err := s.gone.putAsideAll(s); err != nil {
		s.warn("delete-folder", err.Error())
	}
	full := now >= s.keep.next
	if full {
		s.keep.next = now + s.o.RetentionInterval
	}
	s.EachPartition(func(p *Partition) {
		if err := p.retain(full); err != nil { // the others' segments go all the same
			s.warn("retention", err.Error())
		}
	})
	return min(s.removeDue(now), s.keep.next-now), nil
}

// retain removes the segments that lie wholly below the log start. With byPolicy
// it first asks for the log start to be raised to what retention.bytes and
// retention.ms still cover: the item is durable before any file goes, so that
// no crash can leave older files beside a hole.
func (p *Partition) retain(byPolicy bool) error {
	cfg := &p.topic.Load().Config
	if list := p.list(); len(list) == 0 || !byPolicy && (len(list) == 1 || list[1].base > p.logStart.Load()) {
		return nil
	}
	p.disk.Lock()
	defer p.disk.Unlock()
	if p.disk.removed || p.failed.Load() != nil {
		return nil
	}
	if byPolicy && cfg.Delete {
		if err := p.raiseByPolicy(cfg); err != nil {
			return err
		}
	}
	list, n := p.list(), p.belowLogStart()
	for n > 0 && list[n].base > p.disk.rpBase {
		n--
	}
	if n == 0 {
		return nil
	}
	return p.removeOldest(n)
}

// raiseByPolicy appends a log start item if retention no longer covers the
// oldest segments. If it covers none, the active one is rolled, so that the
// log's end survives in the new one's name. REQUIRES p.disk.
func (p *Partition) raiseByPolicy(cfg *TopicConfig) error {
	n, err := p.beyondRetention(p.belowLogStart(), cfg)
	if err != nil {
		return err
	}
	list := p.list()
	if n > 0 && n == len(list) {
		if err := p.roll(p.hw.Load()); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrStorage, p, err)
		}
		p.s.RequestCheckpoint()
		list = p.list()
	}
	start := list[n].base
	if start <= p.logStart.Load() {
		return nil
	}
	return p.s.AppendMetadata([][]byte{logStartRecord{p.id, p.n, start}.append(nil)}, nil, true)
}

// belowLogStart is how many segments lie wholly below the log start.
func (p *Partition) belowLogStart() int {
	list, start := p.list(), p.logStart.Load()
	n := 0
	for n+1 < len(list) && list[n+1].base <= start {
		n++
	}
	return n
}

// beyondRetention adds to n the segments that size and time no longer cover.
func (p *Partition) beyondRetention(n int, cfg *TopicConfig) (int, error) {
	list := p.list()
	if cfg.RetentionBytes >= 0 {
		excess := -cfg.RetentionBytes
		for _, g := range list[n:] {
			excess += g.size.Load()
		}
		for n < len(list) && excess-list[n].size.Load() >= 0 && list[n].size.Load() > 0 {
			excess -= list[n].size.Load()
			n++
		}
	}
	if cfg.RetentionMillis < 0 {
		return n, nil
	}
	now := p.s.o.Now().UnixMilli()
	for ; n < len(list); n++ {
		g := list[n]
		ts := int64(-1)
		if err := p.loadSegment(g); err == nil {
			ts = g.tail.largest()
		} else if err := p.readFailed(g, err); !errors.Is(err, ErrDamaged) {
			return 0, err
		}
		if ts < 0 { // none, or nobody can tell: when the file was written last
			ts = g.created
		}
		// A clock that was set back makes ages negative, never large.
		if now-ts <= cfg.RetentionMillis || g == p.active() && g.tail.size == 0 {
			break
		}
	}
	return n, nil
}

// removeOldest removes the n oldest segments: the list first, then the files get
// their .deleted names. REQUIRES p.disk.
func (p *Partition) removeOldest(n int) error {
	list := p.list()
	old, rest := list[:n], slices.Clone(list[n:])
	p.segments.Store(&rest)
	p.disk.generation++
	p.sumSize()
	p.epochs.trim(p.logStart.Load(), 1<<63-1)
	p.disk.dirUnsynced, p.disk.dirty = true, true
	for _, g := range old {
		if err := p.markDeleted(g); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return nil
}

// markDeleted renames a segment's files to .deleted and notes them for removal;
// the list has dropped it, readers go on with the open file. REQUIRES p.disk.
func (p *Partition) markDeleted(g *segment) error {
	s := p.s
	defer g.release()
	due := s.o.Mono() + time.Duration(p.topic.Load().Config.FileDeleteDelay)*time.Millisecond
	for _, suffix := range []string{suffixLog, suffixIndex, suffixTimeIndex, suffixTxnIndex} {
		err := s.fs.Rename(g.name(suffix), g.name(suffix+suffixDeleted))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		s.removeLater(deletion{name: g.name(suffix + suffixDeleted), due: due})
	}
	return nil
}

// removeSoon notes a file for removal that a start found and nobody needs. To
// remove it at once can take long: its pages may be on their way to the disk.
func (s *Store) removeSoon(name string) {
	s.removeLater(deletion{name: name, due: s.o.Mono() + 2*recoveredRest})
}

func (s *Store) removeLater(d deletion) {
	s.keep.mu.Lock()
	s.keep.mu.files = append(s.keep.mu.files, d)
	s.keep.mu.Unlock()
}

// removeDue removes what is due and tells when the next one is. What cannot be
// removed is tried again later.
func (s *Store) removeDue(now time.Duration) (next time.Duration) {
	s.keep.mu.Lock()
	files := s.keep.mu.files
	s.keep.mu.files = nil
	s.keep.mu.Unlock()
	var left []deletion
	for _, d := range files {
		if d.due > now {
			left = append(left, d)
			continue
		}
		err := removeIfThere(s.fs, d.name)
		if d.folder {
			err = s.fs.RemoveAll(d.name)
			s.foldersChanged.Store(true)
		}
		if err != nil {
			s.warn("remove", err.Error())
			d.due = now + removeRetry
			left = append(left, d)
		}
	}
	s.keep.mu.Lock()
	s.keep.mu.files = append(s.keep.mu.files, left...)
	left = s.keep.mu.files
	s.keep.mu.Unlock()
	if len(left) == 0 {
		return s.o.RetentionInterval
	}
	return max(slices.MinFunc(left, func(a, b deletion) int { return cmp.Compare(a.due, b.due) }).due-now, time.Millisecond)
}

// DeleteRecords raises the log start to offset (-1: to the end). If the item is
// not durable already, w is released when it is. Segments below are removed by
// retention. ErrPolicy for a topic that is not cleaned up by deletion,
// ErrOffsetOutOfRange beyond the high watermark.
func (p *Partition) DeleteRecords(offset int64, w *Waiter) (low int64, durable bool, err error) {
	if !p.topic.Load().Config.Delete {
		return -1, false, ErrPolicy
	}
	if err := p.Err(); err != nil {
		return -1, false, err
	}
	if err := p.CatchUp(); err != nil {
		return -1, false, err
	}
	high := p.hw.Load()
	if offset == -1 {
		offset = high
	}
	start := p.logStart.Load()
	switch {
	case offset < 0 || offset > high:
		return -1, false, ErrOffsetOutOfRange
	case offset <= start:
		return start, true, nil
	}
	item := logStartRecord{p.id, p.n, offset}.append(nil)
	if err := p.s.AppendMetadata([][]byte{item}, w, true); err != nil {
		return -1, false, err
	}
	return offset, false, nil
}

// gonePartitions are the partitions of deleted topics whose folders are still
// there.
type gonePartitions struct {
	mu         sync.Mutex // leaf
	partitions map[string]*Partition
}

func (g *gonePartitions) add(ps []*Partition) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.partitions == nil {
		g.partitions = map[string]*Partition{}
	}
	for _, p := range ps {
		g.partitions[p.disk.dir] = p
	}
}

// putAside renames the folder of a deleted partition, if dir is one, so that a
// new partition of that name finds its place free. The deleted one's log lock
// is taken under the new one's; nobody takes them the other way round.
func (g *gonePartitions) putAside(s *Store, dir string) error {
	g.mu.Lock()
	p := g.partitions[dir]
	g.mu.Unlock()
	if p == nil {
		return nil
	}
	return g.retire(s, p)
}

// putAsideAll does so for all deleted partitions.
func (g *gonePartitions) putAsideAll(s *Store) error {
	g.mu.Lock()
	dirs := make([]string, 0, len(g.partitions))
	for dir := range g.partitions {
		dirs = append(dirs, dir)
	}
	g.mu.Unlock()
	slices.Sort(dirs)
	for _, dir := range dirs {
		if err := g.putAside(s, dir); err != nil {
			return err
		}
	}
	return nil
}

// retire closes a deleted partition and renames its folder.
func (g *gonePartitions) retire(s *Store, p *Partition) error {
	p.disk.Lock()
	defer p.disk.Unlock()
	if p.disk.removed {
		return nil
	}
	info := p.topic.Load()
	to := s.path(deleteDirName(info.Name, p.n, p.id))
	if p.disk.made && !p.disk.foreign {
		// A folder that is not there was renamed before, or taken away by a hand.
		if err := s.fs.Rename(p.disk.dir, to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		s.foldersChanged.Store(true)
		due := s.o.Mono() + time.Duration(info.Config.FileDeleteDelay)*time.Millisecond
		s.removeLater(deletion{name: to, due: due, folder: true})
	}
	p.disk.removed = true
	list := p.list()
	p.segments.Store(nil)
	releaseAll(list)
	if n := len(p.disk.pending); n > 0 {
		p.dropPending(n)
	}
	if p.disk.noSpace {
		p.disk.noSpace = false
		s.outOfSpace.Add(-1)
	}
	g.mu.Lock()
	if g.partitions[p.disk.dir] == p {
		delete(g.partitions, p.disk.dir)
	}
	g.mu.Unlock()
	return nil
}
