package coordinator

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// leaveGroup handles LeaveGroup v0-5. Up to v2 it names one member, whose error is
// the answer's.
func (s *Shard) leaveGroup(r *kmsg.LeaveGroupRequest) {
	resp := kmsg.NewPtrLeaveGroupResponse()
	resp.Version = r.Version
	if r.Group == "" {
		resp.ErrorCode = codeInvalidGroupID
		s.reply(s.ev.Token, resp, NoDependency)
		return
	}
	g := s.groups[r.Group]
	var c *classicGroup
	if g != nil {
		c, _ = g.kind.(*classicGroup)
	}
	if c != nil && c.state == stateDead {
		resp.ErrorCode = codeCoordinatorNotAvailable
		s.reply(s.ev.Token, resp, s.membershipDependency(g))
		return
	}
	list := r.Members
	if r.Version <= 2 {
		list = []kmsg.LeaveGroupRequestMember{{MemberID: r.MemberID}}
	}
	why, left := cause{what: memberLeft}, false
	for i := range list {
		l := &list[i]
		code := codeUnknownMemberID
		if c != nil {
			code = s.leave(g, c, l, &why)
		}
		if code == codeNone {
			left = true
			if c.state == statePreparingRebalance {
				s.tell(g, c, &why)
			}
		}
		if r.Version <= 2 {
			resp.ErrorCode = code
			break
		}
		resp.Members = append(resp.Members, kmsg.LeaveGroupResponseMember{
			MemberID: l.MemberID, InstanceID: l.InstanceID, ErrorCode: code,
		})
	}
	if left { // one rebalance however many left
		switch c.state {
		case stateStable, stateCompletingRebalance:
			s.startRebalance(g, c, why)
		default:
			s.maybeCompleteJoin(g, c, why)
		}
	}
	s.reply(s.ev.Token, resp, s.membershipDependency(g))
}

// leave removes one member or pending id.
func (s *Shard) leave(g *group, c *classicGroup, l *kmsg.LeaveGroupRequestMember, why *cause) int16 {
	if l.MemberID != "" && s.forgetPending(g, c, l.MemberID) {
		s.leaves(g, c, why, cause{what: memberLeft, member: l.MemberID, client: s.ev.Client}.because(l.Reason))
		return codeNone
	}
	var m *member
	if l.MemberID == "" {
		if l.InstanceID == nil {
			return codeUnknownMemberID
		}
		if m = c.byInstance[*l.InstanceID]; m == nil {
			return codeUnknownMemberID
		}
	} else {
		var code int16
		if m, code = c.check(l.MemberID, l.InstanceID); code != codeNone {
			return code
		}
	}
	s.leaves(g, c, why, memberCause(memberLeft, m).because(l.Reason))
	s.removeMember(g, c, m)
	return codeNone
}

// leaves notes that somebody is about to go. Of those that leave a group together the
// last one is told of as the cause of what follows, the others by themselves. (While the
// group rebalances nothing may follow, and each has been told of.)
func (s *Shard) leaves(g *group, c *classicGroup, last *cause, next cause) {
	if last.member != "" && c.state != statePreparingRebalance && c.state != stateEmpty {
		s.tell(g, c, last)
	}
	*last = next
}
