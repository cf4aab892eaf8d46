package broker

import (
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/internal/meta"
	"github.com/kcoord/kcoord/log"
	"github.com/kcoord/kcoord/netloop"
)

const (
	// metadataTopics is how many topics an answer may describe on an event loop.
	metadataTopics = 32
	// metadataPartitions likewise.
	metadataPartitions = 1000

	// topicOperations are the operations that anybody may do on a topic, as a bit
	// per number of AclOperation: nothing is authorized here. notAsked is what
	// stands there when the request did not ask.
	topicOperations   int32 = 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<11
	clusterOperations int32 = 1<<5 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12
	notAsked          int32 = math.MinInt32
)

// metadata serves Metadata (0 to 13). Topics that do not exist are created if the
// request and auto.create.topics.enable allow it; the answer then waits until
// they are durable and can be written to, so that a client need not ask again.
func (b *Broker) metadata(r *request, out []byte) ([]byte, netloop.Verdict) {
	req := r.message.(*kmsg.MetadataRequest)
	m := describing{b: b, r: r, req: req, snapshot: b.meta.Load()}
	if r.onLoop() && m.long() {
		return r.toPool(b, out)
	}
	resp := kmsg.NewPtrMetadataResponse()
	resp.ClusterID = &b.clusterID
	resp.ControllerID = b.nodeID
	resp.AuthorizedOperations = notAsked
	if req.IncludeClusterAuthorizedOperations {
		resp.AuthorizedOperations = clusterOperations
	}
	self := kmsg.NewMetadataResponseBroker()
	self.NodeID = b.nodeID
	self.Host, self.Port = b.advertised(r.session)
	if rack := b.values().Rack; rack != "" {
		self.Rack = &rack
	}
	resp.Brokers = append(resp.Brokers, self)
	if m.badIDs() { // answered as Kafka does what its handler could not
		resp.Topics, resp.Brokers, resp.ClusterID, resp.ControllerID = m.invalid(), nil, nil, -1
		resp.AuthorizedOperations = notAsked
		return r.answer(out, resp)
	}
	if m.all() {
		for _, t := range m.snapshot.Topics() {
			resp.Topics = append(resp.Topics, m.topic(t))
		}
		return r.answer(out, resp)
	}
	resp.Topics = m.asked()
	if m.change == nil {
		return r.answer(out, resp)
	}
	start := len(out)
	out = r.respond(out, resp)
	waits, err := m.change.commit(r.waiter(r.travelling(out)), false)
	if err != nil {
		for _, i := range m.places { // the client asks again
			resp.Topics[i] = m.refused(*resp.Topics[i].Topic, [16]byte{}, codeLeaderNotAvailable)
		}
		return r.answer(out[:start], resp)
	}
	if waits {
		return out, netloop.Later
	}
	return out, netloop.Answered
}

// describing is one Metadata request at work.
type describing struct {
	b        *Broker
	r        *request
	req      *kmsg.MetadataRequest
	snapshot *meta.Snapshot

	change *topicChange // if topics are being created
	places []int        // of those in the answer
}

// all says whether every topic is asked for: null, in version 0 the empty list.
func (m *describing) all() bool {
	return m.req.Topics == nil || m.r.version == 0 && len(m.req.Topics) == 0
}

// long says whether answering takes too long for an event loop.
func (m *describing) long() bool {
	if m.all() {
		return m.snapshot.Len() > metadataTopics || m.partitions(m.snapshot.Topics()) > metadataPartitions
	}
	if len(m.req.Topics) > metadataTopics {
		return true
	}
	n := 0
	for i := range m.req.Topics {
		switch t := m.find(&m.req.Topics[i]); {
		case t != nil:
			n += int(t.Partitions)
		case m.mayCreate():
			return true
		}
	}
	return n > metadataPartitions
}

func (m *describing) partitions(topics []*meta.Topic) int {
	n := 0
	for _, t := range topics {
		n += int(t.Partitions)
	}
	return n
}

func (m *describing) mayCreate() bool {
	return m.b.values().AutoCreateTopics && (m.r.version < 4 || m.req.AllowAutoTopicCreation)
}

func (m *describing) find(t *kmsg.MetadataRequestTopic) *meta.Topic {
	if t.TopicID != ([16]byte{}) {
		return m.snapshot.TopicByID(t.TopicID)
	}
	if t.Topic == nil {
		return nil
	}
	return m.snapshot.Topic(*t.Topic)
}

