package broker

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/wire"
)

// writtenPart is one partition of a Fetch answer to write in a test.
type writtenPart struct {
	key     partitionKey
	result  fetchResult
	records []byte
	skip    bool // taken back, as an unchanged one of a session
}

// TestFetchWriterAgainstKmsg writes answers of all kinds and versions and wants
// byte for byte what kmsg makes of them.
func TestFetchWriterAgainstKmsg(t *testing.T) {
	large := bytes.Repeat([]byte("r"), 70_000)
	ok := fetchResult{highWatermark: 12, logStart: 3}
	fenced := fetchResult{code: codeFencedLeaderEpoch, highWatermark: -1, logStart: -1}
	diverging := fetchResult{highWatermark: 9, diverging: true, divergingEpoch: 2, divergingEnd: 7}
	var many []writtenPart
	for i := range int32(300) {
		many = append(many, writtenPart{key: key("t", i), result: ok, skip: i%3 == 0})
	}
	cases := map[string][]writtenPart{
		"nothing":          nil,
		"one empty":        {{key: key("a", 0), result: ok}},
		"records":          {{key: key("a", 0), result: ok, records: []byte("xyz")}, {key: key("a", 1), result: ok, records: large}, {key: key("b", 0), result: ok}},
		"errors":           {{key: key("a", 0), result: fenced}, {key: key("b", 5), result: fetchResult{code: 3, highWatermark: -1, logStart: -1}}},
		"diverging":        {{key: key("a", 0), result: diverging}},
		"many, some out":   many,
		"all out":          {{key: key("a", 0), result: ok, skip: true}, {key: key("b", 0), result: ok, records: large, skip: true}},
		"first of two out": {{key: key("a", 0), result: ok, skip: true}, {key: key("a", 1), result: ok}, {key: key("b", 0), skip: true}, {key: key("c", 0), result: ok}},
	}
	for name, parts := range cases {
		for version := int16(4); version <= 18; version++ {
			for _, committed := range []bool{false, true} {
				for _, guess := range []int{0, 1, 1 << 20} {
					got := written(version, committed, parts, guess)
					if want := expected(version, committed, parts); !bytes.Equal(got, want) {
						t.Fatalf("%s, version %d, committed %v, guess %d:\n got %x\nwant %x", name, version, committed, guess, trimmed(got), trimmed(want))
					}
				}
			}
		}
	}
}

func key(topic string, index int32) partitionKey {
	return partitionKey{topic: topic, id: [16]byte{15: topic[0]}, index: index}
}

func trimmed(b []byte) []byte { return b[:min(len(b), 300)] }

// written writes parts with room for lengths as if guess had been expected.
func written(version int16, committed bool, parts []writtenPart, guess int) []byte {
	w := fetchWriter{out: []byte("before"), version: version, committed: committed, nodeID: 1, epoch: 4,
		maxTopics: max(guess, len(parts)), maxPartitions: max(guess, len(parts))}
	w.begin(77)
	for i := range parts {
		p := &parts[i]
		w.sameTopic(p.key)
		m := w.mark()
		at := w.header(p.key)
		if len(p.records) == 0 {
			w.out = appendEmptyRecords(w.out, w.flexible)
		} else {
			c := w.reserve(guess)
			w.out = append(w.out, p.records...)
			w.fill(c.at, c.room, len(p.records))
		}
		w.fields(at, p.key.index, &p.result)
		w.tags(&p.result)
		if p.skip {
			w.rollback(m)
		}
	}
	return w.end(55, "host", 9092, "rack")[len("before"):]
}

func expected(version int16, committed bool, parts []writtenPart) []byte {
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = version
	resp.SessionID = 55
	for i := range parts {
		p := &parts[i]
		if p.skip {
			continue
		}
		n := len(resp.Topics)
		if n == 0 || resp.Topics[n-1].Topic != p.key.topic {
			rt := kmsg.NewFetchResponseTopic()
			rt.Topic, rt.TopicID = p.key.topic, p.key.id
			resp.Topics = append(resp.Topics, rt)
			n++
		}
		rp := kmsg.NewFetchResponseTopicPartition()
		rp.Partition, rp.ErrorCode, rp.HighWatermark, rp.LogStartOffset = p.key.index, p.result.code, p.result.highWatermark, p.result.logStart
		rp.LastStableOffset = p.result.highWatermark
		rp.RecordBatches = append([]byte{}, p.records...)
		if committed && p.result.code == 0 || p.result.code == 3 {
			rp.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
		}
		if p.result.diverging {
			rp.DivergingEpoch.Epoch, rp.DivergingEpoch.EndOffset = p.result.divergingEpoch, p.result.divergingEnd
		}
		if p.result.code == codeFencedLeaderEpoch && version >= 16 {
			rp.CurrentLeader.LeaderID, rp.CurrentLeader.LeaderEpoch = 1, 4
			node := kmsg.NewFetchResponseBroker()
			node.NodeID, node.Host, node.Port, node.Rack = 1, "host", 9092, kmsg.StringPtr("rack")
			resp.Brokers = []kmsg.FetchResponseBroker{node}
		}
		resp.Topics[n-1].Partitions = append(resp.Topics[n-1].Partitions, rp)
	}
	return wire.AppendResponse(nil, 77, resp)
}

func TestUvarintLen(t *testing.T) {
	for n, want := range map[uint64]int{0: 1, 1: 1, 127: 1, 128: 2, 16383: 2, 16384: 3, 1<<21 - 1: 3, 1 << 21: 4} {
		if got := uvarintLen(n); got != want {
			t.Errorf("%d: %d bytes, want %d", n, got, want)
		}
	}
}

func BenchmarkFetchWriter(b *testing.B) {
	for _, n := range []int{1, 100} {
		parts := make([]writtenPart, n)
		for i := range parts {
			parts[i] = writtenPart{key: key("topic", int32(i)), records: make([]byte, 1000)}
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				written(16, false, parts, n)
			}
		})
	}
}
