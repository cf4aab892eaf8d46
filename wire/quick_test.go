package wire

import (
	"math/rand"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// quickBodies are requests of every form that the quick decoder knows.
func quickBodies() (bodies []Header) {
	instance, metadata := "instance", "metadata"
	for version := int16(0); version <= 4; version++ {
		for _, id := range []*string{nil, &instance} {
			r := kmsg.NewPtrHeartbeatRequest()
			r.SetVersion(version)
			r.Group, r.MemberID, r.Generation, r.InstanceID = "group", "member", 7, id
			bodies = append(bodies, Header{Key: keyHeartbeat, Version: version, Body: r.AppendTo(nil)})
		}
	}
	for version := int16(2); version <= 10; version++ {
		for topics := range 3 {
			r := kmsg.NewPtrOffsetCommitRequest()
			r.SetVersion(version)
			r.Group, r.MemberID, r.Generation, r.InstanceID = "group", "member", 7, &instance
			for i := range topics {
				t := kmsg.NewOffsetCommitRequestTopic()
				t.Topic, t.TopicID = "topic", [16]byte{1, byte(i)}
				for j := range 2 * i {
					p := kmsg.NewOffsetCommitRequestTopicPartition()
					p.Partition, p.Offset, p.LeaderEpoch = int32(j), 1<<40+int64(j), 3
					if j > 0 {
						p.Metadata = &metadata
					}
					t.Partitions = append(t.Partitions, p)
				}
				r.Topics = append(r.Topics, t)
			}
			bodies = append(bodies, Header{Key: keyOffsetCommit, Version: version, Body: r.AppendTo(nil)})
		}
	}
	return bodies
}

// TestQuick compares the quick decoder with the thorough one, on good requests and
// on damaged ones: what it takes for plain is what the other reads, and one Decoder
// that meets both kinds in turn mixes nothing up.
func TestQuick(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	var d Decoder
	plain := 0
	for _, h := range quickBodies() {
		for round := range 400 {
			body := append([]byte(nil), h.Body...)
			for range round % 4 {
				switch i := rng.Intn(len(body)); rng.Intn(3) {
				case 0:
					body[i] = byte(rng.Intn(256))
				case 1:
					body[i] = []byte{0, 1, 2, 0x7f, 0x80, 0xff}[rng.Intn(6)]
				default:
					if body = body[:i]; i == 0 {
						body = []byte{0}
					}
				}
			}
			damaged := Header{Key: h.Key, Version: h.Version, Body: body}
			want, wantErr := Decode(damaged)
			got, err := d.Decode(damaged)
			if (err == nil) != (wantErr == nil) {
				t.Fatalf("key %d version %d body %x: %v, thorough %v", h.Key, h.Version, body, err, wantErr)
			}
			if err != nil {
				continue
			}
			if a, b := want.AppendTo(nil), got.AppendTo(nil); !reflect.DeepEqual(a, b) {
				t.Fatalf("key %d version %d body %x:\nread %x\nthorough %x", h.Key, h.Version, body, b, a)
			}
			if d.quick.plain {
				plain++
			}
		}
	}
	if plain < 1000 {
		t.Errorf("only %d requests were plain", plain)
	}
}

// TestQuickAllocates nothing.
func TestQuickAllocates(t *testing.T) {
	var d Decoder
	for _, h := range quickBodies() {
		d.Decode(h)
		if d.quick.plain {
			if n := testing.AllocsPerRun(10, func() { d.Decode(h) }); n != 0 {
				t.Errorf("key %d version %d: %v allocations", h.Key, h.Version, n)
			}
		}
	}
}
