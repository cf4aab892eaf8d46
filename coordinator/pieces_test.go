package coordinator

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// commitMany commits offset p for the partitions below n of a topic.
func commitMany(w *world, group, topic string, n int) {
	w.t.Helper()
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Version, r.Group, r.Generation = 8, group, -1
	r.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: topic}}
	for p := range n {
		x := kmsg.NewOffsetCommitRequestTopicPartition()
		x.Partition, x.Offset = int32(p), int64(p)
		r.Topics[0].Partitions = append(r.Topics[0].Partitions, x)
	}
	_, answers := w.request(Client{}, r)
	for _, p := range answers[0].resp.(*kmsg.OffsetCommitResponse).Topics[0].Partitions {
		if p.ErrorCode != codeNone {
			w.t.Fatalf("commit of %s: %s", topic, codeName(p.ErrorCode))
		}
	}
}

// piece does one piece of work and returns its answers.
func (w *world) piece() ([]answer, bool) {
	key := TimerKey{Kind: TimerWork}
	if _, ok := w.timers[key]; !ok {
		return nil, false
	}
	answers := w.fire(key)
	if n := len(w.out.Records); n > workBudget/tombstoneCost+2 {
		w.t.Fatalf("a piece of work wrote %d records", n)
	}
	return answers, true
}

func TestLargeGroupIsDeletedInPieces(t *testing.T) {
	w := newWorld(t)
	w.pieces, w.replayEvery = true, 50
	w.topics.create("t", 5000)
	commitMany(w, "large", "t", 5000)
	commitMany(w, "small", "t", 2)
	r := kmsg.NewPtrDeleteGroupsRequest()
	r.Groups = []string{"small", "large", "none"}
	token, answers := w.request(Client{}, r)
	if len(answers) > 0 {
		t.Fatalf("answered at once: %+v", answers)
	}
	steps := 0
	for ; ; steps++ {
		answers, ok := w.piece()
		if !ok {
			t.Fatal("the work has ended without an answer")
		}
		if len(answers) > 0 {
			if answers[0].token != token {
				t.Fatalf("answered %+v", answers[0])
			}
			if got := formatResponse(answers[0].resp); got != "[small NONE, large NONE, none GROUP_ID_NOT_FOUND]" {
				t.Error(got)
			}
			if answers[0].dependsOn != w.shard.NextOffset()-1 {
				t.Errorf("the answer depends on offset %d of %d", answers[0].dependsOn, w.shard.NextOffset())
			}
			break
		}
		if steps == 3 {
			whileDeleting(t, w)
		}
	}
	if steps < 20 {
		t.Errorf("done after %d pieces", steps)
	}
	if s := w.shard.Stats(); s.Groups != 1 || s.Offsets != 1 {
		t.Errorf("left: %+v", s)
	}
}

// whileDeleting checks that a group that is being deleted is closed, and that
// others are not.
func whileDeleting(t *testing.T, w *world) {
	t.Helper()
	ask := func(r kmsg.Request, want string) {
		t.Helper()
		if _, answers := w.request(Client{ID: "c"}, r); len(answers) != 1 || !strings.Contains(formatResponse(answers[0].resp), want) {
			t.Errorf("%T is answered %+v, want %s", r, answers, want)
		}
	}
	const closed = "COORDINATOR_LOAD_IN_PROGRESS"
	for _, version := range []int16{1, 7, 9} {
		f := kmsg.NewPtrOffsetFetchRequest()
		f.Version, f.Group = version, "large"
		f.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0}}}
		f.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "large", Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: []int32{0}}}}}
		ask(f, closed)
	}
	c := kmsg.NewPtrOffsetCommitRequest()
	c.Version, c.Group, c.Generation = 8, "large", -1
	c.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{}}}}
	ask(c, closed)
	c.Group = "other"
	ask(c, "NONE")
	j := kmsg.NewPtrJoinGroupRequest()
	j.Version, j.Group, j.SessionTimeoutMillis, j.ProtocolType = 5, "large", 10000, "consumer"
	j.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
	ask(j, closed)
	d := kmsg.NewPtrOffsetDeleteRequest()
	d.Group = "large"
	ask(d, closed)
	l := kmsg.NewPtrListGroupsRequest()
	ask(l, "large")
}

