//go:build !linux

package vfs

// Datasync implements File. There is no cheaper call than a full sync here (on
// macOS os.File.Sync asks the drive to empty its cache).
func (f *osFile) Datasync() error { return f.Sync() }

// Preallocate implements File by writing zeros.
func (f *osFile) Preallocate(size int64) error { return f.zeroFill(size) }

// freeBytes is not known here.
func freeBytes(string) (int64, error) { return -1, nil }
