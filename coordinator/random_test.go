package coordinator

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestModel runs the core beside the model under random events: every answer, when
// it is given and what it says, must be the model's. It fails unless each kind of
// request also succeeded, so that it is not only refusals that were compared.
func TestModel(t *testing.T) {
	seeds, steps := 30, 1500
	if testing.Short() {
		seeds = 12
	}
	total := map[string]int{}
	for seed := range seeds {
		r := newRandomRun(t, uint64(seed))
		for range steps {
			r.step()
		}
		r.compareReplay()
		for k, n := range r.count {
			total[k] += n
		}
	}
	for _, kind := range []string{
		"join NONE", "join MEMBER_ID_REQUIRED", "join UNKNOWN_MEMBER_ID", "join GROUP_MAX_SIZE_REACHED", "join FENCED_INSTANCE_ID",
		"join INCONSISTENT_GROUP_PROTOCOL", "join REBALANCE_IN_PROGRESS", "join parked", "sync NONE", "sync parked", "sync REBALANCE_IN_PROGRESS",
		"sync ILLEGAL_GENERATION", "heartbeat NONE", "heartbeat REBALANCE_IN_PROGRESS", "leave NONE", "commit NONE", "commit ILLEGAL_GENERATION",
		"commit REBALANCE_IN_PROGRESS", "delete NONE", "delete NON_EMPTY_GROUP", "offset-delete NONE", "offset-delete GROUP_SUBSCRIBED_TO_TOPIC",
		"fetch NONE", "describe NONE", "describe Stable", "describe CompletingRebalance", "list NONE", "restart", "skip-assignment",
	} {
		if total[kind] < seeds/2 {
			t.Errorf("%q happened %d times", kind, total[kind])
		}
	}
	t.Logf("%v", total)
}

// A randomRun is a world and a model, and clients that mostly do what clients do.
type randomRun struct {
	*world
	model   *model
	rnd     *rand.Rand
	clients []*randomClient
	labels  map[Token]*randomClient
	count   map[string]int
	history []string
	seed    uint64
}

type randomClient struct {
	name, group, instance string
	id                    string
	gen                   int32
	leader                bool
	members               []string // of the leader's answer
	joined, synced        bool
	busy                  bool
}

func newRandomRun(t testing.TB, seed uint64) *randomRun {
	r := &randomRun{
		world: newWorld(t), rnd: rand.New(rand.NewPCG(seed, 7)), labels: map[Token]*randomClient{}, count: map[string]int{}, seed: seed,
	}
	r.replayEvery = 25
	c := *r.config
	c.MaxSize = 3 + r.rnd.IntN(3)
	c.InitialRebalanceDelay = []time.Duration{0, 3 * time.Second}[r.rnd.IntN(2)]
	c.OffsetsRetentionCheckInterval = 1000 * time.Hour
	r.config = &c
	r.mono = time.Second // 0 means no deadline in the model
	r.restart()
	r.topics.create("t", 3)
	r.topics.create("u", 2)
	r.model = &model{config: &c, now: r.mono, groups: map[string]*modelGroup{}}
	for i := range 7 {
		x := &randomClient{name: fmt.Sprintf("c%d", i), group: fmt.Sprintf("g%d", i%2)}
		if i > 3 {
			x.instance = fmt.Sprintf("i%d", i)
		}
		r.clients = append(r.clients, x)
	}
	return r
}

func (r *randomRun) step() {
	r.model.sent = nil
	x := r.clients[r.rnd.IntN(len(r.clients))]
	switch n := r.rnd.IntN(1000); {
	case n < 150:
		r.pass(time.Duration(r.rnd.IntN(2500))*time.Millisecond + time.Duration(r.rnd.IntN(1000)))
	case n < 153:
		r.crash()
	case n < 158:
		r.deleteGroup(x)
	case n < 180:
		r.offsetDelete(x)
	case n < 232:
		r.fetch(x)
	case n < 236:
		r.describe(x)
	case n < 240:
		r.list()
	case n < 340:
		r.commit(x)
	case n < 460:
		r.heartbeat(x)
	case n < 485:
		r.leave(x)
	case n < 505:
		x.id, x.joined, x.synced, x.busy = "", false, false, false // the client starts again
		if x.instance != "" {
			r.join(x)
		}
	case x.busy && n < 950:
		return
	case x.joined && !x.synced || n > 990:
		r.sync(x)
	case !x.joined || n > 960:
		r.join(x)
	default:
		r.heartbeat(x)
	}
}

// do sends a request to both and compares.
func (r *randomRun) do(x *randomClient, kind string, req kmsg.Request, model func(Token)) []answer {
	r.note("%s %s %+v", x.name, kind, req)
	r.labels[r.tokens+1] = x
	token, answers := r.request(Client{ID: x.name, Host: "/h"}, req)
	model(token)
	r.compare(answers)
	if r.parked[token] != nil {
		r.count[kind+" parked"]++
	}
	return answers
}

