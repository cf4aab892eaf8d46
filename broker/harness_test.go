package broker

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/netloop"
)

// A testTransport connects a broker with requests made in the test: no sockets.
// It keeps the contract of netloop: answers leave in request order, nothing is
// applied behind a held request.
type testTransport struct {
	handler netloop.Handler
	loops   int
	conns   atomic.Uint64
	loop    sync.Mutex
	busy    atomic.Bool  // there is always more input
	asked   atomic.Int64 // calls of AfterInput
	bulk    bool         // connections are on the goroutine transport from the start
}

func (t *testTransport) Start() error                     { return nil }
func (t *testTransport) Loops() int                       { return max(1, t.loops) }
func (t *testTransport) Serve(string, net.Listener) error { return nil }
func (t *testTransport) Drain()                           {}
func (t *testTransport) Stop(context.Context) error       { return nil }

// AfterInput has the end of the input told at once, or by the test.
func (t *testTransport) AfterInput(loop int) {
	if t.asked.Add(1); !t.busy.Load() {
		t.handler.(netloop.InputHandler).OnInput(loop)
	}
}

func (t *testTransport) Release(loop int, done []netloop.Completion) {
	for i := range done {
		c := done[i].Conn.(*testConn)
		if c.Loop() != loop {
			panic("a completion on the wrong loop")
		}
		for one := done[i]; ; one.Slot.Index, one.More = one.Slot.Index+1, one.More-1 {
			c.complete(one)
			if one.More == 0 {
				break
			}
		}
	}
}

// open opens a connection on an event loop.
func (t *testTransport) open(loop int) *testConn {
	c := &testConn{transport: t, id: t.conns.Add(1), loop: loop, bulk: t.bulk, answers: make(chan []byte, 10_000)}
	c.mu.slots = map[uint32]*testSlot{}
	t.handler.OnOpen(c)
	return c
}

type testSlot struct {
	bytes  []byte
	ready  bool
	silent bool
	edit   func([]byte) []byte // of a completion that came early
}

type testConn struct {
	transport *testTransport
	id        uint64
	loop      int
	bulk      bool
	crowded   bool
	context   any
	answers   chan []byte // in request order, without length prefix; closed on Close

	mu struct {
		sync.Mutex
		slots      map[uint32]*testSlot
		head, next uint32
		held       int // slot that holds the queue, plus one
		queue      [][]byte
		closed     bool
		ended      bool // answers is closed
		serving    bool
	}
}

func (c *testConn) ID() uint64           { return c.id }
func (c *testConn) Loop() int            { return c.loop }
func (c *testConn) Listener() string     { return "PLAINTEXT" }
func (c *testConn) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9092} }
func (c *testConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 5000} }
func (c *testConn) Bulk() bool           { return c.bulk }
func (c *testConn) Crowded() bool        { return c.crowded }
func (c *testConn) Context() any         { return c.context }
func (c *testConn) SetContext(x any)     { c.context = x }

// send gives the connection a frame; it is applied now unless something holds
// the queue.
func (c *testConn) send(frame []byte) {
	c.mu.Lock()
	c.mu.queue = append(c.mu.queue, frame)
	c.mu.Unlock()
	c.serve()
}

// serve applies what may be applied.
func (c *testConn) serve() {
	c.mu.Lock()
	if c.mu.serving {
		c.mu.Unlock()
		return
	}
	c.mu.serving = true
	for len(c.mu.queue) > 0 && c.mu.held == 0 && !c.mu.closed {
		frame := append([]byte(nil), c.mu.queue[0]...)
		slot := &testSlot{}
		index := c.mu.next
		c.mu.slots[index] = slot
		c.mu.next++
		c.mu.Unlock()
		out, verdict := c.apply(netloop.Slot{Index: index, Generation: 7}, frame)
		clear(frame) // valid during the call only
		c.mu.Lock()
		if verdict == netloop.Bulk {
			c.bulk = true
			delete(c.mu.slots, index)
			c.mu.next--
			continue
		}
		c.mu.queue = c.mu.queue[1:]
		c.verdictLocked(index, slot, out, verdict)
	}
	c.mu.serving = false
	c.mu.Unlock()
}

// apply gives the handler a frame: one at a time per loop, as event loops do.
func (c *testConn) apply(slot netloop.Slot, frame []byte) ([]byte, netloop.Verdict) {
	if !c.bulk {
		c.transport.loop.Lock()
		defer c.transport.loop.Unlock()
	}
	return c.transport.handler.OnFrame(c, slot, frame, nil)
}

