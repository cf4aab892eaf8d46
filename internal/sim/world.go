package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime/debug"
	"sort"
	"time"

	"github.com/rs/zerolog"

	"github.com/kcoord/kcoord/broker"
	"github.com/kcoord/kcoord/log/vfs"
	"github.com/kcoord/kcoord/netloop"
)

var errCut = errors.New("sim: connection cut")

// A World is one run.
type World struct {
	options Options
	mix     mix
	random  *rand.Rand
	machine *machine
	process *process // nil while the broker is down
	boots   int      // processes so far
	loaded  int      // tick at which this one had loaded its groups; negative: not yet
	clients []*client
	timers  []timer // sorted by time
	nextSeq int
	now     int // counts what clients send and are told: the order of things for them
	// crashAt and cutAt are events at which there is a crash and a cut in any case.
	crashAt, cutAt int

	calm      bool          // faults have stopped
	calmSince time.Duration // when
	members   []*member
	twins     []*member
	admins    []*admin
	groups    map[string]*groupHistory
	registers registers
	logs      map[int32]*logHistory
	pids      map[int64]bool // producer ids handed out
	topicIDs  map[string][16]byte

	report Report
}

type timer struct {
	at  time.Duration
	seq int
	f   func()
}

// A Report is what a run did.
type Report struct {
	Events, Crashes, Stops, Cuts, Pauses, Stalls int
	SlowSyncs, FailedSyncs, FullDisks            int
	Succeeded                                    map[string]int // by API
}

// A Violation is something that never must happen.
type Violation struct {
	Seed    uint64
	Event   int
	At      time.Duration
	Checker string
	What    string
}

func (v *Violation) Error() string {
	return fmt.Sprintf("seed %d, event %d, at %v: %s: %s", v.Seed, v.Event, v.At, v.Checker, v.What)
}

// Run carries out one run and tells what went wrong: a *Violation.
func Run(o Options) (report Report, err error) {
	if o.Events == 0 {
		o.Events = 2000
	}
	w := newWorld(o)
	defer func() {
		report = w.report
		if r := recover(); r != nil {
			v, ok := r.(*Violation)
			if !ok {
				v = &Violation{o.Seed, w.report.Events, w.machine.clock.mono, checkBroker, fmt.Sprintf("panic: %v\n%s", r, debug.Stack())}
			}
			err = v
		}
	}()
	w.boot()
	w.populate()
	// A disk that stays full keeps the broker from starting: then there is nothing to cut.
	for w.report.Events < o.Events || w.report.Crashes == 0 || w.report.Cuts == 0 {
		w.event()
	}
	w.calmDown()
	w.finish()
	return report, nil
}

// trace tells who watches a run what happens.
func (w *World) trace(format string, args ...any) {
	if w.options.Trace != nil {
		w.options.Trace(fmt.Sprintf("%6d %v ", w.report.Events, w.machine.clock.mono) + fmt.Sprintf(format, args...))
	}
}

// traceWriter makes the broker's log part of the trace.
type traceWriter struct{ w *World }

func (t traceWriter) Write(p []byte) (int, error) {
	t.w.trace("%s", p)
	return len(p), nil
}

// violated ends the run: a checker saw something that never must happen.
func (w *World) violated(checker, format string, args ...any) {
	panic(&Violation{w.options.Seed, w.report.Events, w.machine.clock.mono, checker, fmt.Sprintf(format, args...)})
}

// tick numbers what clients send and are told.
func (w *World) tick() int {
	w.now++
	return w.now
}

func (w *World) succeed(what string) { w.report.Succeeded[what]++ }

func newWorld(o Options) *World {
	random := rand.New(rand.NewPCG(o.Seed, 0x6b636f6f7264))
	w := &World{options: o, mix: drawMix(random), random: random,
		groups: map[string]*groupHistory{}, registers: registers{byKey: map[registerKey]*register{}},
		logs: map[int32]*logHistory{}, pids: map[int64]bool{}, topicIDs: map[string][16]byte{},
		report: Report{Succeeded: map[string]int{}}}
	w.machine = &machine{world: w, fuse: -1, syncFuse: -1, disk: vfs.NewCrashable(), clock: &clock{mono: time.Hour, wall: 1_700_000_000_000}}
	w.machine.disk.SetCapacity(diskSize)
	w.crashAt, w.cutAt = o.Events/10+random.IntN(o.Events*8/10), o.Events/10+random.IntN(o.Events*8/10)
	return w
}

// boot starts the broker on whatever the disk holds. It serves what it can while
// it opens its folder and loads groups; the power may fail meanwhile.
func (w *World) boot() {
	p := &process{machine: w.machine, network: &network{world: w}}
	p.broker = w.newBroker(p)
	w.machine.failed = false
	// Nobody waits for it to be ready: what that takes is still to be run.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := p.broker.Start(ctx); !errors.Is(err, context.Canceled) {
		w.violated(checkBroker, "Start: %v", err)
	}
	w.process = p
	w.boots++
	w.loaded = -1
	w.registers.restarted(w)
}

// settleBoot lets the broker become ready.
func (w *World) settleBoot() {
	w.until(checkBroker, "the broker is ready", time.Minute, func() bool { return w.process != nil && w.process.broker.Ready() })
}

