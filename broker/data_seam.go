package broker

import (
	"github.com/kcoord/kcoord/internal/meta"
	"github.com/kcoord/kcoord/log"
)

const (
	codeCoordinatorNotAvailable int16 = 15
	codeInvalidRequest          int16 = 42

	// offsetsTopic is the topic that the coordinator's records live in.
	offsetsTopic = "__consumer_offsets"
)

// dataPlane is the data plane's part of the broker.
type dataPlane struct{ meta *meta.State }

func (d *dataPlane) init(b *Broker) { d.meta = b.meta }

func (d *dataPlane) metalog() log.Metadata { return storedTopics{d.meta} }

func (d *dataPlane) advance(log.TopicID, int32, int64) {}

func (d *dataPlane) stop() {}

// storedTopics shows the store the topics.
type storedTopics struct{ *meta.State }

func (s storedTopics) AppendRecords(dst [][]byte) [][]byte { return s.Load().AppendRecords(dst) }

func (s storedTopics) Topics(f func(t log.TopicInfo) bool) {
	for _, t := range s.Load().Topics() {
		if !f(infoOf(t)) {
			return
		}
	}
}

func (s storedTopics) Topic(id log.TopicID) (log.TopicInfo, bool) {
	t := s.Load().TopicByID(id)
	if t == nil {
		return log.TopicInfo{}, false
	}
	return infoOf(t), true
}

func infoOf(t *meta.Topic) log.TopicInfo {
	return log.TopicInfo{ID: log.TopicID(t.ID), Name: t.Name, Partitions: t.Partitions, Config: log.TopicConfig{
		SegmentBytes: 100 << 20, SegmentMillis: 7 * 24 * 3600e3, SegmentIndexBytes: 10 << 20, IndexIntervalBytes: 4096,
		MaxMessageBytes: 8 << 20, RetentionMillis: -1, RetentionBytes: -1, DeleteRetention: 24 * 3600e3,
		MaxCompactionLag: 1<<63 - 1, MinCleanableRatio: 0.5, FileDeleteDelay: 60e3, Compact: true, CompressionType: "producer",
		TimestampBeforeMax: 1<<63 - 1, TimestampAfterMax: 3600e3}}
}

const codeRequestTimedOut int16 = 7
