package vfs

import (
	"io"
	"io/fs"
	"os"
	"time"
)

// OS is the operating system's file system. The zero value is ready for use.
// Files are made readable and writable for the owner, readable for the group.
type OS struct{}

const (
	filePerm = 0o640
	dirPerm  = 0o750
)

// Open implements FS.
func (OS) Open(name string, flag OpenFlag) (File, error) {
	f, err := os.OpenFile(name, osFlag(flag), filePerm)
	if err != nil {
		return nil, err
	}
	return newOSFile(f), nil
}

func osFlag(flag OpenFlag) int {
	switch flag {
	case ReadOnly:
		return os.O_RDONLY
	case ReadWrite:
		return os.O_RDWR
	case Create:
		return os.O_RDWR | os.O_CREATE
	case Truncate:
		return os.O_RDWR | os.O_CREATE | os.O_TRUNC
	}
	panic("vfs: open flag " + flag.String())
}

// OpenDir implements FS.
func (OS) OpenDir(name string) (File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.IsDir() {
		err = &fs.PathError{Op: "open directory", Path: name, Err: errNotDir}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return newOSFile(f), nil
}

// Mkdir implements FS.
func (OS) Mkdir(name string) error { return os.MkdirAll(name, dirPerm) }

// Remove implements FS.
func (OS) Remove(name string) error { return os.Remove(name) }

// RemoveAll implements FS.
func (OS) RemoveAll(name string) error { return os.RemoveAll(name) }

// Rename implements FS.
func (OS) Rename(oldname, newname string) error { return os.Rename(oldname, newname) }

// List implements FS.
func (OS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

// Stat implements FS.
func (OS) Stat(name string) (Info, error) {
	st, err := os.Stat(name)
	if err != nil {
		return Info{}, err
	}
	return Info{Size: st.Size(), ModTime: st.ModTime().UnixMilli(), IsDir: st.IsDir()}, nil
}

// SetModTime implements FS.
func (OS) SetModTime(name string, millis int64) error {
	t := time.UnixMilli(millis)
	return os.Chtimes(name, t, t)
}

// Lock implements FS.
func (OS) Lock(name string) (io.Closer, error) { return lockFile(name) }

// Free implements FS.
func (OS) Free(dir string) (int64, error) { return freeBytes(dir) }

// osFile is an *os.File with the calls that os lacks. fd is kept because
// (*os.File).Fd would have to be asked on each sync.
type osFile struct {
	*os.File
	fd uintptr
}

func newOSFile(f *os.File) *osFile { return &osFile{File: f, fd: f.Fd()} }

// Size implements File.
func (f *osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

// pathError names the operation and the file.
func (f *osFile) pathError(op string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: f.Name(), Err: err}
}

// zeroFill is Preallocate by writing: it extends the file with zeros to size.
func (f *osFile) zeroFill(size int64) error {
	have, err := f.Size()
	if err != nil {
		return err
	}
	zeros := make([]byte, min(max(size-have, 0), 1<<20))
	for have < size {
		n, err := f.WriteAt(zeros[:min(size-have, int64(len(zeros)))], have)
		if err != nil {
			return err
		}
		have += int64(n)
	}
	return nil
}
