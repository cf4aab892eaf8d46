package coordinator

import (
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// deleteGroups handles DeleteGroups v0-3. All groups of the request must be the
// shard's. A request that is much work is answered by a later step.
func (s *Shard) deleteGroups(r *kmsg.DeleteGroupsRequest) {
	d := &deletion{token: s.ev.Token, resp: kmsg.NewPtrDeleteGroupsResponse(), client: Client{strings.Clone(s.ev.Client.ID), strings.Clone(s.ev.Client.Host)}}
	d.resp.Version = r.Version
	seen := map[string]bool{}
	for _, id := range r.Groups {
		if !seen[id] {
			seen[id] = true
			d.groups = append(d.groups, strings.Clone(id))
		}
	}
	s.addJob(d)
}

// A deletion deletes groups with all they have committed, one after another.
type deletion struct {
	token  Token
	groups []string // still to do
	resp   *kmsg.DeleteGroupsResponse
	client Client // who asked
}

func (d *deletion) run(s *Shard, budget *int) bool {
	for len(d.groups) > 0 {
		if *budget <= 0 {
			return false
		}
		id := d.groups[0]
		code, done := s.deleteGroup(s.groups[id], d.client, budget)
		if !done {
			return false
		}
		g := kmsg.NewDeleteGroupsResponseGroup()
		g.Group, g.ErrorCode = id, code
		d.resp.Groups = append(d.resp.Groups, g)
		d.groups = d.groups[1:]
	}
	s.reply(d.token, d.resp, s.lastOffset())
	return true
}

// abandon: see job.
func (d *deletion) abandon(s *Shard, code int16) {
	for _, id := range d.groups {
		g := kmsg.NewDeleteGroupsResponseGroup()
		g.Group, g.ErrorCode = id, code
		d.resp.Groups = append(d.resp.Groups, g)
	}
	s.reply(d.token, d.resp, s.lastOffset())
}

// deleteGroup deletes a group, or goes on with it. A group with many offsets is
// closed to everything else until it is gone.
func (s *Shard) deleteGroup(g *group, client Client, budget *int) (code int16, done bool) {
	*budget--
	if g == nil {
		return codeGroupIDNotFound, true
	}
	if code := g.kind.validateDelete(); code != codeNone {
		return code, true
	}
	g.deleting = true
	if !s.tombstoneOffsets(g, budget) {
		return codeNone, false
	}
	s.removeGroup(g, cause{what: groupDeleted, client: client})
	return codeNone, true
}

// tombstoneOffsets deletes all of a group's offsets, as far as the budget goes.
func (s *Shard) tombstoneOffsets(g *group, budget *int) (done bool) {
	for len(g.offsets.topics) > 0 {
		t := &g.offsets.topics[len(g.offsets.topics)-1]
		if *budget <= 0 {
			return false
		}
		*budget -= tombstoneCost
		s.emitOffsetTombstone(g, t.topic.name, t.parts[len(t.parts)-1].partition)
	}
	return true
}

// removeGroup deletes a group that has no offsets left.
func (s *Shard) removeGroup(g *group, why cause) {
	generation := int32(0)
	if c, ok := g.kind.(*classicGroup); ok {
		generation = c.generation
	}
	g.kind.discard(s, g, codeNotCoordinator)
	s.observeTo(g, g.kind.stateName(), stateDead.String(), generation, &why)
	g.kind.tombstones(s, g)
}

// validateDelete: see groupKind.
func (c *classicGroup) validateDelete() int16 {
	switch c.state {
	case stateEmpty:
		return codeNone
	case stateDead:
		return codeGroupIDNotFound
	}
	return codeNonEmptyGroup
}

// discard: see groupKind.
func (c *classicGroup) discard(s *Shard, g *group, code int16) {
	for m := c.first; m != nil; m = m.next {
		if m.joining.is {
			resp := s.out.join(m.joining.version)
			s.failJoin(resp, code, m.id)
			s.answerJoin(g, c, m, resp)
		}
		if m.syncing.is {
			s.answerSync(g, c, m, code)
		}
		s.clearTimer(&m.session, TimerSession, g.id, m.id)
	}
	s.clearTimer(&c.join, TimerJoin, g.id, "")
	s.clearTimer(&c.sync, TimerSync, g.id, "")
	for _, id := range slices.Sorted(maps.Keys(c.pending)) {
		s.clearTimer(c.pending[id], TimerPending, g.id, id)
	}
	c.pending = nil
}
