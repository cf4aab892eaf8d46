package netloop

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// transports is every way a connection can live; each test of the contract runs on all.
func transports() []transport {
	return append([]transport{
		{name: "goroutine", goroutine: true},
		{name: "pipe", pipe: true},
	}, loopTransports()...)
}

func onEach(t *testing.T, f func(t *testing.T, tr transport)) {
	for _, tr := range transports() {
		t.Run(tr.name, func(t *testing.T) { f(t, tr) })
	}
}

func TestAnswersLeaveInRequestOrder(t *testing.T) {
	onEach(t, func(t *testing.T, tr transport) {
		c := tr.start(t, nil).client()
		var b []byte
		kinds := []kind{inline, later, inline, laterOwn, hold, none, inline, later, bulk, later, inline, none, none, hold}
		for _, k := range kinds {
			b = c.frame(b, k, 10+int(k), 30)
		}
		c.send(b)
		for i, k := range kinds {
			if k != none {
				c.want(uint32(i), 10+int(k))
			}
		}
		c.silent()
	})
}

func TestLaterDoesNotStopApplicationAndHoldDoes(t *testing.T) {
	onEach(t, func(t *testing.T, tr transport) {
		w := tr.start(t, nil)
		c := w.client()
		var b []byte
		for _, k := range []kind{waits, inline, parked, inline, inline} {
			b = c.frame(b, k, 5, 0)
		}
		c.send(b)
		first, second := <-w.handler.parkedCh, <-w.handler.parkedCh
		c.silent()
		if n := w.handler.frames.Load(); n != 3 {
			t.Fatalf("%d frames applied, want 3: none behind the one that holds", n)
		}
		// The one that holds is completed first: application goes on, answers wait.
		w.server.Release(second.Conn.Loop(), []Completion{second})
		eventually(t, "all frames applied", func() bool { return w.handler.frames.Load() == 5 })
		c.silent()
		w.server.Release(first.Conn.Loop(), []Completion{first})
		for i := range 5 {
			c.want(uint32(i), 5)
		}
	})
}

func TestCompletionsOutOfOrder(t *testing.T) {
	onEach(t, func(t *testing.T, tr transport) {
		w := tr.start(t, nil)
		c := w.client()
		const n = 100
		var b []byte
		for range n {
			b = c.frame(b, waits, 700, 0) // too large for a slot's own buffer
		}
		c.send(b)
		var done []Completion
		for range n {
			done = append(done, <-w.handler.parkedCh)
		}
		for i := n - 1; i >= 0; i-- {
			w.server.Release(done[i].Conn.Loop(), done[i:i+1])
		}
		for i := range n {
			c.want(uint32(i), 700)
		}
	})
}

func TestLateCompletionsAreDropped(t *testing.T) {
	onEach(t, func(t *testing.T, tr transport) {
		w := tr.start(t, nil)
		c := w.client()
		var b []byte
		b = c.frame(b, waits, 5, 0)
		b = c.frame(b, waits, 5, 0)
		c.send(b)
		first, second := <-w.handler.parkedCh, <-w.handler.parkedCh
		wrong := first
		wrong.Answer = []byte("wrong")
		early := first
		early.Slot.Index += 50
		w.server.Release(first.Conn.Loop(), []Completion{early})
		w.server.Release(first.Conn.Loop(), []Completion{first, wrong})
		w.server.Release(first.Conn.Loop(), []Completion{wrong})
		c.want(0, 5)
		c.silent()
		w.server.Release(first.Conn.Loop(), []Completion{wrong, second, wrong})
		c.want(1, 5)
		// The place of the first is used again by now.
		for range 8 {
			c.send(c.frame(nil, waits, 5, 0))
			next := <-w.handler.parkedCh
			w.server.Release(first.Conn.Loop(), []Completion{wrong})
			c.silent()
			w.server.Release(first.Conn.Loop(), []Completion{next})
			c.want(c.next-1, 5)
		}
		c.c.Close()
		eventually(t, "OnClose", func() bool { return w.handler.closed.Load() == 1 })
		w.server.Release(first.Conn.Loop(), []Completion{first, second, wrong})
	})
}

