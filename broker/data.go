package broker

import (
	"encoding/binary"

	"github.com/kcoord/kcoord/internal/meta"
	"github.com/kcoord/kcoord/log"
)

// dataPlane is what the APIs of topics and records keep between requests. Its
// parts have locks of their own, leaves all of them.
type dataPlane struct {
	broker      *Broker
	topics      topicAdmin
	producers   producerIDs
	tools       toolbox
	sessions    *fetchSessions
	parked      *parkedFetches
	fetchBudget byteBudget
	answers     byteBudget // being built, see answerSize
}

func (d *dataPlane) init(b *Broker) {
	d.broker = b
	v := b.values()
	d.sessions = newFetchSessions(v.MaxFetchSessions, fetchSessionEviction)
	d.parked = newParkedFetches()
	d.fetchBudget.give(fetchBudgetBytes)
	d.answers.give(int(b.memoryBudget()))
	d.topics.init()
	d.tools.init(b.memoryBudget(), v.InflateMaxBytes)
}

// metalog is the topics as the store wants to see them.
func (d *dataPlane) metalog() log.Metadata { return &metalog{broker: d.broker} }

// advance is the store's OnAdvance.
func (d *dataPlane) advance(id log.TopicID, partition int32, _ int64) {
	d.parked.advance(id, partition)
}

// stop answers what is parked.
func (d *dataPlane) stop() { d.parked.stop() }

func (d *dataPlane) randomInt32() int32 {
	var b [4]byte
	d.broker.options.Random(b[:])
	return int32(binary.BigEndian.Uint32(b[:]))
}

// newTopicID makes a topic's id: a UUID of version 4, as Kafka's.
func (d *dataPlane) newTopicID() (id [16]byte) {
	d.broker.options.Random(id[:])
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id
}

// Kafka's error codes that the data APIs answer with.
const (
	codeUnknownServerError           int16 = -1
	codeOffsetOutOfRange             int16 = 1
	codeUnknownTopicOrPartition      int16 = 3
	codeLeaderNotAvailable           int16 = 5
	codeRequestTimedOut              int16 = 7
	codeMessageTooLarge              int16 = 10
	codeInvalidTopic                 int16 = 17
	codeInvalidRequiredAcks          int16 = 21
	codeUnsupportedVersion           int16 = 35
	codeTopicAlreadyExists           int16 = 36
	codeInvalidPartitions            int16 = 37
	codeInvalidReplicationFactor     int16 = 38
	codeInvalidReplicaAssignment     int16 = 39
	codeInvalidConfig                int16 = 40
	codeCoordinatorNotAvailable      int16 = 15
	codeInvalidRequest               int16 = 42
	codeNotController                int16 = 41
	codePolicyViolation              int16 = 44
	codeOutOfOrderSequence           int16 = 45
	codeInvalidProducerEpoch         int16 = 47
	codeTransactionalIDAuthorization int16 = 53
	codeStorageError                 int16 = 56
	codeFetchSessionNotFound         int16 = 70
	codeInvalidFetchSessionEpoch     int16 = 71
	codeTopicDeletionDisabled        int16 = 73
	codeFencedLeaderEpoch            int16 = 74
	codeUnknownLeaderEpoch           int16 = 75
	codeUnsupportedCompression       int16 = 76
	codeUnknownTopicID               int16 = 100
	codeFetchSessionTopicID          int16 = 106
	codeMismatchedEndpoint           int16 = 114
	codeUnsupportedEndpoint          int16 = 115
)

// offsetsTopic is the topic that the coordinator's records live in.
const offsetsTopic = "__consumer_offsets"

// metadataTopic is the name that Kafka keeps for its own metadata.
const metadataTopic = "__cluster_metadata"

// isInternal says whether clients may only read a topic.
func isInternal(topic string) bool { return topic == offsetsTopic || topic == "__transaction_state" }

// partitionOf returns a partition that can be served, or why not.
func (b *Broker) partitionOf(t *meta.Topic, index int32) (*log.Partition, int16) {
	if t == nil || index < 0 || index >= t.Partitions {
		return nil, codeUnknownTopicOrPartition
	}
	p := b.store.Partition(log.TopicID(t.ID), index)
	if p == nil { // its topic was deleted a moment ago
		return nil, codeUnknownTopicOrPartition
	}
	if p.Err() != nil {
		return nil, codeStorageError
	}
	return p, 0
}

// epochCode compares the leader epoch that a client believes in with the one of
// the partition (KIP-320). -1 asks for no comparison.
func epochCode(p *log.Partition, current int32) int16 {
	switch epoch := p.LeaderEpoch(); {
	case current < 0 || current == epoch:
		return 0
	case current < epoch:
		return codeFencedLeaderEpoch
	}
	return codeUnknownLeaderEpoch
}

// catchUp makes the partition log hold everything that is durable, so that
// nobody is shown an end older than what was acknowledged.
func catchUp(p *log.Partition) error {
	if p.HighWatermark() >= p.DurableEnd() {
		return nil
	}
	return p.CatchUp()
}
