package coordinator

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A ListPass lists the shard's groups in pieces: call ListGroups, with the lock
// released in between, until it reports done. A group that is there all the while
// is listed once.
type ListPass struct {
	Groups    []kmsg.ListGroupsResponseGroup // grows with every piece
	DependsOn int64                          // good when done

	states, types nameFilter
	slot          int
}

// NewListPass prepares a pass with a request's filters; an empty one restricts
// nothing. A filter may have a million entries: it is digested here, without a
// lock. State filters ignore case and blanks around, type filters ignore case.
func NewListPass(states, types []string) *ListPass {
	return &ListPass{states: newNameFilter(states, true), types: newNameFilter(types, false)}
}

// A nameFilter says which names pass.
type nameFilter struct {
	all     bool
	lower   map[string]bool
	decided map[string]bool // by names as they are written
}

// longestName bounds what a filter keeps: no state and no type has a longer name.
const longestName = 32

func newNameFilter(names []string, trim bool) nameFilter {
	f := nameFilter{all: len(names) == 0, lower: map[string]bool{}, decided: map[string]bool{}}
	for _, n := range names {
		if trim {
			n = strings.TrimSpace(n)
		}
		if len(n) <= longestName {
			f.lower[strings.ToLower(n)] = true
		}
	}
	return f
}

func (f *nameFilter) pass(name string) bool {
	if f.all {
		return true
	}
	pass, ok := f.decided[name]
	if !ok {
		pass = f.lower[strings.ToLower(name)]
		f.decided[name] = pass
	}
	return pass
}

// Next prepares the pass for another shard; what was listed stays.
func (p *ListPass) Next() { p.slot = 0 }

// ListGroups visits at most limit groups.
func (s *Shard) ListGroups(p *ListPass, limit int) (done bool) {
	end := min(len(s.slots), p.slot+limit)
	for ; p.slot < end; p.slot++ {
		g := s.slots[p.slot]
		if g == nil || !p.states.pass(g.kind.stateName()) || !p.types.pass(g.kind.typeName()) {
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

// listGroups handles ListGroups v0-5 for this shard alone.
func (s *Shard) listGroups(r *kmsg.ListGroupsRequest) {
	p := NewListPass(r.StatesFilter, r.TypesFilter)
	s.ListGroups(p, len(s.slots))
	resp := kmsg.NewPtrListGroupsResponse()
	resp.Version = r.Version
	resp.Groups = p.Groups
	s.reply(s.ev.Token, resp, p.DependsOn)
}
