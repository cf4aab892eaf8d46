package netloop

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A test frame: u32 length | u8 kind | u8 flags | u32 number | u32 size of the
// answer's payload | payload | u32 crc of everything before it but the length.
// Its answer: u32 length | u32 number | payload | u32 crc.
type kind byte

const (
	inline   kind = iota // Answered
	later                // Later, the answer left in the slot
	laterOwn             // Later, the answer in the completion
	hold                 // Hold
	none                 // None
	bulk                 // Bulk, then Answered
	last                 // Close with an answer
	hangup               // Close without one
	parked               // Hold, completed by the test
	waits                // Later, completed by the test
	panics               // the handler panics
	closing              // Later, the completion closes
	asks                 // Answered, and the handler asks for OnInput
)

const (
	frameHead = 4 + 1 + 1 + 4 + 4
	frameTail = 4
)

func appendFrame(dst []byte, k kind, number uint32, answer int, payload []byte) []byte {
	at := len(dst)
	dst = binary.BigEndian.AppendUint32(dst, uint32(frameHead-4+len(payload)+frameTail))
	dst = append(dst, byte(k), 0)
	dst = binary.BigEndian.AppendUint32(dst, number)
	dst = binary.BigEndian.AppendUint32(dst, uint32(answer))
	dst = append(dst, payload...)
	return binary.BigEndian.AppendUint32(dst, crc32.ChecksumIEEE(dst[at+4:]))
}

var pattern = func() (p [1 << 16]byte) {
	for i := range p {
		p[i] = byte(i * 7)
	}
	return
}()

func appendAnswer(dst []byte, number uint32, size int) []byte {
	at := len(dst)
	dst = binary.BigEndian.AppendUint32(dst, uint32(4+size+4))
	dst = binary.BigEndian.AppendUint32(dst, number)
	for left := size; left > 0; {
		from := int(number) & 0xff
		n := min(left, len(pattern)-from)
		dst = append(dst, pattern[from:from+n]...)
		left -= n
	}
	return binary.BigEndian.AppendUint32(dst, crc32.ChecksumIEEE(dst[at+4:]))
}

// connState is what the test handler keeps per connection.
type connState struct {
	next   uint32 // number of the frame that must come next
	opened bool
	closed atomic.Bool
	busy   atomic.Bool // a callback is running
}

// testHandler checks the contract from the handler's side and answers by kind.
type testHandler struct {
	t      testing.TB
	server *Server
	limit  int
	// completer releases what is answered later, in batches.
	queue chan Completion
	// parkedCh gets what the test completes itself.
	parkedCh chan Completion

	opened, closed, frames atomic.Int64
	// inputs counts OnInput, seen is how many frames had come before the last.
	inputs, seen atomic.Int64
	mu           sync.Mutex
	reasons      []error
}

func (h *testHandler) state(c Conn) *connState {
	s, _ := c.Context().(*connState)
	if s == nil {
		h.t.Errorf("callback for connection %d before OnOpen", c.ID())
		return &connState{}
	}
	if s.busy.Swap(true) {
		h.t.Errorf("two callbacks of connection %d at a time", c.ID())
	}
	if s.closed.Load() {
		h.t.Errorf("callback of connection %d after OnClose", c.ID())
	}
	return s
}

func (h *testHandler) OnOpen(c Conn) {
	c.SetContext(&connState{opened: true})
	h.opened.Add(1)
}

func (h *testHandler) FrameLimit(head [6]byte) int {
	if kind(head[4]) == 255 {
		return 0
	}
	return h.limit
}

