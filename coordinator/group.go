package coordinator

import "strings"

// A group is what the shard keeps of one group id: its committed offsets, and its
// membership behind groupKind.
type group struct {
	id string
	// Invariant: Shard.slots[slot] is this group.
	slot int32
	// version changes with everything that a read in pieces may have seen.
	version uint32

	// Offsets of the newest records about membership and about offsets; at first,
	// of the newest record of the shard when the group was created, because the
	// group's first answers also tell that an earlier group of that id is gone.
	membershipOffset int64
	offsetsOffset    int64

	kind    groupKind
	offsets offsetStore

	// recordSize is the size of the newest GroupMetadata value's record; 0: none.
	recordSize uint32
	// deleting: a DeleteGroups too large for one step is at work on the group.
	// Everything else is told to come back.
	deleting bool
}

// A groupKind is the membership side of a group: how a classic group, or a group
// of another type, answers what is asked of every group.
type groupKind interface {
	// typeName, protocolType and stateName are what ListGroups shows.
	typeName() string
	protocolType() string
	stateName() string
	memberCount() int

	// validateCommit judges the sender of an OffsetCommit; a member that may commit
	// thereby shows that it is alive.
	validateCommit(s *Shard, g *group, sender commitSender) int16
	// validateDelete returns why DeleteGroups may not delete the group, or NONE.
	validateDelete() int16
	// validateOffsetDelete returns why OffsetDelete may delete nothing, or NONE.
	validateOffsetDelete() int16
	// subscribes reports whether the topic's offsets are in use by members.
	subscribes(topic string) bool
	// offsetExpiry says whether offsets of a topic may expire now, and since when
	// their retention counts: Unix milliseconds, or sinceCommit.
	offsetExpiry(topic string) (base int64, may bool)
	// collectable reports whether the group goes once its offsets have gone.
	collectable() bool

	// tombstones emits what deletes the group's own records.
	tombstones(s *Shard, g *group)
	// discard lets go of timers and answers whatever is parked with code.
	discard(s *Shard, g *group, code int16)
}

// sinceCommit as a base of expiry: each offset's own commit timestamp counts.
const sinceCommit int64 = -1

// addGroup puts a new group into memory. Only replay calls it.
func (s *Shard) addGroup(id string, offset int64, kind groupKind) *group {
	g := &group{id: strings.Clone(id), membershipOffset: offset, offsetsOffset: offset, kind: kind}
	if n := len(s.freeSlots); n > 0 {
		g.slot = s.freeSlots[n-1]
		s.freeSlots = s.freeSlots[:n-1]
		s.slots[g.slot] = g
	} else {
		g.slot = int32(len(s.slots))
		s.slots = append(s.slots, g)
	}
	s.groups[g.id] = g
	return g
}

// group returns a group by id, or nil.
func (s *Shard) group(id string) *group {
	if g := s.latest; g != nil && g.id == id {
		return g
	}
	g := s.groups[id]
	if g != nil {
		s.latest = g
	}
	return g
}

// dropGroup takes a group out of memory. Only replay calls it.
func (s *Shard) dropGroup(g *group) {
	s.clearOffsets(g)
	s.live.Values -= int64(g.recordSize)
	s.slots[g.slot] = nil
	s.freeSlots = append(s.freeSlots, g.slot)
	delete(s.groups, g.id)
	if s.latest == g {
		s.latest = nil
	}
}

// simple is the membership of a group that exists only because offsets were
// committed for it: there is none. Apache Kafka calls it a simple group, a classic
// group in state Empty without protocol type.
type simple struct{}

func (simple) typeName() string                  { return typeClassic }
func (simple) protocolType() string              { return "" }
func (simple) stateName() string                 { return stateEmpty.String() }
func (simple) memberCount() int                  { return 0 }
func (simple) validateDelete() int16             { return codeNone }
func (simple) validateOffsetDelete() int16       { return codeNone }
func (simple) subscribes(string) bool            { return false }
func (simple) offsetExpiry(string) (int64, bool) { return sinceCommit, true }
func (simple) collectable() bool                 { return true }
func (simple) discard(*Shard, *group, int16)     {}

func (simple) validateCommit(_ *Shard, _ *group, sender commitSender) int16 {
	if sender.generation < 0 {
		return codeNone
	}
	return codeUnknownMemberID
}

// tombstones emits a tombstone although there is no record: Apache Kafka does.
func (simple) tombstones(s *Shard, g *group) { s.emitGroupTombstone(g) }
