package coordinator

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// model is a coordinator of classic groups written as plainly as possible: lists,
// scans and full copies. It knows nothing of records and of timers that fire
// early; a group's durable state is a copy made where Kafka writes a record.
type model struct {
	config *Config
	groups map[string]*modelGroup
	now    time.Duration
	sent   []modelAnswer // answers of the step
}

type modelAnswer struct {
	token Token
	text  string
}

type modelGroup struct {
	id       string
	state    string // "" of a group known by its offsets only
	prev     string
	gen      int32
	kind     string
	protocol string
	leader   string
	topics   string // "t", "none", or "" if not known
	members  []*modelMember
	pending  map[string]time.Duration
	offsets  map[string]int64

	joinAt, delay, remaining time.Duration
	newcomer                 bool
	syncAt                   time.Duration
	syncGen                  int32

	saved *modelGroup // as written last
}

type modelMember struct {
	id, instance   string
	static         bool
	session, rebal time.Duration
	protocols      []kmsg.JoinGroupRequestProtocol
	assignment     string
	join, sync     *modelParked
	isNew, unsync  bool
	expires        time.Duration
}

type modelParked struct {
	token   Token
	version int16
}

func (m *model) answer(token Token, resp kmsg.Response) {
	m.sent = append(m.sent, modelAnswer{token, formatResponse(resp)})
}

func (g *modelGroup) find(id string) *modelMember {
	for _, x := range g.members {
		if x.id == id {
			return x
		}
	}
	return nil
}

func (g *modelGroup) instance(id string) *modelMember {
	for _, x := range g.members {
		if x.static && x.instance == id {
			return x
		}
	}
	return nil
}

// identify checks a member id and an instance id.
func (g *modelGroup) identify(id string, instance *string) (*modelMember, int16) {
	if instance != nil {
		if x := g.instance(*instance); x == nil {
			return nil, codeUnknownMemberID
		} else if x.id != id {
			return nil, codeFencedInstanceID
		}
	}
	if x := g.find(id); x != nil {
		return x, codeNone
	}
	return nil, codeUnknownMemberID
}

// save is what a GroupMetadata record keeps.
func (g *modelGroup) save() {
	s := &modelGroup{id: g.id, state: "Empty", gen: g.gen, kind: g.kind}
	if len(g.members) > 0 {
		s.state, s.protocol, s.leader = "Stable", g.protocol, g.leader
	}
	for _, x := range g.members {
		y := *x
		y.join, y.sync, y.isNew, y.unsync = nil, nil, false, false
		y.protocols = []kmsg.JoinGroupRequestProtocol{{Name: g.protocol, Metadata: x.meta(g.protocol)}}
		s.members = append(s.members, &y)
	}
	s.subscribe()
	g.saved = s
}

// restart loses what no record keeps.
func (m *model) restart() {
	for id, g := range m.groups {
		n := &modelGroup{id: id, offsets: g.offsets}
		if g.saved != nil {
			*n = *g.saved
			n.offsets, n.saved = g.offsets, g.saved
			n.members = nil
			for _, x := range g.saved.members {
				y := *x
				y.expires = m.now + y.session
				if y.rebal == -time.Millisecond {
					y.rebal = y.session // as Kafka reads -1
				}
				n.members = append(n.members, &y)
			}
		}
		n.pending = map[string]time.Duration{}
		m.groups[id] = n
		if len(n.members) > m.config.MaxSize {
			m.rebalance(n)
		}
	}
}

func (x *modelMember) meta(protocol string) []byte {
	for _, p := range x.protocols {
		if p.Name == protocol {
			return p.Metadata
		}
	}
	return nil
}

func (x *modelMember) same(list []kmsg.JoinGroupRequestProtocol) bool {
	return slices.EqualFunc(x.protocols, list, func(a, b kmsg.JoinGroupRequestProtocol) bool {
		return a.Name == b.Name && string(a.Metadata) == string(b.Metadata)
	})
}

// candidates are the protocols that all members support.
func (g *modelGroup) candidates() map[string]bool {
	count := map[string]int{}
	for _, x := range g.members {
		own := map[string]bool{}
		for _, p := range x.protocols {
			own[p.Name] = true
		}
		for name := range own {
			count[name]++
		}
	}
	out := map[string]bool{}
	for name, n := range count {
		if n == len(g.members) {
			out[name] = true
		}
	}
	return out
}

