package coordinator

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/coordinator/records"
)

// move changes a classic group's state outside of records: the join phase, which
// a restart forgets.
func (s *Shard) move(g *group, c *classicGroup, to classicState, why *cause) {
	if !to.mayFollow(c.state) {
		panic(fmt.Sprintf("coordinator: group %q from %s to %s", g.id, c.state, to))
	}
	from := c.state
	c.previous, c.state = from, to
	c.stateSince = s.ev.Wall
	g.version++
	s.observe(g, from.String(), c.generation, why)
}

// startRebalance starts a join phase in a group that is not in one.
func (s *Shard) startRebalance(g *group, c *classicGroup, why cause) {
	if c.state == stateCompletingRebalance {
		for m := c.first; m != nil; m = m.next {
			m.assignment = nil
		}
		s.answerSyncs(g, c, codeRebalanceInProgress)
	}
	s.endSyncPhase(g, c)
	initial := c.state == stateEmpty
	s.move(g, c, statePreparingRebalance, &why)
	c.joinSince = s.ev.Mono
	if !initial {
		if c.allJoined() {
			s.completeJoin(g, c, why)
			return
		}
		s.setTimer(&c.join, TimerJoin, g.id, "", s.ev.Mono+c.rebalanceTimeout())
		return
	}
	c.delay = s.ev.Config.InitialRebalanceDelay
	c.remaining = max(c.rebalanceTimeout()-c.delay, 0)
	c.newMemberAdded = false
	if c.delay <= 0 {
		s.completeJoin(g, c, why)
		return
	}
	s.setTimer(&c.join, TimerJoin, g.id, "", s.ev.Mono+c.delay)
}

// endSyncPhase forgets who has not synced.
func (s *Shard) endSyncPhase(g *group, c *classicGroup) {
	s.clearTimer(&c.sync, TimerSync, g.id, "")
	if c.pendingSync == 0 {
		return
	}
	for m := c.first; m != nil; m = m.next {
		c.setPendingSync(m, false)
	}
}

// allJoined reports whether nobody is left to wait for.
func (c *classicGroup) allJoined() bool {
	return c.awaitingJoin == len(c.byID) && len(c.pending) == 0
}

// maybeCompleteJoin ends the join phase when nobody is left to wait for. The
// initial delay is waited for all the same.
func (s *Shard) maybeCompleteJoin(g *group, c *classicGroup, why cause) {
	if c.state == statePreparingRebalance && c.previous != stateEmpty && c.allJoined() {
		s.completeJoin(g, c, why)
	}
}

// joinTimeout ends a window of the initial delay, or the join phase.
func (s *Shard) joinTimeout(g *group, c *classicGroup) {
	if c.state != statePreparingRebalance {
		return
	}
	if c.previous == stateEmpty && c.newMemberAdded && c.remaining > 0 {
		c.newMemberAdded = false
		next := min(s.ev.Config.InitialRebalanceDelay, c.remaining)
		c.remaining = max(c.remaining-c.delay, 0)
		c.delay = next
		s.setTimer(&c.join, TimerJoin, g.id, "", s.ev.Mono+next)
		return
	}
	why := cause{what: joinTimedOut}
	if c.previous == stateEmpty {
		why.what = initialDelayOver
	}
	s.completeJoin(g, c, why)
}

// minJoinRetry keeps a join phase that starts over because only absent members
// are left, and that gave no rebalance timeout, from doing so without end.
const minJoinRetry = 100 * time.Millisecond

