package coordinator

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A ListPass lists the shard's groups in pieces: call ListGroups, with the lock
// released in between, until it reports done. A group that is there all the while
// is listed once.
type ListPass struct {
	States, Types []string // the request's filters; empty: no restriction

	Groups    []kmsg.ListGroupsResponseGroup // grows with every piece; may be reused for the next shard
	DependsOn int64                          // good when done

	slot int
}

// Next prepares the pass for another shard; what was listed stays.
func (p *ListPass) Next() { p.slot = 0 }

// ListGroups visits at most limit groups.
func (s *Shard) ListGroups(p *ListPass, limit int) (done bool) {
	end := min(len(s.slots), p.slot+limit)
	for ; p.slot < end; p.slot++ {
		g := s.slots[p.slot]
		if g == nil || !matches(p.States, g.kind.stateName()) || !matches(p.Types, g.kind.typeName()) {
			continue
		}
		p.Groups = append(p.Groups, kmsg.ListGroupsResponseGroup{
			Group:        g.id,
			ProtocolType: g.kind.protocolType(),
			GroupState:   g.kind.stateName(),
			GroupType:    g.kind.typeName(),
		})
	}
	p.DependsOn = s.lastOffset()
	return p.slot >= len(s.slots)
}

// matches reports whether a filter lets a name pass. Case and blanks around do not
// count; a name that does not exist matches nothing.
func matches(filter []string, name string) bool {
	if len(filter) == 0 {
		return true
	}
	for _, f := range filter {
		if strings.EqualFold(strings.TrimSpace(f), name) {
			return true
		}
	}
	return false
}

// listGroups handles ListGroups v0-5 for this shard alone.
func (s *Shard) listGroups(r *kmsg.ListGroupsRequest) {
	p := ListPass{States: r.StatesFilter, Types: r.TypesFilter}
	s.ListGroups(&p, len(s.slots))
	resp := kmsg.NewPtrListGroupsResponse()
	resp.Version = r.Version
	resp.Groups = p.Groups
	s.reply(s.ev.Token, resp, p.DependsOn)
}