// asked describes the topics of the request, each once.
func (m *describing) asked() []kmsg.MetadataResponseTopic {
	topics := make([]kmsg.MetadataResponseTopic, 0, len(m.req.Topics))
	byID := false // one id in a request makes it a request by id
	for i := range m.req.Topics {
		byID = byID || m.req.Topics[i].TopicID != [16]byte{}
	}
	seen := make(map[partitionKey]bool, len(m.req.Topics))
	for i := range m.req.Topics {
		rt := &m.req.Topics[i]
		key := partitionKey{id: rt.TopicID}
		if !byID && rt.Topic != nil {
			key = partitionKey{topic: *rt.Topic}
		}
		if seen[key] || key == (partitionKey{}) && byID {
			continue
		}
		seen[key] = true
		switch t := m.find(rt); {
		case t != nil:
			topics = append(topics, m.topic(t))
		case byID:
			unknown := m.refused("", rt.TopicID, codeUnknownTopicID)
			unknown.Topic = nil
			topics = append(topics, unknown)
		default:
			topics = append(topics, m.missing(key.topic, len(topics)))
		}
	}
	return topics
}

// badIDs: versions 10 and 11 have ids in their schema but not in their meaning.
func (m *describing) badIDs() bool {
	if m.r.version >= 12 {
		return false
	}
	for i := range m.req.Topics {
		if m.req.Topics[i].Topic == nil || m.req.Topics[i].TopicID != ([16]byte{}) {
			return true
		}
	}
	return false
}

func (m *describing) invalid() []kmsg.MetadataResponseTopic {
	topics := make([]kmsg.MetadataResponseTopic, 0, len(m.req.Topics))
	for i := range m.req.Topics {
		name := ""
		if m.req.Topics[i].Topic != nil {
			name = *m.req.Topics[i].Topic
		}
		t := m.refused(name, m.req.Topics[i].TopicID, codeInvalidRequest)
		t.AuthorizedOperations = notAsked
		topics = append(topics, t)
	}
	return topics
}

// missing describes a topic that does not exist, and creates it if that is
// wanted.
func (m *describing) missing(name string, place int) kmsg.MetadataResponseTopic {
	if topicNameProblem(name) != "" {
		return m.refused(name, [16]byte{}, codeInvalidTopic)
	}
	if !m.mayCreate() || isInternal(name) {
		return m.refused(name, [16]byte{}, codeUnknownTopicOrPartition)
	}
	if m.change == nil {
		m.change = m.b.data.topics.begin(m.b)
	}
	t, coming := m.change.find(name)
	switch {
	case coming:
		m.change.repeat(meta.AppendTopic(nil, t))
	case t != nil: // made since the snapshot was taken
		return m.topic(t)
	case m.change.collision(name) != "":
		return m.refused(name, [16]byte{}, codeInvalidTopic)
	default:
		t = m.change.create(name, m.b.values().NumPartitions, m.r.wall, nil)
	}
	m.places = append(m.places, place)
	return m.topic(t)
}

func (m *describing) refused(name string, id [16]byte, code int16) kmsg.MetadataResponseTopic {
	t := kmsg.NewMetadataResponseTopic()
	t.ErrorCode, t.Topic, t.TopicID, t.IsInternal = code, &name, id, isInternal(name)
	t.Partitions = []kmsg.MetadataResponseTopicPartition{}
	t.AuthorizedOperations = notAsked
	if m.req.IncludeTopicAuthorizedOperations && code != codeUnknownTopicID {
		t.AuthorizedOperations = topicOperations
	}
	return t
}

// topic describes a topic that exists, or will when the answer goes.
func (m *describing) topic(t *meta.Topic) kmsg.MetadataResponseTopic {
	out := kmsg.NewMetadataResponseTopic()
	out.Topic, out.TopicID, out.IsInternal = &t.Name, t.ID, isInternal(t.Name)
	out.AuthorizedOperations = notAsked
	if m.req.IncludeTopicAuthorizedOperations {
		out.AuthorizedOperations = topicOperations
	}
	out.Partitions = make([]kmsg.MetadataResponseTopicPartition, t.Partitions)
	self := []int32{m.b.nodeID}
	epoch := m.b.store.Folder().LeaderEpoch
	for i := range out.Partitions {
		p := &out.Partitions[i]
		*p = kmsg.NewMetadataResponseTopicPartition()
		p.Partition, p.Leader, p.LeaderEpoch = int32(i), m.b.nodeID, epoch
		p.Replicas, p.ISR, p.OfflineReplicas = self, self, []int32{}
		if part := m.b.store.Partition(log.TopicID(t.ID), int32(i)); part != nil && (part.Err() != nil || m.b.groupsFailed(t, i)) {
			p.ErrorCode, p.Leader, p.ISR, p.OfflineReplicas = codeLeaderNotAvailable, -1, []int32{}, self
		}
	}
	return out
}
