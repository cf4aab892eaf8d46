package coordinator

import (
	"maps"
	"slices"

	"github.com/kcoord/kcoord/coordinator/records"
)

// offsetExpiry: see groupKind (KIP-211). Offsets of a group that has members
// expire only for topics that nobody subscribes to.
func (c *classicGroup) offsetExpiry(topic string) (base int64, may bool) {
	switch c.state {
	case stateEmpty:
		if c.groupProtocolType == "" || c.stateSince == records.NoTimestamp {
			return sinceCommit, true
		}
		return c.stateSince, true
	case stateStable:
		if c.groupProtocolType == protocolTypeConsumer && c.topics != nil {
			_, subscribed := c.topics[topic]
			return sinceCommit, !subscribed
		}
	}
	return 0, false
}

// startSweep looks for expired offsets and forgotten groups in the whole shard.
func (s *Shard) startSweep() {
	s.setTimer(&s.sweep, TimerSweep, "", "", s.ev.Mono+s.ev.Config.OffsetsRetentionCheckInterval)
	if s.sweeping {
		return
	}
	s.sweeping = true
	s.addJob(&sweep{pos: position{group: -1}})
}

// A sweep is a pass over all groups that were there when it began.
type sweep struct {
	slot int
	pos  position
}

// A position is a place within a group's offsets, going down, so that removals do
// not move what is still to be seen.
type position struct {
	group int // the slot it is about; -1: none
	topic int
	part  int
}

func (*sweep) abandon(*Shard, int16)         {}
func (*topicDeletion) abandon(*Shard, int16) {}

func (w *sweep) run(s *Shard, budget *int) bool {
	for ; w.slot < len(s.slots); w.slot++ {
		if *budget <= 0 {
			return false
		}
		*budget--
		g := s.slots[w.slot]
		if g == nil || g.deleting {
			continue
		}
		if !w.expire(s, g, budget) {
			return false
		}
		if g.offsets.count == 0 && g.kind.collectable() {
			*budget -= tombstoneCost
			s.removeGroup(g, cause{what: groupCollected})
		}
	}
	s.sweeping = false
	return true
}

// expire removes a group's expired offsets.
func (w *sweep) expire(s *Shard, g *group, budget *int) (done bool) {
	p := &w.pos
	if p.group != w.slot {
		*p = position{group: w.slot, topic: len(g.offsets.topics) - 1, part: -1}
	}
	p.topic = min(p.topic, len(g.offsets.topics)-1)
	for ; p.topic >= 0; p.topic, p.part = p.topic-1, -1 {
		if *budget <= 0 {
			return false
		}
		*budget--
		t := &g.offsets.topics[p.topic]
		base, may := g.kind.offsetExpiry(t.topic.name)
		if !may {
			continue
		}
		if p.part < 0 || p.part >= len(t.parts) {
			p.part = len(t.parts) - 1
		}
		if !s.expireTopic(g, t.topic.name, base, p, budget) {
			return false
		}
	}
	p.group = -1
	return true
}

func (s *Shard) expireTopic(g *group, topic string, base int64, p *position, budget *int) (done bool) {
	expired := Expiry{Group: g.id, Topic: topic}
	done = true
	for ; p.part >= 0; p.part-- {
		if *budget <= 0 {
			done = false
			break
		}
		*budget--
		t := g.offsets.find(topic)
		if t == nil {
			break
		}
		reason := s.expiredFor(&t.parts[p.part], base)
		if reason == "" {
			continue
		}
		if expired.Partitions > 0 && expired.Reason != reason {
			s.out.Expiries = append(s.out.Expiries, expired)
			expired.Partitions = 0
		}
		expired.Reason = reason
		expired.Partitions++
		*budget -= tombstoneCost
		s.emitOffsetTombstone(g, topic, t.parts[p.part].partition)
	}
	if expired.Partitions > 0 {
		s.out.Expiries = append(s.out.Expiries, expired)
	}
	return done
}