func (h *testHandler) OnFrame(c Conn, slot Slot, frame, out []byte) ([]byte, Verdict) {
	s := h.state(c)
	defer s.busy.Store(false)
	h.frames.Add(1)
	n := len(frame)
	if crc32.ChecksumIEEE(frame[:n-4]) != binary.BigEndian.Uint32(frame[n-4:]) {
		h.t.Errorf("connection %d: frame damaged", c.ID())
		return out, Close
	}
	k, number, size := kind(frame[0]), binary.BigEndian.Uint32(frame[2:]), int(binary.BigEndian.Uint32(frame[6:]))
	if number != s.next {
		h.t.Errorf("connection %d: frame %d, want %d", c.ID(), number, s.next)
		return out, Close
	}
	if k == bulk && !c.Bulk() {
		return nil, Bulk
	}
	s.next++
	switch k {
	case inline, bulk:
		return appendAnswer(out, number, size), Answered
	case asks:
		h.server.AfterInput(c.Loop())
		return appendAnswer(out, number, size), Answered
	case later:
		h.queue <- Completion{Conn: c, Slot: slot}
		return appendAnswer(out, number, size), Later
	case laterOwn:
		h.queue <- Completion{Conn: c, Slot: slot, Answer: appendAnswer(nil, number, size)}
		return out, Later
	case closing:
		h.queue <- Completion{Conn: c, Slot: slot, Close: true}
		return appendAnswer(out, number, size), Later
	case hold:
		h.queue <- Completion{Conn: c, Slot: slot, Answer: appendAnswer(nil, number, size)}
		return out, Hold
	case parked:
		h.parkedCh <- Completion{Conn: c, Slot: slot, Answer: appendAnswer(nil, number, size)}
		return out, Hold
	case waits:
		h.parkedCh <- Completion{Conn: c, Slot: slot, Answer: appendAnswer(nil, number, size)}
		return out, Later
	case none:
		return nil, None
	case last:
		return appendAnswer(out, number, size), Close
	case hangup:
		return out, Close
	case panics:
		panic("the handler panics")
	}
	h.t.Errorf("connection %d: unknown kind %d", c.ID(), k)
	return out, Close
}

func (h *testHandler) OnInput(int) {
	h.seen.Store(h.frames.Load())
	h.inputs.Add(1)
}

func (h *testHandler) OnClose(c Conn, err error) {
	s := h.state(c)
	s.closed.Store(true)
	s.busy.Store(false)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reasons = append(h.reasons, err)
	h.closed.Add(1) // last: who waits for it reads the reason
}

// reason returns why the n-th closed connection was closed.
func (h *testHandler) reason(n int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n >= len(h.reasons) {
		return errors.New("not closed")
	}
	return h.reasons[n]
}

// complete plays the journal: whatever came while it was away is released together.
func (h *testHandler) complete(pause time.Duration) {
	perLoop := map[int][]Completion{}
	for first := range h.queue {
		perLoop[first.Conn.Loop()] = append(perLoop[first.Conn.Loop()], first)
		if pause > 0 {
			time.Sleep(pause)
		}
	more:
		for range 10000 {
			select {
			case next, ok := <-h.queue:
				if !ok {
					break more
				}
				perLoop[next.Conn.Loop()] = append(perLoop[next.Conn.Loop()], next)
			default:
				break more
			}
		}
		for loop, done := range perLoop {
			if len(done) > 0 {
				h.server.Release(loop, done)
				clear(done)
				perLoop[loop] = done[:0]
			}
		}
	}
}

// A world is a server of one transport with the means to connect to it.
type world struct {
	t       *testing.T
	name    string
	server  *Server
	handler *testHandler
	dial    func() net.Conn
	served  chan error
	stopped bool
	queued  chan struct{}
}

type transport struct {
	name      string
	goroutine bool
	pipe      bool
	// moving: connections leave their loop early and often.
	moving bool
}

// close stops the server and checks that everything is gone.
func (w *world) close() {
	w.t.Helper()
	if w.stopped {
		return
	}
	w.stopped = true
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := w.server.Stop(ctx); err != nil {
		w.t.Errorf("Stop: %v", err)
	}
	w.finish()
}

