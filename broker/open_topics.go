package broker

import (
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/log"
)

// A Topic is a topic to have from the start.
type Topic struct {
	Name string
	// Partitions is their number; 0 or -1 is num.partitions.
	Partitions int32
	// Configs are the topic's own properties.
	Configs map[string]string
}

// warnOfTopic warns that a topic which exists already is not what is asked for: nothing
// of it is changed.
func (b *Broker) warnOfTopic(t *Topic) {
	topic := b.meta.Load().Topic(t.Name)
	if topic == nil {
		return
	}
	tell := func(property, value, has string) {
		b.logger.Warn().Str("topic", t.Name).Str("property", property).Str("value", value).Str("topic_has", has).
			Msg("the topic exists and keeps what it was made with")
	}
	if t.Partitions > 0 && t.Partitions != topic.Partitions {
		tell("partitions", fmt.Sprint(t.Partitions), fmt.Sprint(topic.Partitions))
	}
	for _, name := range slices.Sorted(maps.Keys(t.Configs)) {
		if has, _ := topic.Config(name); has != t.Configs[name] {
			tell(name, t.Configs[name], has)
		}
	}
}

// ensureTopics creates the topics of Options that do not exist. No loop runs yet,
// so the round is flushed here.
func (b *Broker) ensureTopics(store *log.Store) error {
	if len(b.options.Topics) == 0 {
		return nil
	}
	change := b.data.topics.begin(b)
	defer change.admin.serial.Unlock()
	_, wall := b.time.now()
	for _, t := range b.options.Topics {
		asked := kmsg.NewCreateTopicsRequestTopic()
		asked.Topic, asked.NumPartitions, asked.ReplicationFactor = t.Name, t.Partitions, 1
		if t.Partitions == 0 {
			asked.NumPartitions = -1
		}
		for _, name := range slices.Sorted(maps.Keys(t.Configs)) {
			value := t.Configs[name]
			asked.Configs = append(asked.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: name, Value: &value})
		}
		switch _, refused := change.newTopic(&asked, wall, false); {
		case refused == nil:
		case refused.code == codeTopicAlreadyExists:
			b.warnOfTopic(&t)
		default:
			return fmt.Errorf("topic %s: %s", t.Name, refused.message)
		}
	}
	if len(change.records) == 0 {
		return nil
	}
	if err := store.AppendMetadata(change.records, nil, false); err != nil {
		return fmt.Errorf("creating topics: %w", err)
	}
	if _, err := store.FlushStep(); err != nil {
		return fmt.Errorf("creating topics: %w", err)
	}
	return nil
}
