package coordinator

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/coordinator/records"
)

// syncGroup handles SyncGroup v0-5.
func (s *Shard) syncGroup(r *kmsg.SyncGroupRequest) {
	if code := checkSync(r); code != codeNone {
		s.refuseSync(r, code, NoDependency)
		return
	}
	g := s.groups[r.Group]
	if g == nil {
		s.refuseSync(r, codeUnknownMemberID, s.lastOffset())
		return
	}
	c, ok := g.kind.(*classicGroup)
	if !ok {
		s.refuseSync(r, codeUnknownMemberID, g.membershipOffset)
		return
	}
	m, code := c.syncSender(r)
	if code != codeNone {
		s.refuseSync(r, code, g.membershipOffset)
		return
	}
	c.setPendingSync(m, false)
	if c.pendingSync == 0 {
		s.clearTimer(&c.sync, TimerSync, g.id, "")
	}
	if c.state == stateStable {
		s.reply(s.ev.Token, s.synced(c, m, r.Version), g.membershipOffset)
		return
	}
	if m.syncing.is { // the same member over another connection
		s.answerSync(g, c, m, codeRebalanceInProgress)
	}
	m.syncing = parked{is: true, version: r.Version, token: s.ev.Token}
	if m.id == c.leader {
		s.assign(r, g, c, m)
	}
}

// checkSync makes the checks that come before the shard is looked up.
func checkSync(r *kmsg.SyncGroupRequest) int16 {
	switch {
	case r.Version >= 5 && (r.ProtocolType == nil || r.Protocol == nil):
		return codeInconsistentGroupProtocol
	case r.Group == "":
		return codeInvalidGroupID
	}
	return codeNone
}

// syncSender returns the member that sent a SyncGroup, if it may now.
func (c *classicGroup) syncSender(r *kmsg.SyncGroupRequest) (*member, int16) {
	if c.state == stateDead {
		return nil, codeCoordinatorNotAvailable
	}
	m, code := c.check(r.MemberID, r.InstanceID)
	switch {
	case code != codeNone:
	case r.Generation != c.generation:
		code = codeIllegalGeneration
	case r.ProtocolType != nil && *r.ProtocolType != c.groupProtocolType,
		r.Protocol != nil && c.hasProtocol && *r.Protocol != c.protocol:
		code = codeInconsistentGroupProtocol
	case c.state == stateEmpty:
		code = codeUnknownMemberID
	case c.state == statePreparingRebalance:
		code = codeRebalanceInProgress
	}
	return m, code
}

// assign makes the group Stable with the leader's assignments. Members that the
// leader left out get none, ids it made up are ignored.
func (s *Shard) assign(r *kmsg.SyncGroupRequest, g *group, c *classicGroup, leader *member) {
	v := s.value(c)
	v.CurrentStateTimestamp = s.ev.Wall
	for i := range v.Members {
		v.Members[i].Assignment = nil
	}
	s.fillAssignments(r, c, v.Members)
	if !s.groupFits(g.id, &v) {
		for m := c.first; m != nil; m = m.next {
			m.assignment = nil
		}
		why := memberCause(syncTooLarge, leader)
		s.answerSyncs(g, c, codeUnknownServerError)
		s.startRebalance(g, c, why)
		return
	}
	from := c.state
	s.emitGroup(g.id, &v)
	c.previous = from
	why := memberCause(leaderSynced, leader)
	s.observe(g, from.String(), c.generation, &why)
	s.answerSyncs(g, c, codeNone)
}

// fillAssignments puts the request's assignments to the members they are for. If
// one is named twice the last counts.
func (s *Shard) fillAssignments(r *kmsg.SyncGroupRequest, c *classicGroup, members []records.GroupMetadataMember) {
	for i := range r.GroupAssignment {
		a := &r.GroupAssignment[i]
		if m := c.byID[a.MemberID]; m != nil {
			members[m.place].Assignment = a.MemberAssignment
		}
	}
}

// value is the group as its record has it. It is good until the next call.
func (s *Shard) value(c *classicGroup) records.GroupMetadataValue {
	v := records.GroupMetadataValue{
		ProtocolType:          c.groupProtocolType,
		Generation:            c.generation,
		CurrentStateTimestamp: c.stateSince,
	}
	if c.hasProtocol {
		v.Protocol = &c.protocol
	}
	if c.leader != "" {
		v.Leader = &c.leader
	}
	list := slices.Grow(s.out.members[:0], len(c.byID))
	for m := c.first; m != nil; m = m.next {
		m.place = int32(len(list))
		list = append(list, records.GroupMetadataMember{
			MemberID:         m.id,
			GroupInstanceID:  m.instancePtr(),
			ClientID:         m.clientID,
			ClientHost:       m.clientHost,
			RebalanceTimeout: int32(m.rebalanceTimeout.Milliseconds()),
			SessionTimeout:   int32(m.sessionTimeout.Milliseconds()),
			Subscription:     m.metadata(c.protocol),
			Assignment:       m.assignment,
		})
	}
	s.out.members = list
	v.Members = list
	return v
}

// synced is the answer that gives m its assignment.
func (s *Shard) synced(c *classicGroup, m *member, version int16) *kmsg.SyncGroupResponse {
	resp := s.out.sync(version)
	resp.ProtocolType = &c.groupProtocolType
	resp.Protocol = &c.protocol
	resp.MemberAssignment = m.assignment
	return resp
}

// answerSync answers m's parked SyncGroup: with its assignment if code is NONE.
func (s *Shard) answerSync(g *group, c *classicGroup, m *member, code int16) {
	var resp *kmsg.SyncGroupResponse
	if code == codeNone {
		resp = s.synced(c, m, m.syncing.version)
	} else {
		resp = s.out.sync(m.syncing.version)
		resp.ErrorCode = code
	}
	m.syncing.is = false
	s.reply(m.syncing.token, resp, g.membershipOffset)
}

func (s *Shard) refuseSync(r *kmsg.SyncGroupRequest, code int16, depends int64) {
	resp := s.out.sync(r.Version)
	resp.ErrorCode = code
	s.reply(s.ev.Token, resp, depends)
}

// syncTimeout removes the members that joined but did not send SyncGroup within
// the rebalance timeout.
func (s *Shard) syncTimeout(g *group, c *classicGroup) {
	if c.generation != c.syncGeneration || c.pendingSync == 0 ||
		c.state != stateCompletingRebalance && c.state != stateStable {
		return
	}
	why := cause{what: syncTimedOut}
	for m := c.first; m != nil; {
		next := m.next
		if m.pendingSync {
			why.inVain(m.id, Client{m.clientID, m.clientHost})
			s.removeMember(g, c, m)
		}
		m = next
	}
	s.startRebalance(g, c, why)
}