func TestEveryCutOfTwoFrames(t *testing.T) {
	onEach(t, func(t *testing.T, tr transport) {
		w := tr.start(t, nil)
		c := w.client()
		size := len(appendFrame(nil, inline, 0, 3, make([]byte, 5)))
		for cut := 0; cut <= 2*size; cut++ {
			n := c.next
			b := c.frame(nil, inline, 3, 5)
			b = c.frame(b, later, 3, 5)
			c.send2(b[:cut], b[cut:])
			c.want(n, 3)
			c.want(n+1, 3)
		}
	})
}

// send2 writes two pieces, one after the other has been on its way for a moment.
func (c *client) send2(a, b []byte) {
	go func() {
		c.c.Write(a)
		time.Sleep(100 * time.Microsecond)
		c.c.Write(b)
	}()
}

func TestByteByByte(t *testing.T) {
	onEach(t, func(t *testing.T, tr transport) {
		c := tr.start(t, nil).client()
		var b []byte
		for _, k := range []kind{inline, later, hold, bulk, inline} {
			b = c.frame(b, k, 20, 20)
		}
		go func() {
			for i := range b {
				c.c.Write(b[i : i+1])
			}
		}()
		for i := range 5 {
			c.want(uint32(i), 20)
		}
	})
}

func TestTwoFramesInOneSegmentAreAnsweredAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, tr transport) {
		c := tr.start(t, nil).client()
		start := time.Now()
		b := c.frame(nil, inline, 10, 10)
		c.send(c.frame(b, inline, 10, 10))
		c.want(0, 10)
		c.want(1, 10)
		if took := time.Since(start); took > 200*time.Millisecond {
			t.Errorf("two frames at once took %v", took)
		}
	})
}

func TestDeepPipeline(t *testing.T) {
	onEach(t, func(t *testing.T, tr transport) {
		c := tr.start(t, nil).client()
		const n = 5000
		var b []byte
		for i := range n {
			b = c.frame(b, []kind{inline, inline, later, none}[i%4], i%200, i%300)
		}
		c.send(b)
		for i := range n {
			if i%4 != 3 {
				c.want(uint32(i), i%200)
			}
		}
	})
}

func TestLongFramesAndAnswers(t *testing.T) {
	onEach(t, func(t *testing.T, tr transport) {
		w := tr.start(t, func(o *Options) {
			o.Limits.OutputBytes = 2 << 20
			o.Handler.(*testHandler).limit = 16 << 20
		})
		c := w.client()
		sizes := []int{0, 1, 511, 512, 513, 4095, 4096, 65535, 65536, 65537, 1 << 20, 3 << 20}
		var b []byte
		for _, k := range []kind{inline, later, laterOwn} {
			for _, size := range sizes {
				b = c.frame(b, k, size, size)
			}
		}
		c.send(b)
		for i := range 3 * len(sizes) {
			c.want(uint32(i), sizes[i%len(sizes)])
		}
	})
}

func TestSlowReaderGetsEverything(t *testing.T) {
	onEach(t, func(t *testing.T, tr transport) {
		w := tr.start(t, nil)
		slow, quick := w.client(), w.client()
		const n, size = 20, 1 << 20
		var b []byte
		for range n {
			b = slow.frame(b, inline, size, 0)
		}
		slow.send(b)
		applied := w.handler.frames.Load
		eventually(t, "the first answers", func() bool { return applied() > 0 })
		time.Sleep(50 * time.Millisecond)
		if got := applied(); got > n/2 {
			t.Errorf("%d of %d frames applied for a peer that reads nothing", got, n)
		}
		if held := w.server.output.used.Load(); held > 3*size {
			t.Errorf("%d bytes of answers wait for one peer", held)
		}
		for range 20 { // others are not disturbed
			quick.send(quick.frame(nil, later, 10, 10))
			quick.want(quick.next-1, 10)
		}
		for i := range n {
			slow.want(uint32(i), size)
		}
	})
}

func TestHalfClosedPeerIsAnswered(t *testing.T) {
	onEach(t, func(t *testing.T, tr transport) {
		if tr.pipe {
			return // a pipe has no half-close
		}
		for _, kinds := range [][]kind{
			{inline}, {later}, {hold}, {none}, {bulk}, {inline, later, hold, inline, later, none},
			{hold, hold, hold, inline}, {later, last, inline},
		} {
			w := tr.start(t, nil)
			c := w.client()
			var b []byte
			for _, k := range kinds {
				b = c.frame(b, k, 40, 0)
			}
			b = append(b, 0, 0, 0) // and an unfinished frame
			c.c.Write(b)
			c.c.(*net.TCPConn).CloseWrite()
			for i, k := range kinds {
				if k != none {
					c.want(uint32(i), 40)
				}
				if k == last {
					break
				}
			}
			c.end()
			eventually(t, "OnClose", func() bool { return w.handler.closed.Load() == 1 })
			if err := w.handler.reason(0); err != io.EOF && !errors.Is(err, ErrClosedByHandler) {
				t.Errorf("%v: closed for %v", kinds, err)
			}
			w.close()
		}
	})
}

