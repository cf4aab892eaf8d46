package load

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/kcoord/kcoord/bench/proc"
)

// A Kind is a kind of request to send.
type Kind string

// The kinds of request.
const (
	// Heartbeat: every group has one member, which sends its heartbeats.
	Heartbeat Kind = "heartbeat"
	// OffsetCommit: commits to groups without members, with rising offsets.
	OffsetCommit Kind = "commit"
)

// ErrNoAnswer: nothing broke, but no answer came in the measured time.
var ErrNoAnswer = errors.New("no answer came")

// A Spec says what load to put on what.
type Spec struct {
	Addr string
	Kind Kind
	// Bare: the server is no broker. It gets the same frames without any
	// set-up, and its answers need no more than the right correlation id.
	Bare bool
	// Conns connections with Depth requests on the way each.
	Conns, Depth int
	// Groups to spread the requests over, at least one per connection. 0: Conns.
	Groups int
	// Partitions in one commit. 0: 1.
	Partitions int
	// Rate is the number of requests per second in all, sent on a schedule:
	// latency then counts from the time that a request was due, so a stall
	// shows in full. 0: the next request follows an answer at once.
	Rate float64
	// Warmup is the time of load before anything is counted.
	Warmup, Duration time.Duration
	// PID of the server whose CPU time is to be reported. 0: none.
	PID int
	// MaxErrorRatio is the share of answers with error codes up to which a
	// run is a success.
	MaxErrorRatio float64
}

// A Report is what a run measured between warm-up and end. Latency is in
// microseconds.
type Report struct {
	Kind         Kind           `json:"kind"`
	Conns        int            `json:"conns"`
	Depth        int            `json:"depth"`
	Seconds      float64        `json:"seconds"`
	Answers      int64          `json:"answers"`
	Failed       int64          `json:"failed"`
	Codes        map[int16]int  `json:"codes,omitempty"`
	PerSecond    float64        `json:"per_second"`
	P50          float64        `json:"p50_us"`
	P99          float64        `json:"p99_us"`
	Max          float64        `json:"max_us"`
	ServerCPU    float64        `json:"server_cpu_us_per_answer,omitempty"`
	ServerMemory proc.Memory    `json:"server_memory"`
	Errors       map[string]int `json:"errors,omitempty"`
}

func (s *Spec) complete() error {
	s.Groups = max(s.Groups, s.Conns)
	s.Partitions = max(s.Partitions, 1)
	if s.Conns < 1 || s.Depth < 1 || s.Duration <= 0 || s.Warmup < 0 || s.Rate < 0 {
		return fmt.Errorf("no load that could be run: %+v", *s)
	}
	if s.Kind != Heartbeat && s.Kind != OffsetCommit {
		return fmt.Errorf("no such kind of request: %q", s.Kind)
	}
	return nil
}

// Run puts the load on the server and returns what it measured. The error is
// not nil when the run was no success; Report is filled in as far as it goes.
func Run(s Spec) (Report, error) {
	report := Report{Kind: s.Kind, Conns: s.Conns, Depth: s.Depth}
	if err := s.complete(); err != nil {
		return report, err
	}
	plan, err := prepare(&s)
	if err != nil {
		return report, fmt.Errorf("set-up at %s: %w", s.Addr, err)
	}
	workers := make([]*worker, s.Conns)
	for i := range workers {
		workers[i], err = newWorker(&s, plan.templates[i])
		if err != nil {
			for _, w := range workers[:i] {
				w.conn.Close()
			}
			return report, err
		}
	}
	report.measure(&s, workers)
	leaveErr := plan.finish()
	return report, errors.Join(report.verdict(&s), leaveErr)
}

// measure runs all workers and reads the server's CPU time at both ends of the
// measured window.
func (r *Report) measure(s *Spec, workers []*worker) {
	start := time.Now()
	window := window{start: start, from: s.Warmup, until: s.Warmup + s.Duration}
	var running sync.WaitGroup
	for i, w := range workers {
		running.Go(func() { w.run(window, s, i) })
	}
	time.Sleep(time.Until(start.Add(window.from)))
	cpuBefore, errBefore := proc.CPUTime(s.PID)
	time.Sleep(time.Until(start.Add(window.until)))
	cpuAfter, errAfter := proc.CPUTime(s.PID)
	r.ServerMemory, _ = proc.MemoryOf(s.PID)
	running.Wait()

	var latency Histogram
	for _, w := range workers {
		latency.Add(&w.latency)
		r.Failed += w.failed
		for code, n := range w.codes {
			if r.Codes == nil {
				r.Codes = map[int16]int{}
			}
			r.Codes[int16(code)] += n
		}
		if w.err != nil {
			if r.Errors == nil {
				r.Errors = map[string]int{}
			}
			r.Errors[w.err.Error()]++
		}
	}
	r.count(s, &latency)
	if r.Answers > 0 && errBefore == nil && errAfter == nil {
		r.ServerCPU = float64((cpuAfter - cpuBefore).Microseconds()) / float64(r.Answers)
	}
}

