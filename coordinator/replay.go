package coordinator

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/kcoord/kcoord/coordinator/records"
)

// This file is the only one that changes what can be rebuilt from the log: Replay
// for records that are read back, the emit functions for records that Step makes.
// Both end in the same apply functions, so a shard after a restart is what it was.

// Replay applies one record of the shard's partition; a nil value is a tombstone.
// key and value are not kept. Record types that the shard does not handle are
// counted and skipped; a value of an unknown version or a damaged record is an
// error, and the partition must not be served then.
func (s *Shard) Replay(offset int64, key, value []byte) error {
	k, err := records.DecodeKey(key)
	if err != nil {
		return fmt.Errorf("offset %d: %w", offset, err)
	}
	if offset < s.next {
		return fmt.Errorf("offset %d: the record before it had offset %d", offset, s.next-1)
	}
	s.next = offset + 1
	size := recordSize(len(key), len(value))
	switch k.Type {
	case records.OffsetCommitV0, records.OffsetCommit:
		err = s.replayOffset(offset, &k, value, size)
	case records.GroupMetadata:
		err = s.replayGroup(offset, &k, value, size)
	default:
		s.skip(key, value, size)
	}
	if err != nil {
		return fmt.Errorf("offset %d, group %q: %w", offset, k.Group, err)
	}
	return nil
}

func (s *Shard) replayOffset(offset int64, k *records.Key, value []byte, size uint32) error {
	if value == nil {
		s.applyOffsetTombstone(offset, s.groups[k.Group], k.Name, k.Partition, size)
		return nil
	}
	v, err := records.DecodeOffsetCommitValue(value)
	if err != nil {
		return err
	}
	s.applyOffset(offset, s.groupFor(k.Group, offset), k.Name, k.Partition, &v, size)
	return nil
}

// groupFor returns the group of an offset record, which makes a simple group if
// there is none.
func (s *Shard) groupFor(id string, offset int64) *group {
	if g := s.group(id); g != nil {
		return g
	}
	return s.addGroup(id, offset, simple{})
}

func (s *Shard) replayGroup(offset int64, k *records.Key, value []byte, size uint32) error {
	if value == nil {
		s.applyGroupTombstone(s.groups[k.Group], size)
		return nil
	}
	v, err := records.DecodeGroupMetadataValue(value)
	if err != nil {
		return err
	}
	s.applyGroup(offset, k.Group, &v, size)
	return nil
}

// skip keeps the accounts of a record that is otherwise not looked at.
func (s *Shard) skip(key, value []byte, size uint32) {
	s.skipped++
	h := uint64(14695981039346656037) // FNV-1a: a collision only blurs the accounts
	for _, b := range key {
		h = (h ^ uint64(b)) * 1099511628211
	}
	s.live.Values -= int64(s.opaque[h])
	if value == nil {
		delete(s.opaque, h)
		s.live.Tombstones += int64(size)
		return
	}
	if s.opaque == nil {
		s.opaque = map[uint64]uint32{}
	}
	s.opaque[h] = size
	s.live.Values += int64(size)
}

// recordSize is the size of a record in a batch, without the batch's header and
// with deltas of one byte.
func recordSize(key, value int) uint32 {
	n := 1 + 1 + 1 + varintSize(key) + key + varintSize(value) + value + 1
	return uint32(varintSize(n) + n)
}

// varintSize is the size of a zigzag varint of a length; a null's -1 has the size
// of 0's.
func varintSize(n int) int {
	size := 1
	for v := uint64(n) << 1; v >= 0x80; v >>= 7 {
		size++
	}
	return size
}

func (s *Shard) applyOffset(offset int64, g *group, topic string, partition int32, v *records.OffsetCommitValue, size uint32) {
	e := s.putOffset(g, topic, partition)
	s.live.Values += int64(size) - int64(e.size)
	e.offset = v.Offset
	e.leaderEpoch = v.LeaderEpoch
	e.commitTimestamp = v.CommitTimestamp
	e.expireTimestamp = v.ExpireTimestamp
	e.size = size
	s.setMetadata(e, v.Metadata)
	s.setTopicID(e, v.TopicID)
	g.offsetsOffset = offset
	g.version++
}

func (s *Shard) applyOffsetTombstone(offset int64, g *group, topic string, partition int32, size uint32) {
	s.live.Tombstones += int64(size)
	if g == nil {
		return
	}
	s.removeOffset(g, topic, partition)
	g.offsetsOffset = offset
	g.version++
}

