//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package netloop

import "golang.org/x/sys/unix"

// send is write(2) on a non-blocking socket.
func send(fd int, b []byte) (int, error) { return unix.Write(fd, b) }
