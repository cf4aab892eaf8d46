package coordinator

import (
	"bytes"
	"encoding/hex"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/coordinator/records"
)

// joinGroup handles JoinGroup v0-9.
func (s *Shard) joinGroup(r *kmsg.JoinGroupRequest) {
	if code := checkJoin(r, s.ev.Config); code != codeNone {
		s.refuseJoin(r, code, r.MemberID, NoDependency)
		return
	}
	if tooLong(r, s.ev.Client.ID) {
		s.refuseJoin(r, codeUnknownServerError, "", NoDependency)
		return
	}
	g := s.groups[r.Group]
	if g == nil {
		if r.MemberID != "" {
			s.refuseJoin(r, codeUnknownMemberID, r.MemberID, s.lastOffset())
			return
		}
		// The group exists from now on whatever becomes of the member.
		s.emitGroup(r.Group, &records.GroupMetadataValue{CurrentStateTimestamp: s.ev.Wall})
		g = s.groups[r.Group]
	}
	c := g.classic()
	switch {
	case g.deleting:
		s.refuseJoin(r, codeCoordinatorLoadInProgress, "", g.membershipOffset)
		return
	case c == nil:
		s.refuseJoin(r, codeInconsistentGroupProtocol, "", g.membershipOffset)
		return
	case !c.accepts(r.MemberID, s.ev.Config.MaxSize):
		// Whom this leaves as the last to wait for is waited for all the same, as in
		// Apache Kafka.
		s.eject(g, c, r.MemberID)
		s.refuseJoin(r, codeGroupMaxSizeReached, "", g.membershipOffset)
	case r.MemberID == "":
		s.joinNew(r, g, c)
	default:
		s.joinExisting(r, g, c)
	}
}

// maxString is the longest string, in bytes, that a record can hold. Requests
// with longer ones do not parse in Apache Kafka.
const maxString = 32767

// tooLong reports whether a record of the group could not hold what the request
// brings; a generated member id is 37 bytes longer than what it begins with.
func tooLong(r *kmsg.JoinGroupRequest, clientID string) bool {
	const maxPrefix = maxString - 37
	if len(clientID) > maxPrefix || len(r.MemberID) > maxString || len(r.ProtocolType) > maxString ||
		r.InstanceID != nil && len(*r.InstanceID) > maxPrefix {
		return true
	}
	for i := range r.Protocols {
		if len(r.Protocols[i].Name) > maxString {
			return true
		}
	}
	return false
}

// checkJoin makes the checks that come before the shard is looked up.
func checkJoin(r *kmsg.JoinGroupRequest, c *Config) int16 {
	session := millis(r.SessionTimeoutMillis)
	switch {
	case r.Group == "" || len(r.Group) > maxString:
		return codeInvalidGroupID
	case session < c.MinSessionTimeout || session > c.MaxSessionTimeout:
		return codeInvalidSessionTimeout
	}
	return codeNone
}

// accepts reports whether the group has room for a JoinGroup with the id. Pending
// ids take no room.
func (c *classicGroup) accepts(memberID string, maxSize int) bool {
	m := c.byID[memberID]
	switch c.state {
	case statePreparingRebalance:
		return m != nil && m.joining.is || c.awaitingJoin < maxSize
	case stateCompletingRebalance, stateStable:
		return m != nil || len(c.byID) < maxSize
	}
	return true
}

// eject removes a member, or a pending id, that a full group has no room for.
func (s *Shard) eject(g *group, c *classicGroup, memberID string) {
	if m := c.byID[memberID]; m != nil {
		why := memberCause(memberEjected, m)
		s.removeMember(g, c, m)
		s.tell(g, c, &why)
	}
	s.forgetPending(g, c, memberID)
}

// forgetPending reports whether the id was a pending one.
func (s *Shard) forgetPending(g *group, c *classicGroup, memberID string) bool {
	t := c.pending[memberID]
	if t == nil {
		return false
	}
	s.clearTimer(t, TimerPending, g.id, strings.Clone(memberID))
	delete(c.pending, memberID)
	return true
}

