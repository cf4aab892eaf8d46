package sim

import (
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// groupHistory is what members of one group have been told.
type groupHistory struct {
	name string
	// tokens names the assignment of each generation of which any part was handed
	// out. Invariant: a generation never gets a second one.
	tokens map[int32]string
	owners map[int32]map[int32]string // generation -> partition -> member
	// synced is the newest generation in which a SyncGroup was answered. No older one
	// is served to who asks from then on. (A generation that only a JoinGroup has told
	// of may come again after a crash, as in Kafka.)
	synced int32
	ids    map[string]string  // every member id handed out -> to whom
	claims map[string][]claim // by instance id
}

func (w *World) group(name string) *groupHistory {
	g := w.groups[name]
	if g == nil {
		g = &groupHistory{name: name, tokens: map[int32]string{}, owners: map[int32]map[int32]string{}, ids: map[string]string{}, claims: map[string][]claim{}}
		w.groups[name] = g
	}
	return g
}

// named checks a member id that was handed out to who had none.
func (g *groupHistory) named(w *World, m *member, id string) {
	if other, used := g.ids[id]; used || id == "" {
		w.violated(checkMembers, "%s: member id %q for %s was handed out to %s before", g.name, id, m.client.name, other)
	}
	g.ids[id] = m.client.name
}

// joined checks the generation of a JoinGroup's answer; synced is what g.synced
// was when it was asked.
func (g *groupHistory) joined(w *World, r *kmsg.JoinGroupResponse, synced int32) {
	if r.Generation < max(1, synced) {
		w.violated(checkGenerations, "%s: joined generation %d after %d", g.name, r.Generation, synced)
	}
}

// served checks a request that succeeded in a generation.
func (g *groupHistory) served(w *World, what string, generation, synced int32) {
	if generation < synced {
		w.violated(checkGenerations, "%s: %s of generation %d succeeded although %d had been asked for before", g.name, what, generation, synced)
	}
}

// assigned checks what a member was told by SyncGroup and returns what it owns.
func (g *groupHistory) assigned(w *World, m *member, assignment []byte) []int32 {
	g.synced = max(g.synced, m.generation)
	if len(assignment) == 0 {
		return nil
	}
	token, list, ok := strings.Cut(string(assignment), ":")
	if !ok {
		w.violated(checkAssignments, "%s: assignment %q was never made", g.name, assignment)
	}
	if known, seen := g.tokens[m.generation]; seen && known != token {
		w.violated(checkAssignments, "%s: generation %d has two assignments, %s and %s", g.name, m.generation, known, token)
	}
	g.tokens[m.generation] = token
	owner := m.owner()
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
			w.violated(checkAssignments, "%s: assignment %q was never made", g.name, assignment)
		}
		if other, taken := owners[int32(n)]; taken && other != owner {
			w.violated(checkOwners, "%s: partition %d of generation %d belongs to %s and %s", g.name, n, m.generation, other, owner)
		}
		owners[int32(n)] = owner
		owned = append(owned, int32(n))
	}
	return owned
}
