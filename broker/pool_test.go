package broker

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/coordinator"
)

// A budget is given in order of need, and all of it and more to one alone.
func TestBudget(t *testing.T) {
	b := newBudget(100)
	b.take(60)
	b.take(40)
	waiting := make(chan int)
	go func() {
		b.take(1)
		waiting <- 1
		b.take(1000)
		waiting <- 1000
	}()
	quiet := func() {
		t.Helper()
		select {
		case n := <-waiting:
			t.Fatalf("took %d although nothing is left", n)
		case <-time.After(20 * time.Millisecond):
		}
	}
	quiet()
	b.give(60)
	if <-waiting != 1 {
		t.Fatal("order")
	}
	quiet() // 1000 waits until it is alone
	b.give(40)
	quiet()
	b.give(1)
	if <-waiting != 1000 {
		t.Fatal("order")
	}
}

// A frame at the limit is handled on the event loop, one past it on a goroutine:
// the connection moves there for good.
func TestLargeFrameMoves(t *testing.T) {
	for _, past := range []int{0, 1} {
		b, tr := newTest(t, Options{})
		startBroker(t, b)
		c := tr.open(0)
		req := joinRequest("g", "m")
		base := len(frame(req, 42))
		req.Protocols[0].Metadata = append(req.Protocols[0].Metadata, make([]byte, maxLoopFrame-base+past)...)
		if n := len(frame(req, 42)); n != maxLoopFrame+past {
			t.Fatalf("frame of %d bytes", n)
		}
		if j := ask[*kmsg.JoinGroupResponse](t, c, req); j.ErrorCode != 25 { // UNKNOWN_MEMBER_ID
			t.Errorf("JoinGroup: %+v", j)
		}
		if c.Bulk() != (past == 1) {
			t.Errorf("%d past the limit: on a goroutine: %v", past, c.Bulk())
		}
		if s := c.Context().(*session); s.bench != nil && (s.bench.request.frame != nil || s.bench.request.message != nil) {
			t.Error("the connection keeps the frame")
		}
		if b.decoding.used != 0 {
			t.Errorf("%d bytes of the budget are kept", b.decoding.used)
		}
	}
}

// Pooled requests work from a goroutine connection, too, and give their turn back.
func TestPooledOnGoroutine(t *testing.T) {
	b, tr := newTest(t, Options{})
	tr.bulk = true
	startBroker(t, b)
	c := tr.open(0)
	for range 2 * poolWorkers {
		if l := ask[*kmsg.ListGroupsResponse](t, c, at(kmsg.NewPtrListGroupsRequest(), 4)); l.ErrorCode != 0 {
			t.Fatalf("ListGroups: %+v", l)
		}
	}
	if len(b.pool.turns) != 0 {
		t.Errorf("%d turns are kept", len(b.pool.turns))
	}
}

// A pooled request whose body cannot be read closes its connection.
func TestPooledMalformed(t *testing.T) {
	b, tr := startTest(t, Options{})
	c := tr.open(0)
	good := frame(at(kmsg.NewPtrDescribeGroupsRequest(), 4), 42)
	c.send(good[:len(good)-3])
	c.mustClose(t)
	if b.metrics.malformed.Load() != 1 {
		t.Error("not counted")
	}
}

// A panic in a shard ends the broker: memory and log may disagree. It does not
// keep the shard's lock.
func TestShardPanicEndsBroker(t *testing.T) {
	b, tr := newTest(t, Options{})
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	sh := b.shardFor("g")
	if code := sh.inPieces(nil, func(*coordinator.Shard) bool { panic("told to") }); code != codeNotCoordinator {
		t.Errorf("code %d", code)
	}
	if err := b.Wait(); err == nil || !strings.Contains(err.Error(), "told to") {
		t.Errorf("Wait: %v", err)
	}
	if b.Ready() {
		t.Error("still ready")
	}
	c := tr.open(0)
	if hb := ask[*kmsg.HeartbeatResponse](t, c, heartbeatRequest("g", "m", 1)); hb.ErrorCode != codeNotCoordinator {
		t.Errorf("Heartbeat: %+v", hb)
	}
	if err := b.Stop(t.Context()); err == nil {
		t.Error("Stop says that all was well")
	}
}