// count fills in what follows from the answers that were measured.
func (r *Report) count(s *Spec, latency *Histogram) {
	r.Seconds = s.Duration.Seconds()
	r.Answers = latency.Count()
	r.PerSecond = float64(r.Answers) / r.Seconds
	r.P50 = float64(latency.Quantile(0.5)) / 1e3
	r.P99 = float64(latency.Quantile(0.99)) / 1e3
	r.Max = float64(latency.Max()) / 1e3
}

func (r *Report) verdict(s *Spec) error {
	switch {
	case len(r.Errors) > 0:
		var all []string
		for text, n := range r.Errors {
			all = append(all, fmt.Sprintf("%s (%d connections)", text, n))
		}
		return errors.New(strings.Join(all, "; "))
	case r.Answers == 0:
		return ErrNoAnswer
	case float64(r.Failed) > s.MaxErrorRatio*float64(r.Answers):
		return fmt.Errorf("%d of %d answers have error codes: %v", r.Failed, r.Answers, r.Codes)
	}
	return nil
}

// A plan holds what set-up made.
type plan struct {
	templates [][]*template // per connection
	members   []Member
	peer      *Peer
}

func prepare(s *Spec) (*plan, error) {
	p := &plan{templates: make([][]*template, s.Conns)}
	topic := fmt.Sprintf("bench-%d", s.Partitions)
	commitVersion, heartbeatVersion := int16(maxCommitVersion), int16(4)
	if !s.Bare {
		var err error
		if p.peer, err = Dial(s.Addr, setupTimeout); err != nil {
			return nil, err
		}
		commitVersion = min(commitVersion, p.peer.maxVersions[8])
		heartbeatVersion = min(heartbeatVersion, p.peer.maxVersions[12])
		if err := p.peer.EnsureTopic(topic, s.Partitions); err != nil {
			return nil, err
		}
	}
	groups := make([]string, s.Groups)
	for g := range groups {
		groups[g] = fmt.Sprintf("bench-%s-%04d", s.Kind, g)
	}
	if !s.Bare {
		if err := p.meet(s, groups, topic); err != nil {
			return nil, errors.Join(err, p.finish())
		}
	}
	for g, group := range groups {
		var t *template
		switch {
		case s.Kind == OffsetCommit:
			t = commitTemplate(group, topic, s.Partitions, commitVersion)
		case s.Bare:
			t = heartbeatTemplate(Member{Group: group, ID: clientID + "-01234567-89ab-cdef-0123-456789abcdef", Generation: 1}, heartbeatVersion)
		default:
			t = heartbeatTemplate(p.members[g], heartbeatVersion)
		}
		t.bare = s.Bare
		conn := g % s.Conns
		p.templates[conn] = append(p.templates[conn], t)
	}
	return p, nil
}

// meet waits for the coordinator of each group and, for heartbeats, joins one
// member to each, all at the same time: a broker may delay a first rebalance.
func (p *plan) meet(s *Spec, groups []string, topic string) error {
	for _, group := range groups {
		if err := p.peer.FindCoordinator(group); err != nil {
			return err
		}
	}
	if s.Kind != Heartbeat {
		return nil
	}
	members := make([]Member, len(groups))
	errs := make([]error, len(groups))
	var joining sync.WaitGroup
	for g, group := range groups {
		joining.Go(func() {
			peer, err := Dial(s.Addr, setupTimeout)
			if err != nil {
				errs[g] = err
				return
			}
			defer peer.Close()
			members[g], errs[g] = peer.Join(group, topic)
		})
	}
	joining.Wait()
	p.members = members
	return errors.Join(errs...)
}

// finish takes the members out of their groups, so that they burden no later run.
func (p *plan) finish() error {
	if p.peer == nil {
		return nil
	}
	defer p.peer.Close()
	for _, m := range p.members {
		if err := p.peer.Leave(m); err != nil {
			return err
		}
	}
	return nil
}
