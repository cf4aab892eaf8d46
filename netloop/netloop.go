// Package netloop moves bytes: it turns connections into whole length-prefixed
// frames for a Handler and sends the handler's answers back in request order,
// with one write per pass and bounded memory. It knows nothing of Kafka.
//
// Two transports serve one contract: event loops (gnet) for plaintext
// connections, and a goroutine per connection for everything a loop cannot do
// (bulk transfers, slow readers, half-closed peers, in-memory pipes, platforms
// without epoll or kqueue). A loop connection moves to a goroutine once and for
// good.
package netloop

import "net"

// A Verdict says what a Handler did with a frame.
type Verdict uint8

const (
	// Answered: the answer was appended to out in the call.
	Answered Verdict = iota
	// Later: the answer comes by Release, the slot holds its place; frames behind
	// it go on. If the handler appended bytes to out they are the answer, kept in
	// the slot until a Completion without an Answer of its own lets them go.
	Later
	// Hold: as Later, and no frame behind it is given to the handler until the
	// completion has come.
	Hold
	// None: there is no answer (Produce with acks=0).
	None
	// Bulk: the connection has to be on the goroutine transport; the same frame is
	// given again after the move. Never returned when Conn.Bulk() is true.
	Bulk
	// Close: what is owed so far is sent, then what the handler appended to out, if
	// anything, then the connection is closed. Frames behind are dropped.
	Close
)

// A Slot names the place of one answer in a connection's order. Both fields
// together never repeat for a connection, so a completion that comes too late (the
// slot was completed before) is recognised and dropped.
type Slot struct {
	Index      uint32
	Generation uint32
}

// A Conn is one client connection as the handler sees it.
type Conn interface {
	// ID is unique over the life of the Server.
	ID() uint64
	// Loop is the index to give to Release. It does not change when the
	// connection moves.
	Loop() int
	// Listener is the name of the listener that accepted the connection.
	Listener() string
	LocalAddr() net.Addr
	RemoteAddr() net.Addr
	// Bulk reports whether the connection lives on the goroutine transport.
	Bulk() bool
	// Context is what SetContext stored: for the handler's use, in callbacks of
	// this connection only.
	Context() any
	SetContext(any)
}

// A CrowdedConn is a Conn that tells when memory for answers is short. Those of a
// Server are.
type CrowdedConn interface {
	Conn
	// Crowded reports that the answers waiting to be sent to all peers are near
	// Limits.OutputBytes: a handler that can should answer with less.
	Crowded() bool
}

// A Handler is called for one connection at a time: never concurrently for the
// same Conn, but concurrently for different ones. On an event loop no call may
// block or take more than about a millisecond: all connections of the loop wait.
// A call that panics costs its connection, nothing else.
type Handler interface {
	// OnOpen is the first call for a connection.
	OnOpen(c Conn)
	// FrameLimit tells the largest allowed length (the value of the prefix) of the
	// frame that begins with these six bytes: the prefix itself and the first two
	// bytes of the body. Zero refuses the frame: the connection is closed.
	FrameLimit(head [6]byte) int
	// OnFrame is given one frame without its length prefix. frame is valid during
	// the call only. The answer, length prefix included, is appended to out, which
	// is returned; with the verdicts None and Bulk the result is ignored. A
	// completion may be released before OnFrame has returned. Where c.Bulk() is true
	// the call may block; later frames of the connection wait, other things do not.
	OnFrame(c Conn, slot Slot, frame, out []byte) ([]byte, Verdict)
	// OnClose is the last call for a connection; its open slots are forgotten.
	OnClose(c Conn, err error)
}

// A PassHandler is a Handler that is told when an event loop begins to give it the
// frames of one connection that have come together: they arrived at one time, and
// the handler may look at the clock once for all of them. A pass takes at most
// about Limits.PassTime. OnPass is called on the loop, before OnFrame; not for
// connections on the goroutine transport, whose frames come one by one.
type PassHandler interface {
	Handler
	OnPass(loop int)
}

// An InputHandler is a Handler that asks with Server.AfterInput to be told when an
// event loop has gone through the input that was there. OnInput is called on the loop.
type InputHandler interface {
	Handler
	OnInput(loop int)
}

// A HalfCloseHandler is a Handler that is told when a connection whose peer sends no
// more waits for answers that are still owed. Some clients only close their side so
// that the end of what they ask is known, and are to be answered; but one that is gone
// looks the same, and nobody should work long for it. OnHalfClose is called as OnFrame
// is, more than once if frames are behind one that was answered Hold.
type HalfCloseHandler interface {
	Handler
	OnHalfClose(c Conn)
}

// A Completion finishes a slot that was answered Later or Hold.
type Completion struct {
	Conn Conn
	Slot Slot
	// Answer, if not nil, is the whole answer, length prefix included; netloop owns
	// it from here on. If nil, the bytes that OnFrame left in the slot are sent.
	Answer []byte
	// Edit, if Answer is nil, is given the bytes that OnFrame left in the slot, by the
	// slot's owner; what it returns is sent instead and belongs to netloop. It may run
	// under the connection's lock: it calls nothing of this package and must not panic.
	Edit func(answer []byte) []byte
	// More is the number of slots behind Slot, in the connection's order, that are
	// finished as well. Their answers are what OnFrame left in each; Edit is called for
	// each. Only without Answer and Close.
	More uint32
	// Close sends what is owed up to and including this answer, then closes.
	Close bool
}

// A Releaser takes completions from any goroutine: one wake-up per loop and
// call. All completions of one call belong to connections with that Loop().
// The slice may be reused when Release has returned.
type Releaser interface {
	Release(loop int, done []Completion)
}
