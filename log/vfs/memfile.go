package vfs

import (
	"io"
	"io/fs"
	"sync/atomic"
	"syscall"
)

// memFile is an open file or directory of a Mem.
type memFile struct {
	m          *Mem
	n          *node
	name       string
	readOnly   bool
	generation int64
	closed     atomic.Bool
}

// check refuses operations on a closed handle or one of a killed process.
func (f *memFile) check(op string, write bool) error {
	switch {
	case f.closed.Load() || f.generation != f.m.generation.Load():
		return pathErr(op, f.name, fs.ErrClosed)
	case write && f.readOnly:
		return pathErr(op, f.name, syscall.EBADF)
	}
	return nil
}

// ReadAt implements File.
func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.check("read", false); err != nil {
		return 0, err
	}
	if f.n.dir {
		return 0, pathErr("read", f.name, syscall.EISDIR)
	}
	if off < 0 {
		return 0, pathErr("read", f.name, syscall.EINVAL)
	}
	f.n.mu.RLock()
	defer f.n.mu.RUnlock()
	n, err := f.n.data.readAt(p, off)
	if err != nil && err != io.EOF {
		err = pathErr("read", f.name, err)
	}
	return n, err
}

// WriteAt implements File.
func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.check("write", true); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, pathErr("write", f.name, syscall.EINVAL)
	}
	f.n.mu.Lock()
	defer f.n.mu.Unlock()
	if err := f.m.reserve(off + int64(len(p)) - f.n.data.size); err != nil {
		return 0, pathErr("write", f.name, err)
	}
	if f.n.disk != nil {
		f.n.disk.write(p, off)
	}
	f.n.data.writeAt(p, off)
	f.n.modTime.Store(f.m.now())
	return len(p), nil
}

// reserve accounts for a file that grows by delta bytes.
func (m *Mem) reserve(delta int64) error {
	if delta <= 0 {
		return nil
	}
	limit := m.capacity.Load()
	if now := m.used.Add(delta); limit > 0 && now > limit {
		m.used.Add(-delta)
		return syscall.ENOSPC
	}
	return nil
}

// Size implements File.
func (f *memFile) Size() (int64, error) {
	if err := f.check("size", false); err != nil {
		return 0, err
	}
	f.n.mu.RLock()
	defer f.n.mu.RUnlock()
	return f.n.data.size, nil
}

// Truncate implements File.
func (f *memFile) Truncate(size int64) error {
	if err := f.check("truncate", true); err != nil {
		return err
	}
	if size < 0 {
		return pathErr("truncate", f.name, syscall.EINVAL)
	}
	if err := f.m.truncate(f.n, size); err != nil {
		return pathErr("truncate", f.name, err)
	}
	return nil
}

func (m *Mem) truncate(n *node, size int64) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := m.reserve(size - n.data.size); err != nil {
		return err
	}
	if size < n.data.size {
		m.used.Add(size - n.data.size)
	}
	if n.disk != nil {
		n.disk.resize(n.data.size, size)
	}
	n.data.truncate(size)
	n.modTime.Store(m.now())
	return nil
}

// Preallocate implements File.
func (f *memFile) Preallocate(size int64) error {
	if err := f.check("fallocate", true); err != nil {
		return err
	}
	if have, err := f.Size(); err != nil || have >= size {
		return err
	}
	if err := f.m.truncate(f.n, size); err != nil {
		return pathErr("fallocate", f.name, err)
	}
	return nil
}

// Sync implements File.
func (f *memFile) Sync() error { return f.sync("fsync") }

// Datasync implements File.
func (f *memFile) Datasync() error { return f.sync("fdatasync") }

func (f *memFile) sync(op string) error {
	if err := f.check(op, false); err != nil {
		return err
	}
	if f.m.crash == nil {
		return nil
	}
	if f.n.dir {
		f.m.mu.Lock()
		defer f.m.mu.Unlock()
		f.m.crash.syncDir(f.n)
		return nil
	}
	f.n.mu.Lock()
	defer f.n.mu.Unlock()
	f.n.disk.sync()
	return nil
}

// lose is what a failed sync leaves behind: dirty pages are clean although they
// never reached the disk. What a reader sees stays, or goes back to what is on
// the disk.
func (f *memFile) lose(revert bool) {
	if f.n.disk == nil {
		return
	}
	f.n.mu.Lock()
	defer f.n.mu.Unlock()
	f.n.disk.ops = nil
	if revert {
		f.m.used.Add(f.n.disk.data.size - f.n.data.size)
		f.n.data = f.n.disk.data.clone()
	}
}

// Close implements File.
func (f *memFile) Close() error {
	if f.closed.Swap(true) {
		return pathErr("close", f.name, fs.ErrClosed)
	}
	return nil
}
