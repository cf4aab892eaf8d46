package coordinator

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A Shard is the coordinator of the groups of one partition of
// __consumer_offsets. It is not safe for concurrent use: its owner holds one lock
// around every call.
type Shard struct {
	partition int32
	next      int64 // Invariant: the offset that the next record of this shard gets
}

// NewShard returns an empty shard for a partition of __consumer_offsets. Replay
// fills it, Loaded makes it serve.
func NewShard(partition int32) *Shard {
	return &Shard{partition: partition}
}

// NextOffset returns the offset that the next emitted record will have. The owner
// compares it with what the log gives.
func (s *Shard) NextOffset() int64 { return s.next }

// SetNextOffset says where the log ends. The offset can only grow: Replay has
// moved it past every record it saw, and markers or gaps may follow those.
func (s *Shard) SetNextOffset(offset int64) {
	if offset > s.next {
		s.next = offset
	}
}

// Step decides what an event does. Step resets out first; what out held before is
// no longer valid. It never fails and is never undone: whoever could refuse a
// write does so before (MayWrite tells which requests write).
func (s *Shard) Step(ev *Event, out *Result) {}

// Replay applies one record of the shard's partition; a nil value is a tombstone.
// key and value are not kept. Unknown record types are counted and skipped; a
// value of an unknown version or a damaged record is an error and the partition
// must not be served.
func (s *Shard) Replay(offset int64, key, value []byte) error { return nil }

// Loaded ends the replay: it arms the timers of what was loaded (into out) and
// starts the rebalances that a lowered group.max.size asks for.
func (s *Shard) Loaded(ev *Event, out *Result) {}

// LiveBytes tells how much of the shard's log is not garbage, in bytes of records
// (batch headers are not counted).
type LiveBytes struct {
	Values     int64 // the newest value of every key
	Tombstones int64 // tombstones written since the last SetTombstones
}

// Live returns the shard's live bytes.
func (s *Shard) Live() LiveBytes { return LiveBytes{} }

// SetTombstones says how many bytes of tombstones a cleaning kept.
func (s *Shard) SetTombstones(bytes int64) {}

// A ListPass lists the shard's groups in pieces: call ListGroups, with the lock
// released in between, until it reports done.
type ListPass struct {
	States, Types []string // the request's filters; empty: no restriction

	Groups    []kmsg.ListGroupsResponseGroup // grows with every piece
	DependsOn int64                          // of the newest piece; pieces only raise it

	slot int
}

// ListGroups visits at most limit groups.
func (s *Shard) ListGroups(p *ListPass, limit int) (done bool) { return true }

// A DescribePass describes one group in pieces.
type DescribePass struct {
	Group   string
	Version int16 // of the DescribeGroups request

	Response  kmsg.DescribeGroupsResponseGroup // complete when done
	DependsOn int64
}

// DescribeGroup describes at most limit members. If the group changed since the
// last piece it starts again, and after a few attempts it takes the whole group
// at once.
func (s *Shard) DescribeGroup(p *DescribePass, limit int) (done bool) { return true }

// A FetchPass answers one group of an OffsetFetch in pieces. Requests below v8
// are put in the form of v8 by the caller (OffsetFetchGroup).
type FetchPass struct {
	Group   *kmsg.OffsetFetchRequestGroup // Topics nil: all
	Version int16                         // of the request: ids instead of names from v10 on
	Topics  Topics                        // metadata as of the first piece

	Response  kmsg.OffsetFetchResponseGroup // complete when done; aliases Group
	DependsOn int64
}

// FetchOffsets visits at most limit partitions. If the group's offsets changed
// since the last piece it starts again, and after a few attempts it reads the
// whole group at once.
func (s *Shard) FetchOffsets(p *FetchPass, limit int) (done bool) { return true }

// GroupOf returns the one group that a request is about. Requests that may name
// several (DescribeGroups, DeleteGroups, OffsetFetch from v8 on) are about one if
// they name exactly one; ListGroups is about none.
func GroupOf(req kmsg.Request) (group string, ok bool) { return "", false }

// MayWrite reports whether a request can make its Step emit records. Heartbeats
// and reads cannot.
func MayWrite(req kmsg.Request) bool { return true }

// Refuse answers a request for a shard that cannot serve it now with what Apache
// Kafka would: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS (a Heartbeat is then
// answered NONE) or COORDINATOR_NOT_AVAILABLE. What Kafka checks before it looks
// for the shard comes first. The answer depends on nothing.
func Refuse(ev *Event, code int16, out *Result) {}
