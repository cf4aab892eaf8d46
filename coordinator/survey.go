package coordinator

// A Survey visits all groups of a shard and what they have committed, in pieces: call
// Shard.Survey, with the lock released in between, until it reports done. It allocates
// nothing and is meant for sums: what changes between two pieces may be missed or seen
// twice. The functions run under the caller's lock.
type Survey struct {
	// Group is called once for each group, before its offsets.
	Group func(id, state string, members int)
	// Offset is called for each committed offset of the group.
	Offset func(topic string, partition int32, offset int64)

	// Where the next piece goes on: within the group of a slot if inside.
	slot        int
	inside      bool
	topic, part int
}

// Next prepares the survey for another shard.
func (v *Survey) Next() { v.slot, v.inside = 0, false }

// Survey visits at most limit groups and offsets.
func (s *Shard) Survey(v *Survey, limit int) (done bool) {
	for ; v.slot < len(s.slots); v.slot, v.inside = v.slot+1, false {
		g := s.slots[v.slot]
		if !v.inside {
			if limit--; limit < 0 {
				return false
			}
			v.inside, v.topic, v.part = true, 0, 0
			if g != nil {
				v.Group(g.id, g.kind.stateName(), g.kind.memberCount())
			}
		}
		if g == nil {
			continue
		}
		for ; v.topic < len(g.offsets.topics); v.topic, v.part = v.topic+1, 0 {
			t := &g.offsets.topics[v.topic]
			for ; v.part < len(t.parts); v.part++ {
				if limit--; limit < 0 {
					return false
				}
				v.Offset(t.topic.name, t.parts[v.part].partition, t.parts[v.part].offset)
			}
		}
	}
	return true
}
