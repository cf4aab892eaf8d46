package coordinator

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestScripts runs the scripts in testdata. A script talks to one shard; every
// command prints what it was answered, what was written and what moved. After
// every step the shard is checked against its own accounts, a twin and a replay.
//
// Commands:
//
//	config NAME=VALUE...            group.max.size, group.initial.rebalance.delay.ms, ... as Kafka names them
//	topics NAME=PARTITIONS...       creates topics
//	join g=G [member=M] [instance=I] [client=C] [v=N] [session=10s] [rebalance=10s] [type=T]
//	     [protocols=(NAME:METADATA,...)] [reason=R] [as=LABEL]
//	sync g=G gen=N member=M [instance=I] [v=N] [type=T] [protocol=P] [assign=(M:BYTES,...)] [as=LABEL]
//	heartbeat g=G gen=N member=M [instance=I] [v=N]
//	leave g=G [member=M | members=(M[/I],...)] [v=N]
//	commit g=G [gen=N] [member=M] [instance=I] [v=N] [retention=5s] offsets=(TOPIC-P:OFFSET[:METADATA],...)
//	fetch g=G [v=N] [all | offsets=(TOPIC-P,...)]
//	offset-delete g=G offsets=(TOPIC-P,...)
//	delete-groups g=(G,...) [v=N]
//	describe g=(G,...) [v=N]
//	list [v=N] [states=(S,...)] [types=(T,...)]
//	delete-topics NAME...
//	forget-topic NAME               deletes a topic without telling the shard
//	advance D                       lets time pass, timers fire
//	restart                         crash and recovery from the log
//	compact                         drops superseded records and tombstones from the log
//	unload                          the partition moves away
//
// Any request takes refuse=CODE: the shard cannot serve. Of a member id's UUID the
// scripts have only its number: c-uuid7 is c-00000000-0000-4000-8000-000000000007.
// METADATA sub/t/u is a consumer's subscription to t and u.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &script{world: newWorld(t), labels: map[Token]string{}}
		datadriven.RunTest(t, path, s.run)
	})
}

type script struct {
	*world
	labels map[Token]string
	b      strings.Builder
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	s.t = t
	s.b.Reset()
	switch d.Cmd {
	case "config":
		s.setConfig(d)
	case "topics":
		for _, a := range d.CmdArgs {
			s.topics.create(a.Key, int32(number(t, a.Vals[0])))
		}
	case "advance":
		s.advance(duration(t, d.CmdArgs[0].Key))
	case "restart":
		s.restart()
		s.print("", nil)
	case "compact":
		s.compact()
	case "unload":
		ev := s.event(EventUnload)
		s.print("", s.step(&ev))
	case "forget-topic":
		s.topics.remove(d.CmdArgs[0].Key)
	case "delete-topics":
		ev := s.event(EventTopicsDeleted)
		for _, a := range d.CmdArgs {
			ev.Deleted = append(ev.Deleted, DeletedTopic{a.Key, s.topics.remove(a.Key)})
		}
		s.print("", s.step(&ev))
	default:
		s.send(d)
	}
	s.settleAndPrint()
	if s.b.Len() == 0 {
		return "ok\n"
	}
	return s.b.String()
}

func (s *script) settleAndPrint() {
	for {
		key := TimerKey{Kind: TimerWork}
		if _, ok := s.timers[key]; !ok {
			return
		}
		s.print("", s.fire(key))
	}
}

func (s *script) send(d *datadriven.TestData) {
	a := args{s.t, d}
	req := a.request(s)
	if req == nil {
		d.Fatalf(s.t, "unknown command %q", d.Cmd)
	}
	if d.HasArg("refuse") {
		for _, r := range s.refuse(req, int16(number(s.t, a.str("refuse", "")))) {
			fmt.Fprintf(&s.b, "%s\n", formatResponse(r.resp))
		}
		return
	}
	label := a.str("as", d.Cmd)
	s.labels[s.tokens+1] = label
	token, answers := s.world.request(Client{ID: a.str("client", "c"), Host: a.str("host", "/h")}, req)
	s.print("", answers)
	if s.parked[token] != nil {
		fmt.Fprintf(&s.b, "%s: parked\n", label)
	}
}

// advance fires the timers in order.
func (s *script) advance(d time.Duration) {
	end := s.mono + d
	for n := 0; ; n++ {
		key, at, ok := s.nextTimer()
		if !ok || at > end {
			break
		}
		if n > 100_000 {
			s.t.Fatal("timers do not end")
		}
		s.mono = max(s.mono, at)
		s.print(fmt.Sprintf("+%s ", s.mono-(end-d)), s.fire(key))
	}
	s.mono = end
}

