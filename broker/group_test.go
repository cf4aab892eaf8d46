package broker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/internal/meta"
	"github.com/kcoord/kcoord/log"
	"github.com/kcoord/kcoord/log/vfs"
)

// joinRequest is a consumer's JoinGroup without an instance id.
func joinRequest(group, member string) *kmsg.JoinGroupRequest {
	req := at(kmsg.NewPtrJoinGroupRequest(), 5)
	req.Group, req.MemberID, req.ProtocolType = group, member, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10_000, 10_000
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", []byte{0, 1, 0, 0, 0, 0}
	req.Protocols = append(req.Protocols, p)
	return req
}

func syncRequest(group, member string, generation int32, assignment string) *kmsg.SyncGroupRequest {
	req := at(kmsg.NewPtrSyncGroupRequest(), 3)
	req.Group, req.MemberID, req.Generation = group, member, generation
	if assignment != "" {
		req.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: member, MemberAssignment: []byte(assignment)}}
	}
	return req
}

func heartbeatRequest(group, member string, generation int32) *kmsg.HeartbeatRequest {
	req := at(kmsg.NewPtrHeartbeatRequest(), 4)
	req.Group, req.MemberID, req.Generation = group, member, generation
	return req
}

// commitRequest commits offset for the partitions of a topic.
func commitRequest(group, member string, generation int32, topic string, offset int64, partitions ...int32) *kmsg.OffsetCommitRequest {
	req := at(kmsg.NewPtrOffsetCommitRequest(), 8)
	req.Group, req.MemberID, req.Generation = group, member, generation
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic = topic
	for _, index := range partitions {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset = index, offset
		rt.Partitions = append(rt.Partitions, p)
	}
	req.Topics = append(req.Topics, rt)
	return req
}

func commitCode(t testing.TB, c *testConn, req *kmsg.OffsetCommitRequest) int16 {
	t.Helper()
	return ask[*kmsg.OffsetCommitResponse](t, c, req).Topics[0].Partitions[0].ErrorCode
}

// fetchRequest asks for all offsets of groups, or for one group's partitions.
func fetchRequest(version int16, topic string, partitions []int32, groups ...string) *kmsg.OffsetFetchRequest {
	req := at(kmsg.NewPtrOffsetFetchRequest(), version)
	if version < 8 {
		req.Group = groups[0]
		if topic != "" {
			req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: topic, Partitions: partitions}}
		}
		return req
	}
	for _, g := range groups {
		rg := kmsg.NewOffsetFetchRequestGroup()
		rg.Group = g
		if topic != "" {
			rt := kmsg.NewOffsetFetchRequestGroupTopic()
			rt.Topic, rt.Partitions = topic, partitions
			rg.Topics = append(rg.Topics, rt)
		}
		req.Groups = append(req.Groups, rg)
	}
	return req
}

// makeTopic creates a topic as if CreateTopics had, and waits until it is there.
func makeTopic(t testing.TB, b *Broker, name string, partitions int32) (id [16]byte) {
	t.Helper()
	b.options.Random(id[:])
	there := make(chan struct{})
	w := log.Waiter{At: neverLate, Conn: wakeUp(func() { close(there) })}
	record := meta.AppendTopic(nil, &meta.Topic{ID: id, Name: name, Partitions: partitions})
	if err := b.store.AppendMetadata([][]byte{record}, &w, false); err != nil {
		t.Fatal(err)
	}
	<-there
	return id
}

// stableMember makes a group of one member.
func stableMember(t testing.TB, c *testConn, group string) (member string, generation int32) {
	t.Helper()
	first := ask[*kmsg.JoinGroupResponse](t, c, joinRequest(group, ""))
	if first.ErrorCode != 79 { // MEMBER_ID_REQUIRED
		t.Fatalf("first JoinGroup: %+v", first)
	}
	joined := ask[*kmsg.JoinGroupResponse](t, c, joinRequest(group, first.MemberID))
	if joined.ErrorCode != 0 || joined.LeaderID != joined.MemberID {
		t.Fatalf("second JoinGroup: %+v", joined)
	}
	synced := ask[*kmsg.SyncGroupResponse](t, c, syncRequest(group, joined.MemberID, joined.Generation, "mine"))
	if synced.ErrorCode != 0 || string(synced.MemberAssignment) != "mine" {
		t.Fatalf("SyncGroup: %+v", synced)
	}
	return joined.MemberID, joined.Generation
}