// expiredFor returns why an offset has expired, or "".
func (s *Shard) expiredFor(e *committedOffset, base int64) string {
	if e.expireTimestamp != records.NoTimestamp {
		if s.ev.Wall >= e.expireTimestamp {
			return ExpiredTimestamp
		}
		return ""
	}
	if base == sinceCommit {
		base = e.commitTimestamp
	}
	if s.ev.Wall-base >= s.ev.Config.OffsetsRetention.Milliseconds() {
		return ExpiredRetention
	}
	return ""
}

// topicsDeleted removes the offsets of topics that metadata no longer has.
func (s *Shard) topicsDeleted(list []DeletedTopic) {
	d := &topicDeletion{byName: map[string][16]byte{}, byID: map[[16]byte]bool{}}
	for _, t := range list {
		if n := s.topicNames[t.Name]; n != nil {
			d.byName[n.name] = t.ID
			d.byID[t.ID] = true
		}
	}
	if len(d.byName) > 0 {
		s.addJob(d)
	}
}

// A topicDeletion removes the offsets of deleted topics from all groups: those
// stored with a deleted topic's id, and those stored without id under its name.
type topicDeletion struct {
	byName map[string][16]byte
	byID   map[[16]byte]bool
	// gone, if set, decides instead: the ids that metadata does not know.
	gone func(id [16]byte) bool

	slot   int
	inSlot bool
	topics []string // still to do in the slot
	part   int      // where the next piece goes on in topics[0], going down; -1: at the end
}

func (d *topicDeletion) run(s *Shard, budget *int) bool {
	for ; d.slot < len(s.slots); d.slot, d.inSlot = d.slot+1, false {
		if *budget <= 0 {
			return false
		}
		*budget--
		g := s.slots[d.slot]
		if g == nil || g.deleting {
			continue
		}
		if !d.inSlot {
			d.inSlot, d.part = true, -1
			d.topics = d.topicsOf(g)
			*budget -= len(d.topics)
		}
		for ; len(d.topics) > 0; d.topics, d.part = d.topics[1:], -1 {
			if !d.remove(s, g, d.topics[0], budget) {
				return false
			}
		}
	}
	return true
}

// topicsOf returns the names of g's topics that may have something to remove.
func (d *topicDeletion) topicsOf(g *group) (names []string) {
	if d.gone == nil && len(d.byName) < len(g.offsets.topics) {
		for _, name := range slices.Sorted(maps.Keys(d.byName)) {
			if g.offsets.find(name) != nil {
				names = append(names, name)
			}
		}
		return names
	}
	for i := range g.offsets.topics {
		name := g.offsets.topics[i].topic.name
		if _, ok := d.byName[name]; ok || d.gone != nil {
			names = append(names, name)
		}
	}
	return names
}

// remove removes what is to be removed of one topic of a group.
func (d *topicDeletion) remove(s *Shard, g *group, topic string, budget *int) (done bool) {
	expired := Expiry{Group: g.id, Topic: topic, Reason: ExpiredTopicDeleted}
	t := g.offsets.find(topic)
	if t != nil && (d.part < 0 || d.part >= len(t.parts)) {
		d.part = len(t.parts) - 1
	}
	for done = true; t != nil && d.part >= 0; d.part-- {
		if *budget <= 0 {
			done = false
			break
		}
		*budget--
		e := &t.parts[d.part]
		if !d.matches(s.topicIDs[e.topicID].id) {
			continue
		}
		*budget -= tombstoneCost
		expired.Partitions++
		s.emitOffsetTombstone(g, topic, e.partition)
		t = g.offsets.find(topic)
	}
	if expired.Partitions > 0 {
		s.out.Expiries = append(s.out.Expiries, expired)
	}
	return done
}

func (d *topicDeletion) matches(id [16]byte) bool {
	if d.gone != nil {
		return d.gone(id)
	}
	return id == [16]byte{} || d.byID[id]
}