func (c *testConn) verdictLocked(index uint32, slot *testSlot, out []byte, verdict netloop.Verdict) {
	switch verdict {
	case netloop.Answered:
		slot.bytes, slot.ready = out, true
	case netloop.None:
		slot.ready, slot.silent = true, true
	case netloop.Close:
		slot.bytes, slot.ready, slot.silent = out, true, len(out) == 0
		c.mu.closed = true
	case netloop.Later, netloop.Hold:
		if slot.ready { // the completion came first
			if slot.edit != nil {
				out = slot.edit(out)
			}
			if slot.bytes == nil {
				slot.bytes = out
			}
		} else {
			slot.bytes = out
			if verdict == netloop.Hold {
				c.mu.held = int(index) + 1
			}
		}
	}
	c.flushLocked()
}

func (c *testConn) flushLocked() {
	for {
		slot := c.mu.slots[c.mu.head]
		if slot == nil || !slot.ready {
			break
		}
		delete(c.mu.slots, c.mu.head)
		c.mu.head++
		if !slot.silent {
			c.answers <- slot.bytes[4:]
		}
	}
	if c.mu.closed && c.mu.head == c.mu.next && !c.mu.ended {
		c.mu.ended = true // a completion may come before its verdict: both flush
		close(c.answers)
	}
}

func (c *testConn) complete(done netloop.Completion) {
	c.mu.Lock()
	slot := c.mu.slots[done.Slot.Index]
	if slot == nil || slot.ready || done.Slot.Generation != 7 {
		c.mu.Unlock()
		return
	}
	slot.ready = true
	if done.Answer != nil {
		slot.bytes = done.Answer
		slot.silent = len(done.Answer) == 0
	} else if done.Edit != nil && slot.bytes != nil {
		slot.bytes = done.Edit(slot.bytes)
	} else {
		slot.edit = done.Edit
	}
	if done.Close {
		c.mu.closed = true
	}
	if c.mu.held == int(done.Slot.Index)+1 {
		c.mu.held = 0
	}
	if slot.bytes != nil || slot.silent {
		c.flushLocked()
	}
	c.mu.Unlock()
	go c.serve() // a completion never calls the handler before it returns
}

// frame encodes a request as a client would, without its length prefix.
func frame(req kmsg.Request, correlationID int32) []byte {
	id := "test"
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID(id)).AppendRequest(nil, req, correlationID)[4:]
}

// ask sends a request and waits for its answer.
func ask[R kmsg.Response](t testing.TB, c *testConn, req kmsg.Request) R {
	t.Helper()
	c.send(frame(req, 42))
	return answer[R](t, c, req)
}

// answer waits for the next answer and decodes it as one to req.
func answer[R kmsg.Response](t testing.TB, c *testConn, req kmsg.Request) R {
	t.Helper()
	var none R
	select {
	case b, ok := <-c.answers:
		if !ok {
			t.Fatalf("%T: the connection was closed", req)
			return none
		}
		return decode[R](t, req, b)
	case <-time.After(10 * time.Second):
		t.Fatalf("%T: no answer", req)
		return none
	}
}

// decode decodes an answer to req, without its length prefix.
func decode[R kmsg.Response](t testing.TB, req kmsg.Request, b []byte) R {
	t.Helper()
	if got := int32(binary.BigEndian.Uint32(b)); got != 42 {
		t.Fatalf("%T: correlation id %d", req, got)
	}
	b = b[4:]
	resp := req.ResponseKind()
	if resp.IsFlexible() && resp.Key() != int16(kmsg.ApiVersions) {
		b = b[1:]
	}
	if err := resp.ReadFrom(b); err != nil {
		t.Fatalf("%T: %v", req, err)
	}
	return resp.(R)
}

// mustClose waits until the connection is closed without another answer.
func (c *testConn) mustClose(t testing.TB) {
	t.Helper()
	select {
	case b, ok := <-c.answers:
		if ok {
			t.Fatalf("an answer where none belongs: %x", b)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the connection was not closed")
	}
}

// at sets a request's version.
func at[R kmsg.Request](req R, version int16) R {
	req.SetVersion(version)
	return req
}

// newTest makes a broker on a testTransport that has not been started.
func newTest(t testing.TB, o Options) (*Broker, *testTransport) {
	t.Helper()
	tr := &testTransport{}
	o.Transport = func(h netloop.Handler) (Transport, error) {
		tr.handler = h
		return tr, nil
	}
	o.Listen = idleListen
	b, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return b, tr
}

// startTest starts a broker and stops it at the end of the test.
func startTest(t testing.TB, o Options) (*Broker, *testTransport) {
	t.Helper()
	b, tr := newTest(t, o)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := b.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b, tr
}

func idleListen(string, string) (net.Listener, error) { return idleListener{}, nil }

type idleListener struct{}

func (idleListener) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (idleListener) Close() error              { return nil }
func (idleListener) Addr() net.Addr            { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9092} }