// print tells of the last step.
func (s *script) print(prefix string, answers []answer) {
	for _, a := range answers {
		fmt.Fprintf(&s.b, "%s%s: %s\n", prefix, s.labels[a.token], formatResponse(a.resp))
	}
	for _, r := range s.out.Records {
		fmt.Fprintf(&s.b, "%swrite %s\n", prefix, formatRecord(s.t, r))
	}
	s.observed(prefix)
}

func (s *script) observed(prefix string) {
	for _, t := range s.out.Transitions {
		move := t.From
		if t.To != t.From {
			move += " -> " + t.To
		}
		fmt.Fprintf(&s.b, "%s%s: %s gen=%d members=%d: %s", prefix, t.Group, move, t.Generation, t.Members, short(t.Reason))
		if t.WaitedForCount > 0 {
			fmt.Fprintf(&s.b, " waited-for=%d %s", t.WaitedForCount, short(fmt.Sprint(t.WaitedFor)))
		}
		if t.JoinTook > 0 {
			fmt.Fprintf(&s.b, " took=%s", t.JoinTook)
		}
		s.b.WriteByte('\n')
	}
	for _, r := range s.out.Refusals {
		fmt.Fprintf(&s.b, "%srefused client=%s: %s\n", prefix, r.ClientID, r.Reason)
	}
	for _, e := range s.out.Expiries {
		fmt.Fprintf(&s.b, "%sexpired %s %s: %d partitions, %s\n", prefix, e.Group, e.Topic, e.Partitions, e.Reason)
	}
}

func (s *script) setConfig(d *datadriven.TestData) {
	c := *s.config
	for _, a := range d.CmdArgs {
		n := number(s.t, a.Vals[0])
		ms := time.Duration(n) * time.Millisecond
		switch a.Key {
		case "group.max.size":
			c.MaxSize = n
		case "group.initial.rebalance.delay.ms":
			c.InitialRebalanceDelay = ms
		case "group.min.session.timeout.ms":
			c.MinSessionTimeout = ms
		case "group.max.session.timeout.ms":
			c.MaxSessionTimeout = ms
		case "offset.metadata.max.bytes":
			c.OffsetMetadataMaxBytes = n
		case "offsets.retention.minutes":
			c.OffsetsRetention = time.Duration(n) * time.Minute
		case "offsets.retention.check.interval.ms":
			c.OffsetsRetentionCheckInterval = ms
		case "max.message.bytes":
			c.MaxMessageBytes = n
		default:
			d.Fatalf(s.t, "unknown property %q", a.Key)
		}
	}
	s.config = &c
}

// args reads a command's arguments.
type args struct {
	t testing.TB
	d *datadriven.TestData
}

func (a args) has(key string) bool { return a.d.HasArg(key) }

func (a args) list(key string) []string {
	for _, arg := range a.d.CmdArgs {
		if arg.Key == key {
			if len(arg.Vals) == 1 && arg.Vals[0] == "" {
				return nil
			}
			out := make([]string, len(arg.Vals))
			for i, v := range arg.Vals {
				out[i] = long(v)
			}
			return out
		}
	}
	return nil
}

func (a args) str(key, def string) string {
	if v := a.list(key); len(v) > 0 {
		return v[0]
	} else if a.has(key) {
		return ""
	}
	return def
}

func (a args) ptr(key string) *string {
	if !a.has(key) {
		return nil
	}
	v := a.str(key, "")
	return &v
}

func (a args) num(key string, def int) int {
	if !a.has(key) {
		return def
	}
	return number(a.t, a.str(key, ""))
}

func (a args) millis(key string, def time.Duration) int32 {
	if a.has(key) {
		def = duration(a.t, a.str(key, ""))
	}
	return int32(def.Milliseconds())
}