// offers reports whether a member with the request's protocols can be in the
// group.
func (c *classicGroup) offers(r *kmsg.JoinGroupRequest) bool {
	if c.state == stateEmpty {
		return r.ProtocolType != "" && len(r.Protocols) > 0
	}
	if r.ProtocolType != c.groupProtocolType {
		return false
	}
	for i := range r.Protocols {
		if c.supported(r.Protocols[i].Name) {
			return true
		}
	}
	return false
}

// joinNew handles a JoinGroup without a member id.
func (s *Shard) joinNew(r *kmsg.JoinGroupRequest, g *group, c *classicGroup) {
	switch {
	case c.state == stateDead:
		s.refuseJoin(r, codeCoordinatorNotAvailable, "", g.membershipOffset)
	case !c.offers(r):
		s.refuseJoin(r, codeInconsistentGroupProtocol, "", g.membershipOffset)
	case r.InstanceID != nil:
		id := memberID(*r.InstanceID, s.ev.Entropy)
		if m := c.byInstance[*r.InstanceID]; m != nil {
			s.replaceStatic(r, g, c, m, id)
			return
		}
		s.addMember(r, g, c, id)
	case r.Version >= 4:
		id := memberID(s.ev.Client.ID, s.ev.Entropy)
		if c.pending == nil {
			c.pending = map[string]*timer{}
		}
		t := &timer{}
		c.pending[id] = t
		s.setTimer(t, TimerPending, g.id, id, s.ev.Mono+millis(r.SessionTimeoutMillis))
		s.refuseJoin(r, codeMemberIDRequired, id, g.membershipOffset)
	default:
		s.addMember(r, g, c, memberID(s.ev.Client.ID, s.ev.Entropy))
	}
}

// memberID makes a member id of a prefix and a random UUID.
func memberID(prefix string, random [16]byte) string {
	random[6] = random[6]&0x0f | 0x40
	random[8] = random[8]&0x3f | 0x80
	var h [32]byte
	hex.Encode(h[:], random[:])
	b := make([]byte, 0, len(prefix)+37)
	b = append(b, prefix...)
	for i, n := 0, 0; i < len(h); i += n {
		n = [...]int{0: 8, 8: 4, 12: 4, 16: 4, 20: 12}[i]
		b = append(b, '-')
		b = append(b, h[i:i+n]...)
	}
	return string(b)
}

// addMember makes the sender a member and parks its JoinGroup.
func (s *Shard) addMember(r *kmsg.JoinGroupRequest, g *group, c *classicGroup, id string) {
	m := &member{
		id:         id,
		clientID:   strings.Clone(s.ev.Client.ID),
		clientHost: strings.Clone(s.ev.Client.Host),
		isNew:      true,
	}
	if r.InstanceID != nil {
		m.instance, m.static = strings.Clone(*r.InstanceID), true
	}
	if c.first == nil && c.groupProtocolType != r.ProtocolType {
		c.groupProtocolType = strings.Clone(r.ProtocolType)
	}
	c.insert(m, nil)
	c.update(m, r)
	if c.leader == "" {
		c.leader = m.id
	}
	s.parkJoin(g, c, m, r.Version)
	s.setTimer(&m.session, TimerSession, g.id, m.id, s.ev.Mono+NewMemberJoinTimeout)
	g.version++
	why := memberCause(memberJoined, m).because(r.Reason)
	if c.state == statePreparingRebalance {
		if c.previous == stateEmpty {
			c.newMemberAdded = true
		}
		s.tell(g, c, &why)
		s.maybeCompleteJoin(g, c, memberCause(allJoinedIn, m))
		return
	}
	s.startRebalance(g, c, why)
}

// update takes over what a JoinGroup says of a member.
func (c *classicGroup) update(m *member, r *kmsg.JoinGroupRequest) {
	m.sessionTimeout = millis(r.SessionTimeoutMillis)
	m.rebalanceTimeout = millis(r.RebalanceTimeoutMillis)
	if r.Version == 0 {
		m.rebalanceTimeout = m.sessionTimeout
	}
	if !m.offered(r) {
		c.setProtocols(m, copyProtocols(r.Protocols))
	}
}