func TestSweepInPieces(t *testing.T) {
	w := newWorld(t)
	w.pieces, w.replayEvery = true, 1_000_000
	w.topics.create("t", 5000)
	w.topics.create("u", 1)
	for i := range 3000 {
		commitMany(w, fmt.Sprintf("g%d", i), "u", 1)
	}
	commitMany(w, "large", "t", 5000)
	commitMany(w, "large", "u", 1)
	w.mono = w.config.OffsetsRetention
	commitMany(w, "fresh", "u", 1)
	pieces, expired := 0, 0
	w.fire(TimerKey{Kind: TimerSweep})
	for ok := true; ok; _, ok = w.piece() {
		pieces++
		for _, e := range w.out.Expiries {
			expired += e.Partitions
			if e.Reason != ExpiredRetention {
				t.Errorf("%+v", e)
			}
		}
		if pieces == 10 { // somebody is at work on the group in between
			commitMany(w, "large", "u", 1)
		}
	}
	if expired != 8000 || pieces < 50 {
		t.Errorf("%d offsets expired in %d pieces", expired, pieces)
	}
	if s := w.shard.Stats(); s.Groups != 2 || s.Offsets != 2 {
		t.Errorf("left: %+v", s)
	}
	w.compareReplay()
	// A sweep that is still at work is not started again; the timer goes on.
	if w.timers[TimerKey{Kind: TimerSweep}] != w.mono+w.config.OffsetsRetentionCheckInterval {
		t.Errorf("timers %v", w.timers)
	}
}

func TestTopicDeletionInPieces(t *testing.T) {
	w := newWorld(t)
	w.pieces, w.replayEvery = true, 1_000_000
	w.topics.create("t", 4000)
	w.topics.create("u", 2)
	commitMany(w, "a", "t", 4000)
	commitMany(w, "a", "u", 2)
	for i := range 1000 {
		commitMany(w, fmt.Sprintf("g%d", i), "u", 1)
	}
	commitMany(w, "z", "t", 3)
	ev := w.event(EventTopicsDeleted)
	ev.Deleted = []DeletedTopic{{"t", w.topics.remove("t")}, {"nosuch", [16]byte{1}}}
	w.topics.create("t", 4000) // somebody makes one of the same name at once
	w.step(&ev)
	commitMany(w, "a", "t", 10)
	pieces := 0
	for ok := true; ok; _, ok = w.piece() {
		pieces++
	}
	if pieces < 20 {
		t.Errorf("done in %d pieces", pieces)
	}
	if s := w.shard.Stats(); s.Groups != 1002 || s.Offsets != 10+2+1000 {
		t.Errorf("left: %+v", s)
	}
	w.compareReplay()
}

func TestUnloadAbandonsWork(t *testing.T) {
	w := newWorld(t)
	w.pieces, w.replayEvery = true, 50
	w.topics.create("t", 5000)
	commitMany(w, "large", "t", 5000)
	r := kmsg.NewPtrDeleteGroupsRequest()
	r.Groups = []string{"large", "more"}
	w.request(Client{}, r)
	ev := w.event(EventUnload)
	answers := w.step(&ev)
	if len(answers) != 1 || formatResponse(answers[0].resp) != "[large NOT_COORDINATOR, more NOT_COORDINATOR]" {
		t.Errorf("%+v", answers)
	}
	if len(w.timers) > 1 { // the work's, which finds nothing to do
		t.Errorf("timers %v", w.timers)
	}
}

