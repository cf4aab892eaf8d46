package main

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/bench/load"
	"github.com/kcoord/kcoord/bench/proc"
	"github.com/kcoord/kcoord/bench/server"
)

// heartbeats measures heartbeats of 16 members on a schedule, so that a stall
// shows in full.
func heartbeats(s *server.Server, d time.Duration) (load.Report, error) {
	return load.Probe(load.Spec{Addr: s.Addr, Kind: load.Heartbeat, Conns: 16, Depth: 1, Rate: 2_000, Warmup: d / 10, Duration: d})
}

// listing measures heartbeats while others list and describe 100,000 groups.
func (b *bench) listing() error {
	groups := b.size(100_000)
	s, p, err := b.start()
	if err != nil {
		return err
	}
	defer p.Close()
	name := func(i int) string { return fmt.Sprintf("group-%07d", i) }
	if err := p.CommitMany(topic, 10, 0, groups, 1, name); err != nil {
		return err
	}
	memory, err := proc.MemoryOf(s.PID())
	if err != nil {
		return err
	}
	var quiet, busy, quiet50, busy50 []float64
	lists := 0
	for range 5 {
		r, err := heartbeats(s, b.lasts(3*time.Second))
		if err != nil {
			return err
		}
		quiet, quiet50 = append(quiet, r.P99), append(quiet50, r.P50)
		var stop atomic.Bool
		ended := make(chan error, 1)
		go func() { ended <- listAll(s, &stop, groups, name, &lists) }()
		r, err = heartbeats(s, b.lasts(3*time.Second))
		stop.Store(true)
		if lerr := <-ended; err == nil {
			err = lerr
		}
		if err != nil {
			return err
		}
		busy, busy50 = append(busy, r.P99), append(busy50, r.P50)
	}
	more := middle(busy) - middle(quiet)
	b.tell("listing", fmt.Sprintf("heartbeats, p99, while %d groups with %d offsets are listed, and 1,000 described, every 0.1 s (%d times)", groups, 10*groups, lists),
		fmt.Sprintf("%.0f µs, without %.0f µs (p50 %.0f and %.0f); resident %d MB", middle(busy), middle(quiet), middle(busy50), middle(quiet50), memory.Resident/1e6),
		"1 ms more", more <= 1000)
	return s.Kill()
}

// listAll lists all groups and describes some of them, again and again until it is
// told to stop.
func listAll(s *server.Server, stop *atomic.Bool, groups int, name func(int) string, lists *int) error {
	p, err := load.Dial(s.Addr, timeout)
	if err != nil {
		return err
	}
	defer p.Close()
	for at := 0; !stop.Load(); *lists++ {
		size, err := p.AskSize(kmsg.NewPtrListGroupsRequest(), 4, timeout)
		if err != nil {
			return err
		}
		if size < groups*len(name(0)) {
			return fmt.Errorf("a list of %d groups in %d bytes", groups, size)
		}
		req := kmsg.NewPtrDescribeGroupsRequest()
		for range min(groups, 1_000) {
			req.Groups = append(req.Groups, name(at%groups))
			at++
		}
		if _, err := p.AskSize(req, 5, timeout); err != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond) // the CPUs are the measurement's, too
	}
	return nil
}

// churn makes throw-away groups, then has members come and go in one group, and
// looks whether the memory comes back and whether anybody starves.
func (b *bench) churn() error {
	s, p, err := b.start("offsets.retention.check.interval.ms=1000", "offsets.retention.minutes=1")
	if err != nil {
		return err
	}
	defer p.Close()
	if _, err := heartbeats(s, b.lasts(3*time.Second)); err != nil { // buffers as they are at work
		return err
	}
	before, err := proc.MemoryOf(s.PID())
	if err != nil {
		return err
	}
	groups := b.size(50_000)
	begun := time.Now()
	if err := throwAway(s, groups); err != nil {
		return err
	}
	took := time.Since(begun)
	come, slowest, report, err := b.comeAndGo(s)
	if err != nil {
		return err
	}
	after, err := settled(s, before, b.lasts(60*time.Second))
	if err != nil {
		return err
	}
	grown := after.Anonymous - before.Anonymous
	b.tell("churn", fmt.Sprintf("%d groups made, joined and left; then %d members come and go in one group", groups, come),
		fmt.Sprintf("%.1f s; slowest join %d ms; heartbeats of others meanwhile p99 %.0f µs, longest %.0f ms; resident %d MB before, %d MB after (of its own %.1f and %.1f)",
			took.Seconds(), slowest.Milliseconds(), report.P99, report.Max/1e3, before.Resident/1e6, after.Resident/1e6, float64(before.Anonymous)/1e6, float64(after.Anonymous)/1e6),
		"nobody starves; 20 MB more", grown <= 20e6 && report.Max < 1e6 && slowest < 5*time.Second)
	return s.Kill()
}

// throwAway makes groups of one member that leaves again, on 32 connections.
func throwAway(s *server.Server, groups int) error {
	const conns = 32
	return inParallel(conns, conns, func(w int) error {
		p, err := load.Dial(s.Addr, timeout)
		if err != nil {
			return err
		}
		defer p.Close()
		for i := w; i < groups; i += conns {
			m, err := p.Join(fmt.Sprintf("throw-away-%d", i), topic)
			if err == nil {
				err = p.Leave(m)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// comeAndGo has 100 members a second come into a group for a while, each to leave
// after half a second, while members of other groups send heartbeats.
func (b *bench) comeAndGo(s *server.Server) (come int, slowest time.Duration, r load.Report, err error) {
	d := b.lasts(60 * time.Second)
	come = int(d.Seconds() * 100)
	var longest atomic.Int64
	ended := make(chan error, 1)
	go func() {
		ended <- inParallel(come, come, func(i int) error {
			time.Sleep(time.Duration(i) * 10 * time.Millisecond)
			p, err := load.Dial(s.Addr, timeout)
			if err != nil {
				return err
			}
			defer p.Close()
			m := load.Joined{Member: load.Member{Group: "come-and-go"}}
			begun := time.Now()
			if err := p.JoinOthers(&m, topic, timeout); err != nil {
				return err
			}
			took := int64(time.Since(begun))
			for old := longest.Load(); took > old && !longest.CompareAndSwap(old, took); old = longest.Load() {
			}
			for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
				code, err := p.Beat(m.Member, timeout)
				if err != nil {
					return err
				}
				if code == load.Rebalancing {
					if err := p.JoinOthers(&m, topic, timeout); err != nil {
						return err
					}
				}
			}
			return p.Leave(m.Member)
		})
	}()
	r, err = heartbeats(s, d)
	if e := <-ended; err == nil {
		err = e
	}
	return come, time.Duration(longest.Load()), r, err
}

// settled is the memory some time after the load, or earlier if it is back.
func settled(s *server.Server, before proc.Memory, patience time.Duration) (m proc.Memory, err error) {
	for end := time.Now().Add(patience); ; time.Sleep(500 * time.Millisecond) {
		if m, err = proc.MemoryOf(s.PID()); err != nil || m.Anonymous <= before.Anonymous+10e6 || time.Now().After(end) {
			return m, err
		}
	}
}
