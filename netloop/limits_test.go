package netloop

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestLimitsThatMakeNoSense(t *testing.T) {
	h := &testHandler{}
	for _, test := range []struct {
		set  func(*Options)
		want string
	}{
		{func(o *Options) { o.Handler = nil }, "no handler"},
		{func(o *Options) { o.Loops = -1 }, "-1 event loops"},
		{func(o *Options) { o.Limits.MinFrameBytes = 1 }, "MinFrameBytes is 1, at least 2"},
		{func(o *Options) { o.Limits.PassFrames = -1 }, "PassFrames is -1"},
		{func(o *Options) { o.Limits.PassTime = -1 }, "PassTime is -1"},
		{func(o *Options) { o.Limits.PassAnswerBytes = -1 }, "PassAnswerBytes is -1"},
		{func(o *Options) { o.Limits.ReleaseConns = -1 }, "ReleaseConns is -1"},
		{func(o *Options) { o.Limits.OwedAnswers = -1 }, "OwedAnswers is -1"},
		{func(o *Options) { o.Limits.KeptBytes = -1 }, "KeptBytes is -1"},
		{func(o *Options) { o.Limits.InputBytes = -1 }, "InputBytes is -1"},
		{func(o *Options) { o.Limits.OutputBytes = -1 }, "OutputBytes is -1"},
		{func(o *Options) { o.Limits.LargeFrameBytes = -1 }, "LargeFrameBytes is -1"},
		{func(o *Options) { o.Limits.FrameStall = -1 }, "FrameStall is -1"},
		{func(o *Options) { o.Limits.WriteStall = -1 }, "WriteStall is -1"},
		{func(o *Options) { o.Limits.Linger = -1 }, "Linger is -1"},
		{func(o *Options) { o.Limits.Idle = -1 }, "Idle is -1"},
		{func(o *Options) { o.Limits.Conns = -1 }, "Conns is -1"},
		{func(o *Options) { o.Limits.ConnsPerAddress = -1 }, "ConnsPerAddress is -1"},
	} {
		o := Options{Handler: h}
		test.set(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("error %v, want %q", err, test.want)
		}
	}
	if _, err := New(Options{Handler: h, Limits: Limits{MinFrameBytes: 2}}); err != nil {
		t.Error(err)
	}
}

func TestConnectionLimits(t *testing.T) {
	for _, test := range []struct {
		name   string
		limits Limits
		want   error
	}{
		{"in all", Limits{Conns: 3}, ErrTooMany},
		{"per address", Limits{ConnsPerAddress: 3}, ErrTooManyFromAddress},
	} {
		onEach(t, func(t *testing.T, tr transport) {
			if tr.pipe && test.want == ErrTooManyFromAddress {
				return // a pipe has no address
			}
			refused := make(chan error, 10)
			w := tr.start(t, func(o *Options) {
				o.Limits = test.limits
				o.Events.Refused = func(_ string, _ net.Addr, err error) { refused <- err }
			})
			var held []*client
			open := func() *client {
				c := w.client()
				c.send(c.frame(nil, inline, 5, 5))
				c.want(0, 5)
				return c
			}
			for range 3 {
				held = append(held, open())
			}
			if tr.pipe {
				_, b := net.Pipe()
				if err := w.server.ServeConn("pipe", b); err != test.want {
					t.Errorf("one past the limit: %v", err)
				}
			} else {
				w.client().end2()
			}
			if err := <-refused; err != test.want {
				t.Errorf("%s: refused for %v, want %v", test.name, err, test.want)
			}
			for _, c := range held { // the others do not notice
				c.send(c.frame(nil, bulk, 5, 5))
				c.want(1, 5)
			}
			held[1].c.Close()
			eventually(t, "OnClose", func() bool { return w.handler.closed.Load() == 1 })
			eventually(t, "room", func() bool {
				w.server.mu.Lock()
				defer w.server.mu.Unlock()
				return w.server.mu.open == 2
			})
			open()
		})
	}
}

