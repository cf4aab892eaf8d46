package netloop

import (
	"errors"
	"fmt"
	"net"
	"time"
)

// Options is what a Server is made of. The zero value of every field but
// Handler means its default.
type Options struct {
	// Handler is given the frames. Required.
	Handler Handler
	// Loops is the number of event loops. Zero: one up to a GOMAXPROCS of four, else
	// half of it. With GoroutineOnly, and where there are no event loops,
	// it is one.
	Loops int
	// GoroutineOnly puts every connection on the goroutine transport. It is always
	// so on platforms without epoll or kqueue.
	GoroutineOnly bool
	// Limits bounds what a peer can make the server hold.
	Limits Limits
	// Mono is a monotonic clock, the base of idle times and stalls. Nil: the
	// process's own.
	Mono func() time.Duration
	// Events are told what happened, after the fact.
	Events Events
}

// Events tells an observer what happened. Every field may be nil. The functions
// are called from any goroutine, an event loop's among them: they have to be
// quick and must not call back into the Server.
type Events struct {
	// Accepted: a connection was opened and given to Handler.OnOpen.
	Accepted func(c Conn)
	// Closed: the connection is gone, after Handler.OnClose. err tells why: one of
	// this package's errors, io.EOF for a peer that closed in order, or what the
	// operating system said.
	Closed func(c Conn, err error)
	// Moved: the connection left its event loop for a goroutine.
	Moved func(c Conn, why MoveReason)
	// Refused: a connection was closed before it was opened, for ErrTooMany,
	// ErrTooManyFromAddress or ErrStopping.
	Refused func(listener string, remote net.Addr, err error)
	// AcceptFailed: accepting failed for lack of descriptors or memory; told at
	// most once a second, accepting goes on. failures counts those since the last call.
	AcceptFailed func(listener string, err error, failures int)
	// Panicked: a callback of the handler panicked; the connection (nil if there is
	// none) is closed.
	Panicked func(c Conn, value any, stack []byte)
	// Library: the network library had something to say, at level "warn", "error" or
	// "fatal". With several servers in
	// one process only the last one started is told.
	Library func(level, message string)
}

// A MoveReason says why a connection left its event loop.
type MoveReason uint8

const (
	// MoveBulk: the handler asked for it (verdict Bulk).
	MoveBulk MoveReason = iota
	// MoveInput: too much input waited to be applied.
	MoveInput
	// MoveOutput: an answer did not fit into the socket.
	MoveOutput
	// MoveHalfClose: the peer sends no more, and answers are owed.
	MoveHalfClose
)

func (r MoveReason) String() string {
	switch r {
	case MoveBulk:
		return "bulk"
	case MoveInput:
		return "input"
	case MoveOutput:
		return "output"
	case MoveHalfClose:
		return "half-close"
	}
	return "unknown"
}

// Why connections are closed or refused.
var (
	ErrFrameTooShort      = errors.New("frame too short")
	ErrFrameTooLong       = errors.New("frame too long")
	ErrFrameRefused       = errors.New("frame refused by its first bytes")
	ErrFrameStalled       = errors.New("no byte of an unfinished frame in time")
	ErrWriteStalled       = errors.New("peer took no byte of its answers in time")
	ErrCrowded            = errors.New("slowest of many while memory was short")
	ErrIdle               = errors.New("idle")
	ErrPanic              = errors.New("handler panicked")
	ErrClosedByHandler    = errors.New("closed by the handler")
	ErrTooMany            = errors.New("too many connections")
	ErrTooManyFromAddress = errors.New("too many connections from this address")
	ErrStopping           = errors.New("server is stopping")
	ErrMove               = errors.New("connection could not leave its event loop")
)

// verdictError says what is wrong with a verdict.
func verdictError(v Verdict) error {
	if v == Bulk {
		return errors.New("netloop: verdict Bulk for a connection that is on the goroutine transport")
	}
	return fmt.Errorf("netloop: unknown verdict %d", v)
}
