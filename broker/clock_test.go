package broker

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A manualClock moves when the test says so.
type manualClock struct {
	mu   sync.Mutex
	mono time.Duration
}

func (c *manualClock) Now() (time.Duration, int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mono, 1_700_000_000_000 + c.mono.Milliseconds()
}

func (c *manualClock) After(time.Duration) <-chan time.Time { return nil }

func (c *manualClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mono += d
}

func TestPauseExpiresNobody(t *testing.T) {
	clock := &manualClock{}
	k := &timekeeper{clock: clock}
	clock.advance(time.Hour)
	if now, _ := k.now(); now != time.Hour {
		t.Fatalf("before the first tick nothing is a pause: %v", now)
	}
	k.tick()

	// Late within the limit: time goes on as it is.
	clock.advance(tickInterval + pauseLimit)
	if now, quiet := k.tick(); now != time.Hour+1500*time.Millisecond || quiet != 0 {
		t.Fatalf("late, but no pause: %v, quiet %v", now, quiet)
	}
	before, _ := k.now()

	// One past the limit: the whole stretch did not happen.
	clock.advance(tickInterval + pauseLimit + 1)
	if now, wall := k.now(); now != before || wall != 1_700_000_000_000+(time.Hour+3*time.Second).Milliseconds() {
		t.Fatalf("after a pause %v, want %v; wall %d", now, before, wall)
	}
	now, quiet := k.tick()
	if now != before || quiet != pauseGrace {
		t.Fatalf("after a pause %v, want %v; quiet for %v", now, before, quiet)
	}
	clock.advance(pauseGrace)
	if now, quiet := k.tick(); now != before+pauseGrace || quiet != 0 {
		t.Fatalf("time goes on: %v, quiet %v", now, quiet)
	}
}

// Readers on several goroutines see a pause once and never see time go back.
func TestTimeNeverGoesBack(t *testing.T) {
	clock := &manualClock{}
	k := &timekeeper{clock: clock}
	k.tick()
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 3 {
		wg.Go(func() {
			var last time.Duration
			for {
				select {
				case <-stop:
					return
				default:
				}
				now, _ := k.now()
				if now < last {
					t.Errorf("from %v back to %v", last, now)
					return
				}
				last = now
			}
		})
	}
	for range 200 {
		clock.advance(100 * time.Millisecond)
		k.tick()
		clock.advance(time.Minute)
		k.now()
	}
	close(stop)
	wg.Wait()
	if now, _ := k.now(); now > 200*(100*time.Millisecond) {
		t.Errorf("paused time counted: %v", now)
	}
}

// A jumpingClock is a clock that also leaps ahead.
type jumpingClock struct {
	Clock
	ahead atomic.Int64
}

func (c *jumpingClock) Now() (time.Duration, int64) {
	mono, wall := c.Clock.Now()
	ahead := time.Duration(c.ahead.Load())
	return mono + ahead, wall + ahead.Milliseconds()
}

func (c *jumpingClock) jump(d time.Duration) { c.ahead.Add(int64(d)) }