func (g *modelGroup) vote() string {
	can, votes := g.candidates(), map[string]int{}
	for _, x := range g.members {
		for _, p := range x.protocols {
			if can[p.Name] {
				votes[p.Name]++
				break
			}
		}
	}
	return slices.MaxFunc(slices.Sorted(maps.Keys(votes)), func(a, b string) int { return cmp.Compare(votes[a], votes[b]) })
}

func (g *modelGroup) longest() (t time.Duration) {
	for _, x := range g.members {
		t = max(t, x.rebal)
	}
	return t
}

func (g *modelGroup) waiting() (n int) {
	for _, x := range g.members {
		if x.join != nil {
			n++
		}
	}
	return n
}

func failedJoin(version int16, code int16, id string) *kmsg.JoinGroupResponse {
	r := kmsg.NewPtrJoinGroupResponse()
	r.Version, r.ErrorCode, r.Generation, r.MemberID = version, code, -1, id
	if version < 7 {
		empty := ""
		r.Protocol = &empty
	}
	return r
}

func (g *modelGroup) joined(x *modelMember, version int16) *kmsg.JoinGroupResponse {
	r := kmsg.NewPtrJoinGroupResponse()
	r.Version, r.Generation, r.LeaderID, r.MemberID = version, g.gen, g.leader, x.id
	kind, protocol := g.kind, g.protocol
	r.ProtocolType, r.Protocol = &kind, &protocol
	if g.leader == x.id {
		r.Members = g.list(version)
	}
	return r
}

func (g *modelGroup) list(version int16) (out []kmsg.JoinGroupResponseMember) {
	for _, x := range g.members {
		l := kmsg.JoinGroupResponseMember{MemberID: x.id, ProtocolMetadata: x.meta(g.protocol)}
		if instance := x.instance; x.static && version >= 5 {
			l.InstanceID = &instance
		}
		out = append(out, l)
	}
	return out
}

func (m *model) joinGroup(token Token, client, newID string, r *kmsg.JoinGroupRequest) {
	fail := func(code int16, id string) { m.answer(token, failedJoin(r.Version, code, id)) }
	session := millis(r.SessionTimeoutMillis)
	switch {
	case r.Group == "":
		fail(codeInvalidGroupID, r.MemberID)
		return
	case session < m.config.MinSessionTimeout || session > m.config.MaxSessionTimeout:
		fail(codeInvalidSessionTimeout, r.MemberID)
		return
	}
	g := m.groups[r.Group]
	if g == nil {
		if r.MemberID != "" {
			fail(codeUnknownMemberID, r.MemberID)
			return
		}
		g = &modelGroup{id: r.Group, state: "Empty", offsets: map[string]int64{}, pending: map[string]time.Duration{}}
		g.save()
		m.groups[r.Group] = g
	}
	if g.state == "" {
		g.state = "Empty"
	}
	known := g.find(r.MemberID)
	full := false
	switch g.state {
	case "PreparingRebalance":
		full = (known == nil || known.join == nil) && g.waiting() >= m.config.MaxSize
	case "CompletingRebalance", "Stable":
		full = known == nil && len(g.members) >= m.config.MaxSize
	}
	switch {
	case full:
		if known != nil {
			m.remove(g, known)
		}
		delete(g.pending, r.MemberID)
		fail(codeGroupMaxSizeReached, "")
		return
	case !g.takes(r):
		fail(codeInconsistentGroupProtocol, r.MemberID)
	case r.MemberID == "":
		m.joinNew(g, token, newID, r, fail)
	default:
		m.joinKnown(g, token, r, fail)
	}
}

func (g *modelGroup) takes(r *kmsg.JoinGroupRequest) bool {
	if g.state == "Empty" {
		return r.ProtocolType != "" && len(r.Protocols) > 0
	}
	can := g.candidates()
	if len(g.members) == 0 && len(r.Protocols) > 0 { // nobody is left who would have to support it
		return r.ProtocolType == g.kind
	}
	return r.ProtocolType == g.kind && slices.ContainsFunc(r.Protocols, func(p kmsg.JoinGroupRequestProtocol) bool { return can[p.Name] })
}