// Two members on connections of two loops: the first one's join is parked until
// the second arrives, and each assignment comes to its member.
func TestTwoMembers(t *testing.T) {
	b, tr := newTest(t, Options{})
	tr.loops = 2
	startBroker(t, b)
	one, two := tr.open(0), tr.open(1)
	m1, generation := stableMember(t, one, "g")
	m2 := ask[*kmsg.JoinGroupResponse](t, two, joinRequest("g", "")).MemberID
	two.send(frame(joinRequest("g", m2), 42))
	if hb := ask[*kmsg.HeartbeatResponse](t, one, heartbeatRequest("g", m1, generation)); hb.ErrorCode != 27 {
		t.Fatalf("Heartbeat during a rebalance: %+v", hb)
	}
	j1 := ask[*kmsg.JoinGroupResponse](t, one, joinRequest("g", m1))
	j2 := answer[*kmsg.JoinGroupResponse](t, two, joinRequest("g", m2))
	if j1.ErrorCode != 0 || j2.ErrorCode != 0 || j1.Generation != generation+1 || j1.LeaderID != m1 || len(j1.Members) != 2 || len(j2.Members) != 0 {
		t.Fatalf("JoinGroup: %+v and %+v", j1, j2)
	}
	// The follower's sync, and a heartbeat behind it, wait for the leader's.
	two.send(frame(syncRequest("g", m2, j2.Generation, ""), 42))
	two.send(frame(heartbeatRequest("g", m2, j2.Generation), 42))
	leaders := syncRequest("g", m1, j1.Generation, "a1")
	leaders.GroupAssignment = append(leaders.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: m2, MemberAssignment: []byte("a2")})
	s1 := ask[*kmsg.SyncGroupResponse](t, one, leaders)
	s2 := answer[*kmsg.SyncGroupResponse](t, two, leaders)
	if string(s1.MemberAssignment) != "a1" || string(s2.MemberAssignment) != "a2" {
		t.Fatalf("SyncGroup: %+v and %+v", s1, s2)
	}
	if hb := answer[*kmsg.HeartbeatResponse](t, two, heartbeatRequest("g", "", 0)); hb.ErrorCode != 0 {
		t.Fatalf("Heartbeat behind the sync: %+v", hb)
	}
	leave := at(kmsg.NewPtrLeaveGroupRequest(), 0)
	leave.Group, leave.MemberID = "g", m2
	if left := ask[*kmsg.LeaveGroupResponse](t, two, leave); left.ErrorCode != 0 {
		t.Fatalf("LeaveGroup: %+v", left)
	}
}

// startBroker starts a broker made by newTest and stops it at the end.
func startBroker(t testing.TB, b *Broker) {
	t.Helper()
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Stop(context.Background()) })
}

// Offsets in every version: one group, several of different shards, everything
// of a group, and more partitions than an event loop reads.
func TestOffsets(t *testing.T) {
	b, tr := startTest(t, Options{})
	c := tr.open(0)
	const partitions = inlinePartitions + 1
	makeTopic(t, b, "t", partitions)
	makeTopic(t, b, "few", 2)
	all := make([]int32, partitions)
	for i := range all {
		all[i] = int32(i)
	}
	if code := commitCode(t, c, commitRequest("g", "", -1, "t", 7, all...)); code != 0 {
		t.Fatalf("OffsetCommit: %d", code)
	}
	for _, group := range []string{"h", "i"} {
		if code := commitCode(t, c, commitRequest(group, "", -1, "few", 9, 0, 1)); code != 0 {
			t.Fatalf("OffsetCommit: %d", code)
		}
	}
	for version := int16(1); version <= 9; version++ {
		for _, asked := range []struct {
			topic      string
			partitions []int32
			group      string
			want       int
		}{{"few", []int32{1}, "h", 1}, {"t", all, "g", partitions}, {"", nil, "g", partitions}, {"", nil, "h", 2}, {"", nil, "none", 0}} {
			if asked.topic == "" && version == 1 {
				continue // before version 2 there is no way to ask for everything
			}
			got := 0
			resp := ask[*kmsg.OffsetFetchResponse](t, c, fetchRequest(version, asked.topic, asked.partitions, asked.group))
			for _, rt := range resp.Topics {
				got += countOffsets(t, rt.Topic, rt.Partitions, func(p kmsg.OffsetFetchResponseTopicPartition) int64 { return p.Offset })
			}
			for _, rg := range resp.Groups {
				for _, rt := range rg.Topics {
					got += countOffsets(t, rt.Topic, rt.Partitions, func(p kmsg.OffsetFetchResponseGroupTopicPartition) int64 { return p.Offset })
				}
			}
			if got != asked.want || resp.ErrorCode != 0 {
				t.Errorf("v%d, %s of %s: %d offsets, want %d (error %d)", version, asked.topic, asked.group, got, asked.want, resp.ErrorCode)
			}
		}
	}
	several := ask[*kmsg.OffsetFetchResponse](t, c, fetchRequest(8, "few", []int32{0, 1}, "h", "i", "none", "h"))
	var names []string
	for _, rg := range several.Groups {
		names = append(names, rg.Group)
		if len(rg.Topics) != 1 || len(rg.Topics[0].Partitions) != 2 || rg.ErrorCode != 0 {
			t.Errorf("group %s: %+v", rg.Group, rg)
		}
	}
	if !slices.Equal(names, []string{"h", "i", "none", "h"}) {
		t.Errorf("groups %v", names)
	}
}

