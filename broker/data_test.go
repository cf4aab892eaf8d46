package broker

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/log/record"
	"github.com/kcoord/kcoord/log/vfs"
)

// Versions of the requests that tests make when the version does not matter.
const (
	produceByName = 12
	fetchByName   = 12
)

// batchOf is a produced batch with one record per value, keys k0, k1, ...
func batchOf(values ...string) []byte {
	var b record.Builder
	b.Reset(nil, record.Plain(0, -1))
	for i, v := range values {
		b.Append(1_700_000_000_000+int64(i), fmt.Appendf(nil, "k%d", i), []byte(v))
	}
	return b.Close()
}

// createTopic makes a topic and returns its id.
func createTopic(t testing.TB, c *testConn, name string, partitions int32, configs ...string) [16]byte {
	t.Helper()
	resp := ask[*kmsg.CreateTopicsResponse](t, c, at(creation(false, newTopic(name, partitions, 1, configs...)), 7))
	if resp.Topics[0].ErrorCode != 0 {
		t.Fatalf("creating %s: error %d %v", name, resp.Topics[0].ErrorCode, resp.Topics[0].ErrorMessage)
	}
	return resp.Topics[0].TopicID
}

func newTopic(name string, partitions int32, replicas int16, configs ...string) kmsg.CreateTopicsRequestTopic {
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, partitions, replicas
	for i := 0; i+1 < len(configs); i += 2 {
		rc := kmsg.NewCreateTopicsRequestTopicConfig()
		rc.Name, rc.Value = configs[i], &configs[i+1]
		rt.Configs = append(rt.Configs, rc)
	}
	return rt
}

func creation(validate bool, topics ...kmsg.CreateTopicsRequestTopic) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.ValidateOnly, req.Topics = validate, topics
	return req
}

func production(acks int16, topic string, partition int32, batch []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = acks, 1000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Partition, rp.Records = partition, batch
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

// put produces and returns the partition's answer.
func put(t testing.TB, c *testConn, topic string, partition int32, batch []byte) kmsg.ProduceResponseTopicPartition {
	t.Helper()
	return ask[*kmsg.ProduceResponse](t, c, at(production(-1, topic, partition, batch), produceByName)).Topics[0].Partitions[0]
}

func mustPut(t testing.TB, c *testConn, topic string, partition int32, values ...string) int64 {
	t.Helper()
	p := put(t, c, topic, partition, batchOf(values...))
	if p.ErrorCode != 0 {
		t.Fatalf("producing to %s-%d: error %d", topic, partition, p.ErrorCode)
	}
	return p.BaseOffset
}

// position is a partition of a fetch by name.
func position(topic string, partition int32, offset int64) fetchPosition {
	return fetchPosition{partitionKey: partitionKey{topic: topic, index: partition}, offset: offset}
}

// fetching is a fetch without session.
func fetching(wait time.Duration, minBytes int32, positions ...fetchPosition) *kmsg.FetchRequest {
	req := incremental(0, -1, positions...)
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(wait/time.Millisecond), minBytes, 50<<20
	for i := range req.Topics {
		p := &req.Topics[i].Partitions[0]
		p.CurrentLeaderEpoch, p.LastFetchedEpoch, p.PartitionMaxBytes = -1, -1, 1<<20
	}
	return req
}

func get(t testing.TB, c *testConn, topic string, partition int32, offset int64) kmsg.FetchResponseTopicPartition {
	t.Helper()
	resp := ask[*kmsg.FetchResponse](t, c, at(fetching(0, 0, position(topic, partition, offset)), fetchByName))
	return resp.Topics[0].Partitions[0]
}

// values are the values of all records in fetched bytes.
func values(t testing.TB, b []byte) (values []string) {
	t.Helper()
	for len(b) > 0 {
		batch := record.Batch(b)
		batch = batch[:batch.Size()]
		b = b[len(batch):]
		if err := batch.Each(func(r record.Record) error {
			values = append(values, string(r.Value))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return values
}

func describeTopics(t testing.TB, c *testConn, version int16, create bool, names ...string) *kmsg.MetadataResponse {
	t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = create
	for i := range names {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = &names[i]
		req.Topics = append(req.Topics, rt)
	}
	return ask[*kmsg.MetadataResponse](t, c, at(req, version))
}

// A crashingFS survives the power cuts that a test makes.
type crashingFS struct{ fs *vfs.Crashable }

func crashable(testing.TB) *crashingFS { return &crashingFS{fs: vfs.NewCrashable()} }

// kill leaves of the broker's files what a power cut would leave, then stops it.
func (c *crashingFS) kill(t testing.TB, b *Broker) {
	t.Helper()
	c.fs = c.fs.Crash(vfs.KeepNone)
	if err := b.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}