func (m *model) joinNew(g *modelGroup, token Token, id string, r *kmsg.JoinGroupRequest, fail func(int16, string)) {
	if r.InstanceID == nil && r.Version >= 4 {
		g.pending[id] = m.now + millis(r.SessionTimeoutMillis)
		fail(codeMemberIDRequired, id)
		return
	}
	if r.InstanceID != nil {
		if x := g.instance(*r.InstanceID); x != nil {
			m.replace(g, x, token, id, r)
			return
		}
	}
	m.add(g, token, id, r)
}

func (m *model) add(g *modelGroup, token Token, id string, r *kmsg.JoinGroupRequest) {
	x := &modelMember{id: id, isNew: true, join: &modelParked{token, r.Version}, expires: m.now + NewMemberJoinTimeout}
	if r.InstanceID != nil {
		x.static, x.instance = true, *r.InstanceID
	}
	x.update(r)
	if len(g.members) == 0 {
		g.kind = r.ProtocolType
	}
	g.members = append(g.members, x)
	if g.leader == "" {
		g.leader = id
	}
	if g.state != "PreparingRebalance" {
		m.rebalance(g)
	} else {
		g.newcomer = g.newcomer || g.prev == "Empty"
		m.complete(g, false)
	}
}

func (x *modelMember) update(r *kmsg.JoinGroupRequest) {
	x.session, x.rebal = millis(r.SessionTimeoutMillis), millis(r.RebalanceTimeoutMillis)
	if r.Version == 0 {
		x.rebal = x.session
	}
	x.protocols = r.Protocols
}

func (m *model) park(x *modelMember, token Token, version int16) {
	if x.join != nil {
		m.answer(x.join.token, failedJoin(x.join.version, codeRebalanceInProgress, x.id))
	}
	x.join = &modelParked{token, version}
}

func (m *model) joinKnown(g *modelGroup, token Token, r *kmsg.JoinGroupRequest, fail func(int16, string)) {
	if _, ok := g.pending[r.MemberID]; ok {
		if r.InstanceID != nil {
			fail(codeUnknownServerError, "")
			return
		}
		delete(g.pending, r.MemberID)
		m.add(g, token, r.MemberID, r)
		return
	}
	x, code := g.identify(r.MemberID, r.InstanceID)
	if code != codeNone {
		fail(code, r.MemberID)
		return
	}
	same := x.same(r.Protocols)
	if g.state == "CompletingRebalance" && same || g.state == "Stable" && same && g.leader != x.id {
		m.answer(token, g.joined(x, r.Version))
		return
	}
	x.update(r)
	m.park(x, token, r.Version)
	if g.state == "PreparingRebalance" {
		m.complete(g, false)
	} else {
		m.rebalance(g)
	}
}

func (m *model) replace(g *modelGroup, x *modelMember, token Token, id string, r *kmsg.JoinGroupRequest) {
	if x.join != nil {
		m.answer(x.join.token, failedJoin(x.join.version, codeFencedInstanceID, x.id))
		x.join = nil
	}
	if x.sync != nil {
		m.answer(x.sync.token, syncAnswer(g, x, x.sync.version, codeFencedInstanceID))
		x.sync = nil
	}
	leader := g.leader
	if g.leader == x.id {
		g.leader = id
	}
	x.id, x.expires = id, m.now+millis(r.SessionTimeoutMillis)
	x.update(r)
	if g.state == "Stable" && g.vote() == g.protocol {
		resp := g.joined(x, r.Version)
		resp.Members = nil
		if r.Version < 9 {
			resp.LeaderID = leader
		} else if g.leader == id {
			resp.SkipAssignment, resp.Members = true, g.list(r.Version)
		}
		g.save()
		m.answer(token, resp)
		return
	}
	m.park(x, token, r.Version)
	if g.state == "PreparingRebalance" {
		m.complete(g, false)
	} else {
		m.rebalance(g)
	}
}

func syncAnswer(g *modelGroup, x *modelMember, version, code int16) *kmsg.SyncGroupResponse {
	r := kmsg.NewPtrSyncGroupResponse()
	r.Version, r.ErrorCode = version, code
	if code == codeNone {
		kind, protocol := g.kind, g.protocol
		r.ProtocolType, r.Protocol, r.MemberAssignment = &kind, &protocol, []byte(x.assignment)
	}
	return r
}

