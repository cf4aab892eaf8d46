package broker

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/internal/meta"
	"github.com/kcoord/kcoord/log"
)

// joinRequest is a consumer's JoinGroup without an instance id.
func joinRequest(group, member string) *kmsg.JoinGroupRequest {
	req := at(kmsg.NewPtrJoinGroupRequest(), 5)
	req.Group, req.MemberID, req.ProtocolType = group, member, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10_000, 10_000
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", []byte{0, 1, 0, 0, 0, 0}
	req.Protocols = append(req.Protocols, p)
	return req
}

// makeTopic creates a topic as if CreateTopics had, and waits until it is there.
func makeTopic(t testing.TB, b *Broker, name string, partitions int32) (id [16]byte) {
	t.Helper()
	b.options.Random(id[:])
	there := make(chan struct{})
	w := log.Waiter{At: neverLate, Conn: wakeUp(func() { close(there) })}
	record := meta.AppendTopic(nil, &meta.Topic{ID: id, Name: name, Partitions: partitions})
	if err := b.store.AppendMetadata([][]byte{record}, &w, false); err != nil {
		t.Fatal(err)
	}
	<-there
	return id
}