func TestHalfClosedPeerWithParkedRequest(t *testing.T) {
	onEach(t, func(t *testing.T, tr transport) {
		if tr.pipe {
			return // a pipe has no half-close
		}
		w := tr.start(t, nil)
		c := w.client()
		b := c.frame(nil, parked, 10, 0)
		c.c.Write(c.frame(b, inline, 10, 0))
		held := <-w.handler.parkedCh
		c.c.(*net.TCPConn).CloseWrite()
		time.Sleep(20 * time.Millisecond)
		if w.handler.closed.Load() != 0 {
			t.Fatal("closed although a request is parked")
		}
		w.server.Release(held.Conn.Loop(), []Completion{held})
		c.want(0, 10)
		c.want(1, 10)
		c.end()
	})
}

// A halfCloseHandler notes of whom it is told.
type halfCloseHandler struct {
	*testHandler
	told chan Conn
}

func (h *halfCloseHandler) OnHalfClose(c Conn) { h.told <- c }

func TestHandlerIsToldOfHalfClose(t *testing.T) {
	onEach(t, func(t *testing.T, tr transport) {
		if tr.pipe {
			return // a pipe has no half-close
		}
		told := make(chan Conn, 10)
		w := tr.start(t, func(o *Options) { o.Handler = &halfCloseHandler{o.Handler.(*testHandler), told} })
		c := w.client()
		c.c.Write(c.frame(nil, parked, 10, 0))
		held := <-w.handler.parkedCh
		if len(told) != 0 {
			t.Fatal("told of an open connection")
		}
		c.c.(*net.TCPConn).CloseWrite()
		if conn := <-told; conn != held.Conn {
			t.Fatal("told of another connection")
		}
		w.server.Release(held.Conn.Loop(), []Completion{held})
		c.want(0, 10)
		c.end()
	})
}

func TestCloseVerdict(t *testing.T) {
	for _, test := range []struct {
		name    string
		kinds   []kind
		answers int
	}{
		{"with an answer", []kind{last}, 1},
		{"without", []kind{hangup}, 0},
		{"behind what is owed", []kind{later, inline, last, inline}, 3},
		{"frames behind are dropped", []kind{last, inline, panics}, 1},
		{"by the completion", []kind{later, closing}, 2},
		{"by the completion, what is behind is not sent", []kind{closing, inline}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, tr transport) {
				w := tr.start(t, nil)
				c := w.client()
				var b []byte
				for _, k := range test.kinds {
					b = c.frame(b, k, 300, 0)
				}
				// Unread input must not destroy the answer.
				b = append(b, 0, 15, 0, 0, byte(inline), 0)
				c.send(append(b, make([]byte, 100000)...))
				for i := range test.answers {
					c.want(uint32(i), 300)
				}
				c.end()
				c.c.Close()
				eventually(t, "OnClose", func() bool { return w.handler.closed.Load() == 1 })
				if err := w.handler.reason(0); !errors.Is(err, ErrClosedByHandler) {
					t.Errorf("closed for %v", err)
				}
			})
		})
	}
}

func TestCloseVerdictBehindAnswersThatDoNotFit(t *testing.T) {
	onEach(t, func(t *testing.T, tr transport) {
		w := tr.start(t, nil)
		c := w.client()
		const size = 5 << 20
		b := c.frame(nil, later, size, 0)
		c.send(c.frame(b, last, size, 0))
		time.Sleep(20 * time.Millisecond)
		c.want(0, size)
		c.want(1, size)
		c.end()
	})
}

