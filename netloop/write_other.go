//go:build !linux && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd

package netloop

import (
	"io"
	"syscall"
)

// rawConn returns nil: progress of a write is seen per chunk.
func rawConn(io.ReadWriteCloser) syscall.RawConn { return nil }

// queued returns -1: nobody tells what the peer has taken.
func (st *stream) queued() int { return -1 }

func (st *stream) writeSome(uintptr) bool { return true }
