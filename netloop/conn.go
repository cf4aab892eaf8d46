package netloop

import (
	"net"
	"net/netip"
	"runtime/debug"
	"sync/atomic"
)

// conn is one connection, on whichever transport it lives.
type conn struct {
	server   *Server
	id       uint64
	index    int // Conn.Loop
	listener string
	local    net.Addr
	remote   net.Addr
	// address is the peer's, the key of the count per address; invalid if it has none.
	address netip.Addr
	context any

	// stream is the goroutine transport's part; nil as long as an event loop owns
	// the connection. It is set once. Invariant: whoever reads a non-nil stream may
	// touch slots under the stream's lock only; before, only the loop touches them.
	stream atomic.Pointer[stream]
	slots  slots
	in     input

	onLoop loopPart
}

func (c *conn) ID() uint64           { return c.id }
func (c *conn) Loop() int            { return c.index }
func (c *conn) Listener() string     { return c.listener }
func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }
func (c *conn) Bulk() bool           { return c.stream.Load() != nil }
func (c *conn) Crowded() bool        { return c.server.output.crowded() }
func (c *conn) Context() any         { return c.context }
func (c *conn) SetContext(v any)     { c.context = v }

var _ CrowdedConn = (*conn)(nil)

// peerAddress returns the address that connections are counted under.
func peerAddress(a net.Addr) netip.Addr {
	if t, ok := a.(*net.TCPAddr); ok {
		return t.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}

// caught ends a call of the handler: it recovers a panic, tells it, and sets *failed.
// To be deferred directly.
func (c *conn) caught(failed *bool) {
	if v := recover(); v != nil {
		*failed = true
		c.tellPanic(v)
	}
}

func (c *conn) tellPanic(v any) {
	if f := c.server.options.Events.Panicked; f != nil {
		f(c, v, debug.Stack())
	}
}

// callOpen tells the handler of the connection.
func (c *conn) callOpen() (failed bool) {
	defer c.caught(&failed)
	c.server.options.Handler.OnOpen(c)
	if f := c.server.options.Events.Accepted; f != nil {
		f(c)
	}
	return false
}

// callClose is the handler's last call for the connection.
func (c *conn) callClose(why error) {
	var failed bool
	defer c.caught(&failed)
	c.server.options.Handler.OnClose(c, why)
	if f := c.server.options.Events.Closed; f != nil {
		f(c, why)
	}
}

// callWhole reports whether a whole frame is kept; the handler tells frames' limits.
func (c *conn) callWhole() (whole bool) {
	var failed bool
	defer c.caught(&failed)
	return c.in.whole(c)
}

// callFrame gives one frame to the handler. out is what the handler appended to. A
// panic has to be recovered by the caller's caller: a recovery per frame would cost
// as much as the frame.
func (c *conn) callFrame(number uint64, frame, scratch []byte) (out []byte, v Verdict) {
	out, v = c.server.options.Handler.OnFrame(c, slotName(number), frame, scratch)
	if v == None || v == Bulk {
		return scratch, v
	}
	if len(out) < len(scratch) {
		panic("netloop: the handler returned less than it was given to append to")
	}
	return out, v
}
