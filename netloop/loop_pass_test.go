//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package netloop

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"
)

// A bench under the loop: passes are called by hand, over real sockets.
type loopBench struct {
	t      *testing.T
	s      *Server
	h      *testHandler
	l      *loop
	clock  time.Duration
	moved  []MoveReason
	closed int // by l.el.Close
	tasks  []gnet.Runnable
	dupErr error
}

// fakeSocket is the library's side of a connection.
type fakeSocket struct {
	gnet.Conn
	b    *loopBench
	c    *conn
	fd   int
	peer int
}

func (f *fakeSocket) Fd() int { return f.fd }
func (f *fakeSocket) Dup() (int, error) {
	if f.b.dupErr != nil {
		return -1, f.b.dupErr
	}
	return unix.Dup(f.fd)
}

type fakeEventLoop struct {
	gnet.EventLoop
	b *loopBench
}

func (f *fakeEventLoop) Close(gc gnet.Conn) error {
	f.b.closed++
	f.b.l.closed(gc.(*fakeSocket).c, nil)
	return nil
}

func (f *fakeEventLoop) Execute(_ context.Context, task gnet.Runnable) error {
	f.b.tasks = append(f.b.tasks, task)
	return nil
}

// run runs what was posted to the loop.
func (b *loopBench) run() {
	tasks := b.tasks
	b.tasks = nil
	for _, task := range tasks {
		_ = task.Run(context.Background())
	}
}

func newLoopBench(t *testing.T, limits Limits) *loopBench {
	b := &loopBench{t: t}
	b.h = &testHandler{t: t, limit: 16 << 20, queue: make(chan Completion, 1<<12), parkedCh: make(chan Completion, 1<<12)}
	s, err := New(Options{Handler: b.h, Limits: limits, Mono: func() time.Duration { return b.clock },
		Events: Events{Moved: func(_ Conn, why MoveReason) { b.moved = append(b.moved, why) }}})
	if err != nil {
		t.Fatal(err)
	}
	b.s, b.h.server = s, s
	s.mu.started = true
	b.l = &loop{server: s}
	b.l.el = &fakeEventLoop{b: b}
	inner, err := b.l.bell.open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		inner.Close()
		b.l.bell.close()
		for _, st := range s.listStreams(nil) {
			st.kill(io.EOF)
		}
		eventually(t, "streams end", func() bool { return len(s.listStreams(nil)) == 0 })
	})
	return b
}

func (b *loopBench) conn() *conn {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	unix.SetNonblock(fds[0], true)
	unix.SetNonblock(fds[1], true)
	b.s.mu.open++
	c := &conn{server: b.s, id: uint64(len(b.l.conns))}
	c.slots.pools = &b.s.buffers
	c.onLoop = loopPart{loop: b.l, gc: &fakeSocket{b: b, c: c, fd: fds[0], peer: fds[1]}, opened: true, active: b.s.now(), heard: b.s.now()}
	b.l.add(c)
	b.h.OnOpen(c)
	b.t.Cleanup(func() { unix.Close(fds[0]); unix.Close(fds[1]) })
	return c
}

// got reads the bytes that were written to the peer so far.
func (b *loopBench) got(peer int) int {
	buf := make([]byte, 1<<20)
	n, _ := unix.Read(peer, buf)
	return max(n, 0)
}

func peerOf(c *conn) int { return c.onLoop.gc.(*fakeSocket).peer }

func frames(k kind, first, n, answer, payload int) (b []byte) {
	for i := range n {
		b = appendFrame(b, k, uint32(first+i), answer, make([]byte, payload))
	}
	return b
}

func TestPassFramesLimit(t *testing.T) {
	for _, extra := range []int{0, 1} {
		b := newLoopBench(t, Limits{PassFrames: 10})
		c := b.conn()
		b.l.pass(c, frames(inline, 0, 10+extra, 5, 0))
		if n := b.h.frames.Load(); n != 10 {
			t.Errorf("%d frames in a pass, want 10", n)
		}
		if b.l.rung != (extra == 1) || c.onLoop.listed != (extra == 1) {
			t.Errorf("one past the limit %v: rung %v", extra == 1, b.l.rung)
		}
		b.l.work()
		if n := b.h.frames.Load(); n != int64(10+extra) {
			t.Errorf("%d frames after another turn, want %d", n, 10+extra)
		}
	}
}