func TestPanicsCostTheirConnectionOnly(t *testing.T) {
	onEach(t, func(t *testing.T, tr transport) {
		panicked := make(chan any, 10)
		w := tr.start(t, func(o *Options) {
			o.Events.Panicked = func(_ Conn, v any, stack []byte) {
				if len(stack) == 0 {
					t.Error("no stack")
				}
				panicked <- v
			}
		})
		other, c := w.client(), w.client()
		b := c.frame(nil, inline, 5, 0)
		c.send(c.frame(b, panics, 5, 0))
		c.end2()
		if v := <-panicked; v != "the handler panics" {
			t.Errorf("panicked with %v", v)
		}
		eventually(t, "OnClose", func() bool { return w.handler.closed.Load() == 1 })
		if err := w.handler.reason(0); !errors.Is(err, ErrPanic) {
			t.Errorf("closed for %v", err)
		}
		other.send(other.frame(nil, later, 5, 0))
		other.want(0, 5)
	})
}

// end2 expects the end of the stream, perhaps after an answer.
func (c *client) end2() {
	c.t.Helper()
	c.c.SetReadDeadline(time.Now().Add(10 * time.Second))
	_, err := io.Copy(io.Discard, c.r)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		c.t.Fatal("the connection stays open")
	}
}

// A panicHandler panics in one of the callbacks.
type panicHandler struct {
	*testHandler
	open, limit, close bool
}

func (h *panicHandler) OnOpen(c Conn) {
	h.testHandler.OnOpen(c)
	if h.open {
		panic("open")
	}
}

func (h *panicHandler) FrameLimit(head [6]byte) int {
	if h.limit && kind(head[4]) == panics {
		panic("limit")
	}
	return h.testHandler.FrameLimit(head)
}

func (h *panicHandler) OnClose(c Conn, err error) {
	h.testHandler.OnClose(c, err)
	if h.close {
		panic("close")
	}
}

func TestPanicsInEveryCallback(t *testing.T) {
	for _, where := range []string{"open", "limit", "close", "limit after half-close"} {
		t.Run(where, func(t *testing.T) {
			onEach(t, func(t *testing.T, tr transport) {
				panicked := make(chan any, 10)
				w := tr.start(t, func(o *Options) {
					o.Handler = &panicHandler{o.Handler.(*testHandler), where == "open", where != "open" && where != "close", where == "close"}
					o.Events.Panicked = func(_ Conn, v any, _ []byte) { panicked <- v }
				})
				c := w.client()
				switch {
				case where == "limit after half-close" && !tr.pipe:
					b := c.frame(nil, parked, 5, 0)
					c.c.Write(c.frame(b, panics, 5, 0))
					held := <-w.handler.parkedCh
					c.c.(*net.TCPConn).CloseWrite()
					time.Sleep(10 * time.Millisecond)
					w.server.Release(held.Conn.Loop(), []Completion{held})
				case where == "close":
					c.c.Close()
				case where != "open":
					c.send(c.frame(nil, panics, 5, 0))
				}
				if where != "close" {
					c.end2()
				}
				<-panicked
				eventually(t, "OnClose", func() bool { return w.handler.closed.Load() == 1 })
			})
		})
	}
}

func TestConnTellsWhatItIs(t *testing.T) {
	onEach(t, func(t *testing.T, tr transport) {
		accepted := make(chan Conn, 2)
		closed := make(chan error, 2)
		w := tr.start(t, func(o *Options) {
			o.Events.Accepted = func(c Conn) { accepted <- c }
			o.Events.Closed = func(_ Conn, err error) { closed <- err }
		})
		c1 := w.client()
		a := <-accepted
		c2 := w.client()
		b := <-accepted
		if a.ID() == b.ID() {
			t.Error("two connections with one ID")
		}
		if loops := w.server.Loops(); a.Loop() < 0 || a.Loop() >= loops {
			t.Errorf("loop %d of %d", a.Loop(), loops)
		}
		if want := map[bool]string{true: "pipe", false: "tcp"}[tr.pipe]; a.Listener() != want {
			t.Errorf("listener %q", a.Listener())
		}
		if !tr.pipe && (a.RemoteAddr().String() != c1.c.LocalAddr().String() || a.LocalAddr().String() != c1.c.RemoteAddr().String()) {
			t.Errorf("addresses %v and %v", a.RemoteAddr(), a.LocalAddr())
		}
		if a.Bulk() != (tr.goroutine || tr.pipe) {
			t.Errorf("Bulk %v", a.Bulk())
		}
		c1.send(c1.frame(nil, bulk, 5, 0))
		c1.want(0, 5)
		if !a.Bulk() {
			t.Error("not moved by the verdict Bulk")
		}
		c1.c.Close()
		if err := <-closed; err != io.EOF {
			t.Errorf("closed for %v, want end of stream", err)
		}
		c2.c.Close()
		<-closed
	})
}
