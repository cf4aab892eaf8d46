package netloop

import (
	"errors"
	"testing"
	"time"
)

// Peers that do not take their answers use up three quarters of the budget: a
// connection with nothing queued is served all the same, and the slow ones are closed
// after a while, those that hold most first.
func TestSlowReadersDoNotStopOthers(t *testing.T) {
	const size = gather // one answer is sent at a time
	inBubble(t, func(o *Options) { o.Limits.OutputBytes = 10 * size }, func(w *world) {
		var slow []*client
		for range 8 {
			c := w.client()
			c.send(c.frame(c.frame(nil, inline, size, 0), inline, size, 0))
			slow = append(slow, c)
		}
		time.Sleep(crowdGrace / 2)
		if !w.server.output.crowded() || w.server.output.over() {
			t.Fatalf("%d bytes held", w.server.output.used.Load())
		}
		other := w.client()
		other.send(other.frame(nil, inline, 5, 0))
		other.want(0, 5)
		if n := w.handler.frames.Load(); n != 9 {
			t.Errorf("%d frames applied, want one of each", n)
		}
		slow[0].want(0, size) // it is not slow: it goes on
		time.Sleep(crowdGrace + 2*maxTick)
		if n := w.handler.closed.Load(); n < 3 || n > 4 {
			t.Errorf("%d connections closed, want no more than it takes", n)
		}
		for i := range int(w.handler.closed.Load()) {
			if err := w.handler.reason(i); !errors.Is(err, ErrCrowded) {
				t.Errorf("closed for %v", err)
			}
		}
		if used := w.server.output.used.Load(); used > 5*size+1000 {
			t.Errorf("%d bytes are still held", used)
		}
		other.send(other.frame(nil, inline, 5, 0))
		other.want(1, 5)
	})
}

// A connection whose answers wait for a completion is owed a bounded number of bytes.
func TestOutputOfOneConnection(t *testing.T) {
	inBubble(t, nil, func(w *world) {
		c := w.client()
		c.send(c.frame(nil, parked, 5, 0))
		first := <-w.handler.parkedCh
		w.server.Release(0, []Completion{first})
		c.want(0, 5)
		const size = connOutput / 4
		b := c.frame(nil, waits, 5, 0)
		for range 8 {
			b = c.frame(b, later, size, 0)
		}
		c.send(b)
		head := <-w.handler.parkedCh
		time.Sleep(time.Second)
		if n := w.handler.frames.Load(); n > 7 {
			t.Errorf("%d frames applied", n)
		}
		w.server.Release(0, []Completion{head})
		c.want(1, 5)
		for i := range 8 {
			c.want(uint32(2+i), size)
		}
	})
}

// Unfinished large frames leave half of the budget to ordinary ones and are closed,
// the oldest first, so that another large one gets through, whether they wait for
// their peer or for room.
func TestUnfinishedFramesDoNotStopOthers(t *testing.T) {
	const size = 400 << 10
	set := func(o *Options) { o.Limits.InputBytes, o.Limits.LargeFrameBytes = 2<<20, size/2 }
	inBubble(t, set, func(w *world) {
		for range 6 {
			c := w.client()
			c.send(c.frame(nil, inline, 5, size)[:size-100])
		}
		time.Sleep(time.Second)
		if !w.server.large.over() {
			t.Fatalf("%d bytes of large frames", w.server.large.used.Load())
		}
		ordinary, large := w.client(), w.client()
		ordinary.send(ordinary.frame(nil, inline, 5, size/2-100))
		ordinary.want(0, 5)
		large.send(large.frame(nil, inline, 5, size))
		large.want(0, 5)
		// How many it takes depends on who of those that wait is first when there is room.
		if w.handler.closed.Load() == 0 {
			t.Error("no connection closed")
		}
		for i := range int(w.handler.closed.Load()) {
			if err := w.handler.reason(i); !errors.Is(err, ErrCrowded) {
				t.Errorf("closed for %v", err)
			}
		}
	})
}
