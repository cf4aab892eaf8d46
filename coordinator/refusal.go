package coordinator

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// tellRefusal tells of a refused JoinGroup, if it will be refused again. What a client
// gets over by itself (another coordinator, a new member id) is no news.
func (s *Shard) tellRefusal(r *kmsg.JoinGroupRequest, code int16) {
	var reason string
	switch code {
	case codeInconsistentGroupProtocol:
		reason = s.inconsistency(r)
	case codeInvalidSessionTimeout:
		reason = fmt.Sprintf("session.timeout.ms=%d is not between group.min.session.timeout.ms=%d and group.max.session.timeout.ms=%d",
			r.SessionTimeoutMillis, s.ev.Config.MinSessionTimeout.Milliseconds(), s.ev.Config.MaxSessionTimeout.Milliseconds())
	case codeGroupMaxSizeReached:
		reason = fmt.Sprintf("the group has group.max.size=%d members", s.ev.Config.MaxSize)
	case codeFencedInstanceID:
		reason = "another member has joined with the same group.instance.id"
	default:
		return
	}
	t := Refusal{
		Group: clip(r.Group), Reason: reason, Code: code, Member: clip(r.MemberID),
		ClientID: clip(s.ev.Client.ID), ClientHost: strings.Clone(s.ev.Client.Host),
	}
	if r.InstanceID != nil {
		t.Instance = clip(*r.InstanceID)
	}
	s.out.Refusals = append(s.out.Refusals, t)
}

// clip copies what a client says, as much as a line of a log should have of it.
func clip(text string) string { return strings.Clone(text[:min(len(text), 256)]) }

// inconsistency says how a JoinGroup does not go with the group.
func (s *Shard) inconsistency(r *kmsg.JoinGroupRequest) string {
	if r.ProtocolType == "" || len(r.Protocols) == 0 {
		return "the request names no protocol"
	}
	var c *classicGroup
	if g := s.groups[r.Group]; g != nil {
		c, _ = g.kind.(*classicGroup)
	}
	if c == nil {
		return "the group is of another type"
	}
	if r.ProtocolType != c.groupProtocolType {
		return fmt.Sprintf("protocol type %q, the group has %q", clip(r.ProtocolType), c.groupProtocolType)
	}
	var offered, supported []string
	for i := range r.Protocols[:min(len(r.Protocols), maxNamed)] {
		offered = append(offered, clip(r.Protocols[i].Name))
	}
	for _, name := range slices.Sorted(maps.Keys(c.protocols)) {
		if c.supported(name) && len(supported) < maxNamed {
			supported = append(supported, clip(name))
		}
	}
	return fmt.Sprintf("assignors %q, all members of the group have %q", offered, supported)
}
