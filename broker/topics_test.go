package broker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestTopicNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"a": true, "A.b_c-9": true, strings.Repeat("x", 249): true, "...": true,
		"": false, ".": false, "..": false, strings.Repeat("x", 250): false, "a b": false, "ä": false, "a/b": false, "a:b": false,
	} {
		if problem := topicNameProblem(name); (problem == "") != ok {
			t.Errorf("%q: %q", name, problem)
		}
	}
}

// TestCreateTopics goes through what CreateTopics refuses and in which words.
func TestCreateTopics(t *testing.T) {
	b, tr := startTest(t, Options{})
	c := tr.open(0)
	createTopic(t, c, "there", 1)
	createTopic(t, c, "with.dot", 1)
	assign := func(rt kmsg.CreateTopicsRequestTopic, replicas ...[]int32) kmsg.CreateTopicsRequestTopic {
		for i, list := range replicas {
			a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
			a.Partition, a.Replicas = int32(i), list
			rt.ReplicaAssignment = append(rt.ReplicaAssignment, a)
		}
		return rt
	}
	self := []int32{b.nodeID}
	null := newTopic("null", 1, 1, "retention.ms", "")
	null.Configs[0].Value = nil
	for _, c1 := range []struct {
		topic   kmsg.CreateTopicsRequestTopic
		code    int16
		message string
	}{
		{newTopic("fine", 3, 1), 0, ""},
		{newTopic("default", -1, -1), 0, ""},
		{newTopic("there", 1, 1), 36, "Topic 'there' already exists."},
		{newTopic("a b", 1, 1), 17, "contains one or more characters other than"},
		{newTopic("with_dot", 1, 1), 17, "Topic 'with_dot' collides with existing topic: with.dot"},
		{newTopic("..", 1, 1), 17, "Topic name is invalid: '..' is not allowed"},
		{newTopic("__cluster_metadata", 1, 1), 42, "Creation of internal topic __cluster_metadata is prohibited."},
		{newTopic("p", 0, 1), 37, "Number of partitions was set to an invalid non-positive value."},
		{newTopic("p", -2, 1), 37, "Number of partitions"},
		{newTopic("p", 1, 0), 38, "Replication factor must be larger than 0, or -1 to use the default value."},
		{newTopic("p", 1, 3), 38, "The target replication factor of 3 cannot be reached because only 1 broker(s) are registered or some brokers have all their log directories cordoned."},
		{newTopic("p", 10_001, 1), 44, "Excessively large number of partitions per request."},
		{newTopic("p", 1, 1, "no.such", "1"), 40, "Unknown topic config name: no.such"},
		{newTopic("p", 1, 1, "retention.ms", "soon"), 40, "Invalid value soon for configuration retention.ms: Not a number of type LONG"},
		{newTopic("p", 1, 1, "max.message.bytes", "-1"), 40, "Invalid value -1 for configuration max.message.bytes: Value must be at least 0"},
		{newTopic("p", 1, 1, "cleanup.policy", "keep"), 40, "Invalid value keep for configuration cleanup.policy: String must be one of: "},
		{newTopic("p", 1, 1, "cleanup.policy", strings.Repeat("x", maxProperty+1)), 40, "at most"},
		{null, 40, "Null value not supported for topic configs: retention.ms"},
		{assign(newTopic("assigned", -1, -1), self, self), 0, ""},
		{assign(newTopic("p", -1, 1), self), 42, "replication factor was not set to -1"},
		{assign(newTopic("p", 1, -1), self), 42, "numPartitions was not set to -1"},
		{assign(newTopic("p", -1, -1), []int32{99}), 39, "includes broker 99, but no such broker is registered."},
		{assign(newTopic("p", -1, -1), nil), 39, "includes an empty replica list."},
		{assign(newTopic("p", -1, -1), []int32{b.nodeID, b.nodeID}), 39, "more than once."},
	} {
		for _, validate := range []bool{true, false} {
			resp := ask[*kmsg.CreateTopicsResponse](t, c, at(creation(validate, c1.topic), 7)).Topics[0]
			message := ""
			if resp.ErrorMessage != nil {
				message = *resp.ErrorMessage
			}
			if resp.ErrorCode != c1.code || !strings.Contains(message, c1.message) || (c1.message == "") != (message == "") {
				t.Errorf("%s, validate %v: error %d %q, want %d %q", c1.topic.Topic, validate, resp.ErrorCode, message, c1.code, c1.message)
			}
			if c1.code == 0 && (resp.NumPartitions < 1 || resp.ReplicationFactor != 1 || len(resp.Configs) < 20 || resp.TopicID == [16]byte{}) {
				t.Errorf("%s, validate %v: %d partitions, factor %d, %d configs, id %x", c1.topic.Topic, validate, resp.NumPartitions, resp.ReplicationFactor, len(resp.Configs), resp.TopicID)
			}
			if c1.code != 0 && (resp.NumPartitions != -1 || resp.ReplicationFactor != -1) {
				t.Errorf("%s: refused with %d partitions, factor %d", c1.topic.Topic, resp.NumPartitions, resp.ReplicationFactor)
			}
		}
	}
	twice := ask[*kmsg.CreateTopicsResponse](t, c, at(creation(false, newTopic("twice", 1, 1), newTopic("once", 1, 1), newTopic("twice", 1, 1)), 7))
	if len(twice.Topics) != 2 || twice.Topics[0].ErrorCode != 42 || twice.Topics[1].ErrorCode != 0 {
		t.Errorf("a name twice: %+v", twice.Topics)
	}
	alike := ask[*kmsg.CreateTopicsResponse](t, c, at(creation(false, newTopic("x.y_z", 1, 1), newTopic("x_y.z", 1, 1)), 7))
	if alike.Topics[0].ErrorCode != 0 || alike.Topics[1].ErrorCode != 17 {
		t.Errorf("two names alike: %+v", alike.Topics)
	}
	for name, partitions := range map[string]int{"fine": 3, "default": 1, "assigned": 2, "p": 0, "twice": 0, "once": 1} {
		if m := describeTopics(t, c, 12, false, name).Topics[0]; len(m.Partitions) != partitions {
			t.Errorf("%s has %d partitions, want %d", name, len(m.Partitions), partitions)
		}
	}
}