func countOffsets[P any](t *testing.T, topic string, partitions []P, offset func(P) int64) int {
	t.Helper()
	want := map[string]int64{"t": 7, "few": 9}[topic]
	for _, p := range partitions {
		if offset(p) != want {
			t.Errorf("%s: offset %d, want %d", topic, offset(p), want)
		}
	}
	return len(partitions)
}

// DescribeGroups, ListGroups, DeleteGroups and OffsetDelete over several shards.
func TestGroupAdmin(t *testing.T) {
	b, tr := startTest(t, Options{})
	c := tr.open(0)
	makeTopic(t, b, "t", 2)
	member, generation := stableMember(t, c, "busy")
	for _, g := range []string{"a", "b", "c"} {
		commitCode(t, c, commitRequest(g, "", -1, "t", 7, 0, 1))
	}
	list := at(kmsg.NewPtrListGroupsRequest(), 5)
	listed := ask[*kmsg.ListGroupsResponse](t, c, list)
	var seen []string
	for _, g := range listed.Groups {
		seen = append(seen, g.Group+" "+g.GroupState+" "+g.GroupType)
	}
	slices.Sort(seen)
	if got := strings.Join(seen, ", "); got != "a Empty classic, b Empty classic, busy Stable classic, c Empty classic" {
		t.Errorf("ListGroups: %s", got)
	}
	describe := at(kmsg.NewPtrDescribeGroupsRequest(), 6)
	describe.Groups, describe.IncludeAuthorizedOperations = []string{"busy", "none"}, true
	described := ask[*kmsg.DescribeGroupsResponse](t, c, describe)
	if g := described.Groups[0]; g.State != "Stable" || len(g.Members) != 1 || g.Members[0].ClientHost != "/192.0.2.1" ||
		g.Members[0].ClientID != "test" || g.AuthorizedOperations != groupOperations {
		t.Errorf("DescribeGroups: %+v", g)
	}
	if g := described.Groups[1]; g.State != "Dead" || g.ErrorCode != 69 || g.AuthorizedOperations != noOperations {
		t.Errorf("DescribeGroups of a missing group: %+v", g)
	}

	offsets := at(kmsg.NewPtrOffsetDeleteRequest(), 0)
	offsets.Group = "c"
	offsets.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}}}
	if deleted := ask[*kmsg.OffsetDeleteResponse](t, c, offsets); deleted.ErrorCode != 0 || deleted.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Errorf("OffsetDelete: %+v", deleted)
	}
	if left := ask[*kmsg.OffsetFetchResponse](t, c, fetchRequest(8, "", nil, "c")); len(left.Groups[0].Topics) != 1 || len(left.Groups[0].Topics[0].Partitions) != 1 {
		t.Errorf("after OffsetDelete: %+v", left)
	}

	del := at(kmsg.NewPtrDeleteGroupsRequest(), 2)
	del.Groups = []string{"b", "busy", "a", "none", "b"}
	var got []string
	for _, g := range ask[*kmsg.DeleteGroupsResponse](t, c, del).Groups {
		got = append(got, g.Group)
		if want := map[string]int16{"busy": 68, "none": 69}[g.Group]; g.ErrorCode != want {
			t.Errorf("DeleteGroups: %s: %d, want %d", g.Group, g.ErrorCode, want)
		}
	}
	if !slices.Equal(got, []string{"b", "busy", "a", "none"}) {
		t.Errorf("DeleteGroups: %v", got)
	}
	if hb := ask[*kmsg.HeartbeatResponse](t, c, heartbeatRequest("busy", member, generation)); hb.ErrorCode != 0 {
		t.Errorf("the connection and the other group live on: %+v", hb)
	}
}