// finish checks what must hold after Stop.
func (w *world) finish() {
	w.t.Helper()
	w.stopped = true
	if w.served != nil {
		if err := <-w.served; err != nil {
			w.t.Errorf("Serve: %v", err)
		}
	}
	close(w.handler.queue)
	<-w.queued
	if o, c := w.handler.opened.Load(), w.handler.closed.Load(); o != c {
		w.t.Errorf("%d OnOpen, %d OnClose", o, c)
	}
	if in, out := w.server.input.used.Load(), w.server.output.used.Load(); in != 0 || out != 0 {
		w.t.Errorf("after Stop the budgets hold %d bytes of input and %d of output", in, out)
	}
	if n := w.server.large.used.Load(); n != 0 {
		w.t.Errorf("after Stop %d bytes of large frames are counted", n)
	}
	if n := w.server.mu.open; n != 0 {
		w.t.Errorf("after Stop %d connections are counted", n)
	}
}

func (tr transport) start(t *testing.T, set func(*Options)) *world {
	t.Helper()
	h := &testHandler{t: t, limit: 1 << 20, queue: make(chan Completion, 1<<16), parkedCh: make(chan Completion, 1<<12)}
	o := Options{Handler: h, GoroutineOnly: tr.goroutine}
	if tr.moving {
		o.Limits.KeptBytes = 2000
	}
	if set != nil {
		set(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	h.server = s
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, name: tr.name, server: s, handler: h, queued: make(chan struct{})}
	go func() {
		defer close(w.queued)
		h.complete(200 * time.Microsecond)
	}()
	if tr.pipe {
		w.dial = func() net.Conn {
			a, b := net.Pipe()
			if err := s.ServeConn("pipe", b); err != nil {
				t.Fatal(err)
			}
			return a
		}
	} else {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		w.served = make(chan error, 1)
		go func() { w.served <- s.Serve("tcp", l) }()
		w.dial = func() net.Conn {
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
	}
	t.Cleanup(w.close)
	return w
}

// client is the peer's side of one connection.
type client struct {
	t    testing.TB
	c    net.Conn
	r    *bufio.Reader
	next uint32
}

func (w *world) client() *client {
	c := w.dial()
	w.t.Cleanup(func() { c.Close() })
	return &client{t: w.t, c: c, r: newReader(c)}
}

func newReader(c net.Conn) *bufio.Reader { return bufio.NewReader(c) }

// frame appends the next frame of the connection.
func (c *client) frame(dst []byte, k kind, answer, payload int) []byte {
	dst = appendFrame(dst, k, c.next, answer, make([]byte, payload))
	c.next++
	return dst
}

// send writes in the background what a pipe might not take at once.
func (c *client) send(b []byte) {
	go c.c.Write(b)
}

// want reads the answer with this number.
func (c *client) want(number uint32, size int) {
	c.t.Helper()
	if err := c.read(number, size); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) read(number uint32, size int) error {
	c.c.SetReadDeadline(time.Now().Add(10 * time.Second))
	want := appendAnswer(nil, number, size)
	got := make([]byte, len(want))
	if n, err := io.ReadFull(c.r, got); err != nil {
		return fmt.Errorf("answer %d: %d of %d bytes: %w", number, n, len(want), err)
	}
	if string(got) != string(want) {
		return fmt.Errorf("answer %d of %d bytes: got number %d, length %d, or damaged", number, size,
			binary.BigEndian.Uint32(got[4:]), binary.BigEndian.Uint32(got))
	}
	return nil
}

// end expects the end of the stream and nothing before it.
func (c *client) end() {
	c.t.Helper()
	c.c.SetReadDeadline(time.Now().Add(10 * time.Second))
	b, err := c.r.ReadByte()
	if err == nil {
		c.t.Fatalf("a byte %d, want the end of the stream", b)
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		c.t.Fatal("the connection stays open")
	}
}

// silent expects that nothing comes for a moment.
func (c *client) silent() {
	c.t.Helper()
	c.c.SetReadDeadline(time.Now().Add(30 * time.Millisecond))
	if b, err := c.r.ReadByte(); err == nil {
		c.t.Fatalf("a byte %d, want silence", b)
	} else if errors.Is(err, io.EOF) {
		c.t.Fatal("end of stream, want silence")
	}
}

// eventually polls until ok.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}