// TestCreationsInOneRound: of many creations of one name in flight at once one
// succeeds, and nobody is told of a topic that is not there.
func TestCreationsInOneRound(t *testing.T) {
	_, tr := startTest(t, Options{})
	const n = 20
	conns := make([]*testConn, n)
	req := at(creation(false, newTopic("race", 1, 1)), 7)
	for i := range conns {
		conns[i] = tr.open(0)
	}
	done := make(chan int16, n)
	for _, c := range conns {
		go func() {
			c.send(frame(req, 42))
			resp := answer[*kmsg.CreateTopicsResponse](t, c, req)
			if m := describeTopics(t, c, 12, false, "race").Topics[0]; m.ErrorCode != 0 || len(m.Partitions) != 1 {
				t.Errorf("after the answer: error %d, %d partitions", m.ErrorCode, len(m.Partitions))
			}
			done <- resp.Topics[0].ErrorCode
		}()
	}
	count := map[int16]int{}
	for range conns {
		count[<-done]++
	}
	if count[0] != 1 || count[36] != n-1 {
		t.Errorf("errors %v, want one 0 and the rest 36", count)
	}
}

func TestDeleteTopics(t *testing.T) {
	_, tr := startTest(t, Options{})
	c := tr.open(0)
	a, bb, keep := createTopic(t, c, "a", 1), createTopic(t, c, "b", 1), createTopic(t, c, "keep", 1)
	mustPut(t, c, "a", 0, "x")
	name := func(s string) *string { return &s }
	req := kmsg.NewPtrDeleteTopicsRequest()
	for _, x := range []struct {
		name *string
		id   [16]byte
	}{{name("a"), [16]byte{}}, {nil, bb}, {name("absent"), [16]byte{}}, {nil, [16]byte{1}}, {name("keep"), keep}, {nil, [16]byte{}},
		{name("twice"), [16]byte{}}, {name("twice"), [16]byte{}}, {name("__consumer_offsets"), [16]byte{}}} {
		rt := kmsg.NewDeleteTopicsRequestTopic()
		rt.Topic, rt.TopicID = x.name, x.id
		req.Topics = append(req.Topics, rt)
	}
	resp := ask[*kmsg.DeleteTopicsResponse](t, c, at(req, 6))
	var codes []int16
	for _, x := range resp.Topics {
		codes = append(codes, x.ErrorCode)
	}
	if got, want := fmt.Sprint(codes), "[0 0 3 100 42 42 42 42]"; got != want {
		t.Errorf("errors %s, want %s", got, want)
	}
	if resp.Topics[0].TopicID != a || *resp.Topics[1].Topic != "b" {
		t.Errorf("answered %+v", resp.Topics[:2])
	}
	if m := describeTopics(t, c, 12, false, "a", "b", "keep"); m.Topics[0].ErrorCode != 3 || m.Topics[1].ErrorCode != 3 || m.Topics[2].ErrorCode != 0 {
		t.Errorf("afterwards %+v", m.Topics)
	}
	// Created again it is another topic and empty.
	if again := createTopic(t, c, "a", 1); again == a {
		t.Error("the same id again")
	}
	if off := mustPut(t, c, "a", 0, "y"); off != 0 {
		t.Errorf("first record at %d", off)
	}
	old := kmsg.NewPtrDeleteTopicsRequest()
	old.TopicNames = []string{"a", "absent"}
	if resp := ask[*kmsg.DeleteTopicsResponse](t, c, at(old, 3)); resp.Topics[0].ErrorCode != 0 || resp.Topics[1].ErrorCode != 3 {
		t.Errorf("version 3: %+v", resp.Topics)
	}
}