func (m *model) syncs(g *modelGroup, code int16) {
	for _, x := range g.members {
		if x.sync != nil {
			m.answer(x.sync.token, syncAnswer(g, x, x.sync.version, code))
			x.sync, x.expires = nil, m.now+x.session
		}
	}
}

func (m *model) rebalance(g *modelGroup) {
	if g.state == "CompletingRebalance" {
		for _, x := range g.members {
			x.assignment = ""
		}
		m.syncs(g, codeRebalanceInProgress)
	}
	for _, x := range g.members {
		x.unsync = false
	}
	g.syncAt = 0
	g.prev, g.state = g.state, "PreparingRebalance"
	if g.prev == "Empty" {
		g.delay = m.config.InitialRebalanceDelay
		g.remaining = max(g.longest()-g.delay, 0)
		g.newcomer = false
		if g.delay == 0 {
			m.endJoin(g)
			return
		}
		g.joinAt = m.now + g.delay
		return
	}
	g.joinAt = m.now + g.longest()
	m.complete(g, false)
}

// complete ends the join phase if all are there; early: within the initial delay too.
func (m *model) complete(g *modelGroup, early bool) {
	if g.state == "PreparingRebalance" && (early || g.prev != "Empty") && g.waiting() == len(g.members) && len(g.pending) == 0 {
		m.endJoin(g)
	}
}

func (m *model) endJoin(g *modelGroup) {
	for _, x := range slices.Clone(g.members) {
		if x.join == nil && !x.static {
			m.remove(g, x)
		}
	}
	if len(g.members) > 0 && g.waiting() == 0 {
		g.joinAt = m.now + max(g.longest(), minJoinRetry)
		return
	}
	g.joinAt = 0
	if l := g.find(g.leader); l == nil || l.join == nil {
		g.leader = ""
		for _, x := range g.members {
			if x.join != nil {
				g.leader = x.id
				break
			}
		}
	}
	g.gen++
	g.prev = "PreparingRebalance"
	g.subscribe()
	if len(g.members) == 0 {
		g.state, g.protocol, g.leader = "Empty", "", ""
		g.save()
		return
	}
	g.state, g.protocol = "CompletingRebalance", g.vote()
	for _, x := range g.members {
		x.unsync = true
		if x.join != nil {
			m.answer(x.join.token, g.joined(x, x.join.version))
			x.join, x.isNew, x.expires = nil, false, m.now+x.session
		}
	}
	g.syncAt, g.syncGen = m.now+g.longest(), g.gen
}

func (m *model) remove(g *modelGroup, x *modelMember) {
	if x.join != nil {
		m.answer(x.join.token, failedJoin(x.join.version, codeUnknownMemberID, ""))
	}
	if x.sync != nil {
		m.answer(x.sync.token, syncAnswer(g, x, x.sync.version, codeUnknownMemberID))
	}
	g.members = slices.DeleteFunc(g.members, func(y *modelMember) bool { return y == x })
	if g.leader == x.id {
		g.leader = ""
		if len(g.members) > 0 {
			g.leader = g.members[0].id
		}
	}
}

func (m *model) syncGroup(token Token, r *kmsg.SyncGroupRequest) {
	g := m.groups[r.Group]
	if g == nil || g.state == "" {
		m.answer(token, syncAnswer(g, nil, r.Version, codeUnknownMemberID))
		return
	}
	x, code := g.identify(r.MemberID, r.InstanceID)
	switch {
	case code != codeNone:
	case r.Generation != g.gen:
		code = codeIllegalGeneration
	case r.ProtocolType != nil && *r.ProtocolType != g.kind || r.Protocol != nil && *r.Protocol != g.protocol:
		code = codeInconsistentGroupProtocol
	case g.state == "PreparingRebalance":
		code = codeRebalanceInProgress
	}
	if code != codeNone {
		m.answer(token, syncAnswer(g, x, r.Version, code))
		return
	}
	x.unsync = false
	if g.state == "Stable" {
		m.answer(token, syncAnswer(g, x, r.Version, codeNone))
		return
	}
	if x.sync != nil {
		m.answer(x.sync.token, syncAnswer(g, x, x.sync.version, codeRebalanceInProgress))
	}
	x.sync = &modelParked{token, r.Version}
	if x.id != g.leader {
		return
	}
	for _, y := range g.members {
		y.assignment = ""
		for _, a := range r.GroupAssignment {
			if a.MemberID == y.id {
				y.assignment = string(a.MemberAssignment)
			}
		}
	}
	g.prev, g.state = g.state, "Stable"
	g.save()
	m.syncs(g, codeNone)
}

