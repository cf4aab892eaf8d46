package coordinator

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Check counts again what the shard keeps count of and returns the first
// difference. It is for tests and costs a pass over everything.
func (s *Shard) Check() error {
	used, offsets, live := 0, 0, int64(0)
	topicRefs, idRefs := map[*topicName]int32{}, map[idRef]int32{}
	if g := s.latest; g != nil && s.groups[g.id] != g {
		return fmt.Errorf("group %q is gone and still looked up", g.id)
	}
	for i, g := range s.slots {
		if g == nil {
			continue
		}
		used++
		if g.slot != int32(i) || s.groups[g.id] != g {
			return fmt.Errorf("slot %d holds group %q, which is in slot %d", i, g.id, g.slot)
		}
		if err := g.checkOffsets(topicRefs, idRefs, &live); err != nil {
			return fmt.Errorf("group %q: %w", g.id, err)
		}
		offsets += g.offsets.count
		live += int64(g.recordSize)
		if c, ok := g.kind.(*classicGroup); ok {
			if err := c.checkInvariants(); err != nil {
				return fmt.Errorf("group %q, %s: %w", g.id, c.state, err)
			}
		}
		if g.membershipOffset >= s.next || g.offsetsOffset >= s.next {
			return fmt.Errorf("group %q depends on records that do not exist", g.id)
		}
	}
	for _, size := range s.opaque {
		live += int64(size)
	}
	switch {
	case used != len(s.groups) || used+len(s.freeSlots) != len(s.slots):
		return fmt.Errorf("%d groups in %d slots, %d free, %d in the map", used, len(s.slots), len(s.freeSlots), len(s.groups))
	case offsets != s.offsetCount:
		return fmt.Errorf("%d offsets, counted %d", offsets, s.offsetCount)
	case live != s.live.Values:
		return fmt.Errorf("%d live bytes, counted %d", live, s.live.Values)
	}
	if err := s.checkTexts(); err != nil {
		return err
	}
	return s.checkTables(topicRefs, idRefs)
}

// checkTexts finds each metadata text at one offset, or free.
func (s *Shard) checkTexts() error {
	used := map[textRef]bool{}
	for _, g := range s.groups {
		for i := range g.offsets.topics {
			for _, e := range g.offsets.topics[i].parts {
				if e.metadata != 0 && (used[e.metadata] || s.texts[e.metadata] == "") {
					return fmt.Errorf("metadata %d of group %q is empty or another offset's", e.metadata, g.id)
				}
				used[e.metadata] = true
			}
		}
	}
	for _, ref := range s.freeTexts {
		if used[ref] || s.texts[ref] != "" {
			return fmt.Errorf("metadata %d is free and in use", ref)
		}
		used[ref] = true
	}
	if used[0] = true; len(used) != len(s.texts) || s.texts[0] != "" {
		return fmt.Errorf("%d metadata texts, %d used or free", len(s.texts), len(used))
	}
	return nil
}

func (s *Shard) checkTables(topicRefs map[*topicName]int32, idRefs map[idRef]int32) error {
	if len(topicRefs) != len(s.topicNames) || len(idRefs) != len(s.idRefs) {
		return fmt.Errorf("%d topic names and %d ids used, %d and %d kept", len(topicRefs), len(idRefs), len(s.topicNames), len(s.idRefs))
	}
	for t, n := range topicRefs {
		if t.refs != n || s.topicNames[t.name] != t {
			return fmt.Errorf("topic %q: %d references, counted %d", t.name, n, t.refs)
		}
	}
	for ref, n := range idRefs {
		if t := s.topicIDs[ref]; t.refs != n || s.idRefs[t.id] != ref {
			return fmt.Errorf("topic id %x: %d references, counted %d", t.id, n, t.refs)
		}
	}
	if len(s.idRefs)+len(s.freeIDs)+1 != len(s.topicIDs) {
		return fmt.Errorf("%d topic ids and %d free in %d places", len(s.idRefs), len(s.freeIDs), len(s.topicIDs))
	}
	return nil
}

func (g *group) checkOffsets(topics map[*topicName]int32, ids map[idRef]int32, live *int64) error {
	o, n := &g.offsets, 0
	for i := range o.topics {
		t := &o.topics[i]
		topics[t.topic]++
		if len(t.parts) == 0 || o.find(t.topic.name) != t {
			return fmt.Errorf("topic %q is empty or not found", t.topic.name)
		}
		n += len(t.parts)
		for j := range t.parts {
			if j > 0 && t.parts[j-1].partition >= t.parts[j].partition {
				return fmt.Errorf("topic %q: partitions are not sorted", t.topic.name)
			}
			*live += int64(t.parts[j].size)
			if ref := t.parts[j].topicID; ref != 0 {
				ids[ref]++
			}
		}
	}
	if n != o.count || o.index != nil && len(o.index) != len(o.topics) {
		return fmt.Errorf("%d offsets, counted %d", n, o.count)
	}
	return nil
}

