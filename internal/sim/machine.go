package sim

import (
	"math/rand/v2"
	"time"

	"github.com/kcoord/kcoord/broker"
	"github.com/kcoord/kcoord/log/vfs"
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
}

// A loop is a background part of the broker, stepped by the World.
type loop struct {
	broker.Loop
	stop    <-chan struct{}
	due     time.Duration // when it wants to be called; never: only when woken
	stalled time.Duration // not called before: a slow disk, a thread that gets no time
}

const never = time.Duration(1<<63 - 1)

// Go runs f at once: opening the folder and loading groups are not interleaved
// with requests here (a crash may still hit them in the middle).
func (p *process) Go(_ string, f func()) { f() }

// Loop notes a loop for the World to step.
func (p *process) Loop(l broker.Loop, stop <-chan struct{}, _ func(error)) {
	p.loops = append(p.loops, &loop{Loop: l, stop: stop})
}

// Wait has nothing to wait for: loops are called, they do not run.
func (p *process) Wait() {}

// ready reports whether a loop has to be called now.
func (l *loop) ready(now time.Duration) bool {
	if now < l.stalled {
		return false
	}
	return l.due <= now || len(l.Wake) > 0
}

// step calls the loop once.
func (l *loop) step(now time.Duration) error {
	select {
	case <-l.Wake:
	default:
	}
	next, err := l.Step()
	switch {
	case next < 0:
		l.due = never
	default:
		l.due = now + next
	}
	return err
}

// A machine is the computer: its disk outlives the process.
type machine struct {
	random *rand.Rand
	clock  *clock
	disk   *vfs.Crashable
	// fuse is how many more file operations until the power fails; negative: it
	// does not.
	fuse int
}

// powerCut is what a file operation panics with when the fuse has burnt down.
type powerCut struct{}

// files is the disk as the process sees it.
func (m *machine) files() vfs.FS {
	return &vfs.Hooked{FS: m.disk, Before: func(vfs.Op) *vfs.Failure {
		if m.fuse == 0 {
			panic(powerCut{})
		}
		if m.fuse > 0 {
			m.fuse--
		}
		return nil
	}}
}

// cut makes the disk what a power failure, or only the death of the process,
// leaves of it.
func (m *machine) cut() {
	m.fuse = -1
	pick := vfs.KeepAll // the process was killed, the operating system lives
	switch m.random.IntN(3) {
	case 0:
		pick = vfs.Seeded(m.random.Uint64())
	case 1:
		pick = vfs.KeepNone
	}
	m.disk = m.disk.Crash(pick)
}

func (m *machine) fill(b []byte) {
	for i := range b {
		b[i] = byte(m.random.Uint32())
	}
}
