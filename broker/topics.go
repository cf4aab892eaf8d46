package broker

import (
	"cmp"
	"errors"
	"strings"
	"sync"

	"github.com/kcoord/kcoord/internal/meta"
	"github.com/kcoord/kcoord/log"
)

// maxTopicName is the length of the longest topic name: it has to fit into a
// folder's name with a partition number behind it.
const maxTopicName = 249

// topicAdmin orders the changes of topics. A change is checked against the
// durable metadata and against what is on its way, put into the journal's open
// round, and seen by nobody before that round is durable.
type topicAdmin struct {
	// serial is held from the check of a change to its append, so that the journal
	// has changes in the order in which they were checked.
	serial sync.Mutex

	// mu guards what is on its way. The flusher takes it: nothing is locked under it.
	mu struct {
		sync.Mutex
		created    map[string]*meta.Topic
		names      map[[16]byte]string // of those in created
		deleted    map[[16]byte]bool
		partitions map[[16]byte]int32
	}
}

func (a *topicAdmin) init() {
	a.mu.created = map[string]*meta.Topic{}
	a.mu.names = map[[16]byte]string{}
	a.mu.deleted = map[[16]byte]bool{}
	a.mu.partitions = map[[16]byte]int32{}
}

// applied forgets what was on its way; it is part of the metadata by now, in
// this order, so that who looks here first and there afterwards misses nothing.
func (a *topicAdmin) applied(records [][]byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, record := range records {
		if len(record) >= 17 {
			a.appliedLocked(record, [16]byte(record[1:17]))
		}
	}
}

func (a *topicAdmin) appliedLocked(record []byte, id [16]byte) {
	switch meta.Kind(record[0]) {
	case meta.KindTopic:
		if name, ok := a.mu.names[id]; ok {
			delete(a.mu.created, name)
			delete(a.mu.names, id)
		}
	case meta.KindDeleted:
		delete(a.mu.deleted, id)
		delete(a.mu.partitions, id)
	case meta.KindPartitions:
		if string(meta.AppendPartitions(nil, id, a.mu.partitions[id])) == string(record) {
			delete(a.mu.partitions, id)
		}
	}
}

// A topicChange is one request's changes, from the first check to the append.
type topicChange struct {
	b       *Broker
	admin   *topicAdmin
	records [][]byte
	undo    []func() // under admin.mu
	// alike are names, existing or coming, by what a metric's name makes of them;
	// only those that can collide. nil: not needed so far.
	alike map[string][]string
}

// begin starts a change; commit ends it. Meanwhile no other change is made.
func (a *topicAdmin) begin(b *Broker) *topicChange {
	a.serial.Lock()
	return &topicChange{b: b, admin: a}
}

// commit puts the changes into the open round; w is released when they are
// durable. waits is false if there was nothing to do. After an error nothing of
// them is on its way. urgent changes are taken when the disk is full.
func (c *topicChange) commit(w log.Waiter, urgent bool) (waits bool, err error) {
	defer c.admin.serial.Unlock()
	if len(c.records) == 0 {
		return false, nil
	}
	if !urgent {
		err = c.b.admitWrite()
	}
	if err == nil {
		err = c.b.store.AppendMetadata(c.records, &w, urgent)
	}
	if err != nil {
		c.admin.mu.Lock()
		for _, undo := range c.undo {
			undo()
		}
		c.admin.mu.Unlock()
	}
	return true, err
}

// repeat appends a record that is on its way already: harmless, and the answer
// waits for a round that is no earlier.
func (c *topicChange) repeat(record []byte) { c.records = append(c.records, record) }

// find returns a topic by name; coming is true if it is being created.
func (c *topicChange) find(name string) (t *meta.Topic, coming bool) {
	c.admin.mu.Lock()
	t = c.admin.mu.created[name]
	c.admin.mu.Unlock()
	if t != nil { // it may have been applied, which is noted for all of a round together
		now := c.b.meta.Load().TopicByID(t.ID)
		return cmp.Or(now, t), now == nil
	}
	return c.b.meta.Load().Topic(name), false
}

