package main

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kcoord/kcoord/bench/load"
	"github.com/kcoord/kcoord/bench/proc"
	"github.com/kcoord/kcoord/bench/server"
)

// A client is a member with its connection.
type client struct {
	*load.Peer
	load.Joined
}

// connect opens n connections.
func connect(s *server.Server, like *load.Peer, n int) ([]*client, error) {
	all := make([]*client, n)
	err := inParallel(n, 64, func(i int) error {
		p, err := load.DialPatient(s.Addr, like)
		all[i] = &client{Peer: p}
		return err
	})
	return all, err
}

// inParallel calls f for 0 to n-1, at most width at a time, and returns the first
// error.
func inParallel(n, width int, f func(i int) error) error {
	var all sync.WaitGroup
	slots := make(chan struct{}, width)
	errs := make(chan error, n)
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			errs <- f(i)
			<-slots
		})
	}
	all.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// members brings 10,000 members into one group. The delay with which a new group
// waits for more is taken off.
func (b *bench) members() error {
	const delay = 500 * time.Millisecond
	return b.joinAll("members", b.size(10_000), delay, 0)
}

// joining has 1,000 members join at once.
func (b *bench) joining() error {
	return b.joinAll("joining", b.size(1_000), 200*time.Millisecond, 150*time.Millisecond)
}

// joinAll has n members join one group at once. A group waits for delay after its
// first member, and once more if others came meanwhile; what passes after that is
// told.
func (b *bench) joinAll(name string, n int, delay, goal time.Duration) error {
	s, p, err := b.start(fmt.Sprintf("group.initial.rebalance.delay.ms=%d", delay.Milliseconds()))
	if err != nil {
		return err
	}
	defer p.Close()
	all, err := connect(s, p, n)
	if err != nil {
		return err
	}
	if err := p.FindCoordinator(name); err != nil {
		return err
	}
	begun := time.Now()
	err = inParallel(n, n, func(i int) error {
		all[i].Group = name
		return all[i].JoinOthers(&all[i].Joined, topic, timeout)
	})
	took := time.Since(begun)
	if err != nil {
		return err
	}
	rounds := 0
	for _, c := range all {
		rounds = max(rounds, int(c.Generation))
		c.Close()
	}
	after := took - 2*delay
	text, met := "", true
	if goal > 0 {
		text, met = fmt.Sprintf("one generation, %d ms after the delay", goal.Milliseconds()), after <= goal && rounds == 1
	}
	b.tell(name, fmt.Sprintf("%d members join one group at once, initial delay %v", n, delay),
		fmt.Sprintf("%d generation(s), all have their assignment %d ms after the first request, %d ms after the delay (which a second arrival extends to %v)",
			rounds, took.Milliseconds(), after.Milliseconds(), 2*delay), text, met)
	return s.Kill()
}

// comeBack kills and starts the server under 10,000 members in 1,000 groups, a few
// times, and has all of them come back at once: with nothing but a heartbeat, and with
// what clients send before it.
func (b *bench) comeBack() error {
	n, groups := b.size(10_000), b.size(1_000)
	s, members, err := b.manyMembers(n, groups)
	if err != nil {
		return err
	}
	for _, greet := range []bool{false, true} {
		var fromExec, opened, cpu []float64 // milliseconds
		good, again := true, 0
		for range comeBackRounds {
			if err := s.Kill(); err != nil {
				return err
			}
			var p *load.Peer
			if s, p, err = b.startIn("return", false, comeBackSetting); err != nil {
				return err
			}
			p.Close()
			swarm, r, err := load.ComeBack(s.Addr, members, greet, comeBackPause, timeout)
			if err != nil {
				return err
			}
			used, err := proc.CPUTime(s.PID())
			swarm.Close()
			if err != nil {
				return err
			}
			milliseconds := func(t time.Time) float64 { return float64(t.Sub(s.Started).Microseconds()) / 1e3 }
			fromExec, opened = append(fromExec, milliseconds(r.Answered)), append(opened, milliseconds(r.Opened))
			cpu = append(cpu, float64(used.Milliseconds()))
			again += r.Again
			good = good && r.Codes[0] == n
		}
		slowest, with := slices.Max(fromExec), "a heartbeat each"
		if greet {
			with = "ApiVersions, FindCoordinator and a heartbeat each"
		}
		b.tell("return", fmt.Sprintf("%d members in %d groups come back at once after kill -9 and a start, %d times, %s; told to come again they wait %v", n, groups, comeBackRounds, with, comeBackPause),
			fmt.Sprintf("the last answered %.0f ms after exec (%.0f-%.0f), its connection begun after %.0f ms; all heartbeats good: %v; %.0f ms of the server's CPU time; %d told to come again",
				middle(fromExec), slices.Min(fromExec), slowest, middle(opened), good, middle(cpu), again),
			"all within 2 s, no rebalance", good && slowest <= 2000)
	}
	return s.Kill()
}

const (
	comeBackRounds  = 5
	comeBackSetting = "group.initial.rebalance.delay.ms=3000"
	// comeBackPause is how long the Java client waits (retry.backoff.ms).
	comeBackPause = 100 * time.Millisecond
)

// manyMembers starts a server and joins n members to some groups.
func (b *bench) manyMembers(n, groups int) (*server.Server, []load.Member, error) {
	s, p, err := b.startIn("return", true, comeBackSetting)
	if err != nil {
		return nil, nil, err
	}
	defer p.Close()
	all, err := connect(s, p, n)
	if err != nil {
		return nil, nil, err
	}
	err = inParallel(n, n, func(i int) error {
		all[i].Group = fmt.Sprintf("group-%d", i%groups)
		return all[i].JoinOthers(&all[i].Joined, topic, timeout)
	})
	members := make([]load.Member, n)
	for i, c := range all {
		members[i] = c.Member
		c.Close()
	}
	return s, members, err
}
