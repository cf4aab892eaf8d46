package broker

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/internal/config"
	"github.com/kcoord/kcoord/internal/meta"
	"github.com/kcoord/kcoord/log"
)

// topicConfig is a topic's properties, resolved. The result is shared.
func (b *Broker) topicConfig(t *meta.Topic) *log.TopicConfig {
	c := b.config.Load()
	return t.Derived(c, func() any { return resolveTopic(c, t) }).(*log.TopicConfig)
}

// propertiesOf are the properties set on a resource.
func propertiesOf(configs []meta.Config) map[string]string {
	set := make(map[string]string, len(configs))
	for _, c := range configs {
		set[c.Name] = c.Value
	}
	return set
}

// resolveTopic makes the properties that hold for a topic: its own, else the
// broker's. Own ones that this version does not know are left out: a folder may
// have been written by a newer one.
func resolveTopic(c *config.Config, t *meta.Topic) *log.TopicConfig {
	set := propertiesOf(t.Configs)
	v, err := c.Topic(set)
	if err != nil {
		for name, value := range set {
			if p, ok := config.FindTopic(name); !ok || p.Check(value) != "" {
				delete(set, name)
			}
		}
		if v, err = c.Topic(set); err != nil {
			v, _ = c.Topic(nil)
		}
	}
	return &log.TopicConfig{
		SegmentBytes:       int64(v.SegmentBytes),
		SegmentMillis:      millis(v.SegmentTime),
		SegmentJitter:      millis(v.SegmentJitter),
		SegmentIndexBytes:  int64(v.IndexBytes),
		IndexIntervalBytes: int64(v.IndexInterval),
		MaxMessageBytes:    int64(v.MaxMessageBytes),
		RetentionMillis:    millis(v.RetentionTime),
		RetentionBytes:     v.RetentionBytes,
		DeleteRetention:    millis(v.DeleteRetention),
		MinCompactionLag:   millis(v.MinCompactionLag),
		MaxCompactionLag:   millis(v.MaxCompactionLag),
		MinCleanableRatio:  v.MinCleanableDirtyRatio,
		FileDeleteDelay:    millis(v.FileDeleteDelay),
		Delete:             v.Delete,
		Compact:            v.Compact,
		LogAppendTime:      v.LogAppendTime,
		CompressionType:    v.CompressionType,
		TimestampBeforeMax: millis(v.TimestampBeforeMax),
		TimestampAfterMax:  millis(v.TimestampAfterMax),
	}
}

// millis is a duration in milliseconds; one without limit, which a negative or
// the longest one says, stays so.
func millis(d time.Duration) int64 {
	switch {
	case d < 0:
		return -1
	case d == math.MaxInt64:
		return math.MaxInt64
	}
	return int64(d / time.Millisecond)
}

// topicConfigProblem is what is wrong with the properties set on a topic, in
// Kafka's words, or the empty string.
func topicConfigProblem(c *config.Config, set []meta.Config) string {
	_, err := c.Topic(propertiesOf(set))
	var wrong *config.Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &wrong):
		return wrong.Message()
	}
	return err.Error()
}

// createdConfigs are a new topic's properties as CreateTopics answers them.
func (b *Broker) createdConfigs(t *meta.Topic) []kmsg.CreateTopicsResponseTopicConfig {
	entries := b.config.Load().DescribeTopic(propertiesOf(t.Configs))
	list := make([]kmsg.CreateTopicsResponseTopicConfig, 0, len(entries))
	for i := range entries {
		e := &entries[i]
		rc := kmsg.NewCreateTopicsResponseTopicConfig()
		rc.Name, rc.Value, rc.ReadOnly, rc.Source, rc.IsSensitive = e.Name, e.Value, e.ReadOnly, int8(e.Source), e.Sensitive()
		list = append(list, rc)
	}
	return slices.Clip(list)
}