func TestPassAnswerBytesLimit(t *testing.T) {
	for _, test := range []struct{ limit, want int }{{5 * (12 + 88), 5}, {5*(12+88) + 1, 6}} {
		b := newLoopBench(t, Limits{PassAnswerBytes: test.limit})
		b.l.pass(b.conn(), frames(inline, 0, 10, 88, 0))
		if n := b.h.frames.Load(); n != int64(test.want) {
			t.Errorf("%d frames for %d bytes of answers, want %d", n, test.limit, test.want)
		}
		if !b.l.rung {
			t.Error("no other turn")
		}
	}
}

// slowHandler takes a unit of the bench's clock for each frame.
type slowHandler struct {
	*testHandler
	b *loopBench
}

func (h *slowHandler) OnFrame(c Conn, slot Slot, frame, out []byte) ([]byte, Verdict) {
	h.b.clock++
	return h.testHandler.OnFrame(c, slot, frame, out)
}

func TestPassTimeLimit(t *testing.T) {
	for _, test := range []struct {
		limit time.Duration
		want  int64
	}{{1, 2}, {2, 2}, {3, 8}, {8, 8}, {9, 16}, {16, 16}, {17, 32}, {33, 48}, {100, 50}} {
		b := newLoopBench(t, Limits{PassTime: test.limit})
		b.s.options.Handler = &slowHandler{b.h, b}
		b.l.pass(b.conn(), frames(inline, 0, 50, 5, 0))
		if n := b.h.frames.Load(); n != test.want {
			t.Errorf("%d frames in %d, want %d", n, test.limit, test.want)
		}
	}
}

func TestOneWritePerPass(t *testing.T) {
	b := newLoopBench(t, Limits{})
	c := b.conn()
	in := frames(inline, 0, 20, 5, 0)
	b.l.pass(c, in)
	if n := b.got(peerOf(c)); n != 20*17 {
		t.Errorf("%d bytes in one piece, want %d", n, 20*17)
	}
}

func TestReleaseTouchesOnlySoManyConnections(t *testing.T) {
	b := newLoopBench(t, Limits{ReleaseConns: 4})
	var done []Completion
	var conns []*conn
	for range 9 {
		c := b.conn()
		conns = append(conns, c)
		b.l.pass(c, frames(waits, 0, 2, 5, 0))
		done = append(done, <-b.h.parkedCh, <-b.h.parkedCh)
	}
	b.l.mu.done, b.l.mu.posted = done, true
	answered := func() (n int) {
		for _, c := range conns {
			got := b.got(peerOf(c))
			if got != 0 && got != 2*17 {
				t.Errorf("%d bytes in one write, want both answers", got)
			}
			n += got / 34
		}
		return n
	}
	for _, want := range []int{4, 4, 1, 0} {
		b.l.rung = false
		b.l.work()
		if n := answered(); n != want {
			t.Errorf("%d connections answered in a task, want %d", n, want)
		}
		if more := len(b.l.taken) > b.l.next; b.l.rung != more {
			t.Errorf("rung %v, more %v", b.l.rung, more)
		}
	}
}

// A task that comes while the bell is about to ring leaves its completions to the
// bell, which must take them even if it first ends what it was rung for.
func TestTaskLeftToTheBellIsDone(t *testing.T) {
	b := newLoopBench(t, Limits{ReleaseConns: 1})
	b.s.loops.all = []*loop{b.l}
	var done []Completion
	var conns []*conn
	for range 4 {
		c := b.conn()
		conns = append(conns, c)
		b.l.pass(c, frames(waits, 0, 1, 5, 0))
		done = append(done, <-b.h.parkedCh)
	}
	for _, some := range [][]Completion{done[:2], done[2:3], done[3:]} {
		b.s.release(0, some)
		b.run()
	}
	for b.l.rung {
		b.l.rung = false
		b.l.work()
		b.run()
	}
	for i, c := range conns {
		if got := b.got(peerOf(c)); got != 17 {
			t.Errorf("connection %d was given %d bytes, want its answer of 17", i, got)
		}
	}
}