// create has a topic created that does not exist.
func (c *topicChange) create(name string, partitions int32, wall int64, configs []meta.Config) *meta.Topic {
	t := &meta.Topic{ID: c.b.data.newTopicID(), Name: name, Partitions: partitions, Created: wall, Configs: configs}
	c.records = append(c.records, meta.AppendTopic(nil, t))
	c.admin.mu.Lock()
	defer c.admin.mu.Unlock()
	c.admin.mu.created[name] = t
	c.admin.mu.names[t.ID] = name
	c.undo = append(c.undo, func() { delete(c.admin.mu.created, name); delete(c.admin.mu.names, t.ID) })
	if c.alike != nil {
		c.addAlike(name)
	}
	return t
}

// delete has a topic deleted. It reports false if that is on its way already;
// the answer then waits for it.
func (c *topicChange) delete(id [16]byte) bool {
	c.records = append(c.records, meta.AppendDeleted(nil, id))
	c.admin.mu.Lock()
	defer c.admin.mu.Unlock()
	if c.admin.mu.deleted[id] {
		return false
	}
	c.admin.mu.deleted[id] = true
	c.undo = append(c.undo, func() { delete(c.admin.mu.deleted, id) })
	return true
}

// growing returns a topic that exists, or nil, and the partition count that it
// has or will have.
func (c *topicChange) growing(name string) (*meta.Topic, int32) {
	t := c.b.meta.Load().Topic(name)
	if t == nil {
		return nil, 0
	}
	c.admin.mu.Lock()
	count := c.admin.mu.partitions[t.ID]
	c.admin.mu.Unlock()
	if t = c.b.meta.Load().TopicByID(t.ID); t == nil {
		return nil, 0
	}
	return t, max(count, t.Partitions)
}

// grow has a topic's partition count raised.
func (c *topicChange) grow(id [16]byte, count int32) {
	c.records = append(c.records, meta.AppendPartitions(nil, id, count))
	c.admin.mu.Lock()
	defer c.admin.mu.Unlock()
	before := c.admin.mu.partitions[id]
	c.admin.mu.partitions[id] = count
	c.undo = append(c.undo, func() { c.admin.mu.partitions[id] = before })
}

// refusalCode is the error code for a change that the store cannot take now.
func refusalCode(err error) int16 {
	if errors.Is(err, log.ErrNoSpace) || errors.Is(err, log.ErrFailed) {
		return codeStorageError
	}
	return codeNotController // clients try again soon
}

// topicNameProblem is what is wrong with a topic's name, in Kafka's words, or
// the empty string.
func topicNameProblem(name string) string {
	switch {
	case name == "":
		return "Topic name is invalid: the empty string is not allowed"
	case name == "." || name == "..":
		return "Topic name is invalid: '" + name + "' is not allowed"
	case len(name) > maxTopicName:
		return "Topic name is invalid: the length of '" + name + "' is longer than the max allowed length 249"
	}
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return "Topic name is invalid: '" + name + "' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
		}
	}
	return ""
}

// collision returns a topic, existing or coming, whose name differs from name
// only by '.' in place of '_', which metric names cannot tell apart; of several
// the first in the order of names.
func (c *topicChange) collision(name string) (found string) {
	if !strings.ContainsAny(name, "._") {
		return ""
	}
	if c.alike == nil {
		c.alike = map[string][]string{}
		c.admin.mu.Lock()
		for other := range c.admin.mu.created {
			c.addAlike(other)
		}
		c.admin.mu.Unlock()
		c.b.meta.Load().Names(func(other string) bool {
			c.addAlike(other)
			return true
		})
	}
	for _, other := range c.alike[metricName(name)] {
		if other != name && (found == "" || other < found) {
			found = other
		}
	}
	return found
}

func (c *topicChange) addAlike(name string) {
	if strings.ContainsAny(name, "._") {
		c.alike[metricName(name)] = append(c.alike[metricName(name)], name)
	}
}

// metricName is what a topic's name becomes in the names of Kafka's metrics.
func metricName(topic string) string { return strings.ReplaceAll(topic, ".", "_") }
