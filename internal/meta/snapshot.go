package meta

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// A Topic is one topic as of some snapshot. It never changes: a new partition
// count or property makes a new Topic.
type Topic struct {
	ID         [16]byte
	Name       string
	Partitions int32
	Created    int64    // Unix milliseconds
	Configs    []Config // what was set on the topic, sorted by name

	derived atomic.Pointer[derived]
}

type derived struct{ key, value any }

// Config returns a property that was set on the topic itself.
func (t *Topic) Config(name string) (value string, ok bool) {
	return lookup(t.Configs, name)
}

// Derived returns what compute returned for this topic and key, calling it when
// there is nothing or something for another key: a place to keep resolved
// properties, the key being what else they depend on. compute may be called more
// than once.
func (t *Topic) Derived(key any, compute func() any) any {
	if d := t.derived.Load(); d != nil && d.key == key {
		return d.value
	}
	d := &derived{key: key, value: compute()}
	t.derived.Store(d)
	return d.value
}

type resource struct {
	typ  ResourceType
	name string
}

// A Snapshot is the whole state at one moment. It is immutable and safe for
// concurrent use.
type Snapshot struct {
	byName     map[string]*Topic
	byID       map[[16]byte]*Topic
	configs    map[resource][]Config // brokers and groups; topics hold theirs
	producers  int64
	generation uint64

	sorted func() []*Topic
}

// ByName returns the id and partition count of a topic.
func (s *Snapshot) ByName(name string) (id [16]byte, partitions int32, ok bool) {
	if t := s.byName[name]; t != nil {
		return t.ID, t.Partitions, true
	}
	return id, 0, false
}

// ByID returns the name and partition count of a topic.
func (s *Snapshot) ByID(id [16]byte) (name string, partitions int32, ok bool) {
	if t := s.byID[id]; t != nil {
		return t.Name, t.Partitions, true
	}
	return "", 0, false
}

// Topic returns a topic by name, or nil.
func (s *Snapshot) Topic(name string) *Topic { return s.byName[name] }

// TopicByID returns a topic by id, or nil.
func (s *Snapshot) TopicByID(id [16]byte) *Topic { return s.byID[id] }

// Topics returns all topics sorted by name. The slice must not be changed.
func (s *Snapshot) Topics() []*Topic { return s.sorted() }

// Names calls f for the name of every topic, in no order, until f returns false.
func (s *Snapshot) Names(f func(name string) bool) {
	for name := range s.byName {
		if !f(name) {
			return
		}
	}
}

// Len is the number of topics.
func (s *Snapshot) Len() int { return len(s.byName) }

// Configs returns what was set on a resource, sorted by name; nil if nothing
// was. The slice must not be changed.
func (s *Snapshot) Configs(typ ResourceType, name string) []Config {
	if typ == ResourceTopic {
		if t := s.byName[name]; t != nil {
			return t.Configs
		}
		return nil
	}
	return s.configs[resource{typ, name}]
}

// Config returns one property that was set on a resource.
func (s *Snapshot) Config(typ ResourceType, name, property string) (value string, ok bool) {
	return lookup(s.Configs(typ, name), property)
}

// Resources returns the names of the brokers or groups on which properties
// were set, sorted.
func (s *Snapshot) Resources(typ ResourceType) []string {
	var names []string
	for r := range s.configs {
		if r.typ == typ {
			names = append(names, r.name)
		}
	}
	slices.Sort(names)
	return names
}

// NextProducerID is the first producer id that is not reserved.
func (s *Snapshot) NextProducerID() int64 { return s.producers }

// Generation changes whenever a property of a broker or a group changes. Topics
// with changed properties are new values instead.
func (s *Snapshot) Generation() uint64 { return s.generation }

// AppendRecords appends the whole state as metadata records in a fixed order:
// topics by name, other resources by type and name, producer ids.
func (s *Snapshot) AppendRecords(dst [][]byte) [][]byte {
	for _, t := range s.Topics() {
		dst = append(dst, AppendTopic(nil, t))
	}
	resources := make([]resource, 0, len(s.configs))
	for r := range s.configs {
		resources = append(resources, r)
	}
	slices.SortFunc(resources, func(a, b resource) int {
		if a.typ != b.typ {
			return int(a.typ) - int(b.typ)
		}
		return strings.Compare(a.name, b.name)
	})
	for _, r := range resources {
		dst = append(dst, AppendConfigs(nil, r.typ, r.name, s.configs[r]))
	}
	if s.producers > 0 {
		dst = append(dst, AppendProducerIDs(nil, s.producers))
	}
	return dst
}

func lookup(configs []Config, name string) (string, bool) {
	i, ok := slices.BinarySearchFunc(configs, name, func(c Config, name string) int {
		return strings.Compare(c.Name, name)
	})
	if !ok {
		return "", false
	}
	return configs[i].Value, true
}

func sortTopics(byName map[string]*Topic) func() []*Topic {
	return sync.OnceValue(func() []*Topic {
		list := make([]*Topic, 0, len(byName))
		for _, t := range byName {
			list = append(list, t)
		}
		slices.SortFunc(list, func(a, b *Topic) int { return strings.Compare(a.Name, b.Name) })
		return list
	})
}
