package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/internal/meta"
	"github.com/kcoord/kcoord/netloop"
)

// describeTopicPartitions serves DescribeTopicPartitions (0): topics in the order
// of their names, in pages (KIP-966).
func (b *Broker) describeTopicPartitions(r *request, out []byte) ([]byte, netloop.Verdict) {
	req := r.message.(*kmsg.DescribeTopicPartitionsRequest)
	resp := kmsg.NewPtrDescribeTopicPartitionsResponse()
	d := describing{b: b, r: r, req: &kmsg.MetadataRequest{IncludeTopicAuthorizedOperations: true}, snapshot: b.meta.Load()}
	names, ok := d.page(req)
	if !ok {
		for i := range req.Topics {
			at := kmsg.NewDescribeTopicPartitionsResponseTopic()
			at.ErrorCode, at.Topic, at.AuthorizedOperations = codeInvalidRequest, &req.Topics[i].Topic, notAsked
			resp.Topics = append(resp.Topics, at)
		}
		return r.answer(out, resp)
	}
	left := max(1, min(int(req.ResponsePartitionLimit), b.values().MaxRequestPartitionLimit))
	for i, name := range names {
		if left == 0 {
			resp.NextCursor = nextCursor(name, 0)
			break
		}
		t := d.snapshot.Topic(name)
		if t == nil {
			if len(req.Topics) > 0 {
				resp.Topics = append(resp.Topics, d.absent(name))
			}
			continue
		}
		from := int32(0)
		if i == 0 && req.Cursor != nil && req.Cursor.Topic == name {
			from = min(req.Cursor.Partition, t.Partitions)
		}
		to := min(t.Partitions, from+int32(left))
		resp.Topics = append(resp.Topics, d.part(t, from, to))
		if left -= int(to - from); to < t.Partitions {
			resp.NextCursor = nextCursor(name, to)
			break
		}
	}
	return r.answer(out, resp)
}

func nextCursor(topic string, partition int32) *kmsg.DescribeTopicPartitionsResponseNextCursor {
	c := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	c.Topic, c.Partition = topic, partition
	return &c
}

// page returns the names asked for from the cursor on, sorted, each once. It
// reports false for a cursor that is none.
func (d *describing) page(req *kmsg.DescribeTopicPartitionsRequest) (names []string, ok bool) {
	for i := range req.Topics {
		names = append(names, req.Topics[i].Topic)
	}
	if len(req.Topics) == 0 {
		for _, t := range d.snapshot.Topics() {
			names = append(names, t.Name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if req.Cursor == nil {
		return names, true
	}
	at, found := slices.BinarySearch(names, req.Cursor.Topic)
	if req.Cursor.Partition < 0 || !found && len(req.Topics) > 0 {
		return nil, false
	}
	return names[at:], true
}

func (d *describing) absent(name string) kmsg.DescribeTopicPartitionsResponseTopic {
	at := kmsg.NewDescribeTopicPartitionsResponseTopic()
	at.ErrorCode, at.Topic, at.IsInternal = codeUnknownTopicOrPartition, &name, isInternal(name)
	if topicNameProblem(name) != "" {
		at.ErrorCode = codeInvalidTopic
	}
	at.Partitions = []kmsg.DescribeTopicPartitionsResponseTopicPartition{}
	at.AuthorizedOperations = topicOperations
	return at
}

// part describes some partitions of a topic.
func (d *describing) part(t *meta.Topic, from, to int32) kmsg.DescribeTopicPartitionsResponseTopic {
	whole := d.topic(t)
	at := kmsg.NewDescribeTopicPartitionsResponseTopic()
	at.Topic, at.TopicID, at.IsInternal, at.AuthorizedOperations = whole.Topic, whole.TopicID, whole.IsInternal, whole.AuthorizedOperations
	at.Partitions = make([]kmsg.DescribeTopicPartitionsResponseTopicPartition, 0, to-from)
	for _, p := range whole.Partitions[from:to] {
		ap := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
		ap.ErrorCode, ap.Partition, ap.LeaderID, ap.LeaderEpoch = p.ErrorCode, p.Partition, p.Leader, p.LeaderEpoch
		ap.Replicas, ap.ISR, ap.OfflineReplicas = p.Replicas, p.ISR, p.OfflineReplicas
		ap.EligibleLeaderReplicas, ap.LastKnownELR = []int32{}, []int32{}
		at.Partitions = append(at.Partitions, ap)
	}
	return at
}
