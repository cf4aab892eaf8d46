//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package netloop

import (
	"context"
	"math"
	"os"
	"sync"
	"sync/atomic"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"
)

const (
	// maxScratch is the largest buffer for answers that a loop keeps between passes.
	maxScratch = 1 << 20
	// keptWithoutMove bounds, in units of Limits.KeptBytes, what a connection that
	// cannot move for want of descriptors may keep.
	keptWithoutMove = 4
)

// A loop is one event loop and its connections. Everything but mu and the flags is
// touched on the loop only.
type loop struct {
	server *Server
	index  int
	el     gnet.EventLoop
	bell   bell

	// mu is the inbox: any goroutine puts in, the loop takes out. A stream's lock may
	// be taken while it is held.
	mu struct {
		sync.Mutex
		done []Completion
		// posted: a task is on its way that will take the inbox.
		posted bool
		// ended: the loop takes nothing any more.
		ended bool
	}
	filled atomic.Bool // there is something in the inbox
	reap   atomic.Bool // look for connections that are overdue
	sweep  atomic.Bool // the server stops: give every connection a turn

	conns []*conn
	// taken are completions out of the inbox, those before next have been applied.
	taken []Completion
	next  int
	// again are connections with input left over by the limits of a pass.
	again, turns []*conn
	touched      []*conn
	// serving gets its pass as soon as the completions have been applied.
	serving *conn
	// rung: the bell will ring after the other input. yields: it gives the loop another
	// turn for what is left over. tells: it tells the handler (AfterInput).
	rung, yields, tells bool
	// skipped: a task left the inbox to the bell; until the inbox is taken nobody
	// posts another, so the bell must not stop before that.
	skipped bool
	// out is the buffer for the answers of a pass, a the state of the one under way.
	out []byte
	a   applied
}

// loopPart is what a connection needs while it lives on an event loop.
type loopPart struct {
	loop *loop
	// gc may be touched on the loop only, and not after gone is set: its descriptor
	// may be somebody else's by then.
	gc gnet.Conn
	// place is the index in loop.conns.
	place int
	// opened: the loop has the connection, or had it. Set before enrolling returns.
	opened bool
	// gone: closed, or moved to a goroutine.
	gone bool
	// why is the reason if this side closes.
	why error
	// listed: in loop.again. marked: in loop.touched.
	listed, marked bool
	// unfinished: the connection waits for the rest of a frame.
	unfinished bool
	// bulk: the next frame can be applied only after the move, which failed.
	bulk bool
	// active is when a byte came or went, heard when one came or could have been
	// taken, began when the frame did that is unfinished, lingering when the last answer
	// was sent; nanoseconds of the server's clock, zero: does not apply.
	active, heard, began, lingering int64
	// inHeld and outHeld are what of the server's budgets the connection has.
	inHeld, outHeld int
}

// wake gets the loop to look at its inbox and flags.
func (l *loop) wake() {
	l.mu.Lock()
	post := l.claimPost()
	l.mu.Unlock()
	if post {
		l.post()
	}
}

// claimPost reports whether the caller has to post a task. REQUIRES l.mu.
func (l *loop) claimPost() bool {
	if l.mu.posted || l.mu.ended {
		return false
	}
	l.mu.posted = true
	return true
}

func (l *loop) post() {
	// An error means that the engine has ended, and with it all connections.
	_ = l.el.Execute(context.Background(), gnet.RunnableFunc(l.task))
}

func (l *loop) task(context.Context) error {
	// A bell that is about to ring comes after other input, which has waited.
	if l.yields {
		l.skipped = true
	} else {
		l.work()
	}
	return nil
}

// ring asks for another turn after the input that waits already. A task that posts
// itself would run before any input, again and again.
func (l *loop) ring() {
	l.yields = true
	l.ringBell()
}

func (l *loop) ringBell() {
	if !l.rung {
		l.rung = true
		l.bell.ring()
	}
}

// rang is called when the bell has rung.
func (l *loop) rang() {
	yields, tells := l.yields, l.tells
	l.rung, l.yields, l.tells = false, false, false
	if tells {
		l.server.onInput(l.index)
	}
	if yields {
		l.work()
	}
}