func (m *model) heartbeat(token Token, r *kmsg.HeartbeatRequest) {
	resp := kmsg.NewPtrHeartbeatResponse()
	resp.Version = r.Version
	resp.ErrorCode = func() int16 {
		g := m.groups[r.Group]
		if g == nil {
			return codeUnknownMemberID
		}
		x, code := g.identify(r.MemberID, r.InstanceID)
		if code != codeNone {
			return code
		}
		if r.Generation != g.gen {
			return codeIllegalGeneration
		}
		x.expires = m.now + x.session
		if g.state == "PreparingRebalance" {
			return codeRebalanceInProgress
		}
		return codeNone
	}()
	m.answer(token, resp)
}

func (m *model) leaveGroup(token Token, r *kmsg.LeaveGroupRequest) {
	resp := kmsg.NewPtrLeaveGroupResponse()
	resp.Version = r.Version
	g, left := m.groups[r.Group], false
	for _, l := range r.Members {
		code := codeUnknownMemberID
		if g != nil {
			code = m.leave(g, &l)
		}
		left = left || code == codeNone
		resp.Members = append(resp.Members, kmsg.LeaveGroupResponseMember{MemberID: l.MemberID, InstanceID: l.InstanceID, ErrorCode: code})
	}
	if left && (g.state == "Stable" || g.state == "CompletingRebalance") {
		m.rebalance(g)
	} else if left {
		m.complete(g, false)
	}
	m.answer(token, resp)
}

func (m *model) leave(g *modelGroup, l *kmsg.LeaveGroupRequestMember) int16 {
	if _, ok := g.pending[l.MemberID]; ok {
		delete(g.pending, l.MemberID)
		return codeNone
	}
	id := l.MemberID
	if id == "" && l.InstanceID != nil {
		if x := g.instance(*l.InstanceID); x != nil {
			id = x.id
		}
	}
	x, code := g.identify(id, l.InstanceID)
	if code == codeNone {
		m.remove(g, x)
	}
	return code
}

func (m *model) commit(token Token, r *kmsg.OffsetCommitRequest) {
	g := m.groups[r.Group]
	code := func() int16 {
		if g == nil {
			switch {
			case r.Generation < 0:
				return codeNone
			case r.Version >= 9:
				return codeGroupIDNotFound
			}
			return codeIllegalGeneration
		}
		if r.Generation < 0 && len(g.members) == 0 && (g.state == "" || g.state == "Empty") {
			return codeNone
		}
		if r.Generation < 0 && r.MemberID == "" && r.InstanceID == nil {
			return codeUnknownMemberID
		}
		x, code := g.identify(r.MemberID, r.InstanceID)
		switch {
		case code != codeNone:
			return code
		case r.Generation != g.gen:
			return codeIllegalGeneration
		case g.state == "CompletingRebalance":
			return codeRebalanceInProgress
		}
		x.expires = m.now + x.session
		return codeNone
	}()
	if code == codeNone && g == nil {
		g = &modelGroup{id: r.Group, offsets: map[string]int64{}, pending: map[string]time.Duration{}}
		m.groups[r.Group] = g
	}
	resp := kmsg.NewPtrOffsetCommitResponse()
	resp.Version = r.Version
	for _, t := range r.Topics {
		out := kmsg.OffsetCommitResponseTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			if code == codeNone {
				g.offsets[fmt.Sprintf("%s-%d", t.Topic, p.Partition)] = p.Offset
			}
			out.Partitions = append(out.Partitions, kmsg.OffsetCommitResponseTopicPartition{Partition: p.Partition, ErrorCode: code})
		}
		resp.Topics = append(resp.Topics, out)
	}
	m.answer(token, resp)
}

