package broker

import (
	"github.com/kcoord/kcoord/coordinator"
	"github.com/kcoord/kcoord/internal/meta"
	"github.com/kcoord/kcoord/log"
)

// A metalog shows the store the broker's metadata and applies what has become
// durable.
type metalog struct{ broker *Broker }

// Apply applies records. Deletions are passed on to whom they concern; not while
// the folder is being opened: nobody has seen the topics then.
func (m *metalog) Apply(records ...[]byte) error {
	b := m.broker
	var before *meta.Snapshot // a start, which applies one record after the other, makes none for each
	var deleted []*meta.Topic
	if b.isOpen() {
		before = b.meta.Load()
		deleted = deletedTopics(before, records)
	}
	if err := b.meta.Apply(records...); err != nil {
		return err
	}
	if b.tellsRequests && before != nil {
		b.tellMetadata(before, records)
	}
	b.data.topics.applied(records)
	if len(deleted) > 0 {
		b.data.topicsGone(deleted)
	}
	return nil
}

// deletedTopics are the topics of a snapshot that records delete.
func deletedTopics(snap *meta.Snapshot, records [][]byte) (list []*meta.Topic) {
	seen := map[*meta.Topic]bool{}
	for _, r := range records {
		if len(r) != 17 || meta.Kind(r[0]) != meta.KindDeleted {
			continue
		}
		if t := snap.TopicByID([16]byte(r[1:])); t != nil && !seen[t] {
			seen[t] = true
			list = append(list, t)
		}
	}
	return list
}

func (m *metalog) AppendRecords(dst [][]byte) [][]byte {
	return m.broker.meta.Load().AppendRecords(dst)
}

func (m *metalog) Topics(f func(t log.TopicInfo) bool) {
	for _, t := range m.broker.meta.Load().Topics() {
		if !f(m.broker.topicInfo(t)) {
			return
		}
	}
}

func (m *metalog) Topic(id log.TopicID) (log.TopicInfo, bool) {
	t := m.broker.meta.Load().TopicByID(id)
	if t == nil {
		return log.TopicInfo{}, false
	}
	return m.broker.topicInfo(t), true
}

func (b *Broker) topicInfo(t *meta.Topic) log.TopicInfo {
	return log.TopicInfo{ID: log.TopicID(t.ID), Name: t.Name, Partitions: t.Partitions, Config: *b.topicConfig(t)}
}

// topicsGone wakes who waits for records of topics and has their offsets
// forgotten. The caller must not be kept waiting.
func (d *dataPlane) topicsGone(list []*meta.Topic) {
	f := &forgetting{shards: d.broker.allShards()}
	for _, t := range list {
		for i := range t.Partitions {
			d.parked.advance(log.TopicID(t.ID), i)
		}
		f.topics = append(f.topics, coordinator.DeletedTopic{Name: t.Name, ID: t.ID})
	}
	d.forget(f)
}

// A forgetting is the deletion of topics on its way to the coordinator's shards.
type forgetting struct {
	topics []coordinator.DeletedTopic
	shards []*shard // that have not been told
}

// forget tells the shards, on a pool worker. One that cannot take it now, because
// it is loading or may not write, is told later.
func (d *dataPlane) forget(f *forgetting) {
	b := d.broker
	b.pool.submit(func() {
		later := f.shards[:0:0]
		for _, sh := range f.shards {
			if !sh.topicsDeleted(f.topics) && !sh.ended() {
				later = append(later, sh)
			}
		}
		if f.shards = later; len(later) > 0 {
			now, _ := b.time.now()
			b.alarms.set(&alarm{fire: func() { d.forget(f) }}, now+refusedRetry)
		}
	})
}

// ended says whether the shard will never again take an event.
func (sh *shard) ended() bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.mu.state == shardFailed || sh.mu.state == shardClosed
}
