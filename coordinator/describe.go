package coordinator

import (
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A DescribePass describes one group in pieces: call DescribeGroup, with the lock
// released in between, until it reports done.
type DescribePass struct {
	Group   string
	Version int16 // of the DescribeGroups request

	Response  kmsg.DescribeGroupsResponseGroup // complete when done
	DependsOn int64                            // good when done

	version  uint32
	attempts int
	started  bool
	next     *member
}

// DescribeGroup describes at most limit members. If the group changed since the
// last piece it starts again, and after a few attempts it takes the whole group at
// once. AuthorizedOperations is left to the caller.
func (s *Shard) DescribeGroup(p *DescribePass, limit int) (done bool) {
	g := s.groups[p.Group]
	var c *classicGroup
	if g != nil {
		switch k := g.kind.(type) {
		case *classicGroup:
			c = k
		case simple:
			c = &classicGroup{}
		}
	}
	if p.started && (g == nil || p.version != g.version) {
		p.started = false
		p.attempts++
	}
	if p.attempts >= fetchAttempts {
		limit = math.MaxInt
	}
	p.DependsOn = s.lastOffset()
	if c == nil {
		p.notFound()
		return true
	}
	p.DependsOn = max(g.membershipOffset, g.offsetsOffset)
	if !p.started {
		p.start(g, c)
	}
	stable := c.state == stateStable
	for ; p.next != nil; p.next = p.next.next {
		if limit--; limit < 0 {
			return false
		}
		p.add(c, p.next, stable)
	}
	return true
}

func (p *DescribePass) notFound() {
	p.Response = kmsg.DescribeGroupsResponseGroup{Group: p.Group, State: stateDead.String(), AuthorizedOperations: math.MinInt32}
	if p.Version >= 6 {
		text := fmt.Sprintf("Group %s not found.", p.Group)
		p.Response.ErrorCode, p.Response.ErrorMessage = codeGroupIDNotFound, &text
	}
}

func (p *DescribePass) start(g *group, c *classicGroup) {
	p.started, p.version, p.next = true, g.version, c.first
	p.Response = kmsg.DescribeGroupsResponseGroup{
		Group:                g.id,
		State:                c.state.String(),
		ProtocolType:         c.groupProtocolType,
		AuthorizedOperations: math.MinInt32,
		Members:              make([]kmsg.DescribeGroupsResponseGroupMember, 0, len(c.byID)),
	}
	if c.state == stateStable {
		p.Response.Protocol = c.protocol
	}
}

func (p *DescribePass) add(c *classicGroup, m *member, stable bool) {
	out := kmsg.DescribeGroupsResponseGroupMember{
		MemberID:         m.id,
		ClientID:         m.clientID,
		ClientHost:       m.clientHost,
		MemberAssignment: m.assignment,
	}
	if m.static {
		instance := m.instance
		out.InstanceID = &instance
	}
	if stable {
		out.ProtocolMetadata = m.metadata(c.protocol)
	}
	p.Response.Members = append(p.Response.Members, out)
}

// describeGroups handles DescribeGroups v0-6 whole. All groups of the request must
// be the shard's.
func (s *Shard) describeGroups(r *kmsg.DescribeGroupsRequest) {
	resp := kmsg.NewPtrDescribeGroupsResponse()
	resp.Version = r.Version
	depends := NoDependency
	for _, id := range r.Groups {
		p := DescribePass{Group: id, Version: r.Version}
		s.DescribeGroup(&p, math.MaxInt)
		resp.Groups = append(resp.Groups, p.Response)
		depends = max(depends, p.DependsOn)
	}
	s.reply(s.ev.Token, resp, depends)
}