// Before the folder is open group requests are told to try again; a Heartbeat is
// answered as if all were well, as in Kafka.
func TestLoading(t *testing.T) {
	b, tr := newTest(t, Options{})
	b.benches = []bench{{counts: &counts{}}}
	c := tr.open(0)
	if j := ask[*kmsg.JoinGroupResponse](t, c, joinRequest("g", "m")); j.ErrorCode != 14 || j.Generation != -1 {
		t.Errorf("JoinGroup: %+v", j)
	}
	if hb := ask[*kmsg.HeartbeatResponse](t, c, heartbeatRequest("g", "m", 1)); hb.ErrorCode != 0 {
		t.Errorf("Heartbeat: %+v", hb)
	}
	for range 2 { // before and while metadata is read
		if code := commitCode(t, c, commitRequest("g", "", -1, "t", 7, 0)); code != 14 {
			t.Errorf("OffsetCommit: %d", code)
		}
		makeSnapshot(t, b, "another")
	}
	if f := ask[*kmsg.OffsetFetchResponse](t, c, fetchRequest(8, "t", []int32{0}, "g")); f.Groups[0].ErrorCode != 14 {
		t.Errorf("OffsetFetch: %+v", f)
	}
	if f := ask[*kmsg.OffsetFetchResponse](t, c, fetchRequest(8, "t", []int32{0}, "g", "h")); f.Groups[1].ErrorCode != 14 {
		t.Errorf("OffsetFetch of two groups: %+v", f)
	}
}

// makeSnapshot puts a topic into the metadata of a broker that is not open.
func makeSnapshot(t *testing.T, b *Broker, topic string) {
	t.Helper()
	if err := b.meta.Apply(meta.AppendTopic(nil, &meta.Topic{ID: [16]byte{1}, Name: topic, Partitions: 1})); err != nil {
		t.Fatal(err)
	}
}

// A parked member is told to look elsewhere when the broker stops.
func TestStopAnswersParked(t *testing.T) {
	b, tr := newTest(t, Options{Properties: map[string]string{"group.initial.rebalance.delay.ms": "60000"}})
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := tr.open(0)
	m := ask[*kmsg.JoinGroupResponse](t, c, joinRequest("g", "")).MemberID
	c.send(frame(joinRequest("g", m), 42))
	if err := b.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if j := answer[*kmsg.JoinGroupResponse](t, c, joinRequest("g", m)); j.ErrorCode != 16 || j.MemberID != m {
		t.Errorf("parked JoinGroup: %+v", j)
	}
}

// A gate holds back the syncs of the journal.
type gate struct {
	mu     sync.Mutex
	closed bool
	open   chan struct{}
}

func (g *gate) set(closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed = closed; closed {
		g.open = make(chan struct{})
	} else if g.open != nil {
		close(g.open)
		g.open = nil
	}
}

func (g *gate) before(op vfs.Op) *vfs.Failure {
	g.mu.Lock()
	wait := g.open
	g.mu.Unlock()
	if wait != nil && op.IsSync() && strings.Contains(op.Path, "journal") {
		<-wait
	}
	return nil
}

// silent checks that a connection has no answer for a while.
func (c *testConn) silent(t testing.TB, what string) {
	t.Helper()
	select {
	case b := <-c.answers:
		t.Fatalf("%s: answered although it is not durable: %x", what, b)
	case <-time.After(50 * time.Millisecond):
	}
}

