package netloop

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
)

const (
	// smallRead is the buffer that an idle connection reads into. It is no size of the
	// pools on purpose: they do not take it.
	smallRead = 500
	// maxReadAhead bounds the buffer of a busy connection, a long frame aside.
	maxReadAhead = 64 << 10
	// gather is how many bytes of answers are put together for one write.
	gather = 256 << 10
	// largeAnswer is sent from where it lies, without copying it.
	largeAnswer = 64 << 10
	// connOutput is how many bytes of answers a connection may have waiting before no
	// further frame of it is applied, crowdedOutput the same while the answers of all
	// connections are about to use up their budget.
	connOutput    = 4 << 20
	crowdedOutput = 16 << 10
)

// A stream is a connection on the goroutine transport. One goroutine (run) reads,
// calls the handler and sends the answers it gets at once; answers completed later
// are sent by a goroutine that lives as long as there are any (drain). Whoever
// holds mu.writing is the only one that takes answers off the slots and writes.
type stream struct {
	c  *conn
	rw io.ReadWriteCloser
	// place is the stream's index in the server's list; the server's lock guards it.
	place int

	mu struct {
		sync.Mutex
		changed sync.Cond // the fields below or conn.slots changed
		writing bool
		// lingering: the last answer was sent, the peer is to close.
		lingering bool
		closed    bool
		why       error
		// sending is what of the answers taken off the slots is still counted in the
		// server's output budget.
		sending int
	}
	// gone is closed when mu.closed is set.
	gone chan struct{}

	// These belong to run's goroutine.
	small [smallRead]byte
	// ahead is how much to read next after a read that filled its buffer, else zero.
	ahead int
	// out has answers that come before all slots; while it is not empty mine is set.
	out []byte
	// mine: this goroutine holds mu.writing.
	mine bool
	// lastFirst: the connection ends behind what is in out.
	lastFirst bool
	eof       bool
	// countedLarge is what of the input is in the server's budget for large frames,
	// pass the budget whose pass the stream has, while passSince says so.
	countedLarge int
	pass         *budget

	// These belong to whoever holds mu.writing.
	raw     syscall.RawConn // nil: progress is seen per chunk only
	step    func(fd uintptr) bool
	pending []byte
	failed  error

	// These belong to the reaper: what queued and taken said when it looked last, and
	// by how much taken has grown since the time before.
	wasQueued int
	wasTaken  int64
	lately    int64

	// Nanoseconds of the server's clock, for the reaper; zero: does not apply.
	active      atomic.Int64 // a byte came or went
	frameSince  atomic.Int64 // an unfinished frame waits for its next byte
	writeSince  atomic.Int64 // a write has made no progress since
	writeBegan  atomic.Int64
	lingerSince atomic.Int64
	passSince   atomic.Int64 // the stream has an input budget's pass
	frameBegan  atomic.Int64 // a frame is unfinished, whoever waits
	frameSize   atomic.Int64 // of that frame, zero if not known
	counted     atomic.Int64 // what of the input is in the server's budget

	taken atomic.Int64 // bytes that the kernel took of all writes
}

func newStream(c *conn, rw io.ReadWriteCloser) *stream {
	st := &stream{c: c, rw: rw, gone: make(chan struct{})}
	st.mu.changed.L = &st.mu.Mutex
	st.active.Store(c.server.now())
	st.raw = rawConn(rw)
	st.step = st.writeSome
	return st
}

// sendFirst sets the answers that precede everything else; last: nothing comes after
// them. Only before anybody else knows the stream.
func (st *stream) sendFirst(unsent []byte, last bool) {
	if len(unsent) > 0 {
		st.out = append(st.c.server.buffers.get(len(unsent)), unsent...)
		st.mu.writing, st.mine, st.lastFirst = true, true, last
	}
}

// run is the life of the stream. fresh says that the handler does not know the
// connection yet.
func (st *stream) run(fresh bool) {
	defer st.end()
	if fresh && st.c.callOpen() {
		st.kill(ErrPanic)
		return
	}
	if st.mine && !st.flush() {
		return
	}
	if st.traffic() {
		st.flush()
		st.kill(ErrPanic)
		return
	}
	st.finish()
}

// traffic reads, applies and answers until nothing more is to be read.
func (st *stream) traffic() (failed bool) {
	defer st.c.caught(&failed)
	for st.apply() && st.fill() {
	}
	return false
}

