package broker

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// A Loop is a part of the broker that works in the background: Step does one
// piece of work and tells when it wants to be called again: 0 at once, a
// positive time after that time or when Wake is readable, a negative one only
// when Wake is readable. An error ends the process.
type Loop struct {
	Name string
	Step func() (next time.Duration, err error)
	Wake <-chan struct{}
}

// An Executor starts everything that runs beside the caller. The broker has no
// go statement elsewhere, so that a simulator can run all of it on one
// goroutine.
type Executor interface {
	// Go runs f once. Accept loops and the work of opening the folder come here.
	Go(name string, f func())
	// Loop runs l until stop is closed; failed is given the error that ended it.
	Loop(l Loop, stop <-chan struct{}, failed func(error))
	// Wait returns when everything that was started has ended.
	Wait()
}

// goroutines is the Executor of production: a goroutine for each.
type goroutines struct {
	clock   Clock
	running sync.WaitGroup
}

func (g *goroutines) Go(_ string, f func()) {
	g.running.Add(1)
	go func() {
		defer g.running.Done()
		f()
	}()
}

func (g *goroutines) Loop(l Loop, stop <-chan struct{}, failed func(error)) {
	g.Go(l.Name, func() {
		if err := g.steps(l, stop); err != nil {
			failed(fmt.Errorf("%s: %w", l.Name, err))
		}
	})
}

// steps calls l.Step as it asks to be called.
func (g *goroutines) steps(l Loop, stop <-chan struct{}) error {
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		next, err := l.Step()
		if err != nil {
			return err
		}
		if next == 0 {
			continue
		}
		var timer <-chan time.Time
		if next > 0 {
			timer = g.clock.After(next)
		}
		select {
		case <-stop:
			return nil
		case <-l.Wake:
		case <-timer:
		}
	}
}

// each calls f for 0 to n-1, up to most at a time, and returns when all have ended.
func (g *goroutines) each(n, most int, f func(i int)) {
	var next atomic.Int64
	var done sync.WaitGroup
	for range min(n, most) {
		done.Add(1)
		g.Go("parallel", func() {
			defer done.Done()
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	done.Wait()
}

func (g *goroutines) Wait() { g.running.Wait() }