func TestListInPieces(t *testing.T) {
	w := newWorld(t)
	w.replayEvery = 1_000_000
	w.topics.create("t", 1)
	all := map[string]bool{}
	for i := range 500 {
		id := fmt.Sprintf("g%d", i)
		all[id] = true
		commitMany(w, id, "t", 1)
	}
	p := NewListPass(nil, nil)
	for n := 0; !w.shard.ListGroups(p, 7); n++ {
		// Groups come and go in between; the others are listed once each.
		r := kmsg.NewPtrDeleteGroupsRequest()
		r.Groups = []string{fmt.Sprintf("g%d", n)}
		w.request(Client{}, r)
		delete(all, r.Groups[0])
		commitMany(w, fmt.Sprintf("new%d", n), "t", 1)
	}
	seen := map[string]bool{}
	for _, g := range p.Groups {
		if seen[g.Group] {
			t.Errorf("%s is listed twice", g.Group)
		}
		seen[g.Group] = true
	}
	for id := range all {
		if !seen[id] {
			t.Errorf("%s is not listed", id)
		}
	}
}

func TestFetchInPieces(t *testing.T) {
	w := newWorld(t)
	w.replayEvery = 1_000_000
	w.topics.create("t", 100)
	w.topics.create("u", 3)
	commitMany(w, "g", "t", 100)
	commitMany(w, "g", "u", 3)
	named := kmsg.OffsetFetchRequestGroup{Group: "g"}
	for _, topic := range []string{"u", "nosuch", "t"} {
		x := kmsg.OffsetFetchRequestGroupTopic{Topic: topic, TopicID: [16]byte{9}}
		if id, _, ok := w.topics.ByName(topic); ok {
			x.TopicID = id
		}
		for i := range 50 {
			x.Partitions = append(x.Partitions, int32(i))
		}
		named.Topics = append(named.Topics, x)
	}
	for _, group := range []kmsg.OffsetFetchRequestGroup{named, {Group: "g"}, {Group: "none"}} {
		for _, version := range []int16{9, 10} {
			fetch := func(limit int, between func(int)) (string, int) {
				p := &FetchPass{Group: &group, Version: version, Topics: w.topics}
				n := 0
				for ; !w.shard.FetchOffsets(p, limit); n++ {
					between(n)
				}
				return formatResponse(redecode(t, &kmsg.OffsetFetchResponse{Version: version, Groups: []kmsg.OffsetFetchResponseGroup{p.Response}})), n
			}
			whole, _ := fetch(1_000_000, nil)
			pieces, n := fetch(3, func(int) {})
			again, m := fetch(3, func(int) { commitMany(w, "g", "u", 3) }) // nothing new, but a change
			if whole != pieces || whole != again {
				t.Errorf("v%d of %s:\n%s\nin pieces\n%s\nwith changes\n%s", version, group.Group, whole, pieces, again)
			}
			if group.Group == "g" && (n < 30 || m != fetchAttempts) {
				t.Errorf("v%d: %d pieces, %d with changes", version, n, m)
			}
		}
	}
}

func TestDescribeInPieces(t *testing.T) {
	s, out := NewShard(0), &Result{}
	config, topics := DefaultConfig(), benchTopics()
	ids := stableGroup(t, s, out, config, topics, "g", 100)
	describe := func(limit int, between func(int)) (*DescribePass, int) {
		p := &DescribePass{Group: "g", Version: 5}
		n := 0
		for ; !s.DescribeGroup(p, limit); n++ {
			between(n)
		}
		return p, n
	}
	whole, _ := describe(1000, nil)
	pieces, n := describe(7, func(int) {})
	if fmt.Sprint(whole.Response) != fmt.Sprint(pieces.Response) || n != 14 || len(whole.Response.Members) != 100 {
		t.Errorf("%d members, in %d pieces %d", len(whole.Response.Members), n, len(pieces.Response.Members))
	}
	changed, n := describe(7, func(i int) {
		r := kmsg.NewPtrLeaveGroupRequest()
		r.Version, r.Group, r.MemberID = 0, "g", ids[i]
		s.Step(&Event{Config: config, Topics: topics, Request: r, Mono: time.Hour}, out)
	})
	if n != fetchAttempts || changed.Response.State != "PreparingRebalance" || len(changed.Response.Members) != 100-fetchAttempts {
		t.Errorf("with changes: %d pieces, %s, %d members", n, changed.Response.State, len(changed.Response.Members))
	}
}

