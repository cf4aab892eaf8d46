//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package netloop

import (
	"io"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// rawConn returns what is needed to see every byte of progress of a write, nil if rw
// is not simply a socket.
func rawConn(rw io.ReadWriteCloser) syscall.RawConn {
	switch rw.(type) {
	case *net.TCPConn, *net.UnixConn, movedSocket:
		raw, err := rw.(syscall.Conn).SyscallConn()
		if err == nil {
			return raw
		}
	}
	return nil
}

// queued returns how many bytes the kernel holds that the peer has not taken, -1 if it
// does not tell.
func (st *stream) queued() int {
	inner := st.rw
	if wraps, ok := inner.(interface{ NetConn() net.Conn }); ok { // TLS
		inner = wraps.NetConn()
	}
	raw := rawConn(inner)
	if raw == nil {
		return -1
	}
	n, failed := -1, error(nil)
	err := raw.Control(func(fd uintptr) { n, failed = unix.IoctlGetInt(int(fd), unix.TIOCOUTQ) })
	if err != nil || failed != nil {
		return -1
	}
	return n
}

// writeSome writes st.pending as far as the socket takes it; false: wait until it takes
// more.
func (st *stream) writeSome(fd uintptr) bool {
	for len(st.pending) > 0 {
		n, err := unix.Write(int(fd), st.pending)
		if n > 0 {
			st.pending = st.pending[n:]
			st.progress(n)
		}
		switch err {
		case nil, unix.EINTR:
		case unix.EAGAIN:
			return false
		default:
			st.failed = err
			return true
		}
	}
	return true
}
