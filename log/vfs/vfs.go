// Package vfs is the file seam: the few file operations that the store needs,
// with their contracts. OS is the real thing; Mem keeps everything in memory;
// Crashable also knows what would survive a power cut; Hooked makes operations
// fail on purpose or writes them down.
package vfs

import (
	"errors"
	"io"
)

// ErrLocked is what FS.Lock fails with when somebody else holds the lock.
var ErrLocked = errors.New("locked by another process")

// A File is an open file. ReadAt may run concurrently with everything else, and
// so may writes to ranges that do not overlap, and syncs; a sync covers writes that
// had returned when it began. Truncate and Close are called by one owner.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Size is the file's length in bytes.
	Size() (int64, error)
	// Truncate sets the length; growing fills with zeros.
	Truncate(size int64) error
	// Sync makes data and all metadata durable (fsync). On a directory it makes
	// its entries durable.
	Sync() error
	// Datasync makes data and the length durable (fdatasync where there is one).
	Datasync() error
	// Preallocate reserves space for [0, size) and sets the length to at least
	// size, so that later writes in that range need no new space. An error wraps
	// syscall.ENOSPC when the disk is full. Where the platform cannot reserve,
	// zeros are written.
	Preallocate(size int64) error
}

// OpenFlag says how FS.Open treats an existing or missing file.
type OpenFlag uint8

const (
	// ReadOnly opens an existing file for reading.
	ReadOnly OpenFlag = iota
	// ReadWrite opens an existing file for reading and writing.
	ReadWrite
	// Create opens for reading and writing; a missing file is made.
	Create
	// Truncate opens for reading and writing; a missing file is made, an existing
	// one loses its content.
	Truncate
)

// FS is a file system. Names are slash-separated paths; errors satisfy
// errors.Is(err, fs.ErrNotExist) and the like, and name operation and path. No
// operation but File.Sync on a directory makes a directory entry durable.
type FS interface {
	Open(name string, flag OpenFlag) (File, error)
	// OpenDir opens a directory for File.Sync.
	OpenDir(name string) (File, error)
	Mkdir(name string) error // parents are made too; existing is no error
	Remove(name string) error
	RemoveAll(name string) error
	// Rename replaces newname atomically.
	Rename(oldname, newname string) error
	// List returns the names in a directory, sorted.
	List(dir string) ([]string, error)
	Stat(name string) (Info, error)
	// SetModTime sets the modification time in Unix milliseconds. It is a hint
	// that a crash may lose.
	SetModTime(name string, millis int64) error
	// Lock takes an exclusive advisory lock on a file, made if missing; held by
	// another process or FS user it fails with ErrLocked. Closing unlocks.
	Lock(name string) (io.Closer, error)
	// Free is the space in bytes that an unprivileged writer may still use under
	// dir; negative if unknown.
	Free(dir string) (int64, error)
}

// Info describes a file or directory.
type Info struct {
	Size    int64
	ModTime int64 // Unix milliseconds
	IsDir   bool
}

func (f OpenFlag) String() string {
	switch f {
	case ReadOnly:
		return "read-only"
	case ReadWrite:
		return "read-write"
	case Create:
		return "create"
	case Truncate:
		return "truncate"
	}
	return "unknown flag"
}