// While a sync hangs, what was committed is neither acknowledged nor shown;
// heartbeats are answered and other requests of the connection applied. When the
// disk is back all comes in order.
func TestNothingBeforeItIsDurable(t *testing.T) {
	g := &gate{}
	b, tr := startTest(t, Options{FS: &vfs.Hooked{FS: vfs.NewMem(), Before: g.before}})
	c, other := tr.open(0), tr.open(0)
	makeTopic(t, b, "t", 2)
	member, generation := stableMember(t, other, "quiet")
	if code := commitCode(t, c, commitRequest("g", "", -1, "t", 1, 0)); code != 0 {
		t.Fatalf("OffsetCommit: %d", code)
	}
	g.set(true)
	c.send(frame(commitRequest("g", "", -1, "t", 2, 0), 42))
	c.send(frame(fetchRequest(8, "t", []int32{0}, "g"), 42))
	c.silent(t, "OffsetCommit")
	reader := tr.open(0)
	reader.send(frame(fetchRequest(8, "t", []int32{0}, "g"), 42))
	reader.silent(t, "OffsetFetch of somebody else")
	if hb := ask[*kmsg.HeartbeatResponse](t, other, heartbeatRequest("quiet", member, generation)); hb.ErrorCode != 0 {
		t.Errorf("Heartbeat: %+v", hb)
	}
	g.set(false)
	if r := answer[*kmsg.OffsetCommitResponse](t, c, commitRequest("g", "", -1, "t", 2, 0)); r.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Errorf("OffsetCommit: %+v", r)
	}
	for _, c := range []*testConn{c, reader} {
		if r := answer[*kmsg.OffsetFetchResponse](t, c, fetchRequest(8, "t", nil, "g")); r.Groups[0].Topics[0].Partitions[0].Offset != 2 {
			t.Errorf("OffsetFetch: %+v", r)
		}
	}
}

// A sync that takes longer than offsets.commit.timeout.ms: clients are told to
// try again, and the write counts when the disk is back.
func TestStalledDisk(t *testing.T) {
	g := &gate{}
	b, tr := startTest(t, Options{FS: &vfs.Hooked{FS: vfs.NewMem(), Before: g.before},
		Properties: map[string]string{"offsets.commit.timeout.ms": "300"}})
	c := tr.open(0)
	makeTopic(t, b, "t", 2)
	g.set(true)
	if code := commitCode(t, c, commitRequest("g", "", -1, "t", 2, 0)); code != codeCoordinatorNotAvailable {
		t.Errorf("OffsetCommit: %d", code)
	}
	if b.metrics.stalled.Load() == 0 {
		t.Error("not counted")
	}
	g.set(false)
	if r := ask[*kmsg.OffsetFetchResponse](t, c, fetchRequest(8, "t", []int32{0}, "g")); r.Groups[0].Topics[0].Partitions[0].Offset != 2 {
		t.Errorf("OffsetFetch: %+v", r)
	}
}

// A long list of groups of one shard is deleted in several steps and answered as
// one, in the order of the request.
func TestDeleteManyGroups(t *testing.T) {
	b, tr := startTest(t, Options{Properties: map[string]string{"offsets.topic.num.partitions": "1"}})
	c := tr.open(0)
	makeTopic(t, b, "t", 1)
	del := at(kmsg.NewPtrDeleteGroupsRequest(), 2)
	for i := range 2*deletePiece + 3 {
		g := fmt.Sprintf("g%d", i)
		if i%7 != 0 {
			if code := commitCode(t, c, commitRequest(g, "", -1, "t", 7, 0)); code != 0 {
				t.Fatalf("commit to %s: %d", g, code)
			}
		}
		del.Groups = append(del.Groups, g)
	}
	deleted := ask[*kmsg.DeleteGroupsResponse](t, c, del).Groups
	if len(deleted) != len(del.Groups) {
		t.Fatalf("%d groups answered of %d", len(deleted), len(del.Groups))
	}
	for i, g := range deleted {
		want := int16(0)
		if i%7 == 0 {
			want = 69
		}
		if g.Group != del.Groups[i] || g.ErrorCode != want {
			t.Errorf("%s: %s, code %d, want %d", del.Groups[i], g.Group, g.ErrorCode, want)
		}
	}
	if left := ask[*kmsg.ListGroupsResponse](t, c, at(kmsg.NewPtrListGroupsRequest(), 5)).Groups; len(left) != 0 {
		t.Errorf("%d groups are left", len(left))
	}
}