func TestKeptBytesLimit(t *testing.T) {
	for _, extra := range []int{0, 1} {
		b := newLoopBench(t, Limits{KeptBytes: 1000})
		c := b.conn()
		b.l.pass(c, frames(parked, 0, 1, 5, 0))
		end := b.l.pass(c, frames(inline, 1, 1, 5, 1000-18+extra))
		if end != (extra == 1) || len(b.moved) != extra {
			t.Errorf("%d bytes kept: moved %v", 1000+extra, b.moved)
		}
		if extra == 1 {
			b.l.closed(c, nil) // what the library does next
			if b.moved[0] != MoveInput || !c.Bulk() {
				t.Errorf("moved for %v", b.moved)
			}
			done := <-b.h.parkedCh
			b.s.loops.all = []*loop{b.l}
			b.s.Release(0, []Completion{done})
			eventually(t, "the frame behind", func() bool { return b.h.frames.Load() == 2 })
		}
	}
}

// An unfinished frame does not count as kept: it is in progress.
func TestLongFrameStaysOnTheLoop(t *testing.T) {
	b := newLoopBench(t, Limits{KeptBytes: 1000})
	c := b.conn()
	in := frames(inline, 0, 1, 5, 100000)
	for len(in) > 0 {
		n := min(len(in), 30000)
		if b.l.pass(c, in[:n]) {
			t.Fatal("moved")
		}
		in = in[n:]
	}
	if b.got(peerOf(c)) != 17 || b.s.input.used.Load() != 0 {
		t.Errorf("not answered, or %d bytes still held", b.s.input.used.Load())
	}
	// It does when the input of all connections is over its budget.
	b.s.input.add(int(b.s.input.limit))
	in = frames(inline, 1, 1, 5, 100000)
	if b.l.pass(c, in[:60000]) || !b.l.pass(c, in[60000:80000]) {
		t.Error("over the budget a long frame stays on the loop")
	}
	b.s.input.add(-int(b.s.input.limit))
}

func TestMoveWithoutDescriptors(t *testing.T) {
	b := newLoopBench(t, Limits{KeptBytes: 1000})
	b.dupErr = unix.EMFILE
	t.Run("bulk tries again", func(t *testing.T) {
		c := b.conn()
		in := append(frames(bulk, 0, 1, 5, 0), frames(inline, 1, 1, 5, 0)...)
		if b.l.pass(c, in) || c.Bulk() || b.h.frames.Load() != 1 {
			t.Fatal("moved without a descriptor")
		}
		b.dupErr = nil
		peer := peerOf(c)
		b.l.reapConns()
		if !c.Bulk() || b.closed != 1 {
			t.Fatal("not moved when there was one")
		}
		got := 0
		eventually(t, "both answers", func() bool { got += b.got(peer); return got == 34 })
		b.dupErr = unix.EMFILE
	})
	t.Run("too much kept meanwhile", func(t *testing.T) {
		c := b.conn()
		b.l.pass(c, frames(bulk, 0, 1, 5, 0))
		kept := c.in.waiting()
		if b.l.pass(c, frames(inline, 1, 1, 5, 4000-kept-18)) {
			t.Errorf("closed with %d bytes kept", c.in.waiting())
		}
		if !b.l.pass(c, []byte{0}) || c.onLoop.why != ErrMove {
			t.Errorf("not closed with %d bytes kept: %v", c.in.waiting(), c.onLoop.why)
		}
		b.l.closed(c, nil)
	})
	t.Run("an answer that does not fit", func(t *testing.T) {
		c := b.conn()
		if !b.l.pass(c, frames(inline, 0, 1, 4<<20, 0)) || c.onLoop.why != ErrMove || c.Bulk() {
			t.Errorf("not closed: %v", c.onLoop.why)
		}
		b.l.closed(c, nil)
	})
	t.Run("half-close", func(t *testing.T) {
		c := b.conn()
		b.l.pass(c, frames(waits, 0, 1, 5, 0))
		b.l.closed(c, io.EOF)
		if c.Bulk() || !c.onLoop.gone || b.s.output.used.Load() != 0 {
			t.Error("not closed")
		}
	})
}