func (r *randomRun) note(format string, args ...any) {
	line := fmt.Sprintf("%s "+format, append([]any{r.mono}, args...)...)
	r.history = append(r.history, strings.ReplaceAll(line, " UnknownTags:{keyvals:map[]}", ""))
	if len(r.history) > 15 {
		r.history = r.history[1:]
	}
}

func (r *randomRun) compare(answers []answer) {
	r.t.Helper()
	var got, want []string
	for _, a := range answers {
		got = append(got, fmt.Sprintf("%d: %s", a.token, formatResponse(a.resp)))
	}
	for _, a := range r.model.sent {
		want = append(want, fmt.Sprintf("%d: %s", a.token, a.text))
	}
	r.model.sent = nil
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		for _, id := range slices.Sorted(maps.Keys(r.shard.groups)) {
			r.t.Logf("%s %+v\nthe model's %+v", id, r.shard.groups[id].kind, r.model.groups[id])
		}
		r.t.Fatalf("seed %d: answers\n  %s\nthe model's\n  %s\nafter\n%s", r.seed, strings.Join(got, "\n  "), strings.Join(want, "\n  "), strings.Join(r.history, "\n"))
	}
	for _, a := range answers {
		r.learn(r.labels[a.token], a.resp)
	}
}

// learn is what a client makes of an answer.
func (r *randomRun) learn(x *randomClient, resp kmsg.Response) {
	switch a := resp.(type) {
	case *kmsg.JoinGroupResponse:
		r.count["join "+codeName(a.ErrorCode)]++
		x.busy = false
		switch a.ErrorCode {
		case codeNone:
			x.id, x.gen, x.joined, x.synced = a.MemberID, a.Generation, true, false
			x.leader = a.LeaderID == a.MemberID
			x.members = nil
			for _, m := range a.Members {
				x.members = append(x.members, m.MemberID)
			}
			if a.SkipAssignment {
				r.count["skip-assignment"]++
			}
		case codeMemberIDRequired:
			x.id = a.MemberID
		case codeUnknownMemberID, codeFencedInstanceID, codeGroupMaxSizeReached:
			x.id, x.joined = "", false
		}
	case *kmsg.SyncGroupResponse:
		r.count["sync "+codeName(a.ErrorCode)]++
		x.busy = false
		x.synced = a.ErrorCode == codeNone
		x.joined = x.synced
		if a.ErrorCode == codeUnknownMemberID || a.ErrorCode == codeFencedInstanceID {
			x.id = ""
		}
	case *kmsg.HeartbeatResponse:
		r.count["heartbeat "+codeName(a.ErrorCode)]++
		if a.ErrorCode != codeNone {
			x.joined = false
		}
		if a.ErrorCode == codeUnknownMemberID || a.ErrorCode == codeFencedInstanceID {
			x.id = ""
		}
	case *kmsg.LeaveGroupResponse:
		r.count["leave "+codeName(a.Members[0].ErrorCode)]++
	case *kmsg.OffsetCommitResponse:
		r.count["commit "+codeName(a.Topics[0].Partitions[0].ErrorCode)]++
	case *kmsg.DeleteGroupsResponse:
		r.count["delete "+codeName(a.Groups[0].ErrorCode)]++
	case *kmsg.OffsetDeleteResponse:
		code := a.ErrorCode
		if code == codeNone {
			code = a.Topics[0].Partitions[0].ErrorCode
		}
		r.count["offset-delete "+codeName(code)]++
	}
}

// pass lets time pass for both.
func (r *randomRun) pass(d time.Duration) {
	r.note("pass %s", d)
	end := r.mono + d
	var answers []answer
	for n := 0; ; n++ {
		if n > 10_000 {
			r.t.Fatalf("seed %d: timers do not end: %v\n%s", r.seed, r.timers, strings.Join(r.history, "\n"))
		}
		key, at, ok := r.nextTimer()
		if !ok || at > end {
			break
		}
		r.mono = max(r.mono, at)
		answers = append(answers, r.fire(key)...)
	}
	r.mono = end
	r.model.advance(end)
	r.compare(answers)
}

func (r *randomRun) crash() {
	r.count["restart"]++
	r.note("crash")
	r.restart()
	r.model.now = r.mono
	r.model.restart()
	r.model.sent = nil
	for _, x := range r.clients {
		x.busy = false
	}
}

// instanceOf is the client's instance id, or now and then something else.
func (r *randomRun) instanceOf(x *randomClient) *string {
	v := x.instance
	if r.rnd.IntN(40) == 0 {
		v = []string{"", "i4", "i5", "zz"}[r.rnd.IntN(4)]
	}
	if v == "" {
		return nil
	}
	return &v
}

