package broker

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/wire"
)

// Every API that is advertised has a handler.
func TestDispatchTable(t *testing.T) {
	table := dispatchTable()
	for _, api := range wire.APIs() {
		if int(api.Key) >= len(table) || table[api.Key].handle == nil {
			t.Errorf("%s (%d) is advertised and has no handler", api.Name, api.Key)
		}
	}
	for key := range table {
		if _, ok := wire.Lookup(int16(key)); !ok && table[key].handle != nil {
			t.Errorf("key %d has a handler and is not advertised", key)
		}
	}
}

// What is answered before the data folder is open.
func TestBeforeOpen(t *testing.T) {
	b, tr := newTest(t, Options{})
	b.benches = []bench{{counts: &counts{}}}
	c := tr.open(0)
	versions := ask[*kmsg.ApiVersionsResponse](t, c, at(kmsg.NewPtrApiVersionsRequest(), 0))
	if versions.ErrorCode != 0 || len(versions.ApiKeys) != len(wire.APIs()) {
		t.Errorf("ApiVersions: %+v", versions)
	}
	find := at(kmsg.NewPtrFindCoordinatorRequest(), 4)
	find.CoordinatorKeys = []string{"a", "b"}
	found := ask[*kmsg.FindCoordinatorResponse](t, c, find)
	if len(found.Coordinators) != 2 || found.Coordinators[1].Key != "b" || found.Coordinators[1].Port != 9092 ||
		found.Coordinators[1].Host != "127.0.0.1" || found.Coordinators[1].ErrorCode != 0 {
		t.Errorf("FindCoordinator: %+v", found)
	}
	old := at(kmsg.NewPtrFindCoordinatorRequest(), 1)
	old.CoordinatorKey = "a"
	if found := ask[*kmsg.FindCoordinatorResponse](t, c, old); found.ErrorCode != 0 || *found.ErrorMessage != "NONE" || found.Port != 9092 {
		t.Errorf("FindCoordinator v1: %+v", found)
	}
	old.CoordinatorType = 2 // share keys exist from version 6 on
	if found := ask[*kmsg.FindCoordinatorResponse](t, c, old); found.ErrorCode != 42 || found.NodeID != -1 || found.Host != "" {
		t.Errorf("FindCoordinator of an unknown type: %+v", found)
	}
}

func TestBadFrames(t *testing.T) {
	header := func(key, version int16) []byte {
		b := binary.BigEndian.AppendUint16(nil, uint16(key))
		b = binary.BigEndian.AppendUint16(b, uint16(version))
		b = binary.BigEndian.AppendUint32(b, 42)
		return binary.BigEndian.AppendUint16(b, 0xffff)
	}
	for name, frame := range map[string][]byte{
		"empty":               {},
		"short":               header(12, 0)[:9],
		"unknown key":         header(999, 0),
		"negative key":        header(-1, 0),
		"unsupported version": header(12, 99),
		"truncated body":      header(12, 0),
	} {
		b, tr := newTest(t, Options{})
		b.benches = []bench{{counts: &counts{}}}
		c := tr.open(0)
		c.send(frame)
		c.mustClose(t)
		if b.metrics.malformed.Load() != 1 {
			t.Errorf("%s: not counted", name)
		}
	}
	// Only ApiVersions tells a newer client what to use.
	b, tr := newTest(t, Options{})
	b.benches = []bench{{counts: &counts{}}}
	c := tr.open(0)
	c.send(append(header(18, 99), 0, 1, 2, 3))
	resp := answer[*kmsg.ApiVersionsResponse](t, c, at(kmsg.NewPtrApiVersionsRequest(), 0))
	if resp.ErrorCode != 35 || len(resp.ApiKeys) != 1 || resp.ApiKeys[0].ApiKey != 18 {
		t.Errorf("ApiVersions v99: %+v", resp)
	}
}

// The clock is read once in a pass, and for every frame where there are no passes.
func TestTimeOfPass(t *testing.T) {
	clock := &countedClock{}
	b := &Broker{benches: make([]bench, 1), time: &timekeeper{clock: clock}}
	w := &b.benches[0]
	frames := func(n int) time.Duration {
		before := clock.reads
		for range n {
			w.now(b.time)
		}
		return clock.reads - before
	}
	if n := frames(3); n != 3 {
		t.Errorf("without passes: %d reads", n)
	}
	for range 2 {
		b.OnPass(0)
		if n := frames(3); n != 1 {
			t.Errorf("in a pass: %d reads", n)
		}
	}
}

// A countedClock moves with every reading.
type countedClock struct{ reads time.Duration }

func (c *countedClock) Now() (time.Duration, int64) {
	c.reads++
	return c.reads, int64(c.reads)
}

func (c *countedClock) After(time.Duration) <-chan time.Time { return nil }