func TestShortWriteMoves(t *testing.T) {
	b := newLoopBench(t, Limits{})
	c := b.conn()
	peer := peerOf(c)
	const size = 4 << 20
	if !b.l.pass(c, frames(inline, 0, 1, size, 0)) || len(b.moved) != 1 || b.moved[0] != MoveOutput {
		t.Fatalf("moved for %v", b.moved)
	}
	got := 0
	eventually(t, "the whole answer", func() bool { got += b.got(peer); return got == size+12 })
	if cap(b.l.out) > maxScratch {
		t.Errorf("the loop keeps a buffer of %d bytes", cap(b.l.out))
	}
}

// An answer that is completed later and large is not copied on the loop: what is behind it
// is answered after the move, and the budget holds nothing in the end.
func TestLargeAnswerMoves(t *testing.T) {
	const size = gather
	for _, test := range []struct {
		name   string
		size   int
		dupErr error
		moves  bool
		// input: the answer and what is behind it are there in the same turn.
		input bool
	}{
		{"large", size, nil, true, false},
		{"not so large", size - 13, nil, false, false},
		{"without descriptors", 100_000, unix.EMFILE, false, false},
		{"large, input at the same time", size, nil, true, true},
		{"large, input at the same time, without descriptors", size, unix.EMFILE, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newLoopBench(t, Limits{})
			b.dupErr = test.dupErr
			c := b.conn()
			peer := peerOf(c)
			unix.SetsockoptInt(c.onLoop.gc.Fd(), unix.SOL_SOCKET, unix.SO_SNDBUF, 1<<20)
			first, second := frames(parked, 0, 1, test.size, 0), frames(inline, 1, 1, 5, 0)
			if !test.input {
				first, second = append(first, second...), nil
			}
			b.l.pass(c, first)
			b.l.mu.done, b.l.mu.posted = []Completion{<-b.h.parkedCh}, true
			b.l.filled.Store(true)
			if gc := c.onLoop.gc; !test.input {
				b.l.work()
			} else if b.l.input(c, second) {
				b.l.el.Close(gc)
			}
			got := 0
			eventually(t, "both answers", func() bool { got += b.got(peer); return got == test.size+12+17 })
			if c.Bulk() != test.moves || b.closed != len(b.moved) || len(b.moved) > 0 && b.moved[0] != MoveOutput {
				t.Errorf("moved: %v, for %v; %d times closed", c.Bulk(), b.moved, b.closed)
			}
			eventually(t, "nothing waits", func() bool { return b.s.output.used.Load() == 0 })
		})
	}
}

