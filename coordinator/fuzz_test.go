package coordinator

import (
	"bytes"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/coordinator/records"
)

// FuzzReplay feeds arbitrary records to a shard: it must take or refuse them
// without a panic, keep its accounts, and serve afterwards.
func FuzzReplay(f *testing.F) {
	protocol, leader := "range", "m"
	group := records.GroupMetadataValue{
		ProtocolType: "consumer", Generation: 3, Protocol: &protocol, Leader: &leader,
		Members: []records.GroupMetadataMember{{MemberID: "m", GroupInstanceID: &leader, SessionTimeout: 10000, Subscription: metadata("sub/t")}},
	}
	groupKey := records.AppendKey(nil, &records.Key{Type: records.GroupMetadata, Group: "g"})
	offsetKey := records.AppendKey(nil, &records.Key{Type: records.OffsetCommit, Group: "g", Name: "t", Partition: 1})
	offset := records.AppendOffsetCommitValue(nil, &records.OffsetCommitValue{Offset: 5, ExpireTimestamp: records.NoTimestamp, TopicID: [16]byte{1}})
	f.Add(groupKey, records.AppendGroupMetadataValue(nil, &group), offsetKey, offset)
	f.Add(offsetKey, offset, groupKey, []byte{})
	f.Add(groupKey, records.AppendGroupMetadataValue(nil, &records.GroupMetadataValue{}), offsetKey, []byte{})
	f.Add([]byte{0, 99, 1}, []byte{1}, []byte{0, 3, 0, 1, 'g'}, []byte{0, 0, 0, 0, 0, 1, 0})
	f.Fuzz(func(t *testing.T, k1, v1, k2, v2 []byte) {
		w := newWorld(t)
		w.topics.create("t", 2)
		s, twin := NewShard(0), NewShard(0)
		var log []logRecord
		// Each pair comes twice and in both orders, empty values are tombstones.
		for offset, r := range [][2][]byte{{k1, v1}, {k2, v2}, {k1, v1}, {k2, nil}, {k1, nil}, {k2, v2}, {k1, v1}} {
			if len(r[1]) == 0 {
				r[1] = nil
			}
			err := s.Replay(int64(offset), bytes.Clone(r[0]), bytes.Clone(r[1]))
			if err2 := twin.Replay(int64(offset), bytes.Clone(r[0]), bytes.Clone(r[1])); (err == nil) != (err2 == nil) {
				t.Fatalf("%v and %v", err, err2)
			}
			if err != nil {
				return // the partition is not served
			}
			log = append(log, logRecord{int64(offset), r[0], r[1]})
		}
		w.log = log
		w.restart()
		for _, g := range w.shard.slots {
			if g == nil || g.id == "" || len(g.id) > 1000 {
				continue
			}
			j := kmsg.NewPtrJoinGroupRequest()
			j.Version, j.Group, j.SessionTimeoutMillis, j.RebalanceTimeoutMillis, j.ProtocolType = 3, g.id, 10000, 1000, g.kind.protocolType()
			j.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
			w.request(Client{ID: "c"}, j)
			break
		}
		for range 20 {
			key, at, ok := w.nextTimer()
			if !ok {
				break
			}
			w.mono = max(w.mono, at)
			w.fire(key)
			w.settle()
		}
	})
}

// FuzzRequests sends arbitrary bytes as requests: keys, versions and bodies.
func FuzzRequests(f *testing.F) {
	keys := []int16{8, 9, 11, 12, 13, 14, 15, 16, 42, 47}
	for _, r := range []kmsg.Request{
		&kmsg.JoinGroupRequest{
			Version: 3, Group: "g", SessionTimeoutMillis: 10000, ProtocolType: "consumer",
			Protocols: []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: metadata("sub/t")}},
		},
		&kmsg.SyncGroupRequest{Version: 2, Group: "g", Generation: 1, MemberID: "c-00000000-0000-4000-8000-000000000001"},
		&kmsg.HeartbeatRequest{Version: 2, Group: "g", Generation: 1, MemberID: "c-00000000-0000-4000-8000-000000000001"},
		&kmsg.OffsetCommitRequest{Version: 2, Group: "g", Generation: -1, Topics: []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{}}}}},
	} {
		for i, key := range keys {
			if key == r.Key() {
				f.Add(byte(i), byte(r.GetVersion()), r.AppendTo(nil), byte(0), byte(2), []byte{0, 1, 'g'})
			}
		}
	}
	f.Fuzz(func(t *testing.T, k1, v1 byte, b1 []byte, k2, v2 byte, b2 []byte) {
		w := newWorld(t)
		w.topics.create("t", 2)
		for _, x := range []struct {
			key, version byte
			body         []byte
		}{{k1, v1, b1}, {k2, v2, b2}, {k1, v1, b1}} {
			r := kmsg.RequestForKey(keys[int(x.key)%len(keys)])
			r.SetVersion(minVersion(r.Key()) + int16(x.version)%(r.MaxVersion()-minVersion(r.Key())+1))
			if len(x.body) > 4096 || r.ReadFrom(x.body) != nil || len(r.AppendTo(nil)) > 4096 {
				return
			}
			w.request(Client{ID: "c", Host: "/h"}, r)
			w.mono += time.Second
			w.settle()
		}
	})
}

// minVersion is the lowest version of an API that a broker serves.
func minVersion(key int16) int16 {
	switch key {
	case 8:
		return 2
	case 9:
		return 1
	}
	return 0
}
