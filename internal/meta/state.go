package meta

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// MaxPartitions is the largest partition count of a topic that a record may
// carry: a bound for what a damaged record can cause.
const MaxPartitions = 1_000_000

// A State applies metadata records and publishes snapshots. Records are
// applied by one caller at a time, in the order of the journal; Load may be
// called from anywhere.
type State struct {
	// published is nil from applied records to the next Load: a start that replays
	// many records copies the maps once.
	published atomic.Pointer[Snapshot]

	mu struct {
		sync.Mutex
		next Snapshot // Invariant: never handed out; published is a copy of it
	}
}

// New returns an empty state.
func New() *State {
	s := &State{}
	s.mu.next = Snapshot{
		byName:  map[string]*Topic{},
		byID:    map[[16]byte]*Topic{},
		configs: map[resource][]Config{},
	}
	return s
}

// Load returns the state as of the last applied record. It costs one atomic
// load unless records were applied since the last call.
func (s *State) Load() *Snapshot {
	if p := s.published.Load(); p != nil {
		return p
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.published.Load(); p != nil {
		return p
	}
	n := &s.mu.next
	p := &Snapshot{
		byName:     maps.Clone(n.byName),
		byID:       maps.Clone(n.byID),
		configs:    maps.Clone(n.configs),
		producers:  n.producers,
		generation: n.generation,
	}
	p.sorted = sortTopics(p.byName)
	s.published.Store(p)
	return p
}

// Apply applies metadata records in order; no snapshot shows some of them only.
// A record about a topic that does not exist changes nothing: it was deleted
// since. The error says what is wrong with a record and wraps ErrUnknownKind if
// its kind is not known; then that one and those behind it have changed nothing.
func (s *State) Apply(records ...[]byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, record := range records {
		if err := s.mu.next.apply(record); err != nil {
			return err
		}
		s.published.Store(nil)
	}
	return nil
}

func (n *Snapshot) apply(record []byte) error {
	if len(record) == 0 {
		return fmt.Errorf("%w: no bytes", errMalformed)
	}
	kind := Kind(record[0])
	r := &reader{b: record[1:]}
	ok := false
	switch kind {
	case KindTopic:
		ok = n.applyTopic(r)
	case KindDeleted:
		if id := r.id(); r.done() {
			n.remove(id)
			ok = true
		}
	case KindPartitions:
		ok = n.applyPartitions(r)
	case KindConfigs:
		ok = n.applyConfigs(r)
	case KindProducerIDs:
		if next := r.int64(); r.done() && next >= 0 {
			n.producers = next
			ok = true
		}
	default:
		return fmt.Errorf("%w: %d", ErrUnknownKind, kind)
	}
	if !ok {
		return fmt.Errorf("%w: kind %d, %d bytes", errMalformed, kind, len(record))
	}
	return nil
}

func (n *Snapshot) applyTopic(r *reader) bool {
	t := r.topic()
	if !r.done() || t.Name == "" || t.ID == ([16]byte{}) || t.Partitions < 1 || t.Partitions > MaxPartitions ||
		!sortConfigs(t.Configs) {
		return false
	}
	n.remove(t.ID)
	if old := n.byName[t.Name]; old != nil {
		n.remove(old.ID)
	}
	n.byName[t.Name] = t
	n.byID[t.ID] = t
	return true
}

func (n *Snapshot) applyPartitions(r *reader) bool {
	id, count := r.id(), r.int32()
	if !r.done() || count < 1 || count > MaxPartitions {
		return false
	}
	if t := n.byID[id]; t != nil && count > t.Partitions { // a topic never loses partitions
		n.replace(&Topic{ID: id, Name: t.Name, Partitions: count, Created: t.Created, Configs: t.Configs})
	}
	return true
}

func (n *Snapshot) applyConfigs(r *reader) bool {
	typ, name, configs := r.resourceType(), r.string(), r.configs()
	if !r.done() || !sortConfigs(configs) {
		return false
	}
	switch {
	case typ == ResourceTopic:
		if t := n.byName[name]; t != nil {
			n.replace(&Topic{ID: t.ID, Name: name, Partitions: t.Partitions, Created: t.Created, Configs: configs})
		}
		return true
	case typ != ResourceBroker && typ != ResourceGroup:
		return false
	case len(configs) == 0:
		delete(n.configs, resource{typ, name})
	default:
		n.configs[resource{typ, name}] = configs
	}
	n.generation++
	return true
}

func (n *Snapshot) replace(t *Topic) {
	n.byName[t.Name] = t
	n.byID[t.ID] = t
}

func (n *Snapshot) remove(id [16]byte) {
	if t := n.byID[id]; t != nil {
		delete(n.byName, t.Name)
		delete(n.byID, id)
	}
}

// sortConfigs sorts by name and reports whether every name is there once.
func sortConfigs(configs []Config) bool {
	slices.SortFunc(configs, func(a, b Config) int { return strings.Compare(a.Name, b.Name) })
	for i := range configs {
		if configs[i].Name == "" || i > 0 && configs[i].Name == configs[i-1].Name {
			return false
		}
	}
	return true
}