func TestTimeLimitsOnALoop(t *testing.T) {
	limits := Limits{FrameStall: 100, Idle: 1000, Linger: 50}
	for _, test := range []struct {
		name  string
		setup func(b *loopBench, c *conn)
		limit time.Duration
		want  error
	}{
		{"idle", func(*loopBench, *conn) {}, 1000, ErrIdle},
		{"idle with a parked request", func(b *loopBench, c *conn) { b.l.pass(c, frames(parked, 0, 1, 5, 0)) }, 1000, ErrIdle},
		{"unfinished frame", func(b *loopBench, c *conn) { b.l.pass(c, frames(inline, 0, 1, 5, 0)[:9]) }, 100, ErrFrameStalled},
		{"unfinished head", func(b *loopBench, c *conn) { b.l.pass(c, []byte{0}) }, 100, ErrFrameStalled},
		{"linger", func(b *loopBench, c *conn) { b.l.pass(c, frames(last, 0, 1, 5, 0)) }, 50, ErrClosedByHandler},
		{"unfinished frame behind a parked one", func(b *loopBench, c *conn) {
			in := append(frames(parked, 0, 1, 5, 0), frames(inline, 1, 1, 5, 0)[:9]...)
			b.l.pass(c, in)
			b.clock += 500 // nothing is taken from the peer meanwhile
			b.l.reapConns()
			done := <-b.h.parkedCh
			c.slots.complete(&done)
			b.l.turn(c)
		}, 100, ErrFrameStalled},
	} {
		b := newLoopBench(t, limits)
		b.clock = 5000
		c := b.conn()
		test.setup(b, c)
		b.clock += test.limit - 1
		b.l.reapConns()
		if b.closed != 0 {
			t.Errorf("%s: closed before its time: %v", test.name, b.h.reason(0))
			continue
		}
		b.clock++
		b.l.reapConns()
		if err := b.h.reason(0); !errors.Is(err, test.want) || len(b.l.conns) != 0 {
			t.Errorf("%s: closed for %v, want %v", test.name, err, test.want)
		}
	}
}

// A frame that comes byte by byte has its time as a whole; a peer whose frames come in
// pieces that are never whole, but come, is not stopped.
func TestSlowFrameOnALoop(t *testing.T) {
	const stall = time.Second
	b := newLoopBench(t, Limits{FrameStall: stall})
	slow, busy := b.conn(), b.conn()
	frame := frames(inline, 0, 1, 5, 1000)
	pieces := frames(inline, 0, 10, 5, 0)
	each := len(pieces) / 10
	b.l.pass(busy, pieces[:each/2])
	for i := range 9 { // for four times stall
		b.l.pass(slow, frame[i:i+1])
		b.l.pass(busy, pieces[i*each+each/2:(i+1)*each+each/2])
		b.l.reapConns()
		if b.closed != 0 {
			t.Fatalf("closed after %v: %v", b.clock, b.h.reason(0))
		}
		if i < 8 {
			b.clock += stall / 2
		}
	}
	b.clock = b.s.limits.frameTime(int64(len(frame)))
	b.l.reapConns()
	if err := b.h.reason(0); !errors.Is(err, ErrFrameStalled) || b.closed != 1 || len(b.l.conns) != 1 || b.l.conns[0] != busy {
		t.Errorf("%d closed, for %v", b.closed, err)
	}
}

func TestRingOfAnIdleLoopConnectionIsGivenBack(t *testing.T) {
	b := newLoopBench(t, Limits{})
	c := b.conn()
	b.l.pass(c, frames(waits, 0, 1, 5, 0))
	b.clock += 2 * ringKept
	b.l.reapConns()
	if c.slots.ring == nil {
		t.Fatal("the ring of an owed answer was dropped")
	}
	done := <-b.h.parkedCh
	c.slots.complete(&done)
	b.l.turn(c)
	b.clock += ringKept
	b.l.reapConns()
	if c.slots.ring != nil {
		t.Error("an idle connection keeps its ring")
	}
}

// The common path, one commit of one connection at a time, does not allocate.
func TestReleaseOnALoopDoesNotAllocate(t *testing.T) {
	b := newLoopBench(t, Limits{})
	h := newEchoHandler()
	h.queue = make(chan Completion, 1)
	b.s.options.Handler = h
	c := b.conn()
	request := make([]byte, benchRequest)
	request[3] = benchRequest - 4
	taken := make([]Completion, 0, 1)
	buf := make([]byte, 1000)
	round := func() {
		b.l.pass(c, request)
		b.l.taken, b.l.next = append(taken[:0], <-h.queue), 0
		b.l.applyTaken()
		if n, _ := unix.Read(peerOf(c), buf); n != benchAnswer {
			t.Fatalf("%d bytes", n)
		}
	}
	round()
	if n := testing.AllocsPerRun(200, round); n != 0 {
		t.Errorf("%v allocations per request", n)
	}
	b.h.opened.Store(0)
}