func TestOwedAnswersLimit(t *testing.T) {
	onEach(t, func(t *testing.T, tr transport) {
		w := tr.start(t, func(o *Options) { o.Limits.OwedAnswers = 4 })
		c := w.client()
		var b []byte
		for range 6 {
			b = c.frame(b, waits, 5, 0)
		}
		c.send(b)
		var done []Completion
		for range 4 {
			done = append(done, <-w.handler.parkedCh)
		}
		c.silent()
		if n := w.handler.frames.Load(); n != 4 {
			t.Fatalf("%d frames applied, want 4", n)
		}
		// The second is no answer that can be sent: still four are owed.
		w.server.Release(done[1].Conn.Loop(), done[1:2])
		c.silent()
		if n := w.handler.frames.Load(); n != 4 {
			t.Fatalf("%d frames applied, want 4", n)
		}
		w.server.Release(done[0].Conn.Loop(), done[:1])
		c.want(0, 5)
		c.want(1, 5)
		done = append(done, <-w.handler.parkedCh, <-w.handler.parkedCh)
		w.server.Release(done[2].Conn.Loop(), done[2:])
		for i := 2; i < 6; i++ {
			c.want(uint32(i), 5)
		}
	})
}

func TestFrameLimits(t *testing.T) {
	body := func(length int) []byte { return appendFrame(nil, none, 0, 0, make([]byte, length-14)) }
	refused := appendFrame(nil, 255, 0, 0, nil)
	for _, test := range []struct {
		name string
		in   []byte
		want error // nil: the connection stays
	}{
		{"at the limit", body(1 << 20), nil},
		{"one past the limit", body(1<<20 + 1), ErrFrameTooLong},
		{"only the head of one past the limit", body(1<<20 + 1)[:6], ErrFrameTooLong},
		{"one under the least", []byte{0, 0, 0, 7}, ErrFrameTooShort},
		{"empty", []byte{0, 0, 0, 0}, ErrFrameTooShort},
		{"negative", []byte{0xff, 0xff, 0xff, 0xff}, ErrFrameTooShort},
		{"text", []byte("GET / HTTP/1.1\r\n\r\n"), ErrFrameTooLong},
		{"refused by the handler", refused, ErrFrameRefused},
		{"behind a good frame", append(body(100), 0, 0, 0, 1), ErrFrameTooShort},
	} {
		t.Run(test.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, tr transport) {
				w := tr.start(t, nil)
				other, c := w.client(), w.client()
				c.send(test.in)
				if test.want == nil {
					eventually(t, "the frame", func() bool { return w.handler.frames.Load() == 1 })
					c.next = 1
					c.send(c.frame(nil, inline, 5, 0))
					c.want(1, 5)
				} else {
					c.end2()
					eventually(t, "OnClose", func() bool { return w.handler.closed.Load() == 1 })
					if err := w.handler.reason(0); !errors.Is(err, test.want) {
						t.Errorf("closed for %v, want %v", err, test.want)
					}
				}
				other.send(other.frame(nil, later, 5, 0))
				other.want(0, 5)
			})
		})
	}
}

// A limit of time is exact on the stream's own stamps, and the reaper looks often.
func TestOverdue(t *testing.T) {
	s, err := New(Options{Handler: &testHandler{}, Limits: Limits{FrameStall: 100, WriteStall: 200, Idle: 10000, Linger: 50}})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		stamp func(st *stream)
		limit int64
		want  error
	}{
		{"idle", func(st *stream) {}, 10000, ErrIdle},
		{"unfinished frame", func(st *stream) { st.frameSince.Store(1) }, 100, ErrFrameStalled},
		{"write", func(st *stream) { st.writeSince.Store(1) }, 200, ErrWriteStalled},
		{"linger", func(st *stream) { st.lingerSince.Store(1) }, 50, ErrClosedByHandler},
		{"a whole frame", func(st *stream) { st.frameBegan.Store(1); st.frameSize.Store(1) }, 400 + 7629, ErrFrameStalled},
		{"pass of the budget", func(st *stream) { st.passSince.Store(1) }, 100, ErrFrameStalled},
	} {
		st := newStream(&conn{server: s}, nopConn{})
		st.active.Store(1)
		test.stamp(st)
		if got := st.overdue(test.limit); got != nil {
			t.Errorf("%s: %v before its time", test.name, got)
		}
		if got := st.overdue(test.limit + 1); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
	if got := s.limits.tick(); got != minTick {
		t.Errorf("a tick of %v", got)
	}
	if got := (Limits{}).withDefaults().tick(); got > maxTick {
		t.Errorf("a tick of %v", got)
	}
}

type nopConn struct{}

func (nopConn) Read([]byte) (int, error)    { return 0, io.EOF }
func (nopConn) Write(p []byte) (int, error) { return len(p), nil }
func (nopConn) Close() error                { return nil }

