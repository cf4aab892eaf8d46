package broker

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/log/record"
)

func TestProduceVersions(t *testing.T) {
	_, tr := startTest(t, Options{})
	c := tr.open(0)
	id := createTopic(t, c, "a", 1)
	for version := int16(3); version <= 13; version++ {
		req := production(1, "a", 0, batchOf("x", "y"))
		req.Topics[0].TopicID = id
		resp := ask[*kmsg.ProduceResponse](t, c, at(req, version))
		p := resp.Topics[0].Partitions[0]
		if p.ErrorCode != 0 || p.BaseOffset != 2*int64(version-3) || p.LogAppendTime != -1 {
			t.Errorf("version %d: %+v", version, p)
		}
		if version >= 13 && resp.Topics[0].TopicID != id || version < 13 && resp.Topics[0].Topic != "a" {
			t.Errorf("version %d: topic %q, id %x", version, resp.Topics[0].Topic, resp.Topics[0].TopicID)
		}
	}
	req := production(1, "", 0, batchOf("x"))
	req.Topics[0].TopicID = [16]byte{1}
	if p := ask[*kmsg.ProduceResponse](t, c, at(req, 13)).Topics[0].Partitions[0]; p.ErrorCode != 100 || p.BaseOffset != -1 {
		t.Errorf("unknown id: %+v", p)
	}
	if got := values(t, get(t, c, "a", 0, 0).RecordBatches); len(got) != 22 || got[21] != "y" {
		t.Errorf("%d records, want 22", len(got))
	}
}

func TestProduceRefusals(t *testing.T) {
	_, tr := startTest(t, Options{})
	c := tr.open(0)
	createTopic(t, c, "a", 1, "max.message.bytes", "1000")
	createTopic(t, c, "compacted", 1, "cleanup.policy", "compact")
	edit := func(f func(b record.Batch), values ...string) []byte {
		b := record.Batch(batchOf(values...))
		f(b)
		b.SetCRC()
		return b
	}
	keyless := func() []byte {
		var b record.Builder
		b.Reset(nil, record.Plain(0, -1))
		b.Append(1, []byte("k"), []byte("v"))
		b.Append(1, nil, []byte("v"))
		return b.Close()
	}
	corrupt := batchOf("x")
	corrupt[len(corrupt)-1] ^= 1
	for what, w := range map[string]struct {
		topic string
		index int32
		batch []byte
		code  int16
	}{
		"unknown topic":     {"nosuch", 0, batchOf("x"), 3},
		"unknown partition": {"a", 1, batchOf("x"), 3},
		"partition -1":      {"a", -1, batchOf("x"), 3},
		"internal topic":    {"__consumer_offsets", 0, batchOf("x"), 17},
		"no bytes":          {"a", 0, nil, 87},
		"two batches":       {"a", 0, append(batchOf("x"), batchOf("y")...), 87},
		"wrong checksum":    {"a", 0, corrupt, 2},
		"too large":         {"a", 0, batchOf(strings.Repeat("x", 1000)), 10},
		"keyless":           {"compacted", 0, keyless(), 87},
		"transactional":     {"a", 0, edit(func(b record.Batch) { b[22] |= record.BitTransactional; copy(b[43:57], make([]byte, 14)) }, "x"), 53},
		"control":           {"a", 0, edit(func(b record.Batch) { b[22] |= record.BitControl }, "x"), 87},
		"base offset":       {"a", 0, edit(func(b record.Batch) { b.SetBaseOffset(7) }, "x"), 87},
	} {
		p := put(t, c, w.topic, w.index, w.batch)
		if p.ErrorCode != w.code || p.BaseOffset != -1 {
			t.Errorf("%s: error %d, base offset %d; want %d, -1", what, p.ErrorCode, p.BaseOffset, w.code)
		}
		if what == "keyless" && (len(p.ErrorRecords) != 1 || p.ErrorRecords[0].RelativeOffset != 1 || p.ErrorMessage == nil) {
			t.Errorf("keyless: %+v", p)
		}
	}
	for _, acks := range []int16{2, -2} {
		if p := ask[*kmsg.ProduceResponse](t, c, at(production(acks, "a", 0, batchOf("x")), 9)).Topics[0].Partitions[0]; p.ErrorCode != 21 {
			t.Errorf("acks %d: error %d", acks, p.ErrorCode)
		}
	}
	txn := production(-1, "a", 0, batchOf("x"))
	txn.TransactionID = kmsg.StringPtr("t")
	if p := ask[*kmsg.ProduceResponse](t, c, at(txn, 9)).Topics[0].Partitions[0]; p.ErrorCode != 53 {
		t.Errorf("transactional id: error %d", p.ErrorCode)
	}
	// One partition's refusal is not the others'.
	mixed := production(-1, "a", 0, batchOf("x"))
	mixed.Topics = append(mixed.Topics, production(-1, "nosuch", 0, batchOf("x")).Topics...)
	resp := ask[*kmsg.ProduceResponse](t, c, at(mixed, 9))
	if resp.Topics[0].Partitions[0].BaseOffset != 0 || resp.Topics[1].Partitions[0].ErrorCode != 3 {
		t.Errorf("mixed: %+v", resp.Topics)
	}
}

