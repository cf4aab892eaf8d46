package wire

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// frameOf encodes a request as a client would, without the length prefix.
func frameOf(req kmsg.Request, version int16) []byte {
	req.SetVersion(version)
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("client-1")).AppendRequest(nil, req, 77)[4:]
}

var (
	groupName = strings.Repeat("g", 25)
	memberID  = strings.Repeat("m", 45)
)

func heartbeatFrame() []byte {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = groupName, memberID, 3
	return frameOf(req, 4)
}

func offsetCommitFrame(partitions int) []byte {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = groupName, memberID, 3
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.TopicID = [16]byte{1}
	for i := range partitions {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.Metadata = int32(i), 1234, kmsg.StringPtr("")
		topic.Partitions = append(topic.Partitions, p)
	}
	req.Topics = append(req.Topics, topic)
	return frameOf(req, 10)
}

func offsetFetchFrame() []byte {
	req := kmsg.NewPtrOffsetFetchRequest()
	group := kmsg.NewOffsetFetchRequestGroup()
	group.Group = groupName
	topic := kmsg.NewOffsetFetchRequestGroupTopic()
	topic.TopicID, topic.Partitions = [16]byte{1}, []int32{0}
	group.Topics = append(group.Topics, topic)
	req.Groups = append(req.Groups, group)
	return frameOf(req, 10)
}

// BenchmarkHeartbeat is the whole way of the most frequent request through this
// package: header, decoding, answer.
func BenchmarkHeartbeat(b *testing.B) {
	frame := heartbeatFrame()
	var d Decoder
	var out []byte
	resp := kmsg.NewPtrHeartbeatResponse()
	b.ReportAllocs()
	for b.Loop() {
		h, err := ParseHeader(frame)
		if err != nil {
			b.Fatal(err)
		}
		req, err := d.Decode(h)
		if err != nil {
			b.Fatal(err)
		}
		resp.SetVersion(req.GetVersion())
		out = AppendResponse(out[:0], h.CorrelationID, resp)
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, bb := range []struct {
		name  string
		frame []byte
	}{
		{"OffsetCommit/1", offsetCommitFrame(1)},
		{"OffsetCommit/10", offsetCommitFrame(10)},
		{"OffsetFetch/1", offsetFetchFrame()},
	} {
		h, err := ParseHeader(bb.frame)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(bb.name+"/reused", func(b *testing.B) {
			var d Decoder
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.Decode(h); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(bb.name+"/fresh", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Decode(h); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(bb.name+"/inspect", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := inspect(h.Key, h.Version, h.Body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestHeartbeatAllocations: the most frequent request allocates nothing.
func TestHeartbeatAllocations(t *testing.T) {
	frame := heartbeatFrame()
	var d Decoder
	resp := kmsg.NewPtrHeartbeatResponse()
	out := make([]byte, 0, 100)
	allocations := testing.AllocsPerRun(100, func() {
		h, err := ParseHeader(frame)
		if err != nil {
			t.Fatal(err)
		}
		req, err := d.Decode(h)
		if err != nil {
			t.Fatal(err)
		}
		resp.SetVersion(req.GetVersion())
		out = AppendResponse(out[:0], h.CorrelationID, resp)
	})
	if allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
}