// TestDependencies checks which offset an answer waits for.
func TestDependencies(t *testing.T) {
	w := newWorld(t)
	w.topics.create("t", 1)
	c := *w.config
	c.InitialRebalanceDelay = 0
	w.config = &c
	ask := func(r kmsg.Request) int64 {
		t.Helper()
		_, answers := w.request(Client{ID: "c"}, r)
		return answers[0].dependsOn
	}
	join := kmsg.NewPtrJoinGroupRequest()
	join.Version, join.Group, join.SessionTimeoutMillis, join.ProtocolType = 3, "g", 10000, "consumer"
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
	heartbeat := kmsg.NewPtrHeartbeatRequest()
	heartbeat.Group, heartbeat.Generation, heartbeat.MemberID = "g", 1, "c-00000000-0000-4000-8000-000000000001"
	fetch := kmsg.NewPtrOffsetFetchRequest()
	fetch.Version, fetch.Group = 2, "g"
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.Generation, sync.MemberID = "g", 1, heartbeat.MemberID
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Groups = []string{"g"}
	remove := kmsg.NewPtrDeleteGroupsRequest()
	remove.Groups = []string{"other"}
	expect := func(what string, r kmsg.Request, want int64) {
		t.Helper()
		if got := ask(r); got != want {
			t.Errorf("%s depends on offset %d, want %d", what, got, want)
		}
	}
	expect("a heartbeat to nobody in an empty log", heartbeat, -1)
	commitMany(w, "other", "t", 1) // 0
	expect("a heartbeat to a group that is not there", heartbeat, 0)
	expect("a fetch from a group that is not there", fetch, 0)
	expect("the first join", join, 1) // 1: the new group
	commitMany(w, "other", "t", 1)    // 2
	expect("a heartbeat", heartbeat, 1)
	expect("a fetch of a group without offsets", fetch, 1)
	expect("the leader's SyncGroup", sync, 3) // 3: the members
	commitMany(w, "other", "t", 1)            // 4
	expect("a heartbeat in Stable", heartbeat, 3)
	expect("a SyncGroup in Stable", sync, 3)
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Version, commit.Group, commit.Generation, commit.MemberID = 7, "g", 1, heartbeat.MemberID
	commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{}}}}
	expect("a commit", commit, 5)
	commitMany(w, "other", "t", 1) // 6
	expect("a heartbeat after a commit", heartbeat, 3)
	expect("a fetch after it", fetch, 5)
	expect("a description", describe, 5)
	expect("a list", kmsg.NewPtrListGroupsRequest(), 6)
	commit.Generation = 9
	expect("a refused commit", commit, 5)
	commit.Topics[0].Topic = "nosuch"
	expect("a commit that nobody was asked about", commit, -1)
	expect("a deletion", remove, 8) // 7 and 8: tombstones
	expect("a deletion of what is not there", remove, 8)
	expect("a heartbeat meanwhile", heartbeat, 3)
	heartbeat.Group = "other"
	expect("a heartbeat to the deleted group", heartbeat, 8)
	heartbeat.Group = ""
	expect("a heartbeat to no group", heartbeat, -1)
}