// TestProduceAcksNone: nothing is answered, and what is refused closes the
// connection, for there is no other way to say so.
func TestProduceAcksNone(t *testing.T) {
	_, tr := startTest(t, Options{})
	c := tr.open(0)
	createTopic(t, c, "a", 1)
	for range 3 {
		c.send(frame(at(production(0, "a", 0, batchOf("x")), 9), 1))
	}
	if off := mustPut(t, c, "a", 0, "last"); off != 3 {
		t.Errorf("the batch behind three is at %d", off)
	}
	c.send(frame(at(production(0, "nosuch", 0, batchOf("x")), 9), 1))
	c.mustClose(t)
}

func TestProduceLogAppendTimeAndCompression(t *testing.T) {
	_, tr := startTest(t, Options{})
	c := tr.open(0)
	createTopic(t, c, "time", 1, "message.timestamp.type", "LogAppendTime")
	createTopic(t, c, "zstd", 1, "compression.type", "zstd")
	before := time.Now().UnixMilli()
	p := put(t, c, "time", 0, batchOf("x", "y"))
	if p.ErrorCode != 0 || p.LogAppendTime < before-1000 || p.LogAppendTime > time.Now().UnixMilli()+1000 {
		t.Errorf("append time %d, error %d", p.LogAppendTime, p.ErrorCode)
	}
	b := record.Batch(get(t, c, "time", 0, 0).RecordBatches)
	if !b.LogAppendTime() || b.MaxTimestamp() != p.LogAppendTime || b.CRC() != b.ComputeCRC() {
		t.Errorf("stored with attributes %x and time %d, answered %d", b.Attributes(), b.MaxTimestamp(), p.LogAppendTime)
	}
	text := strings.Repeat("compressible ", 1000)
	mustPut(t, c, "zstd", 0, text)
	got := get(t, c, "zstd", 0, 0).RecordBatches
	if b := record.Batch(got); b.Codec() != record.CodecZstd || len(got) > 1000 || b.CRC() != b.ComputeCRC() {
		t.Errorf("stored in %d bytes with codec %d", len(got), b.Codec())
	}
	if v := values(t, got); len(v) != 1 || v[0] != text {
		t.Error("the record has changed")
	}
	// A reader that cannot read it is told so (KIP-110).
	old := ask[*kmsg.FetchResponse](t, c, at(fetching(0, 0, position("zstd", 0, 0)), 9))
	if p := old.Topics[0].Partitions[0]; p.ErrorCode != 76 {
		t.Errorf("Fetch v9 of a zstd topic: error %d", p.ErrorCode)
	}
}