// work applies completions and goes on with what passes have left over.
func (l *loop) work() {
	if l.next == len(l.taken) {
		l.takeInbox()
	}
	l.applyTaken()
	l.turns, l.again = l.again, l.turns[:0]
	for i, c := range l.turns {
		l.turns[i] = nil
		c.onLoop.listed = false
		l.turn(c)
	}
	if l.reap.Swap(false) {
		l.reapConns()
	}
	if l.sweep.Swap(false) {
		for i := len(l.conns) - 1; i >= 0; i-- {
			l.turn(l.conns[i])
		}
	}
	if l.next < len(l.taken) || len(l.again) > 0 || l.skipped {
		l.ring()
	}
}

func (l *loop) takeInbox() {
	l.mu.Lock()
	l.taken, l.mu.done = l.mu.done, l.taken[:0]
	l.mu.posted = false
	l.filled.Store(false)
	l.mu.Unlock()
	l.next, l.skipped = 0, false
}

// input is called when a connection has input. Completions that have come meanwhile go
// first: answers that are ready must not wait until the input of all other connections
// has been worked on, and while the peers have nothing to do, nor will we have.
func (l *loop) input(c *conn, fresh []byte) (end bool) {
	if l.filled.Load() {
		l.serving = c
		if l.next == len(l.taken) {
			l.takeInbox()
		}
		l.applyTaken()
		l.serving = nil
	}
	return l.guardedPass(c, fresh)
}

// applyTaken marks the slots of completions that were taken out of the inbox and
// gives their connections a turn, as many as one task may touch.
func (l *loop) applyTaken() {
	for ; l.next < len(l.taken); l.next++ {
		done := &l.taken[l.next]
		c := done.Conn.(*conn)
		p := &c.onLoop
		if !p.marked && len(l.touched) >= l.server.limits.ReleaseConns {
			break
		}
		if st := c.stream.Load(); st != nil {
			if st.complete(done) {
				go st.drain()
			}
		} else if !p.gone && c.slots.complete(done) && !p.marked && c != l.serving {
			p.marked = true
			l.touched = append(l.touched, c)
		}
		*done = Completion{}
	}
	for i, c := range l.touched {
		l.touched[i] = nil
		c.onLoop.marked = false
		l.turn(c)
	}
	l.touched = l.touched[:0]
}

// turn is a pass without new input, outside of the connection's own callbacks.
func (l *loop) turn(c *conn) {
	if c.onLoop.gone {
		return
	}
	gc := c.onLoop.gc // a pass that moves the connection lets go of it
	if l.guardedPass(c, nil) {
		_ = l.el.Close(gc)
	}
}

// moveLarge moves a connection with a large answer to a goroutine, which sends it from
// where it lies: here everybody would wait while it is copied. fresh is kept. The
// result is move's.
func (l *loop) moveLarge(c *conn, fresh []byte) (end bool) {
	l.keep(c, &applied{fresh: fresh})
	l.countOutput(c)
	return l.move(c, MoveOutput)
}

// countOutput brings the output budget up to what waits to be sent.
func (l *loop) countOutput(c *conn) {
	l.server.output.add(c.slots.bytes - c.onLoop.outHeld)
	c.onLoop.outHeld = c.slots.bytes
}

// guardedPass is pass; a panic of the handler costs the connection only. The answers to
// frames before it are sent if they fit.
func (l *loop) guardedPass(c *conn, fresh []byte) (end bool) {
	defer func() {
		if v := recover(); v != nil {
			c.onLoop.why = ErrPanic
			c.tellPanic(v)
			if !c.onLoop.gone {
				_, _ = l.write(c, l.a.out)
			}
			l.a = applied{}
			end = true
		}
	}()
	return l.pass(c, fresh)
}

