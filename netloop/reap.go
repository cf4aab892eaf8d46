package netloop

import (
	"time"
)

const (
	maxTick = time.Second
	minTick = 5 * time.Millisecond
	// ringKept is how long an idle connection keeps its ring of slots.
	ringKept = 10 * time.Second
)

// tick is how often connections are looked over: often enough for the shortest of
// the time limits.
func (l Limits) tick() time.Duration {
	shortest := min(l.FrameStall, l.WriteStall, l.Idle, l.Linger)
	return min(max(shortest/8, minTick), maxTick)
}

// reapEvery looks over all connections until the server has stopped.
func (s *Server) reapEvery(tick time.Duration) {
	defer s.background.Done()
	t := time.NewTicker(tick)
	defer t.Stop()
	var streams []*stream
	var slow relief
	for {
		select {
		case <-s.ended:
			return
		case <-t.C:
		}
		now := s.now()
		streams = s.listStreams(streams[:0])
		for _, st := range streams {
			st.watchWrite(now)
			if why := st.overdue(now); why != nil {
				st.kill(why)
			} else {
				st.trim(now)
			}
		}
		slow.relieve(s, streams, now)
		clear(streams)
		s.reapLoops()
	}
}

// watchWrite counts as progress of a waiting write what the peer takes out of the
// kernel: the kernel lets the write go on only when a third of its buffer is free,
// and that can be more than a slow peer takes in Limits.WriteStall.
func (st *stream) watchWrite(now int64) {
	taken := st.taken.Load()
	st.lately, st.wasTaken = taken-st.wasTaken, taken
	since := st.writeSince.Load()
	if since == 0 || since == now {
		return
	}
	if n := st.queued(); n >= 0 && n != st.wasQueued {
		st.wasQueued = n
		st.writeSince.CompareAndSwap(since, now)
	}
}

// trim gives the ring of slots back if the connection has become idle.
func (st *stream) trim(now int64) {
	quiet := time.Duration(now - st.active.Load())
	if quiet < ringKept || quiet > ringKept+2*maxTick {
		return // busy, or done already
	}
	st.mu.Lock()
	st.c.slots.trim()
	st.mu.Unlock()
}

// overdue returns why the connection has to be closed now, nil if it has not.
func (st *stream) overdue(now int64) error {
	l := &st.c.server.limits
	past := func(since int64, limit time.Duration) bool {
		return since != 0 && now-since >= int64(limit)
	}
	switch {
	case past(st.writeSince.Load(), l.WriteStall):
		return ErrWriteStalled
	case past(st.lingerSince.Load(), l.Linger):
		return ErrClosedByHandler
	case past(st.frameSince.Load(), l.FrameStall), past(st.passSince.Load(), l.FrameStall),
		past(st.frameBegan.Load(), l.frameTime(st.frameSize.Load())):
		return ErrFrameStalled
	case past(st.active.Load(), l.Idle):
		return ErrIdle
	}
	return nil
}
