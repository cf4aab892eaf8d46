package coordinator

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// replaceStatic gives a static member that has come back without its id a new one
// (KIP-345). In a Stable group whose protocol stays the same nobody else notices.
func (s *Shard) replaceStatic(r *kmsg.JoinGroupRequest, g *group, c *classicGroup, m *member, id string) {
	if m.joining.is {
		resp := s.out.join(m.joining.version)
		s.failJoin(resp, codeFencedInstanceID, m.id)
		s.answerJoin(g, c, m, resp)
	}
	if m.syncing.is {
		s.answerSync(g, c, m, codeFencedInstanceID)
	}
	before := replaced{m.id, c.leader, m.sessionTimeout, m.rebalanceTimeout, m.protocols}
	s.clearTimer(&m.session, TimerSession, g.id, m.id)
	c.rekey(m, id)
	c.update(m, r)
	s.restartSession(g, m)
	g.version++
	defer func() {
		if m.id == id { // else it was refused and undone
			s.out.Replacements = append(s.out.Replacements, Replacement{Group: g.id, Instance: m.instance, Before: before.id, Member: m.id, ClientID: m.clientID, ClientHost: m.clientHost})
		}
	}()
	switch {
	case c.state == statePreparingRebalance:
		s.parkJoin(g, c, m, r.Version)
		s.maybeCompleteJoin(g, c, memberCause(allJoinedIn, m).because(r.Reason))
	case c.state == stateStable && c.vote() == c.protocol:
		s.keepStable(r, g, c, m, &before)
	default:
		s.parkJoin(g, c, m, r.Version)
		s.startRebalance(g, c, memberCause(memberReplaced, m).because(r.Reason))
	}
}

// replaced is what a static member was before it was replaced.
type replaced struct {
	id, leader       string
	session, timeout time.Duration
	protocols        []protocol
}

// keepStable writes the member's new id down and answers with the generation that
// goes on. A leader from v9 on is told its new id, everybody, and not to assign
// (KIP-814); before, it is told its old id, so that it does not think it leads.
func (s *Shard) keepStable(r *kmsg.JoinGroupRequest, g *group, c *classicGroup, m *member, before *replaced) {
	resp := s.out.join(r.Version)
	resp.Generation = c.generation
	resp.ProtocolType = &c.groupProtocolType
	resp.Protocol = &c.protocol
	v := s.value(c)
	if !s.groupFits(g.id, &v) {
		s.clearTimer(&m.session, TimerSession, g.id, m.id)
		c.rekey(m, before.id)
		m.sessionTimeout, m.rebalanceTimeout = before.session, before.timeout
		c.setProtocols(m, before.protocols)
		s.restartSession(g, m)
		resp.ErrorCode = codeUnknownServerError
		resp.LeaderID = c.leader
		s.reply(s.ev.Token, resp, g.membershipOffset)
		return
	}
	s.emitGroup(g.id, &v)
	resp.MemberID = m.id
	if r.Version >= 9 {
		resp.LeaderID = c.leader
		if c.leader == m.id {
			resp.SkipAssignment = true
			c.appendMembers(resp)
		}
	} else {
		resp.LeaderID = before.leader
	}
	s.reply(s.ev.Token, resp, g.membershipOffset)
}
