package sim

import (
	"time"

	"github.com/kcoord/kcoord/broker"
)

// A clock is virtual time. Nothing but the World moves it.
type clock struct {
	mono time.Duration
	wall int64 // Unix milliseconds; may be made to jump
}

func (c *clock) Now() (time.Duration, int64) { return c.mono, c.wall }

// After is for waits of the production executor; the simulator's never waits.
func (c *clock) After(time.Duration) <-chan time.Time { panic("sim: a wait on the clock") }

func (c *clock) advance(d time.Duration) {
	c.mono += d
	c.wall += d.Milliseconds()
}

// A process is one life of the broker: everything that a crash takes away.
type process struct {
	machine *machine
	broker  *broker.Broker
	network *network
	loops   []*loop
	// jobs have been started and not run yet: opening the folder, loading groups.
	jobs   []job
	opened bool // the folder is open
}

type job struct {
	name string
	run  func()
}

// A loop is a background part of the broker, stepped by the World.
type loop struct {
	broker.Loop
	stop    <-chan struct{}
	due     time.Duration // when it wants to be called; never: only when woken
	stalled time.Duration // not called before: a slow disk, a thread that gets no time
	running bool          // it is being called: what happens meanwhile must not call it
}

const never = time.Duration(1<<63 - 1)

// Go notes f for the World to run: requests come before, between and after.
func (p *process) Go(name string, f func()) { p.jobs = append(p.jobs, job{name, f}) }

// work runs one of the jobs.
func (p *process) work(i int) {
	j := p.jobs[i]
	p.jobs = append(p.jobs[:i:i], p.jobs[i+1:]...)
	j.run()
	p.opened = p.opened || j.name == "open"
}

// Loop notes a loop for the World to step.
func (p *process) Loop(l broker.Loop, stop <-chan struct{}, _ func(error)) {
	p.loops = append(p.loops, &loop{Loop: l, stop: stop})
}

// Wait has nothing to wait for: loops are called, they do not run.
func (p *process) Wait() {}

// loop returns a loop by name.
func (p *process) loop(name string) *loop {
	for _, l := range p.loops {
		if l.Name == name {
			return l
		}
	}
	panic("sim: no loop " + name)
}

// ready reports whether a loop has to be called now.
func (l *loop) ready(now time.Duration) bool {
	if now < l.stalled || l.running {
		return false
	}
	return l.due <= now || len(l.Wake) > 0
}

// next is when it will be ready, as far as is known.
func (l *loop) next(now time.Duration) time.Duration {
	if l.running {
		return never
	}
	if l.stalled > now && (len(l.Wake) > 0 || l.due < l.stalled) {
		return l.stalled
	}
	return l.due
}

// step calls the loop once.
func (l *loop) step(c *clock) error {
	l.sleep()
	next, err := l.Step()
	switch {
	case next < 0:
		l.due = never
	default:
		l.due = c.mono + next
	}
	return err
}

// sleep takes the wake-up and the deadline away.
func (l *loop) sleep() {
	select {
	case <-l.Wake:
	default:
	}
	l.due = never
}
