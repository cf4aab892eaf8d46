//go:build !unix || solaris || aix

package vfs

import (
	"errors"
	"io"
	"io/fs"
)

var errNotDir = errors.New("not a directory")

// lockFile refuses: without a lock a disk folder is not safe to use.
func lockFile(name string) (io.Closer, error) {
	return nil, &fs.PathError{Op: "lock", Path: name, Err: errors.ErrUnsupported}
}
