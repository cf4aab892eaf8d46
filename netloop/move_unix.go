//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package netloop

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// movedSocket is the duplicate of a connection's descriptor, read and written by
// goroutines. Options and non-blocking mode belong to what both descriptors share
// and stay as they are.
type movedSocket struct{ *os.File }

// CloseWrite tells the peer that nothing more comes.
func (m movedSocket) CloseWrite() error {
	raw, err := m.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = unix.Shutdown(int(fd), unix.SHUT_WR) })
	return errors.Join(err, failed)
}

// halfClosed reports that the peer sends no more; it may still read.
func halfClosed(err error) bool { return errors.Is(err, io.EOF) }

// plainEOF takes the name of the system call off the end of a stream.
func plainEOF(err error) error {
	if halfClosed(err) {
		return io.EOF
	}
	return err
}

// move puts the connection on a goroutine, once and for good; false: it stays, there
// is no descriptor for it. On success the library's side has to be closed in
// the same callback: what it reads after the move would be lost.
func (l *loop) move(c *conn, why MoveReason) bool {
	return l.moveWith(c, why, nil, false, false)
}

// moveOrClose moves a connection that cannot stay. last: it ends behind unsent.
func (l *loop) moveOrClose(c *conn, why MoveReason, unsent []byte, last bool) (end bool) {
	if !l.moveWith(c, why, unsent, last, false) {
		c.onLoop.why = ErrMove
	}
	return true
}

// finishElsewhere moves a connection whose peer sends no more, if something that it
// sent before is not applied or answered yet. Called while the library closes it.
func (l *loop) finishElsewhere(c *conn) bool {
	unapplied := !l.server.draining.Load() && c.callWhole()
	if c.slots.owed() == 0 && !unapplied {
		return false
	}
	return l.moveWith(c, MoveHalfClose, nil, false, true)
}

func (l *loop) moveWith(c *conn, why MoveReason, unsent []byte, last, eof bool) bool {
	p, s := &c.onLoop, l.server
	fd, err := p.gc.Dup()
	if err != nil {
		return false
	}
	st := newStream(c, movedSocket{os.NewFile(uintptr(fd), "connection")})
	st.counted.Store(int64(p.inHeld))
	st.eof = eof
	st.sendFirst(unsent, last)
	p.gone = true
	p.gc = nil
	l.remove(c)
	s.addStream(st)
	c.stream.Store(st) // from here on completions go to the stream
	if f := s.options.Events.Moved; f != nil {
		f(c, why)
	}
	go st.run(false)
	return true
}
