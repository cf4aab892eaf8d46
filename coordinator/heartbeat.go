package coordinator

import "github.com/twmb/franz-go/pkg/kmsg"

// heartbeat handles Heartbeat v0-4. It allocates nothing and sets no timer: it
// moves the member's deadline.
func (s *Shard) heartbeat(r *kmsg.HeartbeatRequest) {
	resp := &s.out.heartbeat
	*resp = kmsg.HeartbeatResponse{Version: r.Version}
	depends := NoDependency
	if r.Group == "" {
		resp.ErrorCode = codeInvalidGroupID
	} else {
		g := s.group(r.Group)
		resp.ErrorCode = s.beat(r, g)
		depends = s.membershipDependency(g)
	}
	s.reply(s.ev.Token, resp, depends)
}

func (s *Shard) beat(r *kmsg.HeartbeatRequest, g *group) int16 {
	if g == nil {
		return codeUnknownMemberID
	}
	c, ok := g.kind.(*classicGroup)
	if !ok {
		return codeUnknownMemberID
	}
	if c.state == stateDead {
		return codeCoordinatorNotAvailable
	}
	m, code := c.check(r.MemberID, r.InstanceID)
	switch {
	case code != codeNone:
		return code
	case r.Generation != c.generation:
		return codeIllegalGeneration
	case c.state == stateEmpty:
		return codeUnknownMemberID
	}
	s.restartSession(g, m)
	if c.state == statePreparingRebalance {
		return codeRebalanceInProgress
	}
	return codeNone
}
