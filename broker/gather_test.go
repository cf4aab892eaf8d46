package broker

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/netloop"
)

// gatherTest is a broker whose event loop always has more to read, and connections
// that have one commit on the way each.
func gatherTest(t *testing.T, o Options, conns int) (b *Broker, tr *testTransport, waiting []*testConn) {
	t.Helper()
	b, tr = startTest(t, o)
	createTopic(t, tr.open(0), "t", 1)
	tr.busy.Store(true)
	b.gather.several.Store(true)
	before := b.metrics.rounds.Count()
	for i := range conns {
		c := tr.open(0)
		c.send(frame(commitRequest("g", "", -1, "t", int64(i), 0), int32(i)))
		waiting = append(waiting, c)
	}
	if n := b.metrics.rounds.Count() - before; n != 0 {
		t.Fatalf("%d rounds while the loop had more to read", n)
	}
	if n := tr.asked.Load(); n != 1 {
		t.Fatalf("the transport was asked %d times, want once for a round", n)
	}
	return b, tr, waiting
}

func answered(t *testing.T, conns []*testConn) {
	t.Helper()
	for i, c := range conns {
		select {
		case <-c.answers:
		case <-time.After(10 * time.Second):
			t.Fatalf("connection %d was not answered", i)
		}
	}
}

// What the loop reads before its input ends is one round, with one sync.
func TestRoundGathersInput(t *testing.T) {
	b, tr, conns := gatherTest(t, Options{}, 20)
	before := b.metrics.rounds.Count()
	b.OnInput(0)
	answered(t, conns)
	if n := b.metrics.rounds.Count() - before; n != 1 {
		t.Errorf("%d rounds, want 1", n)
	}
	// From here on one request is on its way at a time: it waits for nothing.
	b.gather.several.Store(false)
	asked := tr.asked.Load()
	if code := commitCode(t, tr.open(0), commitRequest("g", "", -1, "t", 1, 0)); code != 0 {
		t.Errorf("code %d", code)
	}
	if n := tr.asked.Load() - asked; n != 0 {
		t.Errorf("a single commit asked the transport %d times", n)
	}
}

// A loop whose input never ends keeps nobody waiting for it.
func TestRoundOfBusyLoop(t *testing.T) {
	b, _, conns := gatherTest(t, Options{}, 5)
	deadline := time.After(10 * time.Second)
	for i := 0; i < len(conns); {
		b.OnPass(0)
		select {
		case <-conns[i].answers:
			i++
		case <-deadline:
			t.Fatalf("connection %d was not answered", i)
		default:
			time.Sleep(maxGather / 4)
		}
	}
}

// Loops that come to the end of their input and have more at once, before the flusher
// has looked, keep nobody waiting longer than one that always has more.
func TestRoundOfManyInputs(t *testing.T) {
	clock := &manualClock{}
	b, tr := startTest(t, Options{Clock: clock})
	tr.busy.Store(true)
	for loop, began := 0, clock.mono; ; loop = 1 - loop {
		b.gather.several.Store(true)
		b.gather.begin(b, loop)
		if !b.gather.gathering() {
			break
		}
		if waits := clock.mono - began; waits > 2*maxGather {
			t.Fatalf("the flusher waits after %v", waits)
		}
		clock.advance(maxGather / 4)
		b.gather.pass(b)
		b.gather.input(b, loop)
	}
}

// The wait for what a loop reads while a round is written counts from that round's end,
// whoever is waited for in between.
func TestRoundOfInputsAcrossAnother(t *testing.T) {
	clock := &manualClock{}
	b, tr := startTest(t, Options{Clock: clock})
	tr.busy.Store(true)
	b.gather.several.Store(true)
	b.gather.begin(b, 0)
	clock.advance(5 * maxGather)
	b.gather.durable(2, clock.mono)
	for loop, began := 0, clock.mono; b.gather.gathering(); loop = 1 - loop {
		if waits := clock.mono - began; waits > maxGather {
			t.Fatalf("the flusher waits after %v", waits)
		}
		clock.advance(maxGather / 4 * 3)
		b.gather.pass(b)
		b.gather.input(b, loop)
		b.gather.begin(b, 1-loop)
	}
}

// A stop does not wait for input, and loses nothing.
func TestStopWhileGathering(t *testing.T) {
	dir := t.TempDir()
	b, _, conns := gatherTest(t, Options{DataDir: dir}, 3)
	if err := b.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	answered(t, conns)
	_, tr := startTest(t, Options{DataDir: dir})
	resp := ask[*kmsg.OffsetFetchResponse](t, tr.open(0), fetchRequest(8, "t", []int32{0}, "g"))
	if got := resp.Groups[0].Topics[0].Partitions[0].Offset; got != 2 {
		t.Errorf("offset %d after the stop, want 2", got)
	}
}

var _ netloop.InputHandler = (*Broker)(nil)