func (s *Shard) applyGroupTombstone(g *group, size uint32) {
	s.live.Tombstones += int64(size)
	if g == nil {
		return
	}
	if g.offsets.count > 0 { // only in a log whose tombstones of offsets are gone
		s.live.Values -= int64(g.recordSize)
		g.recordSize = 0
		g.kind = simple{}
		g.version++
		return
	}
	s.dropGroup(g)
}

// applyGroup makes a classic group what its record says. Members that are already
// there stay the same objects, with whatever is parked on them.
func (s *Shard) applyGroup(offset int64, id string, v *records.GroupMetadataValue, size uint32) {
	g := s.groups[id]
	if g == nil {
		g = s.addGroup(id, offset, nil)
	}
	c, ok := g.kind.(*classicGroup)
	if !ok {
		c = newClassicGroup()
		g.kind = c
	}
	g.membershipOffset = offset
	g.version++
	s.live.Values += int64(size) - int64(g.recordSize)
	g.recordSize = size

	// A static member that was replaced keeps the group's subscription as it was
	// until the next rebalance.
	sameRound := c.generation == v.Generation && len(v.Members) > 0 && c.first != nil
	if c.groupProtocolType != v.ProtocolType {
		c.groupProtocolType = strings.Clone(v.ProtocolType)
	}
	c.generation = v.Generation
	c.hasProtocol = v.Protocol != nil || len(v.Members) > 0
	if v.Protocol == nil {
		c.protocol = ""
	} else if c.protocol != *v.Protocol {
		c.protocol = strings.Clone(*v.Protocol)
	}
	c.stateSince = v.CurrentStateTimestamp
	leader := "" // v.Leader may point to what changes below
	if v.Leader != nil {
		leader = *v.Leader
	}
	c.applyMembers(v)
	c.leader = ""
	c.state = stateEmpty
	if c.first != nil {
		c.state = stateStable
		c.leader = c.first.id // if the record names none of the members
		if m := c.byID[leader]; m != nil {
			c.leader = m.id
		}
	}
	if !sameRound {
		c.computeSubscription()
	}
}

func (c *classicGroup) applyMembers(v *records.GroupMetadataValue) {
	total := 0
	for i := range v.Members {
		total += len(v.Members[i].Assignment)
	}
	assignments := make([]byte, 0, total) // one allocation for all of them
	c.marker++
	for i := range v.Members {
		r := &v.Members[i]
		m := c.byID[r.MemberID]
		if m != nil && !m.is(r.GroupInstanceID) {
			c.remove(m)
			m = nil
		}
		if m == nil {
			m = c.restore(r)
		} else if m.marker != c.marker { // the order is the record's
			c.unlink(m)
			c.link(m)
		}
		m.marker = c.marker
		m.sessionTimeout = millis(r.SessionTimeout)
		if t := millis(r.RebalanceTimeout); m.rebalanceTimeout != t {
			m.rebalanceTimeout = t
			if r.RebalanceTimeout == -1 { // as a value of version 0 has it
				m.rebalanceTimeout = m.sessionTimeout
			}
		}
		if p := m.find(c.protocol); p == nil || !bytes.Equal(p.metadata, r.Subscription) {
			c.setProtocols(m, []protocol{{c.protocol, bytes.Clone(r.Subscription)}})
		}
		n := len(assignments)
		assignments = append(assignments, r.Assignment...)
		m.assignment = assignments[n:len(assignments):len(assignments)]
	}
	for m := c.first; m != nil; {
		next := m.next
		if m.marker != c.marker {
			c.remove(m)
		}
		m = next
	}
}

// restore adds a member that a record tells of.
func (c *classicGroup) restore(r *records.GroupMetadataMember) *member {
	m := &member{
		id:         strings.Clone(r.MemberID),
		clientID:   strings.Clone(r.ClientID),
		clientHost: strings.Clone(r.ClientHost),
	}
	if r.GroupInstanceID != nil {
		m.instance, m.static = strings.Clone(*r.GroupInstanceID), true
		if old := c.byInstance[m.instance]; old != nil {
			c.remove(old)
		}
	}
	c.insert(m, []protocol{{c.protocol, bytes.Clone(r.Subscription)}})
	return m
}