func TestDeletionDisabled(t *testing.T) {
	_, tr := startTest(t, Options{Properties: map[string]string{"delete.topic.enable": "false"}})
	c := tr.open(0)
	createTopic(t, c, "a", 1)
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TopicNames = []string{"a"}
	if resp := ask[*kmsg.DeleteTopicsResponse](t, c, at(req, 5)); resp.Topics[0].ErrorCode != 73 {
		t.Errorf("%+v", resp.Topics)
	}
}

func TestCreatePartitions(t *testing.T) {
	_, tr := startTest(t, Options{})
	c := tr.open(0)
	createTopic(t, c, "a", 2)
	mustPut(t, c, "a", 1, "x")
	grow := func(name string, count int32, validate bool) (int16, string) {
		req := kmsg.NewPtrCreatePartitionsRequest()
		rt := kmsg.NewCreatePartitionsRequestTopic()
		rt.Topic, rt.Count = name, count
		req.Topics, req.ValidateOnly = append(req.Topics, rt), validate
		x := ask[*kmsg.CreatePartitionsResponse](t, c, at(req, 3)).Topics[0]
		if x.ErrorMessage == nil {
			return x.ErrorCode, ""
		}
		return x.ErrorCode, *x.ErrorMessage
	}
	for _, w := range []struct {
		name     string
		count    int32
		validate bool
		code     int16
		message  string
	}{
		{"absent", 3, false, 3, ""},
		{"a", 2, false, 37, "Topic already has 2 partition(s)."},
		{"a", 1, false, 37, "The topic a currently has 2 partition(s); 1 would not be an increase."},
		{"a", 20_000, false, 44, "Excessively large number of additional partitions per request."},
		{"__consumer_offsets", 60, false, 42, "fixed"},
		{"a", 3, true, 0, ""},
		{"a", 2, true, 37, "Topic already has 2 partition(s)."},
		{"a", 5, false, 0, ""},
		{"a", 5, false, 37, "Topic already has 5 partition(s)."},
	} {
		if code, message := grow(w.name, w.count, w.validate); code != w.code || !strings.Contains(message, w.message) {
			t.Errorf("%s to %d, validate %v: error %d %q, want %d %q", w.name, w.count, w.validate, code, message, w.code, w.message)
		}
	}
	if off := mustPut(t, c, "a", 4, "y"); off != 0 {
		t.Errorf("first record of a new partition at %d", off)
	}
	if off := mustPut(t, c, "a", 1, "y"); off != 1 {
		t.Errorf("next record of an old partition at %d", off)
	}
}