// pass sends what is ready, applies frames, sends the answers, all with one write;
// end: the library's side of the connection has to be closed now, in this callback.
func (l *loop) pass(c *conn, fresh []byte) (end bool) {
	p, s := &c.onLoop, l.server
	now := s.now()
	if len(fresh) > 0 {
		p.active, p.heard = now, now
	}
	if p.lingering != 0 { // whatever comes is thrown away
		return s.stopping.Load()
	}
	if c.slots.nextIsLarge(gather) {
		if l.moveLarge(c, fresh) {
			return true
		}
		fresh = nil
	}
	a := &l.a
	*a = applied{out: l.out[:0], fresh: fresh}
	tail := c.slots.tail
	a.out, a.last = c.slots.pop(a.out, math.MaxInt)
	if !a.last {
		if s.onPass != nil {
			s.onPass(l.index)
		}
		l.apply(c, a, now)
	}
	out := a.out
	a.out = nil // a large one is not to be remembered
	if l.out = out[:0]; cap(out) > maxScratch {
		l.out = nil
	}
	l.keep(c, a)
	before := p.unfinished
	if p.unfinished = c.in.waiting() > 0 && !a.more && c.mayApply(); p.unfinished && (!before || c.slots.tail != tail) {
		p.heard, p.began = now, now // what the peer sent earlier had to wait for other reasons
	}
	l.countOutput(c)
	sent, err := l.write(c, out)
	if sent > 0 {
		p.active = now
	}
	switch {
	case err != nil:
		p.why = err
		return true
	case a.err != nil:
		p.why = a.err
		return true
	case sent < len(out):
		return l.moveOrClose(c, MoveOutput, out[sent:], a.last)
	case a.last:
		return l.linger(c, now)
	case s.stopping.Load() && c.slots.owed() == 0:
		p.why = ErrStopping
		return true
	case p.bulk:
		return l.move(c, MoveBulk) || l.overfull(c)
	case c.in.waiting() > s.limits.KeptBytes && !p.unfinished,
		c.in.waiting() > maxReadAhead && (c.in.size > s.limits.LargeFrameBytes || s.input.crowded()):
		return l.move(c, MoveInput) || l.overfull(c)
	case a.more:
		l.comeBack(c)
	}
	return false
}

// mayApply reports whether the connection's next frame may be given to the handler.
func (c *conn) mayApply() bool {
	s := c.server
	return !c.slots.held && !c.slots.closing && !c.onLoop.bulk &&
		c.slots.owed() < s.limits.OwedAnswers && !s.draining.Load()
}

// applied is the state of one pass.
type applied struct {
	out   []byte // answers to be sent now
	fresh []byte // input not looked at yet
	// more: the pass has reached a limit, frames may be left.
	more bool
	// last: the connection ends behind out.
	last bool
	// err: the connection has to be closed.
	err error
}

// apply gives frames to the handler within the limits of a pass.
func (l *loop) apply(c *conn, a *applied, start int64) {
	s := l.server
	for frames := 1; c.mayApply(); frames++ {
		before := a.fresh
		frame, fresh, ok, err := c.in.next(c, before)
		a.fresh = fresh
		if a.err = err; !ok || err != nil {
			return
		}
		number := c.slots.tail
		had := len(a.out)
		out, verdict := c.callFrame(number, frame, a.out)
		switch {
		case verdict == Answered && c.slots.owed() == 0:
			c.slots.skip()
			a.out = out
		case verdict == Bulk:
			a.fresh = c.in.undo(frame, before, fresh)
			c.onLoop.bulk = true
			return
		default:
			if a.out = l.settle(c, out, had, verdict, a); a.last {
				return
			}
		}
		if c.in.waiting() == 0 && len(a.fresh) == 0 {
			return
		}
		if frames >= s.limits.PassFrames || len(a.out) >= s.limits.PassAnswerBytes ||
			looksAtClock(frames) && s.now()-start >= int64(s.limits.PassTime) {
			a.more = true
			return
		}
	}
}

// looksAtClock: reading the clock after every frame would cost as much as a cheap
// handler; a slow one is noticed early, a quick one every sixteenth time.
func looksAtClock(frames int) bool { return frames&15 == 0 || frames == 2 || frames == 8 }

// settle books one verdict; out[had:] is what the handler appended. It returns the
// answers that leave in this pass.
func (l *loop) settle(c *conn, out []byte, had int, verdict Verdict, a *applied) []byte {
	first := c.slots.owed() == 0
	switch {
	case verdict > Close:
		panic(verdictError(verdict))
	case verdict == Later || verdict == Hold:
		c.slots.later(c.slots.open(), out[had:], verdict == Hold)
		return out[:had]
	case first:
		c.slots.skip()
		if verdict == Close {
			c.slots.closing, a.last = true, true
		}
		return out
	default:
		c.slots.answered(c.slots.open(), out[had:], verdict == Close)
	}
	return out[:had]
}

