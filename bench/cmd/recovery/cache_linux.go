package main

import (
	"os"

	"golang.org/x/sys/unix"
)

func syncAll() { unix.Sync() }

// dontNeed asks the kernel to forget the file's pages.
func dontNeed(f *os.File) error {
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}
