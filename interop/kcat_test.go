package interop

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kcoord/kcoord/interop/goclients"
)

// A consumerProgram is a command that prints one consumed value per line.
type consumerProgram struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
	ended  chan struct{}
	mu     struct {
		sync.Mutex
		out bytes.Buffer
	}
}

// Write takes the program's standard output.
func (c *consumerProgram) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.out.Write(b)
}

// values returns the values printed so far.
func (c *consumerProgram) values() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return valuesIn(c.mu.out.String())
}

var valueLine = regexp.MustCompile(`(?m)^v\d+$`)

// valuesIn returns the lines that are values; Kafka's tools print warnings
// between them.
func valuesIn(text string) []string { return valueLine.FindAllString(text, -1) }

func startConsumer(t *testing.T, cmd *exec.Cmd) *consumerProgram {
	t.Helper()
	c := &consumerProgram{cmd: cmd, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = c, &c.stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait()
		close(c.ended)
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-c.ended })
	return c
}

// waitValues waits until the program has printed v<from> to v<to-1>. It may print
// one twice: a commit may be younger than the last kill.
func (c *consumerProgram) waitValues(t *testing.T, what string, from, to int) {
	t.Helper()
	for end := time.Now().Add(stepTimeout); ; time.Sleep(50 * time.Millisecond) {
		got := c.values()
		slices.Sort(got)
		if sameValues(slices.Compact(got), from, to) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v; printed %q, standard error %s", what, stepTimeout, got, c.stderr.String())
		}
	}
}

// interrupt ends the program as a terminal would.
func (c *consumerProgram) interrupt(t *testing.T) {
	t.Helper()
	if err := c.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	select {
	case <-c.ended:
	case <-time.After(stepTimeout):
		t.Fatalf("%v does not end: %s", c.cmd.Args, c.stderr.String())
	}
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(stepTimeout); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, stepTimeout)
		}
	}
}

// output runs a command to its end and returns what it prints.
func output(t *testing.T, cmd *exec.Cmd, stdin string) string {
	t.Helper()
	cmd.Stdin = strings.NewReader(stdin)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v\n%s%s", cmd.Args, err, out.String(), errOut.String())
	}
	return out.String()
}

// lines returns the lines v<from> to v<to-1>.
func lines(from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&b, "v%d\n", i)
	}
	return b.String()
}

// sameValues tells whether got holds v<from> to v<to-1>, each once.
func sameValues(got []string, from, to int) bool {
	want := strings.Fields(lines(from, to))
	slices.Sort(want)
	return slices.Equal(slices.Sorted(slices.Values(got)), want)
}

func TestKcat(t *testing.T) {
	b := startBroker(t)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	kcat := func(args ...string) *exec.Cmd {
		return exec.CommandContext(ctx, "kcat", append([]string{"-b", b.Addr, "-X", "reconnect.backoff.max.ms=200"}, args...)...)
	}
	franz, err := goclients.NewFranz(b.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer franz.Close()
	const topic, group = "kcat", "kcat-group"
	if err := franz.CreateTopic(topic, partitions); err != nil {
		t.Fatal(err)
	}
	output(t, kcat("-P", "-t", topic, "-X", "acks=all", "-X", "sticky.partitioning.linger.ms=0"), lines(0, 100))
	if got := output(t, kcat("-L", "-t", topic), ""); !strings.Contains(got, "topic \"kcat\" with 4 partitions") {
		t.Errorf("kcat -L: %s", got)
	}
	if got := output(t, kcat("-C", "-t", topic, "-o", "beginning", "-e", "-q"), ""); !sameValues(valuesIn(got), 0, 100) {
		t.Errorf("kcat -C -e: %q", got)
	}

	member := func() *consumerProgram {
		return startConsumer(t, kcat("-G", group, "-E", "-q", "-u", "-X", "auto.offset.reset=earliest",
			"-X", "auto.commit.interval.ms=100", "-X", "heartbeat.interval.ms=500", topic))
	}
	first := member()
	waitFor(t, "the first member has all records", func() bool { return sameValues(first.values(), 0, 100) })
	second := member()
	waitFor(t, "two members are stable", func() bool {
		state, members, err := franz.DescribeGroup(group)
		return err == nil && state == "Stable" && members == 2
	})
	output(t, kcat("-P", "-t", topic, "-X", "acks=all", "-X", "sticky.partitioning.linger.ms=0"), lines(100, 200))
	both := func() []string { return append(first.values(), second.values()...) }
	waitFor(t, "both members together have the next records", func() bool { return sameValues(both(), 0, 200) })
	offsetsAre := func(want int64) func() bool {
		return func() bool {
			offsets, err := franz.Offsets(group, topic)
			var sum int64
			for _, at := range offsets {
				sum += at
			}
			return err == nil && sum == want
		}
	}
	waitFor(t, "all offsets are committed", offsetsAre(200))
	if len(second.values()) == 0 {
		t.Error("the second member got nothing")
	}

	if err := b.Restart(); err != nil {
		t.Fatal(err)
	}
	output(t, kcat("-P", "-t", topic, "-X", "acks=all", "-X", "sticky.partitioning.linger.ms=0"), lines(200, 300))
	waitFor(t, "the members go on after kill -9", func() bool { return sameValues(both(), 0, 300) })
	waitFor(t, "all offsets are committed", offsetsAre(300))
	first.interrupt(t)
	second.interrupt(t)
	output(t, kcat("-P", "-t", topic, "-X", "acks=all", "-X", "sticky.partitioning.linger.ms=0"), lines(300, 310))
	third := member()
	waitFor(t, "a new member begins at the committed offsets", func() bool { return sameValues(third.values(), 300, 310) })
	third.interrupt(t)
}