// kill closes the connection for the reason why, if it is not closed already.
func (st *stream) kill(why error) {
	st.mu.Lock()
	if st.mu.closed {
		st.mu.Unlock()
		return
	}
	st.mu.closed, st.mu.why = true, why
	close(st.gone)
	st.mu.changed.Broadcast()
	st.mu.Unlock()
	st.rw.Close()
}

// end is the last thing run does.
func (st *stream) end() {
	st.kill(io.EOF)
	st.mu.Lock()
	if st.mine {
		st.mu.writing = false
	}
	for st.mu.writing { // drain sees that its write fails
		st.mu.changed.Wait()
	}
	why := st.mu.why
	st.c.server.output.add(-st.c.slots.bytes)
	st.c.slots.reset()
	st.mu.Unlock()
	st.c.in.at = len(st.c.in.b)
	st.settleInput()
	st.c.server.buffers.put(st.out)
	st.c.callClose(why)
	st.c.server.removeStream(st)
}

// apply gives every whole frame that was read to the handler and sends what can be
// sent; false: nothing more is to be read.
func (st *stream) apply() bool {
	c := st.c
	for {
		frame, _, ok, err := c.in.next(c, nil)
		if err != nil {
			st.flush()
			st.kill(err)
			return false
		}
		if !ok {
			if c.in.waiting() == 0 {
				st.settleInput() // the peer may take its time for the answers
			}
			return st.flush()
		}
		st.dropPass()
		if st.frameBegan.Load() != 0 {
			st.frameBegan.Store(0)
		}
		if !st.admit() || !st.give(frame) {
			return false
		}
		if len(st.out) >= gather && !st.flush() {
			return false
		}
	}
}

// admit waits until the next frame may be applied; false: it never may.
func (st *stream) admit() bool {
	c, s := st.c, st.c.server
	told := false
	for {
		most := connOutput
		if s.output.crowded() {
			// Who has nothing queued goes on, whatever slow peers leave lying.
			most = crowdedOutput
			if !st.flush() || s.output.over() && !s.output.wait(st.gone) {
				return false
			}
		}
		st.mu.Lock()
		if st.mu.closed || s.draining.Load() || c.slots.closing {
			st.mu.Unlock()
			st.flush()
			return false
		}
		blocked := c.slots.held || c.slots.owed() >= s.limits.OwedAnswers || c.slots.bytes > most || st.mu.writing && !st.mine
		if !blocked {
			st.mu.Unlock()
			return true
		}
		// Nothing may wait for this goroutine while it waits: neither what it has, nor
		// answers that were completed before the handler had returned.
		if st.mine || c.slots.ready() && !st.mu.writing {
			st.mu.Unlock()
			if !st.flush() {
				return false
			}
			continue
		}
		if st.eof && !told {
			st.mu.Unlock()
			told = true
			if st.tellHalfClose() {
				st.kill(ErrPanic)
				return false
			}
			continue
		}
		st.mu.changed.Wait()
		st.mu.Unlock()
	}
}

// give hands one frame to the handler and settles its answer; false: the connection
// is at its end.
func (st *stream) give(frame []byte) bool {
	c, s := st.c, st.c.server
	st.mu.Lock()
	number := c.slots.open()
	st.mu.Unlock()
	if st.out == nil {
		st.out = s.buffers.get(firstGrow)
	}
	had := len(st.out)
	out, verdict := c.callFrame(number, frame, st.out)
	if verdict == Bulk || verdict > Close {
		panic(verdictError(verdict))
	}
	st.settle(number, out, had, verdict)
	if verdict == Close {
		st.flush()
		return false
	}
	return true
}

// settle books one verdict; out[had:] is what the handler appended.
func (st *stream) settle(number uint64, out []byte, had int, verdict Verdict) {
	c := st.c
	st.mu.Lock()
	defer st.mu.Unlock()
	before := c.slots.bytes
	if c.slots.forgotten(number) {
		st.out = out[:had]
		return
	}
	switch verdict {
	case Later, Hold:
		c.slots.later(number, out[had:], verdict == Hold)
		st.out = out[:had]
	default:
		// The first in order and nobody writing: the answer leaves from st.out.
		if number == c.slots.head && (!st.mu.writing || st.mine) && verdict != Close && !c.slots.closing {
			c.slots.passed()
			st.out = out
			if len(out) > had {
				st.mu.writing, st.mine = true, true
			}
			break
		}
		c.slots.answered(number, out[had:], verdict == Close)
		st.out = out[:had]
	}
	c.server.output.add(c.slots.bytes - before)
}