func TestMetadata(t *testing.T) {
	b, tr := startTest(t, Options{})
	c := tr.open(0)
	id := createTopic(t, c, "a", 3)
	for version := int16(0); version <= 13; version++ {
		m := describeTopics(t, c, version, false, "a")
		if len(m.Topics) != 1 || m.Topics[0].ErrorCode != 0 || len(m.Topics[0].Partitions) != 3 || len(m.Brokers) != 1 {
			t.Fatalf("version %d: %+v", version, m)
		}
		if self := m.Brokers[0]; self.NodeID != b.nodeID || self.Host != "127.0.0.1" || self.Port != 9092 {
			t.Errorf("version %d: broker %+v", version, self)
		}
		if version >= 10 && m.Topics[0].TopicID != id || version >= 2 && *m.ClusterID != b.clusterID {
			t.Errorf("version %d: id %x, cluster %v", version, m.Topics[0].TopicID, m.ClusterID)
		}
		if p := m.Topics[0].Partitions[2]; p.Partition != 2 || p.Leader != b.nodeID || len(p.Replicas) != 1 || len(p.ISR) != 1 {
			t.Errorf("version %d: partition %+v", version, p)
		}
		// Everything: null, in version 0 the empty list; else that means nothing.
		all := kmsg.NewPtrMetadataRequest()
		if version == 0 {
			all.Topics = []kmsg.MetadataRequestTopic{}
		}
		if m := ask[*kmsg.MetadataResponse](t, c, at(all, version)); len(m.Topics) != 2 || version > 0 && !m.Topics[0].IsInternal {
			t.Errorf("version %d, all: %d topics", version, len(m.Topics))
		}
		if all.Topics = []kmsg.MetadataRequestTopic{}; version > 0 {
			if m := ask[*kmsg.MetadataResponse](t, c, at(all, version)); len(m.Topics) != 0 {
				t.Errorf("version %d, none: %d topics", version, len(m.Topics))
			}
		}
	}
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{{TopicID: id}, {TopicID: [16]byte{1}}, {TopicID: id}}
	req.IncludeTopicAuthorizedOperations = true
	m := ask[*kmsg.MetadataResponse](t, c, at(req, 12))
	if len(m.Topics) != 2 || *m.Topics[0].Topic != "a" || m.Topics[1].ErrorCode != 100 || m.Topics[1].Topic != nil || m.Topics[0].AuthorizedOperations != topicOperations {
		t.Errorf("by id: %+v", m.Topics)
	}
	if m := ask[*kmsg.MetadataResponse](t, c, at(req, 10)); m.Topics[0].ErrorCode != 42 {
		t.Errorf("by id in version 10: %+v", m.Topics)
	}
	if m := describeTopics(t, c, 12, false, "bad name", "a", "a"); len(m.Topics) != 2 || m.Topics[0].ErrorCode != 17 || m.Topics[0].AuthorizedOperations != notAsked {
		t.Errorf("a bad name and one twice: %+v", m.Topics)
	}
}

// TestAutoCreation: who asks for a topic that does not exist is answered when it
// can be written to.
func TestAutoCreation(t *testing.T) {
	b, tr := startTest(t, Options{Properties: map[string]string{"num.partitions": "4"}})
	c := tr.open(0)
	if m := describeTopics(t, c, 12, false, "a"); m.Topics[0].ErrorCode != 3 {
		t.Errorf("created although the request did not allow it: %+v", m.Topics)
	}
	const n = 10
	done := make(chan bool, n)
	for range n {
		go func() {
			defer func() { done <- true }()
			c := tr.open(0)
			m := describeTopics(t, c, 12, true, "a", "b", "bad name", "__transaction_state")
			ok := len(m.Topics) == 4 && m.Topics[0].ErrorCode == 0 && len(m.Topics[0].Partitions) == 4 && len(m.Topics[1].Partitions) == 4 &&
				m.Topics[2].ErrorCode == 17 && m.Topics[3].ErrorCode == 3
			if !ok {
				t.Errorf("answered %+v", m.Topics)
			}
			// Somebody else's topic may be seen a moment before it takes records; clients try
			// again then.
			code := int16(3)
			for until := time.Now().Add(10 * time.Second); code == 3 && time.Now().Before(until); {
				code = put(t, c, "b", 3, batchOf("x")).ErrorCode
			}
			if code != 0 {
				t.Errorf("producing to b-3: error %d", code)
			}
		}()
	}
	for range n {
		<-done
	}
	if b.meta.Load().Len() != 3 {
		t.Errorf("%d topics, want 3", b.meta.Load().Len())
	}
	if m := describeTopics(t, c, 1, false, "old"); m.Topics[0].ErrorCode != 0 {
		t.Errorf("versions below 4 always allow it: %+v", m.Topics)
	}
	_, tr = startTest(t, Options{Properties: map[string]string{"auto.create.topics.enable": "false"}})
	if m := describeTopics(t, tr.open(0), 1, true, "a"); m.Topics[0].ErrorCode != 3 {
		t.Errorf("created although it is disabled: %+v", m.Topics)
	}
}