// judge ends the process if the broker has, which only the disk may be the reason
// for.
func (w *World) judge() {
	p := w.process
	if p == nil || p.broker.Err() == nil {
		return
	}
	if !w.machine.troubled() {
		w.violated(checkBroker, "the broker cannot go on: %v", p.broker.Err())
	}
	w.trace("the broker cannot go on: %v", p.broker.Err())
	w.crash()
}

func (w *World) newBroker(p *process) *broker.Broker {
	logger := zerolog.Nop()
	if w.options.Trace != nil {
		logger = zerolog.New(traceWriter{w})
	}
	o := broker.Options{
		Logger:  &logger,
		DataDir: "data", Listen: noListener, FS: w.machine.files(), Clock: w.machine.clock, Random: w.machine.fill, Executor: p,
		Properties: w.mix.properties(),
		Transport: func(h netloop.Handler) (broker.Transport, error) {
			p.network.handler = h
			return p.network, nil
		},
	}
	if f := w.options.Sabotage.Options; f != nil {
		f(&o)
	}
	b, err := broker.New(o)
	if err != nil {
		w.violated(checkBroker, "broker.New: %v", err)
	}
	if f := w.options.Sabotage.Made; f != nil {
		f(b)
	}
	return b
}

// noListener takes the place of a listener: connections come from the network.
func noListener(string, string) (net.Listener, error) { return closedListener{}, nil }

type closedListener struct{}

func (closedListener) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (closedListener) Close() error              { return nil }
func (closedListener) Addr() net.Addr            { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9092} }

// after runs f once d has passed.
func (w *World) after(d time.Duration, f func()) {
	w.nextSeq++
	t := timer{at: w.machine.clock.mono + d, seq: w.nextSeq, f: f}
	i := sort.Search(len(w.timers), func(i int) bool { return w.timers[i].at > t.at })
	w.timers = append(w.timers, timer{})
	copy(w.timers[i+1:], w.timers[i:])
	w.timers[i] = t
}

// pause is a short random time: a round trip, a thought. Without faults there is
// less of a hurry.
func (w *World) pause() time.Duration {
	if w.calm {
		return w.upTo(time.Second)
	}
	return w.upTo(200 * time.Millisecond)
}

// upTo is a random time of at least a millisecond.
func (w *World) upTo(d time.Duration) time.Duration {
	return time.Duration(1+w.random.Int64N(d.Milliseconds())) * time.Millisecond
}

// chance is true once in n.
func (w *World) chance(n int) bool { return w.random.IntN(n) == 0 }

// event draws one thing that can happen and lets it happen. When nothing can,
// time moves to the next moment at which something will.
func (w *World) event() {
	w.report.Events++
	if !w.calm && w.faults() {
		return
	}
	choices := w.choices()
	if len(choices) == 0 {
		w.advance()
		return
	}
	w.guard(choices[w.random.IntN(len(choices))])
	w.judge()
	if w.process != nil && w.loaded < 0 && w.process.broker.Ready() {
		w.loaded = w.tick()
	}
}

// choices lists what can happen now.
func (w *World) choices() []func() {
	out := make([]func(), 0, 8)
	now := w.machine.clock.mono
	if len(w.timers) > 0 && w.timers[0].at <= now {
		out = append(out, w.fire)
	}
	for _, c := range w.clients {
		if c.readable(now) {
			out = append(out, c.read)
		}
	}
	if p := w.process; p != nil {
		if len(p.jobs) > 0 {
			out = append(out, func() { p.work(w.random.IntN(len(p.jobs))) })
		}
		for _, l := range p.loops {
			if l.ready(now) {
				out = append(out, func() { w.step(l) })
			}
		}
		if p.network.tells && now >= p.network.readUntil {
			out = append(out, p.network.tell)
		}
		live := p.network.conns[:0]
		for _, c := range p.network.conns {
			if c.open {
				live = append(live, c)
			}
			if c.deliverable(now) {
				out = append(out, c.deliver)
			}
		}
		p.network.conns = live
	}
	return out
}

func (w *World) fire() {
	t := w.timers[0]
	w.timers = w.timers[1:]
	t.f()
}

// step calls a loop once. If it fails because the disk did, the process ends.
func (w *World) step(l *loop) {
	if f := w.options.Sabotage.Asleep; f != nil && f(l.Name) {
		l.sleep()
		return
	}
	l.running = true
	err := l.step(w.machine.clock)
	l.running = false
	switch {
	case err == nil:
	case w.machine.failed:
		w.trace("%s: %v", l.Name, err)
		w.crash()
	default:
		w.violated(checkBroker, "loop %s: %v", l.Name, err)
	}
}

// guard carries out something of the broker's during which the power may fail.
func (w *World) guard(f func()) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(powerCut); !ok {
				panic(r)
			}
			w.crash()
		}
	}()
	f()
}

// advance moves time to the next moment at which something is due.
func (w *World) advance() {
	next := never
	if len(w.timers) > 0 {
		next = w.timers[0].at
	}
	now := w.machine.clock.mono
	if w.process != nil {
		for _, l := range w.process.loops {
			next = min(next, l.next(now))
		}
		if until := w.process.network.readUntil; until > now {
			next = min(next, until)
		}
		for _, c := range w.process.network.conns {
			if c.slowUntil > now {
				next = min(next, c.slowUntil)
			}
		}
	}
	if next == never {
		w.violated(checkForgotten, "nothing will ever happen again; %s", w.describe())
	}
	w.machine.clock.advance(max(next-now, time.Millisecond))
	w.checkForgotten()
}
