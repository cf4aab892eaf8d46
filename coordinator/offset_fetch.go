package coordinator

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetchAttempts is how often a read in pieces starts again before it takes
// everything at once.
const fetchAttempts = 3

// A FetchPass answers one group of an OffsetFetch in pieces: call FetchOffsets,
// with the lock released in between, until it reports done. A request below v8 is
// put into the form of v8 first (FetchGroup).
type FetchPass struct {
	Group   *kmsg.OffsetFetchRequestGroup // Topics nil: all
	Version int16                         // of the request: topic ids instead of names from v10 on
	Topics  Topics                        // metadata

	Response  kmsg.OffsetFetchResponseGroup // complete when done; aliases Group
	DependsOn int64                         // good when done

	version  uint32 // of the group at the first piece
	attempts int
	started  bool
	existed  bool
	topic    int // where the next piece goes on
	part     int
	strings  []string
	spare    []kmsg.OffsetFetchResponseGroupTopic // for reuse
	empty    string
}

// FetchOffsets visits at most limit partitions. If the group changed since the
// last piece it starts again, and after a few attempts it reads the whole group at
// once.
func (s *Shard) FetchOffsets(p *FetchPass, limit int) (done bool) {
	g := s.groups[p.Group.Group]
	if p.started && (p.existed != (g != nil) || g != nil && p.version != g.version) {
		p.started = false
		p.attempts++
	}
	if p.attempts >= fetchAttempts {
		limit = int(^uint(0) >> 1)
	}
	if !p.started {
		p.start(g)
	}
	p.DependsOn = s.offsetsDependency(g)
	if g != nil && g.deleting {
		p.Response.ErrorCode = codeCoordinatorLoadInProgress
		return true
	}
	if p.Group.Topics == nil {
		return s.fetchAll(p, g, limit)
	}
	return s.fetchNamed(p, g, limit)
}

func (p *FetchPass) start(g *group) {
	p.started, p.existed = true, g != nil
	if g != nil {
		p.version = g.version
	}
	p.topic, p.part = 0, 0
	p.strings = p.strings[:0]
	p.Response = kmsg.OffsetFetchResponseGroup{Group: p.Group.Group, Topics: p.spare[:0]}
}

// add appends a topic to the response.
func (p *FetchPass) add(name string, id [16]byte) *kmsg.OffsetFetchResponseGroupTopic {
	n := len(p.Response.Topics)
	p.Response.Topics = extend(p.Response.Topics, n+1)
	t := &p.Response.Topics[n]
	*t = kmsg.OffsetFetchResponseGroupTopic{Topic: name, TopicID: id, Partitions: t.Partitions[:0]}
	p.spare = p.Response.Topics
	return t
}

// fill appends a partition: a committed offset, or none.
func (s *Shard) fill(p *FetchPass, t *kmsg.OffsetFetchResponseGroupTopic, partition int32, e *committedOffset) {
	out := kmsg.OffsetFetchResponseGroupTopicPartition{Partition: partition, Offset: -1, LeaderEpoch: -1, Metadata: &p.empty}
	if e != nil {
		out.Offset, out.LeaderEpoch = e.offset, e.leaderEpoch
		if e.metadata != 0 {
			p.strings = append(p.strings, s.texts[e.metadata])
			out.Metadata = &p.strings[len(p.strings)-1]
		}
	}
	t.Partitions = append(t.Partitions, out)
}

// fetchNamed answers the partitions that the request names, each entry once.
// Topics whose id is unknown come last.
func (s *Shard) fetchNamed(p *FetchPass, g *group, limit int) bool {
	for ; p.topic < 2*len(p.Group.Topics); p.topic, p.part = p.topic+1, 0 {
		refused := p.topic >= len(p.Group.Topics)
		r := &p.Group.Topics[p.topic%len(p.Group.Topics)]
		name, known := r.Topic, true
		if p.Version >= 10 {
			name, _, known = p.Topics.ByID(r.TopicID)
		}
		if known == refused {
			continue
		}
		var t *kmsg.OffsetFetchResponseGroupTopic
		if p.part == 0 {
			t = p.add(name, r.TopicID)
		} else {
			t = &p.Response.Topics[len(p.Response.Topics)-1]
		}
		var stored *topicOffsets
		if g != nil && known {
			stored = g.offsets.find(name)
		}
		for ; p.part < len(r.Partitions); p.part++ {
			if limit--; limit < 0 {
				return false
			}
			partition := r.Partitions[p.part]
			var e *committedOffset
			if stored != nil {
				e = s.visible(p, r.TopicID, stored.get(partition))
			}
			s.fill(p, t, partition, e)
			if !known {
				t.Partitions[len(t.Partitions)-1].ErrorCode = codeUnknownTopicID
			}
		}
	}
	return true
}

