package broker

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/netloop"
)

// A countingTransport counts completions and drops them: what netloop costs is
// measured there.
type countingTransport struct {
	testTransport
	done atomic.Int64
}

func (t *countingTransport) Release(_ int, done []netloop.Completion) {
	for i := range done {
		t.done.Add(1 + int64(done[i].More))
	}
}

// benchBroker starts a broker with one member in a stable group, and returns a
// connection, the member's id and generation.
func benchBroker(b *testing.B) (*Broker, *countingTransport, *testConn, string, int32) {
	b.Helper()
	tr := &countingTransport{}
	o := Options{Transport: func(h netloop.Handler) (Transport, error) {
		tr.handler = h
		return tr, nil
	}}
	br, err := New(o)
	if err != nil {
		b.Fatal(err)
	}
	br.options.Listen = idleListen
	if err := br.Start(context.Background()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { br.Stop(context.Background()) })
	c := tr.open(0)
	member, generation, later := "", int32(0), int64(0)
	for range 2 {
		out, verdict := br.OnFrame(c, netloop.Slot{}, frame(joinRequest("g", member), 42), nil)
		if verdict == netloop.Later {
			later++
		}
		if verdict != netloop.Answered && verdict != netloop.Later {
			b.Fatalf("JoinGroup: verdict %d", verdict)
		}
		joined := decode[*kmsg.JoinGroupResponse](b, joinRequest("g", ""), out[4:])
		member, generation = joined.MemberID, joined.Generation
	}
	sync := at(kmsg.NewPtrSyncGroupRequest(), 3)
	sync.Group, sync.MemberID, sync.Generation = "g", member, generation
	sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: member, MemberAssignment: []byte("a")}}
	if _, verdict := br.OnFrame(c, netloop.Slot{}, frame(sync, 42), nil); verdict == netloop.Later {
		later++
	}
	// Until all of it is durable, a heartbeat waits as well.
	for end := time.Now().Add(10 * time.Second); tr.done.Load() < later && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	return br, tr, c, member, generation
}

func BenchmarkHeartbeat(b *testing.B) {
	br, _, c, member, generation := benchBroker(b)
	req := at(kmsg.NewPtrHeartbeatRequest(), 4)
	req.Group, req.MemberID, req.Generation = "g", member, generation
	f := frame(req, 42)
	out, verdict := br.OnFrame(c, netloop.Slot{}, f, nil)
	if resp := decode[*kmsg.HeartbeatResponse](b, req, out[4:]); verdict != netloop.Answered || resp.ErrorCode != 0 {
		b.Fatalf("verdict %d, %+v", verdict, resp)
	}
	b.ReportAllocs()
	done := cpuPerOp(b)
	for b.Loop() {
		out, _ = br.OnFrame(c, netloop.Slot{}, f, out[:0])
	}
	done()
}

// One OffsetCommit of n partitions: encoded, in the open round, its waiter
// attached, and the round flushed.
func BenchmarkCommit(b *testing.B) {
	for _, partitions := range []int{1, 10} {
		b.Run(fmt.Sprint(partitions), func(b *testing.B) {
			br, tr, c, member, generation := benchBroker(b)
			makeTopic(b, br, "t", 16)
			req := at(kmsg.NewPtrOffsetCommitRequest(), 8)
			req.Group, req.MemberID, req.Generation = "g", member, generation
			req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t"}}
			for i := range partitions {
				p := kmsg.NewOffsetCommitRequestTopicPartition()
				p.Partition, p.Offset = int32(i), 100
				req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
			}
			f := frame(req, 42)
			out, verdict := br.OnFrame(c, netloop.Slot{}, f, nil)
			if resp := decode[*kmsg.OffsetCommitResponse](b, req, out[4:]); verdict != netloop.Later || resp.Topics[0].Partitions[0].ErrorCode != 0 {
				b.Fatalf("verdict %d, %+v", verdict, resp)
			}
			b.ReportAllocs()
			sent, before := int64(0), tr.done.Load()
			done := cpuPerOp(b)
			for b.Loop() {
				// What is in flight is bounded, as netloop bounds it.
				for sent-(tr.done.Load()-before) > 256 {
					time.Sleep(20 * time.Microsecond)
				}
				if out, verdict = br.OnFrame(c, netloop.Slot{}, f, out[:0]); verdict == netloop.Later {
					sent++
				}
			}
			done()
		})
	}
}
