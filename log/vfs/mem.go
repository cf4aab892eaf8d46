package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Mem is a file system in memory. Make one with NewMem. All methods may be
// called concurrently.
type Mem struct {
	capacity atomic.Int64 // bytes of file content; <= 0: unlimited
	used     atomic.Int64
	// generation counts Kill; handles of an older one are dead.
	generation atomic.Int64
	now        func() int64

	mu    sync.Mutex // guards the tree, locks and crash.pending
	root  *node
	locks map[*node]bool
	crash *crashState // nil: nothing is tracked
}

// node is a file or directory.
type node struct {
	name     string // the last name it had, for messages and Pick
	children map[string]*node
	dir      bool
	modTime  atomic.Int64

	mu   sync.RWMutex // guards what follows
	data blob
	disk *unsynced // nil unless tracked
}

// NewMem returns an empty file system.
func NewMem() *Mem {
	m := &Mem{locks: map[*node]bool{}, now: func() int64 { return time.Now().UnixMilli() }}
	m.root = m.newNode("/", true)
	return m
}

// SetCapacity limits the bytes that files may take together; writing or reserving
// more fails with ENOSPC. 0 lifts the limit.
func (m *Mem) SetCapacity(bytes int64) { m.capacity.Store(bytes) }

// SetClock replaces the clock that gives modification times (Unix ms).
func (m *Mem) SetClock(now func() int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = now
}

// Kill makes every open handle and lock useless, as the end of a process does;
// files keep what was written, synced or not.
func (m *Mem) Kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.generation.Add(1)
	clear(m.locks)
}

func (m *Mem) newNode(name string, dir bool) *node {
	n := &node{name: name, dir: dir}
	n.modTime.Store(m.now())
	if dir {
		n.children = map[string]*node{}
	} else if m.crash != nil {
		n.disk = &unsynced{}
	}
	return n
}

func pathErr(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

// split cleans a path into its components; the root has none.
func split(name string) []string {
	clean := strings.Trim(path.Clean("/"+name), "/")
	if clean == "" {
		return nil
	}
	return strings.Split(clean, "/")
}

// find returns the node at the components; m.mu is held.
func (m *Mem) find(parts []string) (*node, error) {
	n := m.root
	for _, p := range parts {
		if !n.dir {
			return nil, syscall.ENOTDIR
		}
		c, ok := n.children[p]
		if !ok {
			return nil, fs.ErrNotExist
		}
		n = c
	}
	return n, nil
}

// parent returns the directory that holds name, and the last component.
func (m *Mem) parent(name string) (*node, string, error) {
	parts := split(name)
	if len(parts) == 0 {
		return nil, "", syscall.EINVAL
	}
	dir, err := m.find(parts[:len(parts)-1])
	if err != nil {
		return nil, "", err
	}
	if !dir.dir {
		return nil, "", syscall.ENOTDIR
	}
	return dir, parts[len(parts)-1], nil
}

// A change of a directory: name now means node, or nothing.
type change struct {
	dir  *node
	name string
	node *node
}

// apply makes changes to the tree and notes them as not yet durable.
func (m *Mem) apply(changes ...change) {
	for _, c := range changes {
		if c.node == nil {
			delete(c.dir.children, c.name)
		} else {
			c.dir.children[c.name] = c.node
			c.node.name = path.Join(c.dir.name, c.name)
		}
		c.dir.modTime.Store(m.now())
	}
	if m.crash != nil {
		m.crash.pending = append(m.crash.pending, slices.Clone(changes))
	}
}

// Open implements FS.
func (m *Mem) Open(name string, flag OpenFlag) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent(name)
	if err != nil {
		return nil, pathErr("open", name, err)
	}
	n := dir.children[base]
	switch {
	case n == nil && (flag == Create || flag == Truncate):
		n = m.newNode(path.Join(dir.name, base), false)
		m.apply(change{dir, base, n})
	case n == nil:
		return nil, pathErr("open", name, fs.ErrNotExist)
	case n.dir && flag != ReadOnly:
		return nil, pathErr("open", name, syscall.EISDIR)
	case flag == Truncate:
		m.truncate(n, 0)
	}
	return m.handle(n, name, flag == ReadOnly), nil
}

func (m *Mem) handle(n *node, name string, readOnly bool) *memFile {
	return &memFile{m: m, n: n, name: name, readOnly: readOnly, generation: m.generation.Load()}
}

