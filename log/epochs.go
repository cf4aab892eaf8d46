package log

import (
	"path"
	"sort"
	"strconv"
	"sync"

	"github.com/kcoord/kcoord/log/vfs"
)

const epochFile = "leader-epoch-checkpoint"

// epochEntry says that the batches from start on have this leader epoch.
type epochEntry struct {
	epoch int32
	start int64
}

// An epochCache answers where a leader epoch ends (KIP-101, KIP-320).
type epochCache struct {
	mu struct {
		sync.Mutex // leaf
		// Invariant: epochs and starts rise strictly.
		entries []epochEntry
		dirty   bool // the file says something else
	}
}

// add notes that a batch of epoch begins at start. Epochs that do not rise are
// ignored; entries at or behind start described what was cut off.
func (c *epochCache) add(epoch int32, start int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.mu.entries
	if epoch < 0 || len(e) > 0 && epoch <= e[len(e)-1].epoch {
		return
	}
	for len(e) > 0 && e[len(e)-1].start >= start {
		e = e[:len(e)-1]
	}
	c.mu.entries = append(e, epochEntry{epoch, start})
	c.mu.dirty = true
}

// endOffset answers a query: the largest known epoch at or below epoch, and
// where it ends; logEnd is the end of the newest one.
func (c *epochCache) endOffset(epoch int32, logEnd int64) (int32, int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.mu.entries
	if epoch < 0 || len(e) == 0 || epoch > e[len(e)-1].epoch {
		return -1, -1
	}
	i := sort.Search(len(e), func(i int) bool { return e[i].epoch > epoch })
	switch i {
	case 0:
		return epoch, e[0].start
	case len(e):
		return e[i-1].epoch, logEnd
	default:
		return e[i-1].epoch, e[i].start
	}
}

// newest is the newest epoch, -1 if none is known.
func (c *epochCache) newest() int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.mu.entries); n > 0 {
		return c.mu.entries[n-1].epoch
	}
	return -1
}

// trim drops entries at or behind end, and all but the last of those at or
// before start.
func (c *epochCache) trim(start, end int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.mu.entries
	n := len(e)
	for n > 0 && e[n-1].start >= end {
		n--
	}
	first := 0
	for first+1 < n && e[first+1].start <= start {
		first++
	}
	if n != len(e) || first != 0 {
		c.mu.entries = append([]epochEntry(nil), e[first:n]...)
		c.mu.dirty = true
	}
}

// load reads the file; one that cannot be used is an error, a missing one too.
func (c *epochCache) load(fsys vfs.FS, dir string) error {
	b, err := readFile(fsys, path.Join(dir, epochFile), 16<<20)
	if err != nil {
		return err
	}
	lines, err := parseCheckpoint(b, 2)
	if err != nil {
		return err
	}
	var entries []epochEntry
	last := epochEntry{-1, -1}
	for _, l := range lines {
		epoch, err := strconv.ParseInt(l[0], 10, 32)
		if err != nil {
			return err
		}
		start, err := strconv.ParseInt(l[1], 10, 64)
		if err != nil {
			return err
		}
		e := epochEntry{int32(epoch), start}
		if e.epoch <= last.epoch || e.start <= last.start {
			continue
		}
		entries, last = append(entries, e), e
	}
	c.mu.Lock()
	c.mu.entries, c.mu.dirty = entries, false
	c.mu.Unlock()
	return nil
}

// save writes the file if it says something else, and reports whether it did.
func (c *epochCache) save(fsys vfs.FS, dir string, sync bool) (bool, error) {
	c.mu.Lock()
	if !c.mu.dirty {
		c.mu.Unlock()
		return false, nil
	}
	var f checkpointFile
	for _, e := range c.mu.entries {
		f.add(e.epoch, e.start)
	}
	c.mu.dirty = false
	c.mu.Unlock()
	if err := replaceFile(fsys, path.Join(dir, epochFile), f.bytes(), sync); err != nil {
		c.mu.Lock()
		c.mu.dirty = true
		c.mu.Unlock()
		return false, err
	}
	return true, nil
}
