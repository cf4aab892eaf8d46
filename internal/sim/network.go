package sim

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"time"

	"github.com/kcoord/kcoord/netloop"
)

// A network carries frames between actors and one process of the broker, as
// netloop does: answers in the order of requests, nothing applied behind a held
// request, one handler call at a time.
type network struct {
	world   *World
	handler netloop.Handler
	conns   []*conn
	nextID  uint64
	drained bool
	// tells: the handler has asked to be told when the input has been gone through, which
	// is not before readUntil.
	tells     bool
	readUntil time.Duration
}

// A conn is one connection, both ends of it.
type conn struct {
	net     *network
	id      uint64
	context any
	bulk    bool
	open    bool
	closing bool
	// lane is the client's side, to which what was sent here belongs.
	lane lane
	// abandoned: the client has given the connection up and the broker does not
	// know; what was sent before may still be worked on.
	abandoned bool
	slowUntil time.Duration // nothing is carried before

	inbound  [][]byte // sent by the client, not given to the handler yet
	slots    []slot   // owed answers, oldest first
	base     uint32   // index of slots[0]
	held     bool
	outbound [][]byte // answers on their way to the client
}

type slot struct {
	generation uint32
	answer     []byte
	done       bool
	hold       bool
	close      bool
}

func (n *network) Start() error                     { return nil }
func (n *network) Loops() int                       { return 1 }
func (n *network) Serve(string, net.Listener) error { return nil }
func (n *network) Drain()                           { n.drained = true }
func (c *conn) ID() uint64                          { return c.id }
func (c *conn) Loop() int                           { return 0 }
func (c *conn) Listener() string                    { return "PLAINTEXT" }
func (c *conn) LocalAddr() net.Addr                 { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9092} }
func (c *conn) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(c.id)}
}
func (c *conn) Bulk() bool       { return c.bulk }
func (c *conn) Context() any     { return c.context }
func (c *conn) SetContext(v any) { c.context = v }

// Stop lets the broker answer what it has begun, as far as it can.
func (n *network) Stop(context.Context) error {
	w, p := n.world, n.world.process
	for range 500 {
		if n.tells {
			n.tell()
		}
		var ready []*loop
		for _, l := range p.loops {
			if l.ready(w.machine.clock.mono) {
				ready = append(ready, l)
			}
		}
		if len(ready) == 0 || !n.owes() {
			break
		}
		if w.step(ready[w.random.IntN(len(ready))]); w.process != p {
			panic(powerCut{}) // a loop has ended the process
		}
	}
	return nil
}

// owes reports whether somebody waits for an answer.
func (n *network) owes() bool {
	for _, c := range n.conns {
		if c.open && len(c.slots) > 0 {
			return true
		}
	}
	return false
}

// connect opens a connection.
func (n *network) connect(l lane) *conn {
	n.nextID++
	c := &conn{net: n, id: n.nextID, open: true, lane: l}
	n.conns = append(n.conns, c)
	n.handler.OnOpen(c)
	return c
}

// send puts a frame (with its length prefix) on the way to the broker.
func (c *conn) send(frame []byte) { c.inbound = append(c.inbound, frame) }

// deliverable reports whether the handler can be given a frame. While the folder
// is being opened a connection's own goroutine waits.
func (c *conn) deliverable(now time.Duration) bool {
	return !(c.bulk && !c.net.world.process.opened) && now >= c.slowUntil && c.open && !c.closing && !c.held && len(c.inbound) > 0 && !c.net.drained
}

// AfterInput is what the handler asks for. Now and then the event loop has to read for
// long before it comes to an end.
func (n *network) AfterInput(int) {
	if w := n.world; !n.tells && !w.calm && w.chance(8) {
		n.readUntil = w.machine.clock.mono + w.upTo(300*time.Millisecond)
	}
	n.tells = true
}

// tell tells the handler that the input has been gone through. It comes at any time:
// the event loop may have had more to read than what waits here.
func (n *network) tell() {
	if n.tells = false; n.world.options.Sabotage.Untold {
		return
	}
	n.handler.(netloop.InputHandler).OnInput(0)
}

