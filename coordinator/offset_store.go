package coordinator

import (
	"slices"
	"strings"
)

// An offsetStore holds a group's committed offsets: per topic a slice sorted by
// partition. A million offsets must fit into little memory, so topic names and
// topic ids are shared by all groups of the shard and an entry is 48 bytes. It has
// no pointer, so that the garbage collector never looks at millions of them.
type offsetStore struct {
	topics []topicOffsets
	// index finds a topic in topics; nil while there are few.
	index map[string]int32
	// Invariant: the number of entries in topics.
	count int
}

// fewTopics is up to how many topics a scan beats a map.
const fewTopics = 8

type topicOffsets struct {
	topic *topicName
	parts []committedOffset // sorted by partition, never empty
}

type committedOffset struct {
	offset          int64
	commitTimestamp int64
	expireTimestamp int64 // records.NoTimestamp: none
	partition       int32
	leaderEpoch     int32
	size            uint32 // bytes of its record in the log
	topicID         idRef
	metadata        textRef
}

// A topicName is a topic name shared by the groups that hold offsets of it.
type topicName struct {
	name string
	refs int32 // groups
}

// An idRef stands for a topic id in the shard's table; 0 is the zero id.
type idRef uint32

// A textRef stands for an offset's metadata in the shard's table, where it has a
// place of its own; 0 is the empty one.
type textRef uint32

type topicID struct {
	id   [16]byte
	refs int32 // committed offsets
}

// find returns the topic's offsets, or nil.
func (o *offsetStore) find(topic string) *topicOffsets {
	if o.index != nil {
		if i, ok := o.index[topic]; ok {
			return &o.topics[i]
		}
		return nil
	}
	for i := range o.topics {
		if o.topics[i].topic.name == topic {
			return &o.topics[i]
		}
	}
	return nil
}

// get returns the committed offset of a partition, or nil. The pointer is good
// until the store changes.
func (o *offsetStore) get(topic string, partition int32) *committedOffset {
	t := o.find(topic)
	if t == nil {
		return nil
	}
	return t.get(partition)
}

func (t *topicOffsets) get(partition int32) *committedOffset {
	if i, ok := t.search(partition); ok {
		return &t.parts[i]
	}
	return nil
}

// search finds the place of a partition. Most groups commit all partitions of a
// topic, so a partition's place is usually its number.
func (t *topicOffsets) search(partition int32) (int, bool) {
	if i := int(partition); i >= 0 && i < len(t.parts) && t.parts[i].partition == partition {
		return i, true
	}
	if n := len(t.parts); n == 0 || t.parts[n-1].partition < partition {
		return n, false
	}
	return slices.BinarySearchFunc(t.parts, partition, func(e committedOffset, p int32) int {
		return int(e.partition) - int(p)
	})
}

// putOffset returns the entry of a partition, a new one if need be. Only replay
// calls it.
func (s *Shard) putOffset(g *group, topic string, partition int32) *committedOffset {
	o := &g.offsets
	t := o.find(topic)
	if t == nil {
		t = s.addTopic(o, topic)
	}
	i, ok := t.search(partition)
	if !ok {
		if len(t.parts) == cap(t.parts) { // grow by a quarter: half-empty slices would cost memory
			n := len(t.parts)
			t.parts = append(make([]committedOffset, 0, n+n/4+1), t.parts...)
		}
		t.parts = slices.Insert(t.parts, i, committedOffset{partition: partition})
		o.count++
		s.offsetCount++
	}
	return &t.parts[i]
}

func (s *Shard) addTopic(o *offsetStore, topic string) *topicOffsets {
	name := s.topicNames[topic]
	if name == nil {
		name = &topicName{name: strings.Clone(topic)}
		s.topicNames[name.name] = name
	}
	name.refs++
	if n := len(o.topics); n == cap(o.topics) {
		o.topics = append(make([]topicOffsets, 0, n+n/4+1), o.topics...)
	}
	o.topics = append(o.topics, topicOffsets{topic: name})
	n := len(o.topics)
	switch {
	case o.index != nil:
		o.index[name.name] = int32(n - 1)
	case n > fewTopics:
		o.index = make(map[string]int32, n)
		for i := range o.topics {
			o.index[o.topics[i].topic.name] = int32(i)
		}
	}
	return &o.topics[n-1]
}

