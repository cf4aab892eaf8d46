package vfs

import (
	"io/fs"
	"runtime"
	"syscall"
)

// Datasync implements File: fdatasync(2), which makes data and length durable but
// not times.
func (f *osFile) Datasync() error {
	for {
		err := syscall.Fdatasync(int(f.fd))
		if err == syscall.EINTR {
			continue
		}
		runtime.KeepAlive(f.File)
		if err != nil {
			return f.pathError("fdatasync", err)
		}
		return nil
	}
}

// Preallocate implements File: fallocate(2). File systems that cannot (some
// network and FUSE ones) get zeros written instead.
func (f *osFile) Preallocate(size int64) error {
	for {
		err := syscall.Fallocate(int(f.fd), 0, 0, size)
		runtime.KeepAlive(f.File)
		switch err {
		case syscall.EINTR:
			continue
		case nil:
			return nil
		case syscall.EOPNOTSUPP, syscall.ENOSYS:
			return f.zeroFill(size)
		}
		return f.pathError("fallocate", err)
	}
}

func freeBytes(dir string) (int64, error) {
	var st syscall.Statfs_t
	for {
		err := syscall.Statfs(dir, &st)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return 0, &fs.PathError{Op: "statfs", Path: dir, Err: err}
		}
		unit := st.Frsize
		if unit <= 0 {
			unit = st.Bsize
		}
		return int64(st.Bavail) * int64(unit), nil //nolint:unconvert // types differ between architectures
	}
}
