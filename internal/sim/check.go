package sim

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// groupHistory is what members of one group have been told.
type groupHistory struct {
	name string
	// tokens names the assignment of each generation of which any part was handed
	// out. Invariant: a generation never gets a second one.
	tokens map[int32]string
	owners map[int32]map[int32]string // generation -> partition -> member
	newest int32
}

func (w *World) group(name string) *groupHistory {
	g := w.groups[name]
	if g == nil {
		g = &groupHistory{name: name, tokens: map[int32]string{}, owners: map[int32]map[int32]string{}}
		w.groups[name] = g
	}
	return g
}

func (g *groupHistory) joined(w *World, r *kmsg.JoinGroupResponse) {
	if r.Generation < 1 {
		w.violated("%s: joined generation %d", g.name, r.Generation)
	}
	g.newest = max(g.newest, r.Generation)
}

// assigned checks what a member was told by SyncGroup and returns what it owns.
func (g *groupHistory) assigned(w *World, m *member, assignment []byte) []int32 {
	if len(assignment) == 0 {
		return nil
	}
	token, list, ok := strings.Cut(string(assignment), ":")
	if !ok {
		w.violated("%s: assignment %q was never made", g.name, assignment)
	}
	if known, seen := g.tokens[m.generation]; seen && known != token {
		w.violated("%s: generation %d has two assignments, %s and %s", g.name, m.generation, known, token)
	}
	g.tokens[m.generation] = token
	owner := m.client.name
	owners := g.owners[m.generation]
	if owners == nil {
		owners = map[int32]string{}
		g.owners[m.generation] = owners
	}
	var owned []int32
	for _, p := range strings.Split(list, ",") {
		if p == "" {
			continue
		}
		n, err := strconv.Atoi(p)
		if err != nil {
			w.violated("%s: assignment %q was never made", g.name, assignment)
		}
		if other, taken := owners[int32(n)]; taken && other != owner {
			w.violated("%s: partition %d of generation %d belongs to %s and %s", g.name, n, m.generation, other, owner)
		}
		owners[int32(n)] = owner
		owned = append(owned, int32(n))
	}
	return owned
}

// A registerKey names one committed offset.
type registerKey struct {
	group, topic string
	partition    int32
}

// A register is one committed offset as clients know it. Values rise with each
// attempt; a deletion is an attempt whose value reads as none.
type register struct {
	key      registerKey
	attempts []attempt
	floor    int // index of the newest attempt that is known to be applied, -1: none
}

type attempt struct {
	value   int64 // none: -1
	refused bool  // known not to be applied
}

const none int64 = -1

func (w *World) register(key registerKey) *register {
	if w.registers == nil {
		w.registers = map[registerKey]*register{}
	}
	r := w.registers[key]
	if r == nil {
		r = &register{key: key, floor: -1}
		w.registers[key] = r
		w.registerOrder = append(w.registerOrder, r)
	}
	return r
}

// propose notes an attempt to commit a new value and returns it.
func (r *register) propose() int64 {
	r.attempts = append(r.attempts, attempt{value: int64(len(r.attempts) + 1)})
	return int64(len(r.attempts))
}

// proposeDelete notes an attempt to delete and returns its index.
func (r *register) proposeDelete() int {
	r.attempts = append(r.attempts, attempt{value: none})
	return len(r.attempts) - 1
}

// answered notes what became of the attempt to commit value.
func (r *register) answered(w *World, value int64, resp kmsg.Response) int16 {
	if resp == nil {
		return 0
	}
	code := resp.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
	r.outcome(w, int(value-1), code)
	if code == 0 {
		w.succeed("OffsetCommit")
	}
	return code
}

func (r *register) outcome(w *World, index int, code int16) {
	switch kerr.ErrorForCode(code) {
	case nil:
		if index > r.floor {
			r.floor = index
		}
		if r.attempts[index].refused {
			w.violated("%v: attempt %d was refused and acknowledged", r.key, index)
		}
	case kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.FencedInstanceID, kerr.RebalanceInProgress, kerr.NonEmptyGroup,
		kerr.GroupIDNotFound, kerr.UnknownTopicOrPartition:
		r.attempts[index].refused = true
	case kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.NotCoordinator:
		// It may have been applied.
	default:
		w.violated("%v: %v", r.key, kerr.ErrorForCode(code))
	}
}

// observed checks a value that was read: it must be that of an attempt not
// older than floor, the newest one that was known to be applied when the read
// was sent.
func (r *register) observed(w *World, value int64, floor int) {
	if value == none && floor < 0 {
		return
	}
	for i := max(floor, 0); i < len(r.attempts); i++ {
		if a := r.attempts[i]; a.value == value && !a.refused {
			r.floor = max(r.floor, i)
			return
		}
	}
	acknowledged := "nothing"
	if floor >= 0 {
		acknowledged = fmt.Sprint(r.attempts[floor].value)
	}
	w.violated("%v: read %d; acknowledged was %s, attempts go up to %d", r.key, value, acknowledged, len(r.attempts))
}

func (w *World) succeed(what string) { w.succeeded[what]++ }