// completeJoin ends the join phase: a new generation, of those who joined and of
// the static members.
func (s *Shard) completeJoin(g *group, c *classicGroup, why cause) {
	s.clearTimer(&c.join, TimerJoin, g.id, "")
	if c.awaitingJoin < len(c.byID) {
		for m := c.first; m != nil; {
			next := m.next
			if !m.joining.is && !m.static {
				why.inVain(m.id, Client{m.clientID, m.clientHost})
				why.removed++
				s.removeMember(g, c, m)
			}
			m = next
		}
	}
	if why.what == joinTimedOut {
		c.others(&why)
	}
	if c.first != nil && c.awaitingJoin == 0 {
		// Only static members that are away: nobody could lead.
		s.setTimer(&c.join, TimerJoin, g.id, "", s.ev.Mono+max(c.rebalanceTimeout(), minJoinRetry))
		if why.removed > 0 {
			s.tell(g, c, &why)
		}
		return
	}
	if l := c.byID[c.leader]; l == nil || !l.joining.is {
		c.leader = ""
		for m := c.first; m != nil; m = m.next {
			if m.joining.is {
				c.leader = m.id
				break
			}
		}
	}
	c.generation++
	if c.first == nil {
		s.becomeEmpty(g, c, &why)
		return
	}
	c.protocol, c.hasProtocol = c.vote(), true
	c.computeSubscription()
	s.move(g, c, stateCompletingRebalance, &why)
	for m := c.first; m != nil; m = m.next {
		c.setPendingSync(m, true)
		if !m.joining.is {
			continue
		}
		s.answerJoin(g, c, m, s.joined(c, m, m.joining.version))
		m.isNew = false
		s.restartSession(g, m)
	}
	c.syncGeneration = c.generation
	s.setTimer(&c.sync, TimerSync, g.id, "", s.ev.Mono+c.rebalanceTimeout())
}

// others adds to why whom the join phase waited for beside those it removed: static
// members that are away, and whoever was given a member id and did not use it.
func (c *classicGroup) others(why *cause) {
	if c.awaitingJoin < len(c.byID) {
		for m := c.first; m != nil; m = m.next {
			if !m.joining.is {
				why.inVain(m.id, Client{m.clientID, m.clientHost})
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.pending)) {
		why.inVain(id, Client{})
	}
}

// becomeEmpty writes down that the last member has gone.
func (s *Shard) becomeEmpty(g *group, c *classicGroup, why *cause) {
	v := records.GroupMetadataValue{
		ProtocolType:          c.groupProtocolType,
		Generation:            c.generation,
		CurrentStateTimestamp: s.ev.Wall,
	}
	from := c.state
	s.emitGroup(g.id, &v)
	c.previous = from
	s.observe(g, from.String(), c.generation, why)
}

// joined is the answer that makes m a member of the current generation.
func (s *Shard) joined(c *classicGroup, m *member, version int16) *kmsg.JoinGroupResponse {
	resp := s.out.join(version)
	resp.Generation = c.generation
	resp.ProtocolType = &c.groupProtocolType
	resp.Protocol = &c.protocol
	resp.LeaderID = c.leader
	resp.MemberID = m.id
	if c.leader == m.id {
		c.appendMembers(resp)
	}
	return resp
}

// appendMembers fills in the list that the leader gets.
func (c *classicGroup) appendMembers(resp *kmsg.JoinGroupResponse) {
	for m := c.first; m != nil; m = m.next {
		resp.Members = append(resp.Members, kmsg.JoinGroupResponseMember{
			MemberID:         m.id,
			InstanceID:       m.instancePtr(),
			ProtocolMetadata: m.metadata(c.protocol),
		})
	}
}

// answerJoin answers m's parked JoinGroup.
func (s *Shard) answerJoin(g *group, c *classicGroup, m *member, resp *kmsg.JoinGroupResponse) {
	m.joining.is = false
	c.awaitingJoin--
	s.reply(m.joining.token, resp, g.membershipOffset)
}

// answerSyncs answers every parked SyncGroup: with the assignments if code is
// NONE.
func (s *Shard) answerSyncs(g *group, c *classicGroup, code int16) {
	for m := c.first; m != nil; m = m.next {
		if m.syncing.is {
			s.answerSync(g, c, m, code)
			s.restartSession(g, m)
		}
	}
}

// removeMember takes m out of the group. What it has parked is answered
// UNKNOWN_MEMBER_ID, a JoinGroup without telling the id that is no longer good.
func (s *Shard) removeMember(g *group, c *classicGroup, m *member) {
	if m.joining.is {
		resp := s.out.join(m.joining.version)
		s.failJoin(resp, codeUnknownMemberID, "")
		s.answerJoin(g, c, m, resp)
	}
	if m.syncing.is {
		s.answerSync(g, c, m, codeUnknownMemberID)
	}
	s.clearTimer(&m.session, TimerSession, g.id, m.id)
	c.remove(m)
	g.version++
}
