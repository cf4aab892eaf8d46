package vfs

import (
	"fmt"
	"io"
	"strings"
	"sync"
)

// OpKind is the kind of a file operation.
type OpKind string

// The operations, under the names that recorded operations show.
const (
	OpOpen        OpKind = "open" // ReadOnly, ReadWrite
	OpCreate      OpKind = "create"
	OpOpenTrunc   OpKind = "open-truncate"
	OpOpenDir     OpKind = "opendir"
	OpMkdir       OpKind = "mkdir"
	OpRemove      OpKind = "remove"
	OpRemoveAll   OpKind = "remove-all"
	OpRename      OpKind = "rename"
	OpList        OpKind = "list"
	OpStat        OpKind = "stat"
	OpSetModTime  OpKind = "set-time"
	OpLock        OpKind = "lock"
	OpFree        OpKind = "free"
	OpRead        OpKind = "read"
	OpWrite       OpKind = "write"
	OpSize        OpKind = "size"
	OpTruncate    OpKind = "truncate"
	OpSync        OpKind = "sync"
	OpDatasync    OpKind = "datasync"
	OpPreallocate OpKind = "preallocate"
	OpClose       OpKind = "close"
)

// Op is one file operation.
type Op struct {
	Kind   OpKind
	Path   string
	To     string // rename: the new name
	Offset int64  // read, write
	Len    int64  // read, write: bytes; truncate, preallocate: size
}

// Mutates reports whether the operation changes what is on disk, or when.
func (o Op) Mutates() bool {
	switch o.Kind {
	case OpCreate, OpOpenTrunc, OpMkdir, OpRemove, OpRemoveAll, OpRename, OpWrite, OpTruncate, OpSync, OpDatasync, OpPreallocate:
		return true
	}
	return false
}

// IsSync reports whether the operation is a sync of a file or directory.
func (o Op) IsSync() bool { return o.Kind == OpSync || o.Kind == OpDatasync }

func (o Op) String() string {
	switch o.Kind {
	case OpRename:
		return fmt.Sprintf("%s %s %s", o.Kind, o.Path, o.To)
	case OpRead, OpWrite:
		return fmt.Sprintf("%s %s %d+%d", o.Kind, o.Path, o.Offset, o.Len)
	case OpTruncate, OpPreallocate:
		return fmt.Sprintf("%s %s %d", o.Kind, o.Path, o.Len)
	}
	return fmt.Sprintf("%s %s", o.Kind, o.Path)
}

// Failure says how an operation fails.
type Failure struct {
	Err error // its cause; the error returned wraps it, naming operation and path
	// Short is how many bytes of a write are written all the same.
	Short int
	// After: the operation is done in full before the error is reported.
	After bool
	// Lose, for syncs: the dirty pages become clean without having been written,
	// so that a second sync succeeds and saves nothing. Revert: readers see the old
	// content too.
	Lose, Revert bool
}

// Hooked is a file system around another one that lets a test see every operation
// and make it fail. Both hooks may be nil and are called one at a time.
type Hooked struct {
	FS
	// Before is asked before each operation; not nil makes it fail.
	Before func(op Op) *Failure
	// After is told the outcome of each operation.
	After func(op Op, err error)

	mu sync.Mutex
}

// FailNth fails the n-th operation that match accepts (from 1; nil: each one that
// mutates) with err, and, when sticky, all after it.
func FailNth(n int, err error, sticky bool, match func(Op) bool) func(Op) *Failure {
	if match == nil {
		match = Op.Mutates
	}
	return func(op Op) *Failure {
		if !match(op) {
			return nil
		}
		if n--; n == 0 || (n < 0 && sticky) {
			return &Failure{Err: err}
		}
		return nil
	}
}

// Match accepts operations of one kind on paths that contain part.
func Match(kind OpKind, part string) func(Op) bool {
	return func(op Op) bool { return op.Kind == kind && strings.Contains(op.Path, part) }
}

// Recorder returns a file system that hands a line for every operation that
// mutates to write; root is cut from paths.
func Recorder(fs FS, root string, write func(line string)) *Hooked {
	cut := func(p string) string {
		if p = strings.TrimPrefix(strings.TrimPrefix(p, root), "/"); p == "" {
			return "."
		}
		return p
	}
	return &Hooked{FS: fs, After: func(op Op, err error) {
		if !op.Mutates() {
			return
		}
		op.Path = cut(op.Path)
		if op.Kind == OpRename {
			op.To = cut(op.To)
		}
		line := op.String()
		if err != nil {
			line += " failed"
		}
		write(line)
	}}
}

func (h *Hooked) before(op Op) *Failure {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.Before == nil {
		return nil
	}
	return h.Before(op)
}

func (h *Hooked) after(op Op, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.After != nil {
		h.After(op, err)
	}
}

// run performs an operation between its hooks.
func (h *Hooked) run(op Op, do func() error) error {
	f := h.before(op)
	var err error
	if f == nil || f.After {
		err = do()
	}
	if f != nil && err == nil {
		err = pathErr(string(op.Kind), op.Path, f.Err)
	}
	h.after(op, err)
	return err
}

// Open implements FS.
func (h *Hooked) Open(name string, flag OpenFlag) (File, error) {
	kind := OpOpen
	switch flag {
	case Create:
		kind = OpCreate
	case Truncate:
		kind = OpOpenTrunc
	case ReadOnly, ReadWrite:
	}
	return h.open(Op{Kind: kind, Path: name}, func() (File, error) { return h.FS.Open(name, flag) })
}

