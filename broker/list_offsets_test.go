package broker

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/log/record"
)

// offsetsOf asks ListOffsets about one partition.
func offsetsOf(t testing.TB, c *testConn, version int16, topic string, partition int32, ts int64) kmsg.ListOffsetsResponseTopicPartition {
	t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewListOffsetsRequestTopicPartition()
	rp.Partition, rp.Timestamp, rp.CurrentLeaderEpoch = partition, ts, -1
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return ask[*kmsg.ListOffsetsResponse](t, c, at(req, version)).Topics[0].Partitions[0]
}

func TestListOffsets(t *testing.T) {
	_, tr := startTest(t, Options{})
	c := tr.open(0)
	createTopic(t, c, "a", 1)
	createTopic(t, c, "empty", 1)
	var b record.Builder
	b.Reset(nil, record.Plain(0, -1))
	for i, ts := range []int64{10, 50, 20} {
		b.Append(ts, fmt.Append(nil, i), []byte("v"))
	}
	put(t, c, "a", 0, b.Close())
	b.Reset(nil, record.Plain(0, -1))
	b.Append(30, nil, []byte("v"))
	put(t, c, "a", 0, b.Close())
	for _, w := range []struct {
		topic      string
		version    int16
		ts         int64
		code       int16
		offset, at int64
	}{
		{"a", 11, -1, 0, 4, -1}, {"a", 11, -2, 0, 0, -1}, {"a", 11, -3, 0, 1, 50}, {"a", 11, -4, 0, 0, -1},
		{"a", 11, -5, 0, -1, -1}, {"a", 11, -6, 0, -1, -1}, {"a", 11, -7, 35, -1, -1}, {"a", 11, 0, 0, 0, 10},
		{"a", 1, 11, 0, 1, 50}, {"a", 11, 50, 0, 1, 50}, {"a", 11, 51, 0, -1, -1},
		{"a", 6, -3, 35, -1, -1}, {"a", 7, -4, 35, -1, -1}, {"a", 8, -5, 35, -1, -1}, {"a", 10, -6, 35, -1, -1},
		{"empty", 11, -1, 0, 0, -1}, {"empty", 11, -2, 0, 0, -1}, {"empty", 11, -3, 0, -1, -1}, {"empty", 11, 5, 0, -1, -1},
		{"nosuch", 11, -1, 3, -1, -1},
	} {
		if p := offsetsOf(t, c, w.version, w.topic, 0, w.ts); p.ErrorCode != w.code || p.Offset != w.offset || p.Timestamp != w.at {
			t.Errorf("%s, version %d, %d: error %d, %d at %d; want %d, %d at %d", w.topic, w.version, w.ts, p.ErrorCode, p.Offset, p.Timestamp, w.code, w.offset, w.at)
		}
	}
	for ts, want := range map[int64]int32{-1: 0, -2: 0, 10: 0, 99: -1} {
		if p := offsetsOf(t, c, 11, "a", 0, ts); p.LeaderEpoch != want {
			t.Errorf("%d: leader epoch %d, want %d", ts, p.LeaderEpoch, want)
		}
	}
	twice := kmsg.NewPtrListOffsetsRequest()
	twice.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "a", Partitions: []kmsg.ListOffsetsRequestTopicPartition{
		{Timestamp: -1, CurrentLeaderEpoch: -1}, {Timestamp: -2, CurrentLeaderEpoch: -1}, {Partition: 1, Timestamp: -2}}}}
	resp := ask[*kmsg.ListOffsetsResponse](t, c, at(twice, 11)).Topics[0].Partitions
	if len(resp) != 2 || resp[0].ErrorCode != 42 || resp[1].ErrorCode != 3 {
		t.Errorf("a partition twice: %+v", resp)
	}
}

