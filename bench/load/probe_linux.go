package load

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kcoord/kcoord/bench/proc"
)

// Probe is Run for heartbeats at a fixed rate, from one thread that sleeps in poll(2):
// Go's own timers are late by up to a millisecond, which would hide what a server does
// in that time. Latency counts from the time that a request was due.
func Probe(s Spec) (Report, error) {
	report := Report{Kind: s.Kind, Conns: s.Conns, Depth: s.Depth}
	if err := s.complete(); err != nil {
		return report, err
	}
	if s.Kind != Heartbeat || s.Rate <= 0 || s.Depth != 1 || s.Bare {
		return report, fmt.Errorf("no load that could be probed with: %+v", s)
	}
	plan, err := prepare(&s)
	if err != nil {
		return report, fmt.Errorf("set-up at %s: %w", s.Addr, err)
	}
	err = report.probe(&s, plan)
	return report, errors.Join(err, plan.finish())
}

func (r *Report) probe(s *Spec, plan *plan) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// By default the kernel lets a sleep last 50 microseconds longer.
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return err
	}
	defer func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) }()
	p := &prober{spec: s, interval: time.Duration(float64(time.Second) / s.Rate), conns: make([]probed, s.Conns), scratch: make([]byte, 4<<10), codes: map[int16]int{}}
	defer p.close()
	if err := p.connect(plan); err != nil {
		return err
	}
	p.start = time.Now()
	err := p.run()
	r.count(s, &p.latency)
	r.Failed, r.Codes = p.failed, p.codes
	r.ServerMemory, _ = proc.MemoryOf(s.PID)
	if err != nil {
		return err
	}
	return r.verdict(s)
}

// A prober sends requests in turn on its connections, each with at most one on the
// way: what is due meanwhile on the same one waits, and its time counts.
type prober struct {
	spec     *Spec
	interval time.Duration
	start    time.Time
	conns    []probed
	polls    []unix.PollFd
	scratch  []byte

	latency Histogram
	failed  int64
	codes   map[int16]int
}

type probed struct {
	swarmConn
	// due are the times, since the start, of the request on the way and of those that
	// wait behind it.
	due []time.Duration
}

func (p *prober) connect(plan *plan) error {
	to, err := net.ResolveTCPAddr("tcp4", p.spec.Addr)
	if err != nil {
		return err
	}
	for i := range p.conns {
		p.conns[i].fd = -1
	}
	for i := range p.conns {
		c := &p.conns[i]
		t := plan.templates[i][0]
		if t.req.GetVersion() != beatVersion {
			return fmt.Errorf("the broker has no Heartbeat v%d", beatVersion)
		}
		c.questions = []question{{t.frame, beatError}}
		if c.fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		if err := unix.Connect(c.fd, &unix.SockaddrInet4{Port: to.Port, Addr: [4]byte(to.IP.To4())}); err != nil {
			return err
		}
		if err := unix.SetNonblock(c.fd, true); err != nil {
			return err
		}
		p.polls = append(p.polls, unix.PollFd{Fd: int32(c.fd), Events: unix.POLLIN})
	}
	return nil
}

func (p *prober) close() {
	for i := range p.conns {
		if fd := p.conns[i].fd; fd >= 0 {
			unix.Close(fd)
		}
	}
}

func (p *prober) run() error {
	end := p.spec.Warmup + p.spec.Duration
	onTheWay := 0
	for n := 0; ; {
		now := time.Since(p.start)
		due := time.Duration(n) * p.interval
		if due >= end && (onTheWay == 0 || now > end+drainTimeout) {
			break
		}
		if due <= now && due < end {
			if err := p.conns[n%len(p.conns)].add(due); err != nil {
				return err
			}
			n++
			onTheWay++
			continue
		}
		if due >= end {
			due = now + time.Second
		}
		timeout := unix.NsecToTimespec(int64(due - now))
		if _, err := unix.Ppoll(p.polls, &timeout, nil); err != nil && err != unix.EINTR {
			return err
		}
		for i := range p.polls {
			if p.polls[i].Revents == 0 {
				continue
			}
			answered, err := p.receive(&p.conns[i])
			if err != nil {
				return err
			}
			if answered {
				onTheWay--
			}
		}
	}
	if onTheWay > 0 {
		return fmt.Errorf("%d answers did not come within %v of the end", onTheWay, drainTimeout)
	}
	return nil
}

func (c *probed) add(due time.Duration) error {
	if c.due = append(c.due, due); len(c.due) > 1 {
		return nil
	}
	return c.send()
}

// receive reads from a connection and reports whether its request was answered.
func (p *prober) receive(c *probed) (answered bool, err error) {
	code, whole, err := c.swarmConn.receive(p.scratch)
	if !whole || err != nil {
		return false, err
	}
	due := c.due[0]
	if now := time.Since(p.start); due >= p.spec.Warmup {
		p.latency.Record(int64(now - due))
		if code != 0 {
			p.failed++
			p.codes[code]++
		}
	}
	if c.due = append(c.due[:0], c.due[1:]...); len(c.due) > 0 {
		err = c.send()
	}
	return true, err
}