// deliver gives the handler the next frame.
func (c *conn) deliver() {
	frame := c.inbound[0]
	var head [6]byte
	copy(head[:], frame)
	if limit := c.net.handler.FrameLimit(head); len(frame)-4 > limit {
		c.cut(fmt.Errorf("frame of %d bytes, limit %d", len(frame)-4, limit))
		return
	}
	s := netloop.Slot{Index: c.base + uint32(len(c.slots)), Generation: uint32(c.id)<<16 | (c.base+uint32(len(c.slots)))&0xffff}
	c.slots = append(c.slots, slot{generation: s.Generation})
	// The broker must not keep the frame: it is overwritten after the call.
	body := append([]byte(nil), frame[4:]...)
	key := int16(binary.BigEndian.Uint16(body))
	if f := c.net.world.options.Sabotage.Incoming; f != nil && !c.abandoned {
		f(key, body)
	}
	if !c.bulk && !c.net.world.options.Sabotage.Untold {
		c.net.handler.(netloop.PassHandler).OnPass(0)
	}
	out, verdict := c.net.handler.OnFrame(c, s, body, nil)
	for i := range body {
		body[i] = 0xa5
	}
	if verdict == netloop.Bulk {
		if c.bulk {
			panic("sim: Bulk on a bulk connection")
		}
		c.bulk = true
		c.slots = c.slots[:len(c.slots)-1]
		return // the same frame is given again
	}
	c.inbound = c.inbound[1:]
	c.settle(s, key, verdict, out)
}

func (c *conn) settle(s netloop.Slot, key int16, verdict netloop.Verdict, out []byte) {
	at := int(s.Index - c.base)
	if verdict == netloop.None {
		c.slots = append(c.slots[:at], c.slots[at+1:]...)
		return
	}
	p := &c.slots[at]
	switch verdict {
	case netloop.Answered:
		p.answer, p.done = out, true
	case netloop.Later, netloop.Hold:
		if early := c.net.world.options.Sabotage.Early; early != nil && verdict == netloop.Later && early(key) {
			p.answer, p.done = out, true
			break
		}
		if p.answer == nil {
			p.answer = out
		}
		if p.hold = verdict == netloop.Hold; p.hold && !p.done {
			c.held = true
		}
	case netloop.Close:
		p.answer, p.done, p.close = out, true, true
		c.closing = true
	}
	c.flush()
}

// Release is netloop.Releaser.
func (n *network) Release(_ int, done []netloop.Completion) {
	for _, d := range done {
		for i := range d.More + 1 {
			release(d, d.Slot.Index+i)
		}
	}
}

// release finishes one slot.
func release(d netloop.Completion, index uint32) {
	c := d.Conn.(*conn)
	at := int(index - c.base)
	if !c.open || at < 0 || at >= len(c.slots) || c.slots[at].generation != d.Slot.Generation || c.slots[at].done {
		return
	}
	p := &c.slots[at]
	switch {
	case d.Answer != nil:
		p.answer = d.Answer
	case d.Edit != nil:
		p.answer = d.Edit(p.answer)
	}
	p.done, p.close = true, d.Close
	if p.hold {
		c.held = false
	}
	c.flush()
}

// flush moves the ready prefix of answers to the client's side.
func (c *conn) flush() {
	before := len(c.outbound)
	c.release()
	if f := c.net.world.options.Sabotage.Outgoing; f != nil && len(c.outbound) > before {
		c.outbound = f(c.outbound)
	}
	if c.abandoned {
		c.outbound = nil
	}
}

func (c *conn) release() {
	for len(c.slots) > 0 && c.slots[0].done {
		s := c.slots[0]
		c.slots, c.base = c.slots[1:], c.base+1
		if len(s.answer) > 0 {
			if n := int(binary.BigEndian.Uint32(s.answer)); n != len(s.answer)-4 {
				panic(fmt.Sprintf("sim: an answer of %d bytes says %d", len(s.answer)-4, n))
			}
			c.outbound = append(c.outbound, s.answer)
		}
		if s.close {
			c.cut(nil)
			return
		}
	}
}

// cut closes the connection. Answers on their way still arrive if err is nil.
func (c *conn) cut(err error) {
	if !c.open {
		return
	}
	c.open = false
	if err != nil {
		c.outbound = nil
	}
	c.slots, c.inbound = nil, nil
	c.net.world.registers.closed(c.net.world, c.lane)
	c.net.handler.OnClose(c, err)
}