// TestEpochsAcrossCrashes: each unclean start has its own leader epoch, told for
// the records that were written in it and for no others.
func TestEpochsAcrossCrashes(t *testing.T) {
	fs := crashable(t)
	for start := range int32(4) {
		b, tr := newTest(t, Options{DataDir: "data", FS: fs.fs})
		if err := b.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		c := tr.open(0)
		if start == 0 {
			createTopic(t, c, "a", 1)
		}
		for i := range start {
			if p := offsetsOf(t, c, 11, "a", 0, 1_700_000_000_000+int64(i)*1000); p.Offset != int64(i) || p.LeaderEpoch != i {
				t.Errorf("start %d: record %d is at %d with epoch %d", start, i, p.Offset, p.LeaderEpoch)
			}
			if epoch, end := askEpochEnd(t, c, i); epoch != i || end != int64(i)+1 {
				t.Errorf("start %d: epoch %d ends at %d as %d", start, i, end, epoch)
			}
		}
		if start > 0 {
			if p := offsetsOf(t, c, 11, "a", 0, -1); p.LeaderEpoch != start-1 {
				t.Errorf("start %d: the end has epoch %d, want that of the last record", start, p.LeaderEpoch)
			}
			if p := offsetsOf(t, c, 11, "a", 0, -2); p.LeaderEpoch != 0 {
				t.Errorf("start %d: the beginning has epoch %d", start, p.LeaderEpoch)
			}
		}
		if epoch, end := askEpochEnd(t, c, start); epoch != start || end != int64(start) {
			t.Errorf("start %d: its epoch ends at %d as %d", start, end, epoch)
		}
		if m := describeTopics(t, c, 12, false, "a").Topics[0].Partitions[0]; m.LeaderEpoch != start {
			t.Errorf("start %d: Metadata has leader epoch %d", start, m.LeaderEpoch)
		}
		var batch record.Builder
		batch.Reset(nil, record.Plain(0, -1))
		batch.Append(1_700_000_000_000+int64(start)*1000, nil, []byte("v"))
		if p := put(t, c, "a", 0, batch.Close()); p.BaseOffset != int64(start) {
			t.Fatalf("start %d: %+v", start, p)
		}
		fs.kill(t, b)
	}
}

func askEpochEnd(t testing.TB, c *testConn, epoch int32) (int32, int64) {
	t.Helper()
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: "a", Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{
		{Partition: 0, CurrentLeaderEpoch: -1, LeaderEpoch: epoch}}}}
	p := ask[*kmsg.OffsetForLeaderEpochResponse](t, c, at(req, 4)).Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		t.Errorf("OffsetForLeaderEpoch %d: error %d", epoch, p.ErrorCode)
	}
	return p.LeaderEpoch, p.EndOffset
}

func TestDescribeClusterAndLogDirs(t *testing.T) {
	b, tr := startTest(t, Options{})
	c := tr.open(0)
	createTopic(t, c, "a", 2)
	mustPut(t, c, "a", 1, "x")
	for version := int16(0); version <= 2; version++ {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.EndpointType = 1
		d := ask[*kmsg.DescribeClusterResponse](t, c, at(req, version))
		if d.ErrorCode != 0 || d.ClusterID != b.clusterID || d.ControllerID != b.nodeID || len(d.Brokers) != 1 || d.Brokers[0].Port != 9092 {
			t.Errorf("DescribeCluster v%d: %+v", version, d)
		}
	}
	for endpoint, code := range map[int8]int16{2: 114, 9: 115} {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.EndpointType = endpoint
		if d := ask[*kmsg.DescribeClusterResponse](t, c, at(req, 1)); d.ErrorCode != code {
			t.Errorf("endpoint type %d: error %d", endpoint, d.ErrorCode)
		}
	}
	for version := int16(1); version <= 5; version++ {
		req := kmsg.NewPtrDescribeLogDirsRequest()
		d := ask[*kmsg.DescribeLogDirsResponse](t, c, at(req, version))
		if len(d.Dirs) != 1 || len(d.Dirs[0].Topics) != 2 || d.Dirs[0].Topics[1].Topic != "a" || d.Dirs[0].Topics[1].Partitions[1].Size != int64(len(batchOf("x"))) {
			t.Errorf("DescribeLogDirs v%d: %+v", version, d)
		}
		rt := kmsg.NewDescribeLogDirsRequestTopic()
		rt.Topic, rt.Partitions = "a", []int32{0, 7}
		req.Topics = append(req.Topics, rt)
		d = ask[*kmsg.DescribeLogDirsResponse](t, c, at(req, version))
		if len(d.Dirs[0].Topics) != 1 || len(d.Dirs[0].Topics[0].Partitions) != 1 || d.Dirs[0].Topics[0].Partitions[0].Size != 0 {
			t.Errorf("DescribeLogDirs v%d of one: %+v", version, d)
		}
	}
}