func TestDescribeTopicPartitions(t *testing.T) {
	_, tr := startTest(t, Options{Properties: map[string]string{"max.request.partition.size.limit": "5"}})
	c := tr.open(0)
	for _, name := range []string{"c", "a", "b"} {
		createTopic(t, c, name, 3)
	}
	ask1 := func(limit int32, cursor *kmsg.DescribeTopicPartitionsRequestCursor, names ...string) string {
		req := kmsg.NewPtrDescribeTopicPartitionsRequest()
		req.ResponsePartitionLimit, req.Cursor = limit, cursor
		for _, n := range names {
			rt := kmsg.NewDescribeTopicPartitionsRequestTopic()
			rt.Topic = n
			req.Topics = append(req.Topics, rt)
		}
		resp := ask[*kmsg.DescribeTopicPartitionsResponse](t, c, req)
		s := ""
		for _, x := range resp.Topics {
			s += fmt.Sprintf("%s:%d", *x.Topic, x.ErrorCode)
			for _, p := range x.Partitions {
				s += fmt.Sprintf(" %d", p.Partition)
			}
			s += "; "
		}
		if n := resp.NextCursor; n != nil {
			s += fmt.Sprintf("next %s-%d", n.Topic, n.Partition)
		}
		return s
	}
	at := func(topic string, partition int32) *kmsg.DescribeTopicPartitionsRequestCursor {
		return &kmsg.DescribeTopicPartitionsRequestCursor{Topic: topic, Partition: partition}
	}
	for _, w := range []struct{ got, want string }{
		{ask1(100, nil, "c", "a", "nosuch"), "a:0 0 1 2; c:0 0 1; next c-2"},
		{ask1(100, at("c", 2), "c", "a", "nosuch"), "c:0 2; nosuch:3; "},
		{ask1(3, nil, "c", "a"), "a:0 0 1 2; next c-0"},
		{ask1(3, nil, "a"), "a:0 0 1 2; "},
		{ask1(0, nil, "a"), "a:0 0; next a-1"},
		{ask1(100, at("b", -1), "b"), "b:42; "},
		{ask1(100, at("zz", 0), "b"), "b:42; "},
		{ask1(100, at("b", 1)), "b:0 1 2; c:0 0 1 2; "},
	} {
		if w.got != w.want {
			t.Errorf("got %q, want %q", w.got, w.want)
		}
	}
}

// A topic of Options that exists keeps what it has, and the log says in what it differs.
func TestTopicsThatExist(t *testing.T) {
	dir := t.TempDir()
	first := Topic{Name: "t", Partitions: 2, Configs: map[string]string{"retention.ms": "1000"}}
	b, _ := startTest(t, Options{DataDir: dir, Topics: []Topic{first}})
	if err := b.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		topic Topic
		warns []string
	}{
		{first, nil},
		{Topic{Name: "t"}, nil},
		{Topic{Name: "t", Partitions: 6, Configs: map[string]string{"retention.ms": "1000", "cleanup.policy": "compact"}}, []string{
			`"property":"partitions","value":"6","topic_has":"2"`, `"property":"cleanup.policy","value":"compact","topic_has":""`}},
	} {
		out := &lines{}
		logger := zerolog.New(out).Level(zerolog.WarnLevel)
		b, _ := startTest(t, Options{DataDir: dir, Logger: &logger, Topics: []Topic{tt.topic}})
		if got := strings.Count(out.String(), "keeps what it was made with"); got != len(tt.warns) {
			t.Errorf("%+v: %d warnings, want %d:\n%s", tt.topic, got, len(tt.warns), out.String())
		}
		for _, want := range tt.warns {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%+v: no %s in\n%s", tt.topic, want, out.String())
			}
		}
		if _, n, _ := b.meta.Load().ByName("t"); n != 2 {
			t.Errorf("%+v: %d partitions", tt.topic, n)
		}
		if err := b.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
