package main

import (
	"fmt"
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

// comeBack restarts the server under 10,000 members in 1,000 groups.
func (b *bench) comeBack() error {
	n, groups := b.size(10_000), b.size(1_000)
	s, p, err := b.startIn("return", true, "group.initial.rebalance.delay.ms=3000")
	if err != nil {
		return err
	}
	all, err := connect(s, p, n)
	if err != nil {
		return err
	}
	err = inParallel(n, n, func(i int) error {
		all[i].Group = fmt.Sprintf("group-%d", i%groups)
		return all[i].JoinOthers(&all[i].Joined, topic, timeout)
	})
	if err != nil {
		return err
	}
	p.Close()
	if err := s.Kill(); err != nil {
		return err
	}
	for _, c := range all {
		c.Close()
	}
	if s, p, err = b.startIn("return", false, "group.initial.rebalance.delay.ms=3000"); err != nil {
		return err
	}
	defer p.Close()
	listening := time.Now()
	var mu sync.Mutex
	codes := map[int16]int{}
	err = inParallel(n, n, func(i int) error {
		conn, err := load.DialPatient(s.Addr, p)
		if err != nil {
			return err
		}
		all[i].Peer = conn
		for {
			code, err := conn.Beat(all[i].Member, timeout)
			if err != nil {
				return err
			}
			if load.Transient(code) {
				time.Sleep(5 * time.Millisecond)
				continue
			}
			mu.Lock()
			codes[code]++
			mu.Unlock()
			return nil
		}
	})
	fromExec, fromListening := time.Since(s.Started), time.Since(listening)
	if err != nil {
		return err
	}
	cpu, err := proc.CPUTime(s.PID())
	if err != nil {
		return err
	}
	for _, c := range all {
		c.Close()
	}
	b.tell("return", fmt.Sprintf("%d members in %d groups come back at once after kill -9 and a start", n, groups),
		fmt.Sprintf("%d of %d heartbeats good, the last %d ms after exec, %d ms after the server listened (its CPU time: %d ms); codes %v",
			codes[0], n, fromExec.Milliseconds(), fromListening.Milliseconds(), cpu.Milliseconds(), codes),
		"all within 2 s, no rebalance", codes[0] == n && fromListening <= 2*time.Second)
	return s.Kill()
}
