package netloop

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// send is write(2) on a non-blocking socket, with what goes before and after a system
// call that may block left out: this one does not, though it may take 10 µs when the
// kernel hands the bytes to a peer on the same machine. Around a call that it thinks
// may block, the runtime would now and then give the loop's processor to somebody else
// and let the loop wait for another.
func send(fd int, b []byte) (int, error) {
	n, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
