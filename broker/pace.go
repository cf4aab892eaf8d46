package broker

import (
	"runtime"
	"time"
)

const (
	// paceWork is how long work for one request keeps its processor before it lets go
	// of it for paceRest. Neither Go's scheduler nor the kernel's would take it away
	// before some milliseconds have passed, and an event loop would wait that long.
	paceWork = 250 * time.Microsecond
	paceRest = 500 * time.Microsecond
)

// A pace is kept by work that takes long and can be done in pieces: descriptions,
// lists, sums of all groups. Nil is the pace of work on an event loop, which takes
// turns but does not rest.
type pace struct {
	broker *Broker
	since  time.Duration // the last rest's end, by the options' clock
}

func (b *Broker) newPace() *pace {
	p := &pace{broker: b}
	p.since, _ = b.options.Clock.Now()
	return p
}

// step is called between two pieces, without a lock.
func (p *pace) step() {
	if p != nil {
		if now, _ := p.broker.options.Clock.Now(); now-p.since >= paceWork {
			p.broker.rest(paceRest)
			p.since, _ = p.broker.options.Clock.Now()
			return
		}
	}
	runtime.Gosched() // an event loop that has just got the lock's wake-up need not wait
}

// rest lets others have the processor for a while. An executor that is not made of
// goroutines has no others.
func (b *Broker) rest(d time.Duration) {
	if g, ok := b.options.Executor.(*goroutines); ok {
		<-g.clock.After(d)
	}
}