func (h *Hooked) open(op Op, do func() (File, error)) (File, error) {
	var f File
	err := h.run(op, func() (err error) {
		f, err = do()
		return err
	})
	if err != nil {
		if f != nil {
			f.Close()
		}
		return nil, err
	}
	return &hookedFile{h: h, f: f, name: op.Path}, nil
}

// OpenDir implements FS.
func (h *Hooked) OpenDir(name string) (File, error) {
	return h.open(Op{Kind: OpOpenDir, Path: name}, func() (File, error) { return h.FS.OpenDir(name) })
}

// Mkdir implements FS.
func (h *Hooked) Mkdir(name string) error {
	return h.run(Op{Kind: OpMkdir, Path: name}, func() error { return h.FS.Mkdir(name) })
}

// Remove implements FS.
func (h *Hooked) Remove(name string) error {
	return h.run(Op{Kind: OpRemove, Path: name}, func() error { return h.FS.Remove(name) })
}

// RemoveAll implements FS.
func (h *Hooked) RemoveAll(name string) error {
	return h.run(Op{Kind: OpRemoveAll, Path: name}, func() error { return h.FS.RemoveAll(name) })
}

// Rename implements FS.
func (h *Hooked) Rename(oldname, newname string) error {
	return h.run(Op{Kind: OpRename, Path: oldname, To: newname}, func() error { return h.FS.Rename(oldname, newname) })
}

// List implements FS.
func (h *Hooked) List(dir string) (names []string, err error) {
	err = h.run(Op{Kind: OpList, Path: dir}, func() (err error) {
		names, err = h.FS.List(dir)
		return err
	})
	return names, err
}

// Stat implements FS.
func (h *Hooked) Stat(name string) (info Info, err error) {
	err = h.run(Op{Kind: OpStat, Path: name}, func() (err error) {
		info, err = h.FS.Stat(name)
		return err
	})
	return info, err
}

// SetModTime implements FS.
func (h *Hooked) SetModTime(name string, millis int64) error {
	return h.run(Op{Kind: OpSetModTime, Path: name}, func() error { return h.FS.SetModTime(name, millis) })
}

// Lock implements FS.
func (h *Hooked) Lock(name string) (c io.Closer, err error) {
	err = h.run(Op{Kind: OpLock, Path: name}, func() (err error) {
		c, err = h.FS.Lock(name)
		return err
	})
	return c, err
}

// Free implements FS.
func (h *Hooked) Free(dir string) (n int64, err error) {
	err = h.run(Op{Kind: OpFree, Path: dir}, func() (err error) {
		n, err = h.FS.Free(dir)
		return err
	})
	return n, err
}

// hookedFile is an open file of a Hooked.
type hookedFile struct {
	h    *Hooked
	f    File
	name string
}

// ReadAt implements File.
func (f *hookedFile) ReadAt(p []byte, off int64) (n int, err error) {
	err = f.h.run(Op{Kind: OpRead, Path: f.name, Offset: off, Len: int64(len(p))}, func() (err error) {
		n, err = f.f.ReadAt(p, off)
		return err
	})
	return n, err
}

// WriteAt implements File.
func (f *hookedFile) WriteAt(p []byte, off int64) (int, error) {
	op := Op{Kind: OpWrite, Path: f.name, Offset: off, Len: int64(len(p))}
	fail := f.h.before(op)
	n, err := 0, error(nil)
	switch {
	case fail == nil || fail.After:
		n, err = f.f.WriteAt(p, off)
	case fail.Short > 0:
		n, err = f.f.WriteAt(p[:min(fail.Short, len(p))], off)
	}
	if fail != nil && err == nil {
		err = pathErr(string(op.Kind), op.Path, fail.Err)
	}
	f.h.after(op, err)
	return n, err
}

// Size implements File.
func (f *hookedFile) Size() (n int64, err error) {
	err = f.h.run(Op{Kind: OpSize, Path: f.name}, func() (err error) {
		n, err = f.f.Size()
		return err
	})
	return n, err
}

// Truncate implements File.
func (f *hookedFile) Truncate(size int64) error {
	return f.h.run(Op{Kind: OpTruncate, Path: f.name, Len: size}, func() error { return f.f.Truncate(size) })
}

// Preallocate implements File.
func (f *hookedFile) Preallocate(size int64) error {
	return f.h.run(Op{Kind: OpPreallocate, Path: f.name, Len: size}, func() error { return f.f.Preallocate(size) })
}

// Sync implements File.
func (f *hookedFile) Sync() error { return f.sync(OpSync, f.f.Sync) }

// Datasync implements File.
func (f *hookedFile) Datasync() error { return f.sync(OpDatasync, f.f.Datasync) }

func (f *hookedFile) sync(kind OpKind, do func() error) error {
	op := Op{Kind: kind, Path: f.name}
	fail := f.h.before(op)
	var err error
	switch {
	case fail == nil || fail.After:
		err = do()
	case fail.Lose || fail.Revert:
		if l, ok := f.f.(interface{ lose(revert bool) }); ok {
			l.lose(fail.Revert)
		}
	}
	if fail != nil && err == nil {
		err = pathErr(string(kind), f.name, fail.Err)
	}
	f.h.after(op, err)
	return err
}

func (f *hookedFile) lose(revert bool) {
	if l, ok := f.f.(interface{ lose(revert bool) }); ok {
		l.lose(revert)
	}
}

// Close implements File.
func (f *hookedFile) Close() error {
	return f.h.run(Op{Kind: OpClose, Path: f.name}, f.f.Close)
}