// checkInvariants checks the invariants of a classic group.
func (c *classicGroup) checkInvariants() error {
	n, joining, pendingSync, static := 0, 0, 0, 0
	support := map[string]int{}
	var prev *member
	for m := c.first; m != nil; prev, m = m, m.next {
		n++
		if c.byID[m.id] != m || m.prev != prev || c.pending[m.id] != nil {
			return fmt.Errorf("member %q is out of place", m.id)
		}
		if m.static {
			static++
			if c.byInstance[m.instance] != m {
				return fmt.Errorf("instance %q is not member %q", m.instance, m.id)
			}
		}
		if m.joining.is {
			joining++
		}
		if m.pendingSync {
			pendingSync++
		}
		names := map[string]bool{}
		for i := range m.protocols {
			names[m.protocols[i].name] = true
		}
		for name := range names {
			support[name]++
		}
		if err := c.checkMember(m); err != nil {
			return fmt.Errorf("member %q: %w", m.id, err)
		}
	}
	for name, count := range c.protocols {
		if support[name] != count.members {
			return fmt.Errorf("protocol %q: %d members, counted %d", name, support[name], count.members)
		}
	}
	switch {
	case prev != c.last || n != len(c.byID) || static != len(c.byInstance):
		return fmt.Errorf("%d members, %d static, counted %d and %d", n, static, len(c.byID), len(c.byInstance))
	case joining != c.awaitingJoin || pendingSync != c.pendingSync:
		return fmt.Errorf("%d joining and %d to sync, counted %d and %d", joining, pendingSync, c.awaitingJoin, c.pendingSync)
	case len(support) != len(c.protocols):
		return fmt.Errorf("%d protocols, counted %d", len(support), len(c.protocols))
	}
	return c.checkState()
}

// checkMember checks that what is parked fits the state, and that somebody will
// look after the member.
func (c *classicGroup) checkMember(m *member) error {
	switch {
	case m.joining.is && c.state != statePreparingRebalance:
		return fmt.Errorf("JoinGroup parked")
	case m.syncing.is && c.state != stateCompletingRebalance:
		return fmt.Errorf("SyncGroup parked")
	case m.isNew && !m.joining.is && c.state != stateDead:
		return fmt.Errorf("new and not joining")
	case !m.session.wanted && !m.joining.is && !m.syncing.is && c.state != stateDead:
		return fmt.Errorf("no session timer")
	case m.session.wanted && (!m.session.isArmed || m.session.armed > m.session.deadline):
		return fmt.Errorf("session timer is late")
	}
	return nil
}

func (c *classicGroup) checkState() error {
	switch {
	case (c.state == stateEmpty) != (c.first == nil) && c.state != statePreparingRebalance && c.state != stateDead:
		return fmt.Errorf("%d members", len(c.byID))
	case c.state == statePreparingRebalance != c.join.wanted:
		return fmt.Errorf("join timer wanted: %v", c.join.wanted)
	case c.state == stateCompletingRebalance && c.pendingSync > 0 && !c.sync.wanted:
		return fmt.Errorf("no sync timer for %d members", c.pendingSync)
	case c.state != statePreparingRebalance && c.first != nil && c.byID[c.leader] == nil && c.state != stateDead:
		return fmt.Errorf("leader %q is no member", c.leader)
	case c.state == stateStable && c.first != nil && !c.hasProtocol:
		return fmt.Errorf("no protocol")
	}
	return nil
}

// DurableState describes, group by group, what a replay of the log must bring
// back. A group in the middle of a rebalance, whose membership a restart takes
// back to the last generation that was synced, has only its offsets in it. It is
// for tests.
func (s *Shard) DurableState() map[string]string {
	out := map[string]string{}
	for id, g := range s.groups {
		var b strings.Builder
		c, ok := g.kind.(*classicGroup)
		switch {
		case !ok || c.state == stateEmpty && g.recordSize == 0: // a simple group
		case c.state == stateEmpty || c.state == stateStable:
			c.describe(&b)
		default:
			b.WriteString("rebalancing\n")
		}
		s.describeOffsets(&b, g)
		out[id] = b.String()
	}
	return out
}

func (c *classicGroup) describe(b *strings.Builder) {
	fmt.Fprintf(b, "%s type=%q generation=%d since=%d", c.state, c.groupProtocolType, c.generation, c.stateSince)
	if c.state == stateEmpty {
		b.WriteString("\n")
		return
	}
	fmt.Fprintf(b, " protocol=%q leader=%q\n", c.protocol, c.leader)
	for m := c.first; m != nil; m = m.next {
		fmt.Fprintf(b, "member %q instance=%v:%q client=%q host=%q session=%s metadata=%x assignment=%x\n", m.id, m.static, m.instance,
			m.clientID, m.clientHost, m.sessionTimeout, m.metadata(c.protocol), m.assignment)
	}
	if c.topics == nil {
		b.WriteString("subscription unknown\n")
		return
	}
	fmt.Fprintf(b, "subscription %q\n", slices.Sorted(maps.Keys(c.topics)))
}

func (s *Shard) describeOffsets(b *strings.Builder, g *group) {
	o := &g.offsets
	names := make([]string, 0, len(o.topics))
	for i := range o.topics {
		names = append(names, o.topics[i].topic.name)
	}
	slices.Sort(names)
	for _, name := range names {
		t := o.find(name)
		for i := range t.parts {
			e := &t.parts[i]
			fmt.Fprintf(b, "offset %s-%d %d epoch=%d metadata=%q commit=%d expire=%d id=%x\n", name, e.partition, e.offset,
				e.leaderEpoch, s.texts[e.metadata], e.commitTimestamp, e.expireTimestamp, s.topicIDs[e.topicID].id)
		}
	}
}
