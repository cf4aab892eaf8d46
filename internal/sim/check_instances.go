package sim

// A claim is a JoinGroup that was answered with a member id for an instance id
// (static membership, KIP-345).
type claim struct {
	id         string
	sent, read int // ticks
	boots      int // a crash may undo it
}

// claimed notes a claim of an instance id.
func (g *groupHistory) claimed(w *World, instance, id string, sent int) {
	g.claims[instance] = append(g.claims[instance], claim{id, sent, w.tick(), w.boots})
}

// fenced checks a request that succeeded for an instance id: nobody must have
// taken it over between the member's own claim and the request.
func (g *groupHistory) fenced(w *World, what, instance, id string, sent int) {
	own := 0
	for _, c := range g.claims[instance] {
		if c.id == id {
			own = c.read
		}
	}
	for _, c := range g.claims[instance] {
		if c.id != id && c.boots == w.boots && c.sent > own && c.read < sent {
			w.violated(checkMembers, "%s: %s by %s succeeded although %s had taken over %s", g.name, what, id, c.id, instance)
		}
	}
}

// startTwin starts another process with a member's instance id, which takes its
// place until it dies.
func (m *member) startTwin() {
	w := m.world
	t := &member{world: w, group: m.group, generation: -1, instance: m.instance, client: newClient(w, m.client.name+"-twin")}
	w.twins = append(w.twins, t)
	t.join()
	w.after(w.upTo(sessionTimeout), t.die)
}