// TestMemoryPerOffset keeps the promise of 120 bytes for a committed offset beyond
// its metadata, the groups included, when a group has ten.
func TestMemoryPerOffset(t *testing.T) {
	const groups, offsets = 10_000, 10
	config, topics := DefaultConfig(), benchTopics()
	out := &Result{}
	NewShard(0) // warm up
	before := heap()
	s := NewShard(0)
	fillOffsets(s, out, config, topics, groups, offsets)
	*out = Result{}
	per := float64(heap()-before) / (groups * offsets)
	t.Logf("%.0f bytes per offset", per)
	if per > 120 {
		t.Errorf("%.0f bytes per offset", per)
	}
	if n := s.Stats(); n.Groups != groups || n.Offsets != groups*offsets {
		t.Errorf("%+v", n)
	}
	// Deleting the groups gives it back.
	for i := range groups {
		r := kmsg.NewPtrDeleteGroupsRequest()
		r.Groups = []string{fmt.Sprintf("group-%d", i)}
		s.Step(&Event{Config: config, Topics: topics, Request: r}, out)
	}
	*out = Result{}
	left := float64(heap()-before) / (groups * offsets)
	t.Logf("%.0f bytes left", left)
	if left > 20 {
		t.Errorf("%.0f bytes per offset are left", left)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	runtime.KeepAlive(s)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestLiveBytes checks the accounts that decide when cleaning the log pays.
func TestLiveBytes(t *testing.T) {
	w := newWorld(t)
	w.topics.create("t", 10)
	size := func(newest map[string]logRecord) (n int64) {
		for _, r := range newest {
			if r.value != nil {
				n += int64(recordSize(len(r.key), len(r.value)))
			}
		}
		return n
	}
	for i := range 20 {
		commitMany(w, "g", "t", 1+i%10)
		commitMany(w, "h", "t", 1)
		if i%5 == 4 {
			r := kmsg.NewPtrDeleteGroupsRequest()
			r.Groups = []string{"h"}
			w.request(Client{}, r)
		}
		newest := map[string]logRecord{}
		tombstones := int64(0)
		for _, r := range w.log {
			newest[string(r.key)] = r
			if r.value == nil {
				tombstones += int64(recordSize(len(r.key), 0))
			}
		}
		if got := w.shard.Live(); got.Values != size(newest) || got.Tombstones != tombstones {
			t.Fatalf("live bytes %+v, want %d and %d", got, size(newest), tombstones)
		}
	}
	// Records that the shard does not know count too, and replace each other by key.
	s := NewShard(0)
	for offset, r := range []struct{ key, value string }{{"\x00\x63a", "one"}, {"\x00\x63a", "three"}, {"\x00\x63b", "x"}, {"\x00\x63b", ""}} {
		value := []byte(r.value)
		if r.value == "" {
			value = nil
		}
		if err := s.Replay(int64(offset), []byte(r.key), value); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Live(); got.Values != int64(recordSize(3, 5)) || got.Tombstones != int64(recordSize(3, 0)) || s.Stats().Skipped != 4 {
		t.Errorf("%+v, %+v", got, s.Stats())
	}
	s.SetTombstones(3)
	if s.Live().Tombstones != 3 {
		t.Errorf("%+v", s.Live())
	}
}

func TestPartitionFor(t *testing.T) {
	for group, want := range map[string]int32{
		"": 0, "a": 47, "group": 47, "my-group": 12, "test-group": 12, "connect-cluster": 13, "polygenelubricants": 0, "grupo-ñ": 1,
		"消费者": 6, "😀": 49, "console-consumer-12345": 6, "AaAa": 44, "BBBB": 44,
	} {
		if got := PartitionFor(group, 50); got != want {
			t.Errorf("PartitionFor(%q) is %d, want %d", group, got, want)
		}
	}
	for group, want := range map[string]int32{"my-group": -1906497762, "polygenelubricants": -2147483648, "消费者": 28099956, "😀": 1772899} {
		if got := javaHash(group); got != want {
			t.Errorf("javaHash(%q) is %d, want %d", group, got, want)
		}
	}
}

func TestAllocations(t *testing.T) {
	s, out := NewShard(0), &Result{}
	config, topics := DefaultConfig(), benchTopics()
	ids := stableGroup(t, s, out, config, topics, "group", 10)
	h := kmsg.NewPtrHeartbeatRequest()
	h.Version, h.Group, h.Generation, h.MemberID = 4, "group", 1, ids[3]
	c := kmsg.NewPtrOffsetCommitRequest()
	c.Version, c.Group, c.Generation, c.MemberID = 8, "group", 1, ids[3]
	c.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{}}}}
	f := kmsg.NewPtrOffsetFetchRequest()
	f.Version = 8
	f.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "group", Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: []int32{0}}}}}
	ev := Event{Config: config, Topics: topics, Mono: time.Hour}
	for name, r := range map[string]kmsg.Request{"Heartbeat": h, "OffsetCommit": c, "OffsetFetch": f} {
		ev.Request = r
		n := testing.AllocsPerRun(1000, func() {
			ev.Mono += time.Millisecond
			s.Step(&ev, out)
		})
		if n > 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
	if len(out.Timers) > 0 {
		t.Errorf("timers %v", out.Timers)
	}
}