// fetched is what an OffsetFetch of everything shows, sorted.
func (m *model) fetched(group string) string {
	var lines []string
	if g := m.groups[group]; g != nil {
		for tp, offset := range g.offsets {
			lines = append(lines, fmt.Sprintf("%s=%d", tp, offset))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, " ")
}

func (m *model) deleteGroup(token Token, r *kmsg.DeleteGroupsRequest) {
	resp := kmsg.NewPtrDeleteGroupsResponse()
	resp.Version = r.Version
	for _, id := range r.Groups {
		g, code := m.groups[id], codeNone
		switch {
		case g == nil:
			code = codeGroupIDNotFound
		case g.state != "" && g.state != "Empty":
			code = codeNonEmptyGroup
		default:
			delete(m.groups, id)
		}
		resp.Groups = append(resp.Groups, kmsg.DeleteGroupsResponseGroup{Group: id, ErrorCode: code})
	}
	m.answer(token, resp)
}

// offsetDelete deletes one partition's offset. Every member subscribes to topic t
// alone.
func (m *model) offsetDelete(token Token, r *kmsg.OffsetDeleteRequest) {
	resp := kmsg.NewPtrOffsetDeleteResponse()
	g := m.groups[r.Group]
	if g == nil {
		resp.ErrorCode = codeGroupIDNotFound
		m.answer(token, resp)
		return
	}
	inUse := g.state != "" && g.state != "Empty"
	if inUse && g.kind != "consumer" {
		resp.ErrorCode = codeNonEmptyGroup
		m.answer(token, resp)
		return
	}
	t, p := r.Topics[0].Topic, r.Topics[0].Partitions[0].Partition
	code := codeNone
	if inUse && g.subscribed(t) {
		code = codeGroupSubscribedToTopic
	} else {
		delete(g.offsets, fmt.Sprintf("%s-%d", t, p))
	}
	resp.Topics = []kmsg.OffsetDeleteResponseTopic{{Topic: t, Partitions: []kmsg.OffsetDeleteResponseTopicPartition{{Partition: p, ErrorCode: code}}}}
	m.answer(token, resp)
}

// subscribe works out the subscription as of the end of a join phase.
func (g *modelGroup) subscribe() {
	switch {
	case g.kind != "consumer":
		g.topics = ""
	case len(g.members) == 0:
		g.topics = "none"
	default:
		g.topics = "t"
	}
}

// subscribed: what is not known counts as subscribed.
func (g *modelGroup) subscribed(topic string) bool { return g.topics == "" || g.topics == topic }

// advance lets time pass up to t, one deadline after the other.
func (m *model) advance(t time.Duration) {
	for {
		best, run := t+1, func() {}
		var key TimerKey
		try := func(at time.Duration, k TimerKey, f func()) {
			if at != 0 && (at < best || at == best && lessKey(k, key)) {
				best, key, run = at, k, f
			}
		}
		for _, g := range m.groups {
			for _, x := range g.members {
				if x.isNew || x.join == nil && x.sync == nil {
					try(x.expires, TimerKey{TimerSession, g.id, x.id}, func() { m.expire(g, x) })
				}
			}
			for id, at := range g.pending {
				try(at, TimerKey{TimerPending, g.id, id}, func() {
					delete(g.pending, id)
					m.complete(g, false)
				})
			}
			try(g.joinAt, TimerKey{TimerJoin, g.id, ""}, func() { m.joinTimeout(g) })
			try(g.syncAt, TimerKey{TimerSync, g.id, ""}, func() { m.syncTimeout(g) })
		}
		if best > t {
			m.now = t
			return
		}
		m.now = max(m.now, best)
		run()
	}
}

func (m *model) expire(g *modelGroup, x *modelMember) {
	m.remove(g, x)
	if g.state == "PreparingRebalance" {
		m.complete(g, true)
	} else {
		m.rebalance(g)
	}
}

func (m *model) joinTimeout(g *modelGroup) {
	g.joinAt = 0
	if g.prev == "Empty" && g.newcomer && g.remaining > 0 {
		next := min(m.config.InitialRebalanceDelay, g.remaining)
		g.newcomer, g.remaining, g.delay = false, max(g.remaining-g.delay, 0), next
		g.joinAt = m.now + next
		return
	}
	m.endJoin(g)
}

func (m *model) syncTimeout(g *modelGroup) {
	g.syncAt = 0
	if g.gen != g.syncGen || !slices.ContainsFunc(g.members, func(x *modelMember) bool { return x.unsync }) {
		return
	}
	for _, x := range slices.Clone(g.members) {
		if x.unsync {
			m.remove(g, x)
		}
	}
	m.rebalance(g)
}