func (r *randomRun) idOf(x *randomClient) string {
	switch r.rnd.IntN(60) {
	case 0:
		return "nobody"
	case 1:
		return ""
	case 2:
		return r.clients[r.rnd.IntN(len(r.clients))].id
	}
	return x.id
}

func (r *randomRun) genOf(x *randomClient) int32 {
	if r.rnd.IntN(25) == 0 {
		return x.gen + int32(r.rnd.IntN(3)) - 1
	}
	return x.gen
}

func (r *randomRun) join(x *randomClient) {
	q := kmsg.NewPtrJoinGroupRequest()
	q.Version = int16(r.rnd.IntN(10))
	if x.instance != "" && r.rnd.IntN(2) == 0 {
		q.Version = 9
	}
	q.Group, q.MemberID = x.group, r.idOf(x)
	if q.Version >= 5 {
		q.InstanceID = r.instanceOf(x)
	}
	q.SessionTimeoutMillis = 6000 + int32(r.rnd.IntN(10))*997
	if r.rnd.IntN(50) == 0 {
		q.SessionTimeoutMillis = 5999
	}
	q.RebalanceTimeoutMillis = []int32{-1, 2003, 5009, 9001, 20011, 400_000}[r.rnd.IntN(6)]
	q.ProtocolType = "consumer"
	lists := [][]string{{"range"}, {"range", "rr"}, {"rr", "range"}, {"rr"}, {"range", "range"}}
	for _, name := range lists[[]int{0, 0, 1, 1, 1, 2, 2, 3, 4}[r.rnd.IntN(9)]] {
		q.Protocols = append(q.Protocols, kmsg.JoinGroupRequestProtocol{Name: name, Metadata: metadata("sub/t")})
	}
	if r.rnd.IntN(20) == 0 {
		q.Protocols[0].Metadata = append(q.Protocols[0].Metadata, byte(r.rnd.IntN(3)))
	}
	if r.rnd.IntN(60) == 0 {
		q.ProtocolType = "connect"
	}
	x.busy = true
	r.do(x, "join", q, func(token Token) {
		prefix := x.name
		if q.InstanceID != nil {
			prefix = *q.InstanceID
		}
		entropy := r.event(EventRequest).Entropy
		r.model.joinGroup(token, x.name, memberID(prefix, entropy), q)
	})
}

func (r *randomRun) sync(x *randomClient) {
	q := kmsg.NewPtrSyncGroupRequest()
	q.Version = int16(r.rnd.IntN(6))
	q.Group, q.MemberID, q.Generation = x.group, r.idOf(x), r.genOf(x)
	if q.Version >= 3 {
		q.InstanceID = r.instanceOf(x)
	}
	if q.Version >= 5 {
		kind, protocol := "consumer", "range"
		if g := r.model.groups[x.group]; g != nil && g.protocol != "" && r.rnd.IntN(30) > 0 {
			kind, protocol = g.kind, g.protocol
		}
		q.ProtocolType, q.Protocol = &kind, &protocol
	}
	if x.leader {
		for i, id := range x.members {
			if r.rnd.IntN(10) > 0 {
				q.GroupAssignment = append(q.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{
					MemberID: id, MemberAssignment: fmt.Appendf(nil, "%d of %d", i, x.gen),
				})
			}
		}
	}
	x.busy = true
	r.do(x, "sync", q, func(token Token) { r.model.syncGroup(token, q) })
}

func (r *randomRun) heartbeat(x *randomClient) {
	q := kmsg.NewPtrHeartbeatRequest()
	q.Version = int16(r.rnd.IntN(5))
	q.Group, q.MemberID, q.Generation = x.group, r.idOf(x), r.genOf(x)
	if q.Version >= 3 {
		q.InstanceID = r.instanceOf(x)
	}
	r.do(x, "heartbeat", q, func(token Token) { r.model.heartbeat(token, q) })
}

func (r *randomRun) leave(x *randomClient) {
	q := kmsg.NewPtrLeaveGroupRequest()
	q.Version = 3 + int16(r.rnd.IntN(3))
	q.Group = x.group
	q.Members = []kmsg.LeaveGroupRequestMember{{MemberID: r.idOf(x), InstanceID: r.instanceOf(x)}}
	if r.rnd.IntN(3) == 0 {
		y := r.clients[r.rnd.IntN(len(r.clients))]
		q.Members = append(q.Members, kmsg.LeaveGroupRequestMember{MemberID: y.id, InstanceID: r.instanceOf(y)})
	}
	r.do(x, "leave", q, func(token Token) { r.model.leaveGroup(token, q) })
}

