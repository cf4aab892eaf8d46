package coordinator

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// stableGroup brings a group of n members to Stable, without the checks of world.
func stableGroup(tb testing.TB, s *Shard, out *Result, config *Config, topics Topics, group string, n int) (ids []string) {
	tb.Helper()
	ev := Event{Kind: EventRequest, Config: config, Topics: topics}
	meta := metadata("sub/t")
	for i := range n {
		r := kmsg.NewPtrJoinGroupRequest()
		r.Version, r.Group, r.SessionTimeoutMillis, r.RebalanceTimeoutMillis, r.ProtocolType = 3, group, 45000, 300000, "consumer"
		r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: meta}}
		ev.Request, ev.Token, ev.Client = r, Token(i), Client{ID: "client", Host: "/127.0.0.1"}
		ev.Entropy = [16]byte{0: byte(i), 1: byte(i >> 8), 2: byte(i >> 16)}
		s.Step(&ev, out)
	}
	g := s.groups[group]
	c := g.kind.(*classicGroup)
	ev = Event{Kind: EventTimer, Config: config, Topics: topics, Mono: time.Hour, Timer: TimerKey{Kind: TimerJoin, Group: group}}
	c.newMemberAdded = false
	s.Step(&ev, out)
	if c.state != stateCompletingRebalance {
		tb.Fatalf("group is %s", c.state)
	}
	r := kmsg.NewPtrSyncGroupRequest()
	r.Version, r.Group, r.Generation, r.MemberID = 3, group, c.generation, c.leader
	for m := c.first; m != nil; m = m.next {
		ids = append(ids, m.id)
		r.GroupAssignment = append(r.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: m.id, MemberAssignment: meta})
	}
	ev.Kind, ev.Request = EventRequest, r
	s.Step(&ev, out)
	if c.state != stateStable {
		tb.Fatalf("group is %s", c.state)
	}
	return ids
}

func benchTopics() *fakeTopics {
	f := &fakeTopics{}
	f.create("t", 1000)
	return f
}

func BenchmarkHeartbeat(b *testing.B) {
	s, out := NewShard(0), &Result{}
	config := DefaultConfig()
	ids := stableGroup(b, s, out, config, benchTopics(), "group", 1000)
	r := kmsg.NewPtrHeartbeatRequest()
	r.Version, r.Group, r.Generation = 4, "group", 1
	ev := Event{Kind: EventRequest, Mono: time.Hour, Config: config, Request: r}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		ev.Mono += time.Microsecond
		r.MemberID = ids[i%len(ids)]
		s.Step(&ev, out)
		if out.heartbeat.ErrorCode != codeNone {
			b.Fatal(out.heartbeat.ErrorCode)
		}
	}
}

func benchmarkCommit(b *testing.B, partitions int, metadata string) {
	s, out := NewShard(0), &Result{}
	config, topics := DefaultConfig(), benchTopics()
	ids := stableGroup(b, s, out, config, topics, "group", 100)
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Version, r.Group, r.Generation = 8, "group", 1
	r.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t"}}
	for p := range partitions {
		r.Topics[0].Partitions = append(r.Topics[0].Partitions, kmsg.OffsetCommitRequestTopicPartition{Partition: int32(p), LeaderEpoch: -1, Metadata: &metadata})
	}
	ev := Event{Kind: EventRequest, Mono: time.Hour, Wall: startWall, Config: config, Topics: topics, Request: r}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		ev.Mono += time.Microsecond
		r.MemberID = ids[i%len(ids)]
		r.Topics[0].Partitions[0].Offset++
		s.Step(&ev, out)
		if out.commit.Topics[0].Partitions[0].ErrorCode != codeNone {
			b.Fatal(out.commit.Topics[0].Partitions[0].ErrorCode)
		}
	}
}

func BenchmarkOffsetCommit1(b *testing.B)         { benchmarkCommit(b, 1, "") }
func BenchmarkOffsetCommit1Metadata(b *testing.B) { benchmarkCommit(b, 1, "some metadata") }
func BenchmarkOffsetCommit100(b *testing.B)       { benchmarkCommit(b, 100, "") }

