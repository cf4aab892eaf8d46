package coordinator

import (
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// shown is the state that clients are told: a group known by its offsets only is
// empty.
func (g *modelGroup) shown() string {
	if g.state == "" {
		return "Empty"
	}
	return g.state
}

func (m *model) describe(r *kmsg.DescribeGroupsRequest) *kmsg.DescribeGroupsResponse {
	resp := kmsg.NewPtrDescribeGroupsResponse()
	resp.Version = r.Version
	for _, id := range r.Groups {
		out := kmsg.NewDescribeGroupsResponseGroup()
		out.Group = id
		if g := m.groups[id]; g != nil {
			g.describe(r.Version, &out)
		} else {
			out.State = "Dead"
			if r.Version >= 6 {
				text := fmt.Sprintf("Group %s not found.", id)
				out.ErrorCode, out.ErrorMessage = codeGroupIDNotFound, &text
			}
		}
		resp.Groups = append(resp.Groups, out)
	}
	return resp
}

func (g *modelGroup) describe(version int16, out *kmsg.DescribeGroupsResponseGroup) {
	out.State, out.ProtocolType = g.shown(), g.kind
	stable := g.state == "Stable"
	if stable {
		out.Protocol = g.protocol
	}
	for _, x := range g.members {
		y := kmsg.DescribeGroupsResponseGroupMember{MemberID: x.id, MemberAssignment: []byte(x.assignment)}
		if x.static && version >= 4 {
			y.InstanceID = &x.instance
		}
		if stable {
			y.ProtocolMetadata = x.meta(g.protocol)
		}
		out.Members = append(out.Members, y)
	}
}

// list is the groups in the order of their names.
func (m *model) list(r *kmsg.ListGroupsRequest) *kmsg.ListGroupsResponse {
	resp := kmsg.NewPtrListGroupsResponse()
	resp.Version = r.Version
	for _, id := range slices.Sorted(maps.Keys(m.groups)) {
		g := m.groups[id]
		if len(r.StatesFilter) > 0 && !slices.Contains(r.StatesFilter, g.shown()) {
			continue
		}
		resp.Groups = append(resp.Groups, kmsg.ListGroupsResponseGroup{Group: id, ProtocolType: g.kind, GroupState: g.shown(), GroupType: "classic"})
	}
	return resp
}