func (r *randomRun) commit(x *randomClient) {
	q := kmsg.NewPtrOffsetCommitRequest()
	q.Version = 2 + int16(r.rnd.IntN(8))
	q.Group, q.MemberID, q.Generation = x.group, r.idOf(x), r.genOf(x)
	q.RetentionTimeMillis = -1
	if r.rnd.IntN(5) == 0 {
		q.Generation, q.MemberID = -1, ""
	} else if q.Version >= 7 {
		q.InstanceID = r.instanceOf(x)
	}
	for _, topic := range []string{"t", "u"}[r.rnd.IntN(2):] {
		out := kmsg.NewOffsetCommitRequestTopic()
		out.Topic = topic
		for range 1 + r.rnd.IntN(2) {
			p := kmsg.NewOffsetCommitRequestTopicPartition()
			p.Partition, p.Offset = int32(r.rnd.IntN(2)), r.rnd.Int64N(1000)
			out.Partitions = append(out.Partitions, p)
		}
		q.Topics = append(q.Topics, out)
	}
	r.do(x, "commit", q, func(token Token) { r.model.commit(token, q) })
}

func (r *randomRun) fetch(x *randomClient) {
	q := kmsg.NewPtrOffsetFetchRequest()
	q.Version = 2 + int16(r.rnd.IntN(8))
	q.Group = x.group
	q.Groups = []kmsg.OffsetFetchRequestGroup{{Group: x.group, MemberEpoch: -1}}
	r.note("%s fetch", x.name)
	r.labels[r.tokens+1] = x
	_, answers := r.request(Client{ID: x.name}, q)
	text := formatResponse(answers[0].resp)
	_, text, _ = strings.Cut(text, "NONE")
	got := strings.Fields(text)
	slices.Sort(got)
	if want := r.model.fetched(x.group); strings.Join(got, " ") != want {
		r.t.Fatalf("seed %d: fetched %s, the model has %s", r.seed, got, want)
	}
	r.count["fetch NONE"]++
}

// describe and list are compared without what the model does not keep.
func (r *randomRun) describe(x *randomClient) {
	q := kmsg.NewPtrDescribeGroupsRequest()
	q.Version = 3 + int16(r.rnd.IntN(4))
	q.Groups = []string{x.group}
	r.note("%s describe", x.name)
	_, answers := r.request(Client{ID: x.name}, q)
	resp := answers[0].resp.(*kmsg.DescribeGroupsResponse)
	for i := range resp.Groups[0].Members {
		m := &resp.Groups[0].Members[i]
		m.ClientID, m.ClientHost = "", ""
	}
	state := resp.Groups[0].State
	r.same("described", formatResponse(resp), formatResponse(r.model.describe(q)))
	r.count["describe NONE"]++
	r.count["describe "+state]++
}

func (r *randomRun) list() {
	q := kmsg.NewPtrListGroupsRequest()
	q.Version = int16(r.rnd.IntN(6))
	if q.Version >= 4 && r.rnd.IntN(2) == 0 {
		q.StatesFilter = []string{"Stable", "Empty"}[r.rnd.IntN(2):]
	}
	r.note("list %v", q.StatesFilter)
	_, answers := r.request(Client{ID: "l"}, q)
	resp := answers[0].resp.(*kmsg.ListGroupsResponse)
	slices.SortFunc(resp.Groups, func(a, b kmsg.ListGroupsResponseGroup) int { return strings.Compare(a.Group, b.Group) })
	r.same("listed", formatResponse(resp), formatResponse(redecode(r.t, r.model.list(q))))
	r.count["list NONE"]++
}

func (r *randomRun) same(what, got, want string) {
	r.t.Helper()
	if got != want {
		r.t.Fatalf("seed %d: %s\n%s\nthe model has\n%s\nafter\n%s", r.seed, what, got, want, strings.Join(r.history, "\n"))
	}
}

func (r *randomRun) deleteGroup(x *randomClient) {
	if r.rnd.IntN(2) == 0 { // with nobody in it
		for _, y := range r.clients {
			if y.group == x.group && y.id != "" {
				r.leave(y)
			}
		}
	}
	q := kmsg.NewPtrDeleteGroupsRequest()
	q.Version = int16(r.rnd.IntN(4))
	q.Groups = []string{x.group}
	r.do(x, "delete", q, func(token Token) { r.model.deleteGroup(token, q) })
}

func (r *randomRun) offsetDelete(x *randomClient) {
	q := kmsg.NewPtrOffsetDeleteRequest()
	q.Group = x.group
	q.Topics = []kmsg.OffsetDeleteRequestTopic{{
		Topic:      []string{"t", "u"}[r.rnd.IntN(2)],
		Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: int32(r.rnd.IntN(2))}},
	}}
	r.do(x, "offset-delete", q, func(token Token) { r.model.offsetDelete(token, q) })
}
