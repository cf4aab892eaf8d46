package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sort"
	"time"

	"github.com/rs/zerolog"

	"github.com/kcoord/kcoord/broker"
	"github.com/kcoord/kcoord/log/vfs"
	"github.com/kcoord/kcoord/netloop"
)

var errCut = errors.New("sim: connection cut")

// Options say what a run is like.
type Options struct {
	Seed   uint64
	Events int // how many events before the faults stop
	// Partitions of the offsets topic; default 3, so that groups share shards.
	Partitions int
	// Groups of members, and members in each; writers commit without membership.
	Groups, Members, Writers, Producers int
	// Trace, if set, is told what happens.
	Trace func(line string)
	// Faults turned off leave only the order of events to chance.
	NoFaults bool
}

func (o *Options) fill() {
	set := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	set(&o.Events, 2000)
	set(&o.Partitions, 3)
	set(&o.Groups, 2)
	set(&o.Members, 3)
	set(&o.Writers, 2)
	set(&o.Producers, 1)
}

// A World is one run.
type World struct {
	options Options
	random  *rand.Rand
	machine *machine
	process *process // nil while the broker is down
	clients []*client
	timers  []timer // sorted by time
	nextSeq int

	calm          bool // faults have stopped
	members       []*member
	writers       []*writer
	groups        map[string]*groupHistory
	registers     map[registerKey]*register
	registerOrder []*register
	topics        int

	// What happened, for the tests that ask whether anything did.
	answered                              map[int16]int
	succeeded                             map[string]int
	Crashes, Cuts, Pauses, Stalls, Events int
}

type timer struct {
	at  time.Duration
	seq int
	f   func()
}

// A Report is what a run did.
type Report struct {
	Events, Crashes, Cuts, Pauses, Stalls int
	Succeeded                             map[string]int
}

// Run carries out one run and tells what went wrong.
func Run(o Options) (report Report, err error) {
	o.fill()
	w := newWorld(o)
	defer func() {
		report = Report{w.Events, w.Crashes, w.Cuts, w.Pauses, w.Stalls, w.succeeded}
		if r := recover(); r != nil {
			v, ok := r.(violation)
			if !ok {
				panic(r)
			}
			err = fmt.Errorf("seed %d, event %d, at %v: %s", o.Seed, w.Events, w.machine.clock.mono, string(v))
		}
	}()
	w.boot()
	w.populate()
	for w.Events < o.Events {
		w.event()
	}
	w.calmDown()
	w.finish()
	return report, nil
}

// violation is what a checker panics with.
type violation string

// trace tells who watches a run what happens.
func (w *World) trace(format string, args ...any) {
	if w.options.Trace != nil {
		w.options.Trace(fmt.Sprintf("%6d %v ", w.Events, w.machine.clock.mono) + fmt.Sprintf(format, args...))
	}
}

// traceWriter makes the broker's log part of the trace.
type traceWriter struct{ w *World }

func (t traceWriter) Write(p []byte) (int, error) {
	t.w.trace("%s", p)
	return len(p), nil
}

// violated ends the run: something happened that never must.
func (w *World) violated(format string, args ...any) {
	panic(violation(fmt.Sprintf(format, args...)))
}

func newWorld(o Options) *World {
	random := rand.New(rand.NewPCG(o.Seed, 0x6b636f6f7264))
	return &World{options: o, random: random,
		machine: &machine{random: random, fuse: -1, disk: vfs.NewCrashable(),
			clock: &clock{mono: time.Hour, wall: 1_700_000_000_000}},
		groups: map[string]*groupHistory{}, answered: map[int16]int{}, succeeded: map[string]int{}}
}

// boot starts the broker on whatever the disk holds. The power may fail while
// it does; then it starts again.
func (w *World) boot() {
	for !w.tryBoot() {
	}
}

func (w *World) tryBoot() (up bool) {
	p := &process{machine: w.machine, network: &network{}}
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(powerCut); !ok {
				panic(r)
			}
			w.Crashes++
			w.machine.cut()
		}
	}()
	logger := zerolog.Nop()
	if w.options.Trace != nil {
		logger = zerolog.New(traceWriter{w})
	}
	b, err := broker.New(broker.Options{
		Logger:  &logger,
		DataDir: "data", FS: w.machine.files(), Clock: w.machine.clock, Random: w.machine.fill, Executor: p,
		Properties: map[string]string{
			"offsets.topic.num.partitions":     fmt.Sprint(w.options.Partitions),
			"group.initial.rebalance.delay.ms": "0",
			"group.min.session.timeout.ms":     "100",
			"kcoord.checkpoint.interval.ms":    "2000",
		},
		Transport: func(h netloop.Handler) (broker.Transport, error) {
			p.network.handler = h
			return p.network, nil
		},
	})
	if err != nil {
		w.violated("broker.New: %v", err)
	}
	p.broker = b
	if err := b.Start(context.Background()); err != nil {
		w.violated("the broker does not start: %v", err)
	}
	w.process = p
	return true
}

// after runs f once d has passed.
func (w *World) after(d time.Duration, f func()) {
	w.nextSeq++
	t := timer{at: w.machine.clock.mono + d, seq: w.nextSeq, f: f}
	i := sort.Search(len(w.timers), func(i int) bool { return w.timers[i].at > t.at })
	w.timers = append(w.timers, timer{})
	copy(w.timers[i+1:], w.timers[i:])
	w.timers[i] = t
}

// pause is a short random time: a round trip, a thought.
func (w *World) pause() time.Duration {
	return time.Duration(1+w.random.IntN(200)) * time.Millisecond
}

// chance is true once in n.
func (w *World) chance(n int) bool { return w.random.IntN(n) == 0 }

// event draws one thing that can happen and lets it happen. When nothing can,
// time moves to the next moment at which something will.
func (w *World) event() {
	w.Events++
	if !w.calm && !w.options.NoFaults && w.chance(150) {
		w.fault()
		return
	}
	choices := w.choices()
	if len(choices) == 0 {
		w.advance()
		return
	}
	w.guard(choices[w.random.IntN(len(choices))])
}

// choices lists what can happen now.
func (w *World) choices() []func() {
	var out []func()
	now := w.machine.clock.mono
	if len(w.timers) > 0 && w.timers[0].at <= now {
		out = append(out, w.fire)
	}
	for _, c := range w.clients {
		if c.readable() {
			out = append(out, c.read)
		}
	}
	if p := w.process; p != nil {
		for _, l := range p.loops {
			if l.ready(now) {
				out = append(out, func() { w.step(l) })
			}
		}
		live := p.network.conns[:0]
		for _, c := range p.network.conns {
			if c.open {
				live = append(live, c)
			}
			if c.deliverable() {
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

func (w *World) step(l *loop) {
	if err := l.step(w.machine.clock.mono); err != nil {
		w.violated("loop %s: %v", l.Name, err)
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
			at := l.due
			if l.stalled > now && (len(l.Wake) > 0 || at < l.stalled) {
				at = l.stalled
			}
			next = min(next, at)
		}
	}
	if next == never {
		w.violated("nothing will ever happen again")
	}
	w.machine.clock.advance(max(next-now, time.Millisecond))
}