// removeOffset removes an entry and the topic that it leaves empty. Only replay
// calls it.
func (s *Shard) removeOffset(g *group, topic string, partition int32) {
	t := g.offsets.find(topic)
	if t == nil {
		return
	}
	i, ok := t.search(partition)
	if !ok {
		return
	}
	s.forget(&t.parts[i])
	g.offsets.count--
	t.parts = slices.Delete(t.parts, i, i+1)
	if len(t.parts) == 0 {
		s.removeTopic(&g.offsets, t)
	}
}

// forget takes an entry out of the shard's accounts.
func (s *Shard) forget(e *committedOffset) {
	s.offsetCount--
	s.live.Values -= int64(e.size)
	s.releaseID(e.topicID)
	s.setMetadata(e, "")
}

func (s *Shard) removeTopic(o *offsetStore, t *topicOffsets) {
	name := t.topic
	last := len(o.topics) - 1
	if moved := o.topics[last].topic; o.index != nil {
		delete(o.index, name.name)
		if moved != name {
			for i := range o.topics {
				if &o.topics[i] == t {
					o.index[moved.name] = int32(i)
					break
				}
			}
		}
	}
	*t = o.topics[last]
	o.topics[last] = topicOffsets{}
	o.topics = o.topics[:last]
	if last == 0 {
		o.topics, o.index = nil, nil
	}
	s.releaseTopic(name)
}

func (s *Shard) releaseTopic(name *topicName) {
	if name.refs--; name.refs == 0 {
		delete(s.topicNames, name.name)
	}
}

// clearOffsets forgets all of a group's offsets.
func (s *Shard) clearOffsets(g *group) {
	for i := range g.offsets.topics {
		t := &g.offsets.topics[i]
		for j := range t.parts {
			s.forget(&t.parts[j])
		}
		s.releaseTopic(t.topic)
	}
	g.offsets = offsetStore{}
}

// setMetadata changes an entry's metadata; text is not kept.
func (s *Shard) setMetadata(e *committedOffset, text string) {
	switch {
	case s.texts[e.metadata] == text:
		return
	case text == "":
		s.texts[e.metadata] = ""
		s.freeTexts = append(s.freeTexts, e.metadata)
		e.metadata = 0
		if len(s.freeTexts) == len(s.texts)-1 {
			s.texts, s.freeTexts = make([]string, 1), nil
		}
		return
	case e.metadata != 0:
	case len(s.freeTexts) > 0:
		e.metadata = s.freeTexts[len(s.freeTexts)-1]
		s.freeTexts = s.freeTexts[:len(s.freeTexts)-1]
	default:
		e.metadata = textRef(len(s.texts))
		s.texts = append(s.texts, "")
	}
	s.texts[e.metadata] = strings.Clone(text)
}

// setTopicID changes an entry's topic id.
func (s *Shard) setTopicID(e *committedOffset, id [16]byte) {
	if s.topicIDs[e.topicID].id == id {
		return
	}
	old := e.topicID
	e.topicID = s.refID(id)
	s.releaseID(old)
}

func (s *Shard) refID(id [16]byte) idRef {
	if id == ([16]byte{}) {
		return 0
	}
	ref, ok := s.idRefs[id]
	if !ok {
		if n := len(s.freeIDs); n > 0 {
			ref = s.freeIDs[n-1]
			s.freeIDs = s.freeIDs[:n-1]
		} else {
			ref = idRef(len(s.topicIDs))
			s.topicIDs = append(s.topicIDs, topicID{})
		}
		s.topicIDs[ref] = topicID{id: id}
		s.idRefs[id] = ref
	}
	s.topicIDs[ref].refs++
	return ref
}

func (s *Shard) releaseID(ref idRef) {
	if ref == 0 {
		return
	}
	t := &s.topicIDs[ref]
	if t.refs--; t.refs == 0 {
		delete(s.idRefs, t.id)
		*t = topicID{}
		s.freeIDs = append(s.freeIDs, ref)
	}
}
