package broker

import (
	"slices"
	"testing"
	"time"
)

// restClock stands still but for rests, which it notes.
type restClock struct {
	mono  time.Duration
	rests []time.Duration
}

func (c *restClock) Now() (time.Duration, int64) { return c.mono, 0 }

func (c *restClock) After(d time.Duration) <-chan time.Time {
	c.rests = append(c.rests, d)
	c.mono += d
	over := make(chan time.Time)
	close(over)
	return over
}

// Long work rests after each paceWork of it, and not on an executor that has nobody to
// make room for, nor on an event loop.
func TestPace(t *testing.T) {
	clock := &restClock{mono: time.Hour}
	b := &Broker{}
	b.options.Clock = clock
	b.options.Executor = &goroutines{clock: clock}
	work := func(p *pace) []time.Duration {
		clock.rests = nil
		for range 10 {
			clock.mono += paceWork/2 - 1
			p.step()
		}
		return clock.rests
	}
	if got, want := work(b.newPace()), []time.Duration{paceRest, paceRest, paceRest}; !slices.Equal(got, want) {
		t.Errorf("rests %v, want %v", got, want)
	}
	if got := work(nil); got != nil {
		t.Errorf("on an event loop: %v", got)
	}
	b.options.Executor = nil
	if got := work(b.newPace()); got != nil {
		t.Errorf("without goroutines: %v", got)
	}
}
