package coordinator

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A Shard is the coordinator of the groups of one partition of
// __consumer_offsets. It is not safe for concurrent use: its owner holds one lock
// around every call.
type Shard struct {
	partition int32
	// Invariant: the offset that the next record of this shard gets. It only grows.
	next int64

	groups map[string]*group
	// latest is the group that was looked up last: requests of one client come in a
	// row. Invariant: nil, or in groups.
	latest *group
	// slots gives the groups an order that reads in pieces can go by: a group keeps
	// its slot as long as it exists.
	// Invariant: slots holds exactly the groups and nil; freeSlots the places of nil.
	slots     []*group
	freeSlots []int32

	// Topic names and ids that committed offsets refer to.
	topicNames map[string]*topicName
	topicIDs   []topicID // Invariant: element 0 is the zero id
	idRefs     map[[16]byte]idRef
	freeIDs    []idRef
	// texts are the metadata of committed offsets.
	// Invariant: element 0 is empty; of the others exactly those that freeTexts names.
	texts     []string
	freeTexts []textRef

	offsetCount int // Invariant: the sum over the groups
	live        LiveBytes
	skipped     int64             // records of kinds that are not handled
	opaque      map[uint64]uint32 // hash of the key of such a record -> size of its newest value

	jobs     []job
	sweep    timer
	sweeping bool

	// The event at hand, while Step runs.
	ev  *Event
	out *Result
}

// NewShard returns an empty shard for a partition of __consumer_offsets. Replay
// fills it, Loaded makes it serve.
func NewShard(partition int32) *Shard {
	return &Shard{
		partition:  partition,
		groups:     map[string]*group{},
		topicNames: map[string]*topicName{},
		topicIDs:   make([]topicID, 1),
		texts:      make([]string, 1),
		idRefs:     map[[16]byte]idRef{},
	}
}

// Partition returns the partition of __consumer_offsets that the shard is for.
func (s *Shard) Partition() int32 { return s.partition }

// NextOffset returns the offset that the next emitted record will have. The owner
// compares it with what the log gives.
func (s *Shard) NextOffset() int64 { return s.next }

// SetNextOffset says where the log ends. The offset can only grow: Replay has
// moved it past every record it saw, and markers or gaps may follow those.
func (s *Shard) SetNextOffset(offset int64) { s.next = max(s.next, offset) }

// LiveBytes tells how much of the shard's log is not garbage, in bytes of records
// (batch headers are not counted).
type LiveBytes struct {
	Values     int64 // the newest value of every key
	Tombstones int64 // tombstones written since the last SetTombstones
}

// Live returns the shard's live bytes.
func (s *Shard) Live() LiveBytes { return s.live }

// SetTombstones says how many bytes of tombstones a cleaning kept.
func (s *Shard) SetTombstones(bytes int64) { s.live.Tombstones = bytes }

// Stats are sizes of a shard.
type Stats struct {
	Groups  int
	Offsets int   // committed offsets
	Skipped int64 // records of unknown kinds that Replay saw
}

// Stats returns the shard's sizes.
func (s *Shard) Stats() Stats {
	return Stats{Groups: len(s.groups), Offsets: s.offsetCount, Skipped: s.skipped}
}

// Step decides what an event does. Step resets out first; what out held before is
// no longer valid. It never fails and is never undone: whoever could refuse a
// write does so before (MayWrite tells which requests write). A request about
// several groups is cut up by the caller: all groups of a step's request are the
// shard's, and a DeleteGroups has at most some hundred.
func (s *Shard) Step(ev *Event, out *Result) {
	s.begin(ev, out)
	switch ev.Kind {
	case EventRequest:
		s.request(ev.Request)
	case EventTimer:
		s.timer(ev.Timer)
	case EventTopicsDeleted:
		s.topicsDeleted(ev.Deleted)
	case EventUnload:
		s.unload()
	default:
		panic(fmt.Sprintf("coordinator: event of kind %d", ev.Kind))
	}
	s.end()
}

func (s *Shard) begin(ev *Event, out *Result) {
	out.reset()
	s.ev, s.out = ev, out
}

func (s *Shard) end() {
	s.finish()
	s.ev, s.out = nil, nil
}

func (s *Shard) request(req kmsg.Request) {
	switch r := req.(type) {
	case *kmsg.HeartbeatRequest:
		s.heartbeat(r)
	case *kmsg.OffsetCommitRequest:
		s.offsetCommit(r)
	case *kmsg.OffsetFetchRequest:
		s.offsetFetch(r)
	case *kmsg.JoinGroupRequest:
		s.joinGroup(r)
	case *kmsg.SyncGroupRequest:
		s.syncGroup(r)
	case *kmsg.LeaveGroupRequest:
		s.leaveGroup(r)
	case *kmsg.OffsetDeleteRequest:
		s.offsetDelete(r)
	case *kmsg.DeleteGroupsRequest:
		s.deleteGroups(r)
	case *kmsg.DescribeGroupsRequest:
		s.describeGroups(r)
	case *kmsg.ListGroupsRequest:
		s.listGroups(r)
	default:
		panic(fmt.Sprintf("coordinator: request %T", req))
	}
}

// Loaded ends the replay: it arms the timers of what was loaded (into out) and
// starts the rebalances that a lowered group.max.size asks for. If ev has Topics,
// offsets of topics that no longer exist are removed: their deletion may have been
// cut short. out is to be treated like a Step's: it may hold records.
func (s *Shard) Loaded(ev *Event, out *Result) {
	s.begin(ev, out)
	for _, g := range s.slots {
		if g == nil {
			continue
		}
		c, ok := g.kind.(*classicGroup)
		if !ok {
			continue
		}
		for m := c.first; m != nil; m = m.next {
			s.restartSession(g, m)
		}
		if len(c.byID) > ev.Config.MaxSize {
			s.startRebalance(g, c, cause{what: groupTooLarge})
		}
	}
	s.setTimer(&s.sweep, TimerSweep, "", "", ev.Mono+ev.Config.OffsetsRetentionCheckInterval)
	if topics := ev.Topics; topics != nil {
		gone := func(id [16]byte) bool {
			_, _, ok := topics.ByID(id)
			return id != [16]byte{} && !ok
		}
		if slices.ContainsFunc(s.topicIDs, func(t topicID) bool { return gone(t.id) }) {
			s.addJob(&topicDeletion{gone: gone})
		}
	}
	s.end()
}

// unload lets go of everything: what is parked is answered NOT_COORDINATOR.
func (s *Shard) unload() {
	for _, g := range s.slots {
		if g == nil {
			continue
		}
		g.kind.discard(s, g, codeNotCoordinator)
		if c, ok := g.kind.(*classicGroup); ok && c.state != stateDead {
			s.move(g, c, stateDead, &cause{what: groupUnloaded})
		}
	}
	for _, j := range s.jobs {
		j.abandon(s, codeNotCoordinator)
	}
	s.jobs = nil
	s.clearTimer(&s.sweep, TimerSweep, "", "")
}
