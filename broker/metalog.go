package broker

import (
	"github.com/kcoord/kcoord/coordinator"
	"github.com/kcoord/kcoord/internal/meta"
	"github.com/kcoord/kcoord/log"
)

// A metalog shows the store the broker's metadata and applies what has become
// durable.
type metalog struct{ broker *Broker }

// Apply applies one record. A deletion is passed on to whom it concerns; not
// while the folder is being opened: nobody has seen the topic then.
func (m *metalog) Apply(record []byte) error {
	b := m.broker
	var deleted *meta.Topic
	if len(record) == 17 && meta.Kind(record[0]) == meta.KindDeleted {
		deleted = b.meta.Load().TopicByID([16]byte(record[1:]))
	}
	if err := b.meta.Apply(record); err != nil {
		return err
	}
	b.data.topics.applied(record)
	if deleted != nil && b.isOpen() {
		b.data.topicGone(deleted)
	}
	return nil
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

// topicGone wakes who waits for a topic's records and has its offsets forgotten.
// The caller must not be kept waiting.
func (d *dataPlane) topicGone(t *meta.Topic) {
	for i := range t.Partitions {
		d.parked.advance(log.TopicID(t.ID), i)
	}
	d.forget(&forgetting{topics: []coordinator.DeletedTopic{{Name: t.Name, ID: t.ID}}, shards: d.broker.allShards()})
}

// A forgetting is a topic's deletion on its way to the coordinator's shards.
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
