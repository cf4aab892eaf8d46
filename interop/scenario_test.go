package interop

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kcoord/kcoord/interop/adapter"
	"github.com/kcoord/kcoord/interop/broker"
	"github.com/kcoord/kcoord/interop/goclients"
)

const (
	partitions = 4
	// stepTimeout bounds everything that is waited for. It leaves room for the
	// session of a consumer that a test gave up to run out.
	stepTimeout = 60 * time.Second
	pollMillis  = 100
)

// startBroker starts a broker that lives as long as the test. Its output is
// kept and shown when the test fails.
func startBroker(t *testing.T) *broker.Broker {
	t.Helper()
	b, err := broker.Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Errorf("stopping the broker: %v", err)
		}
		if t.Failed() {
			t.Logf("the broker's output:\n%s", b.Output())
		}
	})
	return b
}

// A scenario is one application's life with one client library: everything a
// consumer group goes through, with the broker killed in the middle.
type scenario struct {
	t            *testing.T
	broker       *broker.Broker
	client       adapter.Client
	substitute   adapter.Client // does what the library has no call for
	topic, group string

	// seen counts how often each value was polled since the last clear.
	seen     map[string]int
	assigned map[string][]int32 // per consumer, after its last poll
	began    time.Time
}

// runScenario takes a client through the scenario. connect gets the broker's
// address and a folder for logs.
func runScenario(t *testing.T, connect func(addr, dir string) (adapter.Client, error)) {
	b := startBroker(t)
	client, err := connect(b.Addr, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		if p, ok := client.(*adapter.Process); ok && t.Failed() {
			t.Logf("the adapter's log:\n%s", p.Log())
		}
	})
	substitute, err := goclients.NewFranz(b.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = substitute.Close() })
	name := strings.NewReplacer("/", "-", " ", "-").Replace(t.Name())
	s := &scenario{t: t, broker: b, client: client, substitute: substitute,
		topic: "topic-" + name, group: "group-" + name,
		seen: map[string]int{}, assigned: map[string][]int32{}, began: time.Now()}
	s.rebalance()
	s.survive()
	s.administer()
}

// rebalance: a first member gets everything, a second one gets half.
func (s *scenario) rebalance() {
	s.try("create topic", func(c adapter.Client) error { return c.CreateTopic(s.topic, partitions) })
	s.produce(0, 200)
	s.join("a")
	s.pollUntil("a has all partitions and records", func() bool {
		return len(s.assigned["a"]) == partitions && s.has(0, 200)
	})
	s.exactlyOnce()
	s.commit("a")
	s.join("b")
	s.pollUntil("a and b have half of the partitions each", func() bool {
		owned := slices.Concat(s.assigned["a"], s.assigned["b"])
		slices.Sort(owned)
		return len(s.assigned["a"]) == partitions/2 && slices.Equal(owned, []int32{0, 1, 2, 3})
	})
	s.describe("Stable", 2)
	s.produce(200, 400)
	s.pollUntil("a and b have the next records", func() bool { return s.has(200, 400) })
	s.exactlyOnce()
	s.commit("a")
	s.commit("b")
	s.offsetsSum(400)
	s.stage("rebalance and commit")
}

// survive: the broker is killed, the group goes on where it was.
func (s *scenario) survive() {
	if err := s.broker.Restart(); err != nil {
		s.t.Fatal(err)
	}
	s.stage("kill -9 and restart")
	s.offsetsSum(400)
	s.clear()
	s.produce(400, 500)
	s.pollUntil("a and b go on after the restart", func() bool { return s.has(400, 500) })
	s.noneBefore(400)
	s.commit("a")
	s.commit("b")
	s.offsetsSum(500)
	s.leave("a")
	s.leave("b")
	s.clear()
	s.produce(500, 550)
	s.join("c")
	s.pollUntil("a new member begins at the committed offsets", func() bool { return s.has(500, 550) })
	s.noneBefore(500)
	s.commit("c")
	s.leave("c")
	s.stage("going on")
}

// administer: the group is described, set back, and deleted.
func (s *scenario) administer() {
	s.describe("Empty", 0)
	s.groupListed(true)
	zero := map[int32]int64{}
	for p := range int32(partitions) {
		zero[p] = 0
	}
	s.try("set offsets", func(c adapter.Client) error { return c.SetOffsets(s.group, s.topic, zero) })
	s.offsetsSum(0)
	s.clear()
	s.join("d")
	s.pollUntil("all records come again", func() bool { return s.has(0, 550) })
	s.exactlyOnce()
	s.leave("d")
	s.describe("Empty", 0)
	s.try("delete group", func(c adapter.Client) error { return c.DeleteGroup(s.group) })
	s.groupListed(false)
	s.try("delete topic", func(c adapter.Client) error { return c.DeleteTopic(s.topic) })
	s.stage("administration")
}

// stage prints how long the part before it took.
func (s *scenario) stage(name string) {
	s.t.Logf("%-25s %5.1f s", name, time.Since(s.began).Seconds())
	s.began = time.Now()
}

