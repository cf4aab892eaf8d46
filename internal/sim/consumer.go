package sim

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A consumer reads all partitions of the data topic from somewhere on, again and
// again from the start.
type consumer struct {
	world     *World
	client    *client
	positions [dataPartitions]int64
}

func newConsumer(w *World, n int) *consumer {
	c := &consumer{world: w, client: newClient(w, fmt.Sprintf("consumer-%d", n))}
	w.after(w.pause(), c.act)
	return c
}

func (c *consumer) again() { c.world.after(c.world.pause(), c.act) }

func (c *consumer) act() {
	w := c.world
	switch w.random.IntN(12) {
	case 0:
		c.list(int32(w.random.IntN(dataPartitions)), -1, c.again)
	case 1:
		c.list(int32(w.random.IntN(dataPartitions)), -2, c.again)
	default:
		c.fetch()
	}
}

// list asks for a log's end (-1), or for its start (-2) and goes there.
func (c *consumer) list(partition int32, which int64, done func()) {
	w, l := c.world, c.world.log(partition)
	req := kmsg.NewPtrListOffsetsRequest()
	w.anyVersion(req)
	req.ReplicaID = -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = dataTopic
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp = partition, which
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	before := l.bounds()
	c.client.call(req, func(resp kmsg.Response) {
		defer done()
		if resp == nil {
			return
		}
		r := resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
		switch err := kerr.ErrorForCode(r.ErrorCode); {
		case err == nil && which == -1:
			l.ends(w, "ListOffsets", before, -1, r.Offset)
		case err == nil:
			l.ends(w, "ListOffsets", before, r.Offset, -1)
			c.positions[partition] = r.Offset
		case err == kerr.KafkaStorageError && w.machine.troubled():
			return
		default:
			w.violated(checkErrors, "ListOffsets of %d: %v", partition, err)
		}
		w.succeed("ListOffsets")
	})
}

// fetch asks for what comes next in each partition, and waits a little for it.
func (c *consumer) fetch() {
	w := c.world
	req := kmsg.NewPtrFetchRequest()
	w.anyVersion(req)
	req.ReplicaID, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = -1, int32(w.random.IntN(500)), int32(w.random.IntN(2)), 1<<20
	req.SessionEpoch, req.IsolationLevel = -1, int8(w.random.IntN(2))
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = dataTopic, w.topicIDs[dataTopic]
	var before [dataPartitions]bounds
	for i := range c.positions {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = int32(i), c.positions[i], int32(100+w.random.IntN(10_000))
		t.Partitions = append(t.Partitions, p)
		before[i] = w.log(int32(i)).bounds()
	}
	req.Topics = append(req.Topics, t)
	c.client.call(req, func(resp kmsg.Response) {
		defer c.again()
		if resp == nil {
			return
		}
		for _, t := range resp.(*kmsg.FetchResponse).Topics {
			for i := range t.Partitions {
				c.fetched(req.Version, before[t.Partitions[i].Partition], &t.Partitions[i])
			}
		}
	})
}

func (c *consumer) fetched(version int16, before bounds, r *kmsg.FetchResponseTopicPartition) {
	w, l := c.world, c.world.log(r.Partition)
	position := &c.positions[r.Partition]
	switch err := kerr.ErrorForCode(r.ErrorCode); {
	case err == nil:
		w.succeed("Fetch")
		start := int64(-1)
		if version >= 5 {
			start = r.LogStartOffset
		}
		l.ends(w, "Fetch", before, start, r.HighWatermark)
		next := l.fetched(w, *position, r.RecordBatches)
		if next > r.HighWatermark {
			w.violated(checkRecords, "%s-%d: records up to %d were given, the high watermark is %d", dataTopic, r.Partition, next, r.HighWatermark)
		}
		*position = next
	case err == kerr.OffsetOutOfRange && r.Partition == deletedPartition:
		*position = l.start
	case err == kerr.KafkaStorageError && w.machine.troubled():
	default:
		w.violated(checkErrors, "Fetch of %d from %d: %v", r.Partition, *position, err)
	}
}

// everything reads a partition whole and checks that all that is known is there.
func (c *consumer) everything(partition int32, done func()) {
	w, l := c.world, c.world.log(partition)
	if c.positions[partition] >= l.end {
		done()
		return
	}
	req := kmsg.NewPtrFetchRequest()
	w.anyVersion(req)
	req.ReplicaID, req.MaxBytes, req.SessionEpoch = -1, 1<<20, -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = dataTopic, w.topicIDs[dataTopic]
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, c.positions[partition], 1<<20
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	before := l.bounds()
	c.client.call(req, func(resp kmsg.Response) {
		from := c.positions[partition]
		c.fetched(req.Version, before, &resp.(*kmsg.FetchResponse).Topics[0].Partitions[0])
		if c.positions[partition] == from {
			w.violated(checkRecords, "%s-%d: nothing can be read at %d, the log had %d", dataTopic, partition, from, l.end)
		}
		c.everything(partition, done)
	})
}