// inBubble runs f with a server for pipes under a clock that jumps.
func inBubble(t *testing.T, set func(*Options), f func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		f(transport{pipe: true}.start(t, func(o *Options) {
			o.GoroutineOnly = true // event loops would wait for the real network
			if set != nil {
				set(o)
			}
		}))
	})
}

// closesAfter expects that the connection is open just before limit, counted from
// now, and closed for why soon after it.
func (w *world) closesAfter(limit time.Duration, why error) {
	w.t.Helper()
	time.Sleep(limit - time.Millisecond)
	synctest.Wait()
	if n := w.handler.closed.Load(); n != 0 {
		w.t.Fatalf("closed before its time: %v", w.handler.reason(0))
	}
	time.Sleep(time.Millisecond + w.server.limits.tick())
	synctest.Wait()
	if err := w.handler.reason(0); !errors.Is(err, why) {
		w.t.Fatalf("closed for %v, want %v", err, why)
	}
}

func TestTimeLimitsOfAStream(t *testing.T) {
	t.Run("idle from the start", func(t *testing.T) {
		inBubble(t, nil, func(w *world) {
			w.client()
			w.closesAfter(defaultIdle, ErrIdle)
		})
	})
	t.Run("idle after an answer", func(t *testing.T) {
		inBubble(t, nil, func(w *world) {
			c := w.client()
			time.Sleep(defaultIdle / 2)
			c.send(c.frame(nil, inline, 5, 5))
			c.want(0, 5)
			w.closesAfter(defaultIdle, ErrIdle)
		})
	})
	t.Run("idle with a parked request", func(t *testing.T) {
		inBubble(t, nil, func(w *world) {
			c := w.client()
			c.send(c.frame(nil, parked, 5, 5))
			done := <-w.handler.parkedCh
			w.closesAfter(defaultIdle, ErrIdle)
			w.server.Release(done.Conn.Loop(), []Completion{done}) // too late
		})
	})
	t.Run("unfinished frame", func(t *testing.T) {
		inBubble(t, nil, func(w *world) {
			c := w.client()
			b := c.frame(nil, inline, 5, 5)
			for i := range 3 { // each byte begins the time anew
				c.c.Write(b[i : i+1])
				time.Sleep(defaultFrameStall - time.Second)
			}
			c.c.Write(b[3:4])
			w.closesAfter(defaultFrameStall, ErrFrameStalled)
		})
	})
	t.Run("frame that comes byte by byte", func(t *testing.T) {
		inBubble(t, nil, func(w *world) {
			c := w.client()
			b := c.frame(nil, inline, 5, 500)
			done := make(chan struct{})
			go func() {
				defer close(done)
				for i := range b {
					if _, err := c.c.Write(b[i : i+1]); err != nil {
						return
					}
					time.Sleep(defaultFrameStall / 2)
				}
			}()
			time.Sleep(time.Second)
			w.closesAfter(w.server.limits.frameTime(524)-time.Second, ErrFrameStalled)
			<-done
		})
	})
	t.Run("unfinished frame behind a parked one", func(t *testing.T) {
		inBubble(t, nil, func(w *world) {
			c := w.client()
			b := c.frame(nil, parked, 5, 5)
			b = c.frame(b, inline, 5, 5)
			b = c.frame(b, inline, 5, 5)
			c.send(b[:len(b)-1])
			done := <-w.handler.parkedCh
			time.Sleep(2 * defaultFrameStall) // nothing is read: the peer is not to blame
			w.server.Release(done.Conn.Loop(), []Completion{done})
			c.want(0, 5)
			c.want(1, 5)
			w.closesAfter(defaultFrameStall, ErrFrameStalled)
		})
	})
	t.Run("stuck writer", func(t *testing.T) {
		inBubble(t, nil, func(w *world) {
			c := w.client()
			c.send(c.frame(nil, inline, 3*writeChunk, 5))
			one := make([]byte, writeChunk)
			for range 2 { // each piece taken begins the time anew
				time.Sleep(defaultWriteStall - time.Second)
				if _, err := io.ReadFull(c.c, one); err != nil {
					t.Fatal(err)
				}
			}
			w.closesAfter(defaultWriteStall, ErrWriteStalled)
		})
	})
	t.Run("stuck writer of released answers", func(t *testing.T) {
		inBubble(t, nil, func(w *world) {
			c := w.client()
			c.send(c.frame(nil, waits, 300, 5))
			done := <-w.handler.parkedCh
			w.server.Release(done.Conn.Loop(), []Completion{done})
			synctest.Wait()
			w.closesAfter(defaultWriteStall, ErrWriteStalled)
		})
	})
}