// flush sends what is in st.out and every answer that is ready, unless somebody else
// is sending; false: the connection is closed.
func (st *stream) flush() bool {
	st.mu.Lock()
	if !st.mine {
		if st.mu.writing || !st.c.slots.ready() {
			open, stopped := !st.mu.closed, st.stoppedLocked()
			st.mu.Unlock()
			if stopped {
				st.kill(ErrStopping)
			}
			return open && !stopped
		}
		st.mu.writing, st.mine = true, true
	}
	st.mu.sending = len(st.out)
	st.mu.Unlock()
	st.out = st.send(st.out)
	st.mine = false
	st.mu.Lock()
	defer st.mu.Unlock()
	return !st.mu.closed
}

// stoppedLocked reports that the server stops and nothing is left to do here.
// REQUIRES st.mu.
func (st *stream) stoppedLocked() bool {
	return st.c.server.stopping.Load() && st.c.slots.owed() == 0 && !st.mu.writing && !st.mu.closed
}

// stop closes the connection if nothing is left to do; else whoever sends the last
// answer closes it.
func (st *stream) stop() {
	st.mu.Lock()
	stopped := st.stoppedLocked()
	st.mu.Unlock()
	if stopped {
		st.kill(ErrStopping)
	}
}

// drain sends what is ready; it was started with mu.writing set for it.
func (st *stream) drain() {
	st.c.server.buffers.put(st.send(nil))
}

// send writes out and then the answers that are ready, until there are none, and
// clears mu.writing. It returns a buffer to be used again, empty.
func (st *stream) send(out []byte) []byte {
	c, s := st.c, st.c.server
	released := len(out)
	s.output.add(released)
	for {
		err := st.write(out)
		if cap(out) > 4*gather {
			out = nil
		}
		out = out[:0]
		s.output.add(-released)
		if st.lastFirst && err == nil {
			st.lastFirst = false
			st.linger()
		}
		st.mu.Lock()
		if err != nil {
			st.mu.Unlock()
			st.kill(err)
			st.mu.Lock()
		}
		if st.mu.closed || !c.slots.ready() {
			st.mu.writing, st.mu.sending = false, 0
			st.mu.changed.Broadcast()
			stopped := st.stoppedLocked()
			st.mu.Unlock()
			if stopped {
				st.kill(ErrStopping)
			}
			return out
		}
		before := c.slots.bytes
		large, recycle, last, ok := c.slots.popLarge(largeAnswer)
		if !ok {
			if out == nil {
				out = s.buffers.get(firstGrow)
			}
			out, last = c.slots.pop(out, gather)
		}
		released = before - c.slots.bytes
		st.mu.sending = released
		st.mu.Unlock()
		if ok {
			if err := st.write(large); err != nil {
				st.kill(err)
			}
			if recycle {
				s.buffers.put(large)
			}
		}
		if last {
			if err := st.write(out); err != nil {
				st.kill(err)
			}
			out = out[:0]
			st.linger()
		}
	}
}

// linger follows the last answer: the peer is told that nothing more comes and has
// time to take it. Closing at once would make the kernel throw the answer away if
// the peer has sent more than was read.
func (st *stream) linger() {
	half, ok := st.rw.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		st.kill(ErrClosedByHandler)
		return
	}
	st.lingerSince.Store(st.c.server.now())
	st.mu.Lock()
	st.mu.lingering = true
	st.mu.changed.Broadcast()
	st.mu.Unlock()
}

// tellHalfClose tells the handler, if it wants to know, that the peer sends no more
// and answers are owed.
func (st *stream) tellHalfClose() (failed bool) {
	if f := st.c.server.onHalfClose; f != nil && st.eof {
		defer st.c.caught(&failed)
		f(st.c)
	}
	return false
}

// finish waits until everything that is owed has been sent.
func (st *stream) finish() {
	if st.tellHalfClose() {
		st.kill(ErrPanic)
		return
	}
	st.mu.Lock()
	for !st.mu.closed && !st.mu.lingering && (st.c.slots.owed() > 0 || st.mu.writing) {
		st.mu.changed.Wait()
	}
	lingering := st.mu.lingering && !st.mu.closed
	st.mu.Unlock()
	if !lingering {
		if st.c.server.draining.Load() && !st.eof {
			st.park()
		}
		return
	}
	for !st.eof {
		if _, err := st.rw.Read(st.small[:]); err != nil {
			break
		}
	}
	st.kill(ErrClosedByHandler)
}