// visible hides an offset that belongs to an earlier topic of the same name from
// a request by topic id.
func (s *Shard) visible(p *FetchPass, id [16]byte, e *committedOffset) *committedOffset {
	if e == nil || p.Version < 10 || e.topicID == 0 || s.topicIDs[e.topicID].id == id {
		return e
	}
	return nil
}

// fetchAll answers everything that the group has committed. By id, only topics
// that still exist are shown, with the id that their name has now.
func (s *Shard) fetchAll(p *FetchPass, g *group, limit int) bool {
	if g == nil {
		return true
	}
	for ; p.topic < len(g.offsets.topics); p.topic, p.part = p.topic+1, 0 {
		stored := &g.offsets.topics[p.topic]
		var id [16]byte
		if p.Version >= 10 {
			var ok bool
			if id, _, ok = p.Topics.ByName(stored.topic.name); !ok {
				continue
			}
		}
		var t *kmsg.OffsetFetchResponseGroupTopic
		if p.part == 0 {
			t = p.add(stored.topic.name, id)
		} else {
			t = &p.Response.Topics[len(p.Response.Topics)-1]
		}
		for ; p.part < len(stored.parts); p.part++ {
			if limit--; limit < 0 {
				return false
			}
			e := &stored.parts[p.part]
			s.fill(p, t, e.partition, e)
		}
	}
	return true
}

// FetchGroup returns the group of an OffsetFetch below v8 in the form of v8. In v1
// an absent topic list asks for nothing, later for everything.
func FetchGroup(r *kmsg.OffsetFetchRequest) kmsg.OffsetFetchRequestGroup {
	var g kmsg.OffsetFetchRequestGroup
	fetchGroup(r, &g)
	return g
}

func fetchGroup(r *kmsg.OffsetFetchRequest, g *kmsg.OffsetFetchRequestGroup) {
	g.Group = r.Group
	g.MemberID, g.MemberEpoch = nil, -1
	if r.Topics == nil && r.Version >= 2 {
		g.Topics = nil
		return
	}
	if g.Topics = extend(g.Topics[:0], len(r.Topics)); g.Topics == nil {
		g.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
	}
	for i := range r.Topics {
		g.Topics[i].Topic = r.Topics[i].Topic
		g.Topics[i].Partitions = r.Topics[i].Partitions
	}
}

// offsetFetch handles OffsetFetch v1-10 whole. All groups of the request must be
// the shard's.
func (s *Shard) offsetFetch(r *kmsg.OffsetFetchRequest) {
	resp := &s.out.fetch
	*resp = kmsg.OffsetFetchResponse{Version: r.Version, Topics: resp.Topics[:0], Groups: resp.Groups[:0]}
	p := &s.out.fetchPass
	p.Version, p.Topics = r.Version, s.ev.Topics
	if r.Version >= 8 {
		depends := NoDependency
		for i := range r.Groups {
			p.again(&r.Groups[i])
			if i > 0 {
				p.spare, p.strings = nil, nil // in use by the groups before
			}
			s.FetchOffsets(p, int(^uint(0)>>1))
			depends = max(depends, p.DependsOn)
			resp.Groups = append(resp.Groups, p.Response)
		}
		s.reply(s.ev.Token, resp, depends)
		return
	}
	fetchGroup(r, &s.out.fetchGroup)
	p.again(&s.out.fetchGroup)
	s.FetchOffsets(p, int(^uint(0)>>1))
	FillFetch(r, resp, &p.Response)
	s.reply(s.ev.Token, resp, p.DependsOn)
}

func (p *FetchPass) again(g *kmsg.OffsetFetchRequestGroup) {
	p.Group, p.started, p.attempts = g, false, 0
}

// FillFetch puts the complete answer for FetchGroup(r) into the form of r's
// version, which is below 8.
func FillFetch(r *kmsg.OffsetFetchRequest, resp *kmsg.OffsetFetchResponse, group *kmsg.OffsetFetchResponseGroup) {
	if resp.ErrorCode = group.ErrorCode; resp.ErrorCode != codeNone {
		resp.Topics = nil
		if r.Version < 2 {
			resp.Topics = refusedTopics(r, group.ErrorCode)
		}
		return
	}
	resp.Topics = extend(resp.Topics[:0], len(group.Topics))
	for i := range group.Topics {
		t, out := &group.Topics[i], &resp.Topics[i]
		*out = kmsg.OffsetFetchResponseTopic{Topic: t.Topic, Partitions: extend(out.Partitions[:0], len(t.Partitions))}
		for j := range t.Partitions {
			out.Partitions[j] = kmsg.OffsetFetchResponseTopicPartition(t.Partitions[j])
		}
	}
}
