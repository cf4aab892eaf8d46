//go:build unix && !solaris && !aix

package vfs

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

var errNotDir error = syscall.ENOTDIR

// lockFile takes an exclusive flock(2), which the kernel drops with the process.
func lockFile(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, filePerm)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err != syscall.EINTR {
			break
		}
	}
	if err == nil {
		return f, nil
	}
	f.Close()
	if err == syscall.EWOULDBLOCK {
		return nil, fmt.Errorf("lock %s: %w", name, ErrLocked)
	}
	return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
}