// try has the client do something, or the substitute where it cannot.
func (s *scenario) try(what string, f func(adapter.Client) error) {
	s.t.Helper()
	err := f(s.client)
	if errors.Is(err, adapter.ErrUnsupported) {
		s.t.Logf("by franz-go, since the library has no call for it: %s", what)
		err = f(s.substitute)
	}
	if err != nil {
		s.t.Fatalf("%s: %v", what, err)
	}
}

// eventually tries until what f tells is no longer wrong. An error is something
// wrong too: a library may use a connection that died with the broker.
func (s *scenario) eventually(what string, f func(adapter.Client) (wrong string, err error)) {
	s.t.Helper()
	for end := time.Now().Add(stepTimeout); ; time.Sleep(100 * time.Millisecond) {
		wrong, err := f(s.client)
		if errors.Is(err, adapter.ErrUnsupported) {
			wrong, err = f(s.substitute)
		}
		if err != nil {
			wrong = err.Error()
		}
		if wrong == "" {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("%s: %s, after %v", what, wrong, stepTimeout)
		}
	}
}

func (s *scenario) produce(from, to int) {
	s.t.Helper()
	s.try(fmt.Sprintf("produce %d to %d", from, to), func(c adapter.Client) error { return c.Produce(s.topic, from, to) })
}

func (s *scenario) join(consumer string) {
	s.t.Helper()
	if err := s.client.Join(consumer, s.group, s.topic); err != nil {
		s.t.Fatalf("join: %v", err)
	}
	s.assigned[consumer] = nil
}

func (s *scenario) commit(consumer string) {
	s.t.Helper()
	if err := s.client.Commit(consumer); err != nil {
		s.t.Fatalf("commit of %s: %v", consumer, err)
	}
}

func (s *scenario) leave(consumer string) {
	s.t.Helper()
	if err := s.client.Leave(consumer); err != nil {
		s.t.Fatalf("leave of %s: %v", consumer, err)
	}
	delete(s.assigned, consumer)
}

// pollUntil polls all consumers in turn until done. A poll may fail: libraries
// report there that the broker was away for a moment.
func (s *scenario) pollUntil(what string, done func() bool) {
	s.t.Helper()
	var lastErr error
	for end := time.Now().Add(stepTimeout); !done(); {
		for _, consumer := range slices.Sorted(maps.Keys(s.assigned)) {
			records, assigned, err := s.client.Poll(consumer, pollMillis)
			if err != nil {
				lastErr = fmt.Errorf("poll of %s: %w", consumer, err)
				continue
			}
			s.assigned[consumer] = assigned
			for _, r := range records {
				s.seen[r.Value]++
			}
		}
		if time.Now().After(end) {
			s.t.Fatalf("%s: not within %v; assigned %v, %d values seen; last error: %v", what, stepTimeout, s.assigned, len(s.seen), lastErr)
		}
	}
}

func (s *scenario) clear() { clear(s.seen) }

func (s *scenario) has(from, to int) bool {
	for i := from; i < to; i++ {
		if s.seen["v"+strconv.Itoa(i)] == 0 {
			return false
		}
	}
	return true
}

// exactlyOnce: no value was polled twice since the last clear.
func (s *scenario) exactlyOnce() {
	s.t.Helper()
	for value, n := range s.seen {
		if n > 1 {
			s.t.Errorf("%s was polled %d times", value, n)
		}
	}
}

// noneBefore: nothing was polled whose offset is committed.
func (s *scenario) noneBefore(first int) {
	s.t.Helper()
	for value := range s.seen {
		if i, err := strconv.Atoi(strings.TrimPrefix(value, "v")); err != nil || i < first {
			s.t.Errorf("%s was polled again although its offset is committed", value)
		}
	}
}

func (s *scenario) offsetsSum(want int64) {
	s.t.Helper()
	s.eventually("committed offsets", func(c adapter.Client) (string, error) {
		offsets, err := c.Offsets(s.group, s.topic)
		var sum int64
		for _, at := range offsets {
			sum += at
		}
		if sum == want {
			return "", err
		}
		return fmt.Sprintf("%v add up to %d, want %d", offsets, sum, want), err
	})
}

func (s *scenario) describe(wantState string, wantMembers int) {
	s.t.Helper()
	s.eventually("describing the group", func(c adapter.Client) (string, error) {
		state, members, err := c.DescribeGroup(s.group)
		if strings.EqualFold(state, wantState) && members == wantMembers {
			return "", err
		}
		return fmt.Sprintf("%s with %d members, want %s with %d", state, members, wantState, wantMembers), err
	})
}

func (s *scenario) groupListed(want bool) {
	s.t.Helper()
	s.eventually("listing groups", func(c adapter.Client) (string, error) {
		groups, err := c.ListGroups()
		if slices.Contains(groups, s.group) == want {
			return "", err
		}
		return fmt.Sprintf("%q, want %s in it: %v", groups, s.group, want), err
	})
}

// installed returns the path of something that install.sh puts into the cache.
func installed(t *testing.T, name ...string) string {
	t.Helper()
	cache, err := broker.CacheDir("")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(append([]string{cache}, name...)...)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: run install.sh", err)
	}
	return path
}
