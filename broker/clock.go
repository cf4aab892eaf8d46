package broker

import (
	"sync"
	"sync/atomic"
	"time"
)

// A Clock is where the broker reads time. Deadlines use the monotonic reading,
// records the wall clock.
type Clock interface {
	// Now returns the time since some fixed moment of the process, which never
	// goes back, and the wall clock in Unix milliseconds, which may jump.
	Now() (mono time.Duration, wallMillis int64)
	// After is readable once d has passed.
	After(d time.Duration) <-chan time.Time
}

// realClock is the operating system's.
type realClock struct{ start time.Time }

func newRealClock() *realClock { return &realClock{start: time.Now()} }

func (c *realClock) Now() (time.Duration, int64) {
	now := time.Now()
	return now.Sub(c.start), now.UnixMilli()
}

func (c *realClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

const (
	// tickInterval is how often the timer loop looks at the clock at least.
	tickInterval = 500 * time.Millisecond
	// pauseLimit is how late it may be before the process counts as paused.
	pauseLimit = time.Second
	// pauseGrace is how long nothing expires after a pause: what clients sent
	// meanwhile is read first.
	pauseGrace = time.Second
)

// A timekeeper is the broker's time: the monotonic clock without the stretches
// in which the process stood still (a stopped container, a suspended machine).
// So a pause of the server expires nobody: every deadline moves by its length.
// The timer loop ticks twice a second; whoever reads the clock first after
// ticks were missed takes the gap out, before any deadline is compared with it.
type timekeeper struct {
	clock    Clock
	ticking  atomic.Bool  // false until the first tick: nothing is a pause yet
	lastTick atomic.Int64 // raw monotonic reading
	// paused is the sum of all pauses. Invariant: it is raised before lastTick, so
	// that who sees no gap sees the pause that closed it.
	paused atomic.Int64
	quiet  atomic.Int64 // until this raw reading nothing expires

	mu sync.Mutex // held while a pause is taken out
}

// now returns the broker's monotonic time and the wall clock.
func (k *timekeeper) now() (time.Duration, int64) {
	for {
		paused := k.paused.Load()
		raw, wall := k.clock.Now()
		if k.gap(raw) {
			k.skip()
			continue
		}
		// A reading from before a pause must not be combined with the sum from after
		// it, nor the other way round.
		if paused == k.paused.Load() {
			return raw - time.Duration(paused), wall
		}
	}
}

func (k *timekeeper) gap(raw time.Duration) bool {
	return int64(raw)-k.lastTick.Load() > int64(tickInterval+pauseLimit) && k.ticking.Load()
}

// skip takes the stretch since the last tick out of the broker's time.
func (k *timekeeper) skip() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if raw, _ := k.clock.Now(); k.gap(raw) { // else somebody was first
		k.skipLocked(raw)
	}
}

func (k *timekeeper) skipLocked(raw time.Duration) {
	k.paused.Add(int64(raw) - k.lastTick.Load())
	k.quiet.Store(int64(raw + pauseGrace))
	k.lastTick.Store(int64(raw))
}

// tick notes that the timer loop is alive. It returns the broker's time and for
// how long nothing may expire yet.
func (k *timekeeper) tick() (now, quiet time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	raw, _ := k.clock.Now()
	if k.gap(raw) {
		k.skipLocked(raw)
	}
	k.lastTick.Store(int64(raw))
	k.ticking.Store(true)
	return raw - time.Duration(k.paused.Load()), max(0, time.Duration(k.quiet.Load())-raw)
}