// keep stores the input that was not applied; a connection that applies nothing
// any more drops it.
func (l *loop) keep(c *conn, a *applied) {
	s := l.server
	if a.err != nil || c.slots.closing || s.draining.Load() {
		c.in.at, c.in.size = len(c.in.b), 0
	} else {
		c.in.keep(&s.buffers, a.fresh)
	}
	c.in.settle(&s.buffers)
	held := cap(c.in.b)
	s.input.add(held - c.onLoop.inHeld)
	c.onLoop.inHeld = held
}

// write is write(2): the library's own would buffer without bound, and close the
// connection inside the call if it fails.
func (l *loop) write(c *conn, b []byte) (sent int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	for {
		n, err := unix.Write(c.onLoop.gc.Fd(), b)
		switch err {
		case nil:
			return n, nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, nil
		default:
			return 0, os.NewSyscallError("write", err)
		}
	}
}

// linger follows the last answer: the peer is told that nothing more comes and has
// time to take it. Closing at once would make the kernel throw the answer away if
// the peer has sent more than was read.
func (l *loop) linger(c *conn, now int64) (end bool) {
	c.onLoop.why = ErrClosedByHandler
	c.onLoop.lingering = now
	return unix.Shutdown(c.onLoop.gc.Fd(), unix.SHUT_WR) != nil
}

// comeBack gives the connection another pass after the other input.
func (l *loop) comeBack(c *conn) {
	if !c.onLoop.listed {
		c.onLoop.listed = true
		l.again = append(l.again, c)
	}
	l.ring()
}

// overfull closes a connection that should have moved, could not, and goes on sending.
func (l *loop) overfull(c *conn) (end bool) {
	if c.in.waiting() <= keptWithoutMove*l.server.limits.KeptBytes || c.onLoop.unfinished {
		return false
	}
	c.onLoop.why = ErrMove
	return true
}

// reapConns closes what is overdue.
func (l *loop) reapConns() {
	limits := &l.server.limits
	now := l.server.now()
	for i := len(l.conns) - 1; i >= 0; i-- { // closing takes a connection off the list
		c := l.conns[i]
		p := &c.onLoop
		switch {
		case p.lingering != 0 && now-p.lingering >= int64(limits.Linger):
		case p.unfinished && (now-p.heard >= int64(limits.FrameStall) || now-p.began >= int64(limits.frameTime(int64(c.in.size)))):
			p.why = ErrFrameStalled
		case now-p.active >= int64(limits.Idle):
			p.why = ErrIdle
		default:
			if p.bulk {
				l.turn(c)
			} else if now-p.active >= int64(ringKept) {
				c.slots.trim()
			}
			continue
		}
		_ = l.el.Close(p.gc)
	}
}

// closed is the last the library tells of a connection.
func (l *loop) closed(c *conn, err error) {
	p, s := &c.onLoop, l.server
	if c.stream.Load() != nil {
		return // moved
	}
	if halfClosed(err) && p.why == nil && l.finishElsewhere(c) {
		return
	}
	p.gone = true
	l.remove(c)
	s.output.add(-p.outHeld)
	s.input.add(-p.inHeld)
	c.slots.reset()
	c.in.at = len(c.in.b)
	c.in.settle(&s.buffers)
	why := p.why
	switch {
	case why != nil:
	case err != nil:
		why = plainEOF(err)
	default:
		why = ErrStopping
	}
	c.callClose(why)
	s.forget(c)
}

func (l *loop) add(c *conn) {
	c.onLoop.place = len(l.conns)
	l.conns = append(l.conns, c)
}

func (l *loop) remove(c *conn) {
	last := len(l.conns) - 1
	l.conns[c.onLoop.place] = l.conns[last]
	l.conns[c.onLoop.place].onLoop.place = c.onLoop.place
	l.conns[last] = nil
	l.conns = l.conns[:last]
}