func TestRingOfAnIdleStreamIsGivenBack(t *testing.T) {
	inBubble(t, nil, func(w *world) {
		c := w.client()
		c.send(c.frame(nil, later, 5, 5))
		c.want(0, 5)
		st := w.server.listStreams(nil)[0]
		ring := func() bool {
			st.mu.Lock()
			defer st.mu.Unlock()
			return st.c.slots.ring != nil
		}
		time.Sleep(ringKept - time.Second)
		synctest.Wait()
		if !ring() {
			t.Error("the ring is gone early")
		}
		time.Sleep(time.Second + maxTick)
		synctest.Wait()
		if ring() {
			t.Error("the ring is still there")
		}
		c.send(c.frame(nil, later, 5, 5))
		c.want(1, 5)
	})
}

// Readers wait while the answers of all connections are over their budget.
func TestOutputBudget(t *testing.T) {
	inBubble(t, func(o *Options) { o.Limits.OutputBytes = 1000 }, func(w *world) {
		full, c := w.client(), w.client()
		b := full.frame(nil, waits, 500-12, 0)
		full.send(full.frame(b, parked, 500-12, 0))
		first, second := <-w.handler.parkedCh, <-w.handler.parkedCh
		synctest.Wait()
		done := []Completion{second} // behind the first, so it waits
		w.server.Release(0, done)
		c.send(c.frame(nil, inline, 5, 0))
		c.want(0, 5) // 500 bytes wait
		w.server.output.add(500)
		c.send(c.frame(nil, inline, 5, 0))
		c.want(1, 5) // at the limit
		w.server.output.add(1)
		c.send(c.frame(nil, inline, 5, 0))
		synctest.Wait()
		if n := w.handler.frames.Load(); n != 4 {
			t.Errorf("%d frames applied, want 4: none over the budget", n)
		}
		w.server.output.add(-501)
		c.want(2, 5)
		w.server.Release(0, []Completion{first})
		full.want(0, 500-12)
		full.want(1, 500-12)
	})
}

// Long frames are not read while the input of all connections is over its budget,
// but for one, so that readers do not wait for each other for ever.
func TestInputBudget(t *testing.T) {
	set := func(o *Options) { o.Limits.InputBytes = 300 << 10 }
	const size = 200 << 10
	t.Run("one at a time goes on", func(t *testing.T) {
		inBubble(t, set, func(w *world) {
			var clients []*client
			for range 4 {
				c := w.client()
				c.send(c.frame(nil, inline, 5, size))
				clients = append(clients, c)
			}
			small := w.client()
			small.send(small.frame(nil, inline, 5, 5))
			small.want(0, 5)
			for _, c := range clients {
				c.want(0, 5)
			}
			synctest.Wait()
			if held := w.server.input.used.Load(); held != 0 {
				t.Errorf("%d bytes held by idle connections", held)
			}
		})
	})
	t.Run("the one that goes on has to go on", func(t *testing.T) {
		inBubble(t, set, func(w *world) {
			w.server.input.add(300 << 10)
			slow := w.client()
			b := slow.frame(nil, inline, 5, size)
			slow.send(b[:100<<10])
			synctest.Wait()
			if w.server.input.used.Load() < 400<<10 {
				t.Fatal("the only long frame is not read")
			}
			other := w.client()
			other.send(other.frame(nil, inline, 5, size))
			for i := range 3 { // a byte now and then is not enough with the pass
				time.Sleep(defaultFrameStall / 3)
				slow.c.Write(b[100<<10+i : 100<<10+i+1])
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if err := w.handler.reason(0); !errors.Is(err, ErrCrowded) {
				t.Errorf("closed for %v", err)
			}
			other.want(0, 5)
			w.server.input.add(-300 << 10)
		})
	})
	t.Run("a waiting reader can be closed", func(t *testing.T) {
		inBubble(t, set, func(w *world) {
			w.server.input.add(300<<10 + 1)
			a, b := w.client(), w.client()
			for _, c := range []*client{a, b} {
				long := c.frame(nil, inline, 5, size)
				c.send(long[:70<<10])
			}
			synctest.Wait()
			w.server.input.add(-(300<<10 + 1))
		})
	})
}