// park waits for Stop: the server drains, this connection has nothing to do.
func (st *stream) park() {
	<-st.gone
}

// fill reads more; false: there is no more, or the connection is closed.
func (st *stream) fill() bool {
	s := st.c.server
	if st.eof {
		return false
	}
	s.buffers.put(st.out) // empty: everything was flushed
	st.out = nil
	if st.c.in.waiting() > 0 {
		st.frameSize.Store(int64(st.c.in.size))
		if st.frameBegan.Load() == 0 {
			st.frameBegan.Store(s.now())
		}
	}
	space, ok := st.space()
	if !ok {
		return false
	}
	if st.c.in.waiting() > 0 {
		st.frameSince.Store(s.now())
	}
	n, err := st.rw.Read(space)
	st.frameSince.Store(0)
	if n > 0 {
		st.active.Store(s.now())
		st.c.in.b = st.c.in.b[:len(st.c.in.b)+n]
		if n < len(space) {
			st.ahead = 0
		} else {
			st.ahead = min(max(2*n, firstGrow), maxReadAhead)
		}
	}
	st.mu.Lock()
	lingering := st.mu.lingering
	st.mu.Unlock()
	if err == nil {
		return !lingering
	}
	if errors.Is(err, io.EOF) {
		st.eof = true
		return n > 0 && !lingering
	}
	st.kill(err)
	return false
}

// space returns where to read to. While nothing is kept that is the small buffer, so
// that an idle connection holds no other; unless the last read was full, for then
// more is there.
func (st *stream) space() (space []byte, ok bool) {
	s, in := st.c.server, &st.c.in
	if in.waiting() == 0 {
		st.settleInput()
		if st.ahead <= smallRead {
			in.b = st.small[:0]
			return st.small[:], true
		}
		in.b = s.buffers.get(st.ahead)
		st.count()
	}
	if in.size > maxReadAhead && !st.mayGrow() {
		return nil, false
	}
	if len(in.b) == cap(in.b) {
		in.room(&s.buffers, max(1, st.ahead))
		st.count()
	}
	return in.b[len(in.b):cap(in.b)], true
}

// mayGrow waits until the unfinished frame may take more memory; false: the connection
// is closed.
func (st *stream) mayGrow() bool {
	s := st.c.server
	b := &s.input
	if st.c.in.size > s.limits.LargeFrameBytes {
		b = &s.large
	}
	if !b.over() {
		return true
	}
	if !b.waitOrPass(st, st.gone) {
		return false
	}
	if st.passSince.Load() == 0 && b.holds(st) {
		st.pass = b
		st.passSince.Store(s.now())
	}
	return true
}

// count brings the input budget up to what is held.
func (st *stream) count() {
	held := cap(st.c.in.b)
	if held == smallRead {
		held = 0
	}
	large, s := 0, st.c.server
	if st.c.in.size > s.limits.LargeFrameBytes {
		large = held
	}
	if more := held - int(st.counted.Load()); more != 0 {
		s.input.add(more)
		st.counted.Store(int64(held))
	}
	s.large.add(large - st.countedLarge)
	st.countedLarge = large
}

// settleInput gives the input buffer back, and with it what it had of the budget.
func (st *stream) settleInput() {
	st.c.in.settle(&st.c.server.buffers)
	st.count()
	st.dropPass()
}

// dropPass gives the budget's pass back: the frame that needed it is whole.
func (st *stream) dropPass() {
	if st.passSince.Load() != 0 {
		st.passSince.Store(0)
		st.pass.drop(st)
	}
}

// complete takes a completion; true: the caller has to start drain.
func (st *stream) complete(done *Completion) (start bool) {
	c := st.c
	st.mu.Lock()
	defer st.mu.Unlock()
	before := c.slots.bytes
	if st.mu.closed || !c.slots.complete(done) {
		return false
	}
	c.server.output.add(c.slots.bytes - before)
	st.mu.changed.Broadcast()
	if st.mu.writing || !c.slots.ready() {
		return false
	}
	st.mu.writing = true
	return true
}