// copyProtocols copies a list with few allocations.
func copyProtocols(list []kmsg.JoinGroupRequestProtocol) []protocol {
	total := 0
	for i := range list {
		total += len(list[i].Metadata)
	}
	bytes := make([]byte, 0, total)
	out := make([]protocol, len(list))
	for i := range list {
		n := len(bytes)
		bytes = append(bytes, list[i].Metadata...)
		out[i] = protocol{strings.Clone(list[i].Name), bytes[n:len(bytes):len(bytes)]}
	}
	return out
}

// offered reports whether the request has the protocols the member has: the same
// names in the same order with equal metadata.
func (m *member) offered(r *kmsg.JoinGroupRequest) bool {
	if len(m.protocols) != len(r.Protocols) {
		return false
	}
	for i := range r.Protocols {
		if m.protocols[i].name != r.Protocols[i].Name || !bytes.Equal(m.protocols[i].metadata, r.Protocols[i].Metadata) {
			return false
		}
	}
	return true
}

// parkJoin holds the request's answer back until the join phase ends. An older
// one of the same member, which has come over another connection, is answered:
// that client starts over, if it is still there.
func (s *Shard) parkJoin(g *group, c *classicGroup, m *member, version int16) {
	if m.joining.is {
		resp := s.out.join(m.joining.version)
		s.failJoin(resp, codeRebalanceInProgress, m.id)
		s.answerJoin(g, c, m, resp)
	}
	m.joining = parked{is: true, version: version, token: s.ev.Token}
	c.awaitingJoin++
}

// joinExisting handles a JoinGroup with a member id.
func (s *Shard) joinExisting(r *kmsg.JoinGroupRequest, g *group, c *classicGroup) {
	switch {
	case c.state == stateDead:
		s.refuseJoin(r, codeCoordinatorNotAvailable, r.MemberID, g.membershipOffset)
		return
	case !c.offers(r):
		s.refuseJoin(r, codeInconsistentGroupProtocol, r.MemberID, g.membershipOffset)
		return
	case c.pending[r.MemberID] != nil:
		if r.InstanceID != nil { // an id of this kind was never given to a static member
			s.refuseJoin(r, codeUnknownServerError, "", g.membershipOffset)
			return
		}
		s.forgetPending(g, c, r.MemberID)
		s.addMember(r, g, c, strings.Clone(r.MemberID))
		return
	}
	m, code := c.check(r.MemberID, r.InstanceID)
	if code == codeNone && c.state == stateEmpty {
		code = codeUnknownMemberID
	}
	if code != codeNone {
		s.refuseJoin(r, code, r.MemberID, g.membershipOffset)
		return
	}
	same := m.offered(r)
	what := memberUpdated
	switch c.state {
	case statePreparingRebalance:
		c.update(m, r)
		s.parkJoin(g, c, m, r.Version)
		s.maybeCompleteJoin(g, c, memberCause(allJoinedIn, m).because(r.Reason))
		return
	case stateCompletingRebalance:
		if same { // the answer to its first JoinGroup was lost
			s.reply(s.ev.Token, s.joined(c, m, r.Version), g.membershipOffset)
			return
		}
	case stateStable:
		if m.id == c.leader {
			what = leaderRejoined
		} else if same {
			s.reply(s.ev.Token, s.joined(c, m, r.Version), g.membershipOffset)
			return
		}
	}
	c.update(m, r)
	s.parkJoin(g, c, m, r.Version)
	s.startRebalance(g, c, memberCause(what, m).because(r.Reason))
}

// refuseJoin answers a JoinGroup with an error.
func (s *Shard) refuseJoin(r *kmsg.JoinGroupRequest, code int16, memberID string, depends int64) {
	resp := s.out.join(r.Version)
	s.failJoin(resp, code, memberID)
	s.reply(s.ev.Token, resp, depends)
	s.tellRefusal(r, code)
}

// failJoin fills in an error. The protocol is null where the version can say so.
func (s *Shard) failJoin(resp *kmsg.JoinGroupResponse, code int16, memberID string) {
	resp.ErrorCode = code
	resp.MemberID = memberID
	if resp.Version < 7 {
		resp.Protocol = s.out.str("")
	}
}