// OpenDir implements FS.
func (m *Mem) OpenDir(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(split(name))
	if err == nil && !n.dir {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, pathErr("open directory", name, err)
	}
	return m.handle(n, name, true), nil
}

// Mkdir implements FS.
func (m *Mem) Mkdir(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.root
	for _, p := range split(name) {
		c := n.children[p]
		if c == nil {
			c = m.newNode(path.Join(n.name, p), true)
			m.apply(change{n, p, c})
		}
		if !c.dir {
			return pathErr("mkdir", name, syscall.ENOTDIR)
		}
		n = c
	}
	return nil
}

// Remove implements FS.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent(name)
	if err != nil {
		return pathErr("remove", name, err)
	}
	n := dir.children[base]
	if n == nil {
		return pathErr("remove", name, fs.ErrNotExist)
	}
	if len(n.children) > 0 {
		return pathErr("remove", name, syscall.ENOTEMPTY)
	}
	m.unlink(dir, base, n)
	return nil
}

func (m *Mem) unlink(dir *node, base string, n *node) {
	if !n.dir {
		n.mu.RLock()
		m.used.Add(-n.data.size)
		n.mu.RUnlock()
	}
	m.apply(change{dir, base, nil})
}

// RemoveAll implements FS.
func (m *Mem) RemoveAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return pathErr("remove", name, err)
	}
	if n := dir.children[base]; n != nil {
		m.removeTree(dir, base, n)
	}
	return nil
}

func (m *Mem) removeTree(dir *node, base string, n *node) {
	for _, c := range sortedNames(n.children) {
		m.removeTree(n, c, n.children[c])
	}
	m.unlink(dir, base, n)
}

// Rename implements FS.
func (m *Mem) Rename(oldname, newname string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.rename(oldname, newname)
	if err != nil {
		return fmt.Errorf("rename %s %s: %w", oldname, newname, err)
	}
	return nil
}

func (m *Mem) rename(oldname, newname string) error {
	from, oldBase, err := m.parent(oldname)
	if err != nil {
		return err
	}
	to, newBase, err := m.parent(newname)
	if err != nil {
		return err
	}
	n, over := from.children[oldBase], to.children[newBase]
	switch {
	case n == nil:
		return fs.ErrNotExist
	case n == over:
		return nil
	case n.dir && strings.HasPrefix(path.Clean("/"+newname)+"/", path.Clean("/"+oldname)+"/"):
		return syscall.EINVAL
	case over != nil && over.dir && !n.dir:
		return syscall.EISDIR
	case over != nil && !over.dir && n.dir:
		return syscall.ENOTDIR
	case over != nil && len(over.children) > 0:
		return syscall.ENOTEMPTY
	}
	if over != nil && !over.dir {
		over.mu.RLock()
		m.used.Add(-over.data.size)
		over.mu.RUnlock()
	}
	m.apply(change{from, oldBase, nil}, change{to, newBase, n})
	return nil
}

// List implements FS.
func (m *Mem) List(dir string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(split(dir))
	if err == nil && !n.dir {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, pathErr("list", dir, err)
	}
	return sortedNames(n.children), nil
}

func sortedNames(children map[string]*node) []string {
	names := make([]string, 0, len(children))
	for name := range children {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Stat implements FS.
func (m *Mem) Stat(name string) (Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(split(name))
	if err != nil {
		return Info{}, pathErr("stat", name, err)
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	return Info{Size: n.data.size, ModTime: n.modTime.Load(), IsDir: n.dir}, nil
}

// SetModTime implements FS.
func (m *Mem) SetModTime(name string, millis int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(split(name))
	if err != nil {
		return pathErr("set time", name, err)
	}
	n.modTime.Store(millis)
	return nil
}

// Lock implements FS.
func (m *Mem) Lock(name string) (io.Closer, error) {
	f, err := m.Open(name, Create)
	if err != nil {
		return nil, err
	}
	h, ok := f.(*memFile)
	if !ok {
		panic("vfs: Mem.Open returned something else")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.locks[h.n] {
		return nil, fmt.Errorf("lock %s: %w", name, ErrLocked)
	}
	m.locks[h.n] = true
	return &memLock{h}, nil
}

type memLock struct{ h *memFile }

func (l *memLock) Close() error {
	m := l.h.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.generation.Load() == l.h.generation {
		delete(m.locks, l.h.n)
	}
	return nil
}

// Free implements FS.
func (m *Mem) Free(string) (int64, error) {
	if limit := m.capacity.Load(); limit > 0 {
		return max(limit-m.used.Load(), 0), nil
	}
	return -1, nil
}