func BenchmarkOffsetFetch1(b *testing.B) {
	s, out := NewShard(0), &Result{}
	config, topics := DefaultConfig(), benchTopics()
	fillOffsets(s, out, config, topics, 1, 10)
	r := kmsg.NewPtrOffsetFetchRequest()
	r.Version = 8
	r.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "group-0", Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: []int32{3}}}}}
	ev := Event{Kind: EventRequest, Config: config, Topics: topics, Request: r}
	b.ReportAllocs()
	for b.Loop() {
		s.Step(&ev, out)
		if out.fetch.Groups[0].Topics[0].Partitions[0].Offset != 3 {
			b.Fatal("wrong offset")
		}
	}
}

// fillOffsets commits offsets for groups, so many of each.
func fillOffsets(s *Shard, out *Result, config *Config, topics Topics, groups, offsets int) {
	for i := range groups {
		r := kmsg.NewPtrOffsetCommitRequest()
		r.Version, r.Group, r.Generation = 8, fmt.Sprintf("group-%d", i), -1
		r.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t"}}
		for p := range offsets {
			r.Topics[0].Partitions = append(r.Topics[0].Partitions, kmsg.OffsetCommitRequestTopicPartition{Partition: int32(p), Offset: int64(p), LeaderEpoch: -1})
		}
		ev := Event{Kind: EventRequest, Wall: startWall, Config: config, Topics: topics, Request: r}
		s.Step(&ev, out)
	}
}

// BenchmarkJoin1000 is a join phase of 1,000 members, from the first JoinGroup to
// Stable.
func BenchmarkJoin1000(b *testing.B) { benchmarkJoin(b, 1000) }

func BenchmarkJoin10000(b *testing.B) { benchmarkJoin(b, 10_000) }

func benchmarkJoin(b *testing.B, members int) {
	config, topics := DefaultConfig(), benchTopics()
	b.ReportAllocs()
	for b.Loop() {
		stableGroup(b, NewShard(0), &Result{}, config, topics, "group", members)
	}
}

// BenchmarkRejoin1000 is a rebalance of a group of 1,000 members whose leader
// rejoins: JoinGroup of all and SyncGroup of the leader.
func BenchmarkRejoin1000(b *testing.B) {
	s, out := NewShard(0), &Result{}
	config, topics := DefaultConfig(), benchTopics()
	ids := stableGroup(b, s, out, config, topics, "group", 1000)
	c := s.groups["group"].kind.(*classicGroup)
	r := kmsg.NewPtrJoinGroupRequest()
	r.Version, r.Group, r.SessionTimeoutMillis, r.RebalanceTimeoutMillis, r.ProtocolType = 3, "group", 45000, 300000, "consumer"
	r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: metadata("sub/t")}}
	y := kmsg.NewPtrSyncGroupRequest()
	y.Version, y.Group, y.MemberID = 3, "group", c.leader
	for _, id := range ids {
		y.GroupAssignment = append(y.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: id, MemberAssignment: []byte("some")})
	}
	ev := Event{Kind: EventRequest, Mono: time.Hour, Config: config, Topics: topics}
	b.ReportAllocs()
	for b.Loop() {
		ev.Request = r
		for _, id := range ids {
			r.MemberID = id
			s.Step(&ev, out)
		}
		ev.Request, y.Generation = y, c.generation
		s.Step(&ev, out)
		if c.state != stateStable {
			b.Fatal(c.state)
		}
	}
}

// BenchmarkReplay loads offset records.
func BenchmarkReplay(b *testing.B) {
	s, out := NewShard(0), &Result{}
	config, topics := DefaultConfig(), benchTopics()
	type kv struct{ k, v []byte }
	var list []kv
	for i := range 1000 {
		r := kmsg.NewPtrOffsetCommitRequest()
		r.Version, r.Group, r.Generation = 8, fmt.Sprintf("group-%d", i%100), -1
		r.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Partition: int32(i / 100), LeaderEpoch: -1}}}}
		ev := Event{Kind: EventRequest, Wall: startWall, Config: config, Topics: topics, Request: r}
		s.Step(&ev, out)
		list = append(list, kv{append([]byte(nil), out.Records[0].Key...), append([]byte(nil), out.Records[0].Value...)})
	}
	s = NewShard(0)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := s.Replay(int64(i), list[i%1000].k, list[i%1000].v); err != nil {
			b.Fatal(err)
		}
	}
}