func number(t testing.TB, v string) int {
	t.Helper()
	n, err := strconv.Atoi(v)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func duration(t testing.TB, v string) time.Duration {
	t.Helper()
	if v == "0" {
		return 0
	}
	d, err := time.ParseDuration(v)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

var (
	longID  = regexp.MustCompile(`-0{8}-0000-4000-8000-0*([1-9a-f][0-9a-f]*)`)
	shortID = regexp.MustCompile(`-uuid([0-9]+)`)
)

// short writes the UUIDs of member ids as their numbers, long does the reverse.
func short(text string) string {
	return longID.ReplaceAllStringFunc(text, func(m string) string {
		n, err := strconv.ParseUint(longID.FindStringSubmatch(m)[1], 16, 64)
		if err != nil {
			return m
		}
		return fmt.Sprintf("-uuid%d", n)
	})
}

func long(text string) string {
	return shortID.ReplaceAllStringFunc(text, func(m string) string {
		n, err := strconv.Atoi(m[5:])
		if err != nil {
			return m
		}
		return fmt.Sprintf("-00000000-0000-4000-8000-%012x", n)
	})
}

// metadata turns a script's metadata into bytes.
func metadata(text string) []byte {
	rest, ok := strings.CutPrefix(text, "sub/")
	if !ok {
		return []byte(text)
	}
	topics := strings.Split(rest, "/")
	if rest == "" {
		topics = nil
	}
	b := binary.BigEndian.AppendUint16(nil, 1)
	b = binary.BigEndian.AppendUint32(b, uint32(len(topics)))
	for _, topic := range topics {
		b = binary.BigEndian.AppendUint16(b, uint16(len(topic)))
		b = append(b, topic...)
	}
	b = binary.BigEndian.AppendUint32(b, 0xffffffff) // no user data
	return binary.BigEndian.AppendUint32(b, 0)       // no owned partitions
}

func (a args) request(s *script) kmsg.Request {
	switch a.d.Cmd {
	case "join":
		return a.join()
	case "sync":
		return a.sync()
	case "heartbeat":
		r := kmsg.NewPtrHeartbeatRequest()
		r.Version = int16(a.num("v", 4))
		r.Group, r.MemberID, r.InstanceID = a.str("g", ""), a.str("member", ""), a.ptr("instance")
		r.Generation = int32(a.num("gen", 0))
		return r
	case "leave":
		return a.leave()
	case "commit":
		return a.commit(s)
	case "fetch":
		return a.fetch(s)
	case "offset-delete":
		r := kmsg.NewPtrOffsetDeleteRequest()
		r.Group = a.str("g", "")
		for _, p := range a.partitions("offsets") {
			if n := len(r.Topics); n == 0 || r.Topics[n-1].Topic != p.topic {
				r.Topics = append(r.Topics, kmsg.OffsetDeleteRequestTopic{Topic: p.topic})
			}
			t := &r.Topics[len(r.Topics)-1]
			t.Partitions = append(t.Partitions, kmsg.OffsetDeleteRequestTopicPartition{Partition: p.partition})
		}
		return r
	case "delete-groups":
		r := kmsg.NewPtrDeleteGroupsRequest()
		r.Version = int16(a.num("v", 2))
		r.Groups = a.list("g")
		return r
	case "describe":
		r := kmsg.NewPtrDescribeGroupsRequest()
		r.Version = int16(a.num("v", 6))
		r.Groups = a.list("g")
		return r
	case "list":
		r := kmsg.NewPtrListGroupsRequest()
		r.Version = int16(a.num("v", 5))
		r.StatesFilter, r.TypesFilter = a.list("states"), a.list("types")
		return r
	}
	return nil
}

func (a args) join() kmsg.Request {
	r := kmsg.NewPtrJoinGroupRequest()
	r.Version = int16(a.num("v", 9))
	r.Group, r.MemberID, r.InstanceID = a.str("g", ""), a.str("member", ""), a.ptr("instance")
	r.SessionTimeoutMillis = a.millis("session", 10*time.Second)
	r.RebalanceTimeoutMillis = a.millis("rebalance", 10*time.Second)
	r.ProtocolType = a.str("type", "consumer")
	r.Reason = a.ptr("reason")
	list := a.list("protocols")
	if !a.has("protocols") {
		list = []string{"range:sub/t"}
	}
	for _, p := range list {
		name, data, _ := strings.Cut(p, ":")
		r.Protocols = append(r.Protocols, kmsg.JoinGroupRequestProtocol{Name: name, Metadata: metadata(data)})
	}
	return r
}

func (a args) sync() kmsg.Request {
	r := kmsg.NewPtrSyncGroupRequest()
	r.Version = int16(a.num("v", 5))
	r.Group, r.MemberID, r.InstanceID = a.str("g", ""), a.str("member", ""), a.ptr("instance")
	r.Generation = int32(a.num("gen", 0))
	if r.Version >= 5 && !a.has("nulls") {
		kind, protocol := a.str("type", "consumer"), a.str("protocol", "range")
		r.ProtocolType, r.Protocol = &kind, &protocol
	}
	for _, x := range a.list("assign") {
		id, data, _ := strings.Cut(x, ":")
		r.GroupAssignment = append(r.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: id, MemberAssignment: []byte(data)})
	}
	return r
}

func (a args) leave() kmsg.Request {
	r := kmsg.NewPtrLeaveGroupRequest()
	r.Version = int16(a.num("v", 5))
	r.Group, r.MemberID = a.str("g", ""), a.str("member", "")
	for _, m := range a.list("members") {
		id, instance, ok := strings.Cut(m, "/")
		l := kmsg.LeaveGroupRequestMember{MemberID: id, Reason: a.ptr("reason")}
		if ok {
			l.InstanceID = &instance
		}
		r.Members = append(r.Members, l)
	}
	if r.Version >= 3 && len(r.Members) == 0 && a.has("member") {
		r.Members = []kmsg.LeaveGroupRequestMember{{MemberID: r.MemberID, InstanceID: a.ptr("instance"), Reason: a.ptr("reason")}}
	}
	return r
}

type partition struct {
	topic     string
	partition int32
	rest      string
}

// partitions reads TOPIC-PARTITION[:REST] entries.
func (a args) partitions(key string) (out []partition) {
	for _, v := range a.list(key) {
		head, rest, _ := strings.Cut(v, ":")
		i := strings.LastIndexByte(head, '-')
		if i > 0 && head[i-1] == '-' { // t--1 is partition -1
			i--
		}
		if i < 0 {
			a.d.Fatalf(a.t, "%q is no TOPIC-PARTITION", v)
		}
		out = append(out, partition{head[:i], int32(number(a.t, head[i+1:])), rest})
	}
	return out
}

// topicID returns a topic's id; of one that does not exist, one that nobody has.
// A name like t@1 asks for the id of the first topic that was created.
func (s *script) topicID(name string) [16]byte {
	if _, n, ok := strings.Cut(name, "@"); ok {
		return [16]byte{0: 0x70, 15: byte(number(s.t, n))}
	}
	id, _, ok := s.topics.ByName(name)
	if !ok {
		return [16]byte{0xff}
	}
	return id
}

func (a args) commit(s *script) kmsg.Request {
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Version = int16(a.num("v", 9))
	r.Group, r.MemberID, r.InstanceID = a.str("g", ""), a.str("member", ""), a.ptr("instance")
	r.Generation = int32(a.num("gen", -1))
	if a.has("retention") {
		r.RetentionTimeMillis = int64(a.millis("retention", 0))
	}
	for _, p := range a.partitions("offsets") {
		if n := len(r.Topics); n == 0 || r.Topics[n-1].Topic != p.topic {
			r.Topics = append(r.Topics, kmsg.OffsetCommitRequestTopic{Topic: p.topic, TopicID: s.topicID(p.topic)})
		}
		t := &r.Topics[len(r.Topics)-1]
		offset, meta, hasMeta := strings.Cut(p.rest, ":")
		out := kmsg.NewOffsetCommitRequestTopicPartition()
		out.Partition, out.Offset, out.LeaderEpoch = p.partition, int64(number(a.t, offset)), int32(a.num("epoch", -1))
		if hasMeta {
			if text, n, ok := strings.Cut(meta, "*"); ok { // x*4097 is x 4097 times
				meta = strings.Repeat(text, number(a.t, n))
			}
			out.Metadata = &meta
		}
		t.Partitions = append(t.Partitions, out)
	}
	return r
}

func (a args) fetch(s *script) kmsg.Request {
	r := kmsg.NewPtrOffsetFetchRequest()
	r.Version = int16(a.num("v", 9))
	r.Group = a.str("g", "")
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = r.Group
	for _, p := range a.partitions("offsets") {
		if n := len(g.Topics); n == 0 || g.Topics[n-1].Topic != p.topic {
			g.Topics = append(g.Topics, kmsg.OffsetFetchRequestGroupTopic{Topic: p.topic, TopicID: s.topicID(p.topic)})
		}
		t := &g.Topics[len(g.Topics)-1]
		t.Partitions = append(t.Partitions, p.partition)
	}
	if !a.has("all") {
		if g.Topics == nil {
			g.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
		}
		r.Topics = []kmsg.OffsetFetchRequestTopic{}
	}
	if r.Version >= 8 {
		r.Groups = []kmsg.OffsetFetchRequestGroup{g}
		return r
	}
	for _, t := range g.Topics {
		r.Topics = append(r.Topics, kmsg.OffsetFetchRequestTopic{Topic: t.Topic, Partitions: t.Partitions})
	}
	return r
}

func unsafeString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
