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
		left = left || code == codeNone
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
		why.member = l.MemberID
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
	*why = memberCause(memberLeft, m).because(l.Reason)
	s.removeMember(g, c, m)
	return codeNone
}