// TestProduceIsStoredAsSent: bytes come back as they were sent but for offset and
// leader epoch, however many partitions and batches one request has.
func TestProduceIsStoredAsSent(t *testing.T) {
	_, tr := startTest(t, Options{})
	c := tr.open(0)
	createTopic(t, c, "a", 20)
	req := production(-1, "a", 0, nil)
	req.Topics[0].Partitions = nil
	var sent [][]byte
	for i := range int32(20) {
		rp := kmsg.NewProduceRequestTopicPartition()
		rp.Partition, rp.Records = i, batchOf(strings.Repeat(fmt.Sprint(i), 5000))
		sent = append(sent, slices.Clone(rp.Records))
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, rp)
	}
	for round := range int64(3) {
		for _, p := range ask[*kmsg.ProduceResponse](t, c, at(req, 9)).Topics[0].Partitions {
			if p.ErrorCode != 0 || p.BaseOffset != round {
				t.Fatalf("partition %d: %+v", p.Partition, p)
			}
		}
	}
	for i := range int32(20) {
		b := record.Batch(get(t, c, "a", i, 2).RecordBatches)
		if b.BaseOffset() != 2 {
			t.Fatalf("partition %d: base offset %d", i, b.BaseOffset())
		}
		b.SetBaseOffset(0)
		b.SetLeaderEpoch(record.Batch(sent[i]).LeaderEpoch())
		if !bytes.Equal(b, sent[i]) {
			t.Errorf("partition %d has changed", i)
		}
	}
}

// TestProduceWaitsForRoom: more than fits into a round is not refused, it waits.
func TestProduceWaitsForRoom(t *testing.T) {
	_, tr := startTest(t, Options{Properties: map[string]string{"message.max.bytes": "4000000"}})
	admin := tr.open(0)
	createTopic(t, admin, "a", 1)
	big := batchOf(strings.Repeat("x", 3<<20))
	const n = 12
	conns := make([]*testConn, n)
	req := at(production(-1, "a", 0, big), 9)
	req.TimeoutMillis = 30_000
	for i := range conns {
		conns[i] = tr.open(0)
		go conns[i].send(frame(req, 42))
	}
	seen := map[int64]bool{}
	for _, c := range conns {
		p := answer[*kmsg.ProduceResponse](t, c, req).Topics[0].Partitions[0]
		if p.ErrorCode != 0 || seen[p.BaseOffset] {
			t.Fatalf("error %d, base offset %d", p.ErrorCode, p.BaseOffset)
		}
		seen[p.BaseOffset] = true
	}
}

func TestInitProducerID(t *testing.T) {
	dir := t.TempDir()
	seen := map[int64]bool{}
	for start := range 2 {
		b, tr := newTest(t, Options{DataDir: dir})
		if err := b.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		done := make(chan int64, 8*200)
		for range 8 {
			go func() {
				c := tr.open(0)
				for range 200 {
					req := kmsg.NewPtrInitProducerIDRequest()
					req.ProducerID, req.ProducerEpoch = -1, -1
					resp := ask[*kmsg.InitProducerIDResponse](t, c, at(req, 4))
					if resp.ErrorCode != 0 || resp.ProducerEpoch != 0 {
						t.Errorf("answered %+v", resp)
					}
					done <- resp.ProducerID
				}
			}()
		}
		for range 8 * 200 {
			if id := <-done; seen[id] {
				t.Fatalf("start %d: id %d again", start, id)
			} else {
				seen[id] = true
			}
		}
		c := tr.open(0)
		for what, w := range map[string]struct {
			txn   *string
			epoch int16
			code  int16
		}{"transactional": {kmsg.StringPtr("t"), -1, 53}, "empty transactional id": {kmsg.StringPtr(""), -1, 42}, "epoch without id": {nil, 3, 42}} {
			req := kmsg.NewPtrInitProducerIDRequest()
			req.TransactionalID, req.ProducerID, req.ProducerEpoch = w.txn, -1, w.epoch
			if resp := ask[*kmsg.InitProducerIDResponse](t, c, at(req, 4)); resp.ErrorCode != w.code || resp.ProducerID != -1 {
				t.Errorf("%s: %+v", what, resp)
			}
		}
		if err := b.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func BenchmarkProduce(b *testing.B) {
	for _, size := range []int{100, 10_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			_, tr := startTest(b, Options{})
			c := tr.open(0)
			createTopic(b, c, "a", 1)
			req := frame(at(production(-1, "a", 0, batchOf(strings.Repeat("x", size))), 9), 42)
			b.SetBytes(int64(len(req)))
			b.ReportAllocs()
			for b.Loop() {
				c.send(req)
				<-c.answers
			}
		})
	}
}
