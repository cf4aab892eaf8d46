package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// TopicValues are the honoured properties of a topic in typed form. A Duration or
// a size below zero means that there is no limit.
type TopicValues struct {
	Compact, Delete bool // cleanup.policy

	RetentionTime   time.Duration // retention.ms
	RetentionBytes  int64
	SegmentBytes    int32 // internal.segment.bytes, else segment.bytes
	SegmentTime     time.Duration
	SegmentJitter   time.Duration
	IndexBytes      int32 // segment.index.bytes
	IndexInterval   int32 // index.interval.bytes
	FileDeleteDelay time.Duration

	DeleteRetention        time.Duration
	MinCompactionLag       time.Duration
	MaxCompactionLag       time.Duration
	MinCleanableDirtyRatio float64

	MaxMessageBytes      int32
	MaxDecompressedBytes int32
	CompressionType      string // producer, uncompressed, gzip, snappy, lz4, zstd
	GzipLevel            int32
	LZ4Level             int32
	ZstdLevel            int32

	LogAppendTime      bool // message.timestamp.type
	TimestampBeforeMax time.Duration
	TimestampAfterMax  time.Duration
}

func (v *TopicValues) bindings() map[string]any {
	return map[string]any{
		"retention.ms":                    &v.RetentionTime,
		"retention.bytes":                 &v.RetentionBytes,
		"segment.bytes":                   &v.SegmentBytes,
		"segment.ms":                      &v.SegmentTime,
		"segment.jitter.ms":               &v.SegmentJitter,
		"segment.index.bytes":             &v.IndexBytes,
		"index.interval.bytes":            &v.IndexInterval,
		"file.delete.delay.ms":            &v.FileDeleteDelay,
		"delete.retention.ms":             &v.DeleteRetention,
		"min.compaction.lag.ms":           &v.MinCompactionLag,
		"max.compaction.lag.ms":           &v.MaxCompactionLag,
		"min.cleanable.dirty.ratio":       &v.MinCleanableDirtyRatio,
		"max.message.bytes":               &v.MaxMessageBytes,
		"max.decompressed.message.bytes":  &v.MaxDecompressedBytes,
		"compression.type":                &v.CompressionType,
		"compression.gzip.level":          &v.GzipLevel,
		"compression.lz4.level":           &v.LZ4Level,
		"compression.zstd.level":          &v.ZstdLevel,
		"message.timestamp.before.max.ms": &v.TimestampBeforeMax,
		"message.timestamp.after.max.ms":  &v.TimestampAfterMax,
	}
}

// Topic returns the values of a topic with these properties set on it; the others
// are the broker's. The error is an *Error about the first that is unknown or
// invalid.
func (c *Config) Topic(set map[string]string) (*TopicValues, error) {
	if err := topicScope.checkAll(set, TopicSource); err != nil {
		return nil, err
	}
	v := &TopicValues{}
	for name, into := range v.bindings() {
		store(into, name, c.topicValue(name, set))
	}
	policies := SplitList(c.topicValue("cleanup.policy", set))
	v.Compact, v.Delete = slices.Contains(policies, "compact"), slices.Contains(policies, "delete")
	v.LogAppendTime = c.topicValue("message.timestamp.type", set) == "LogAppendTime"
	if size, ok := set["internal.segment.bytes"]; ok {
		store(&v.SegmentBytes, "internal.segment.bytes", size)
	}
	if v.MinCompactionLag > v.MaxCompactionLag {
		const name, other = "min.compaction.lag.ms", "max.compaction.lag.ms"
		low, high := c.topicValue(name, set), c.topicValue(other, set)
		return nil, &Error{Setting: Setting{Name: name, Value: low, Source: TopicSource},
			Problem: fmt.Sprintf("must not be above %s, which is %s", other, high),
			message: fmt.Sprintf("conflict topic config setting %s (%s) > %s (%s)", name, low, other, high)}
	}
	return v, nil
}

// topicValue is the value of a topic's property in text form.
func (c *Config) topicValue(name string, set map[string]string) string {
	p, ok := FindTopic(name)
	if !ok {
		panic("config: no topic property " + name)
	}
	return c.valueOf(p, set)
}

// valueOf is the value of a topic's or group's property: what is set there, else
// what the broker's synonyms say, else the default.
func (c *Config) valueOf(p *Property, set map[string]string) string {
	if value, ok := set[p.Name]; ok {
		return p.normal(value)
	}
	for _, synonym := range p.Synonyms {
		broker, ok := Find(synonym.Name)
		if !ok {
			panic("config: no property " + synonym.Name + ", a synonym of " + p.Name)
		}
		s, ok := c.Lookup(synonym.Name)
		if !ok && broker.Null {
			continue
		}
		if !ok {
			s.Value = broker.Default
		}
		return scaled(p, broker.normal(s.Value), synonym.Factor)
	}
	return p.Default
}

// scaled turns the value of a synonym into one of the property.
func scaled(p *Property, value string, factor int64) string {
	if p.Name == "streams.assignor.name" { // the first of the broker's list
		value, _, _ = strings.Cut(value, ",")
	}
	if factor == 1 {
		return value
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("config: a synonym of %s is %s: %v", p.Name, value, err))
	}
	if n < 0 {
		return "-1"
	}
	return strconv.FormatInt(n*factor, 10)
}

// checkAll finds the first wrong one of some settings, in the order of names.
func (in scope) checkAll(set map[string]string, source Source) error {
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if err := in.check(Setting{Name: name, Value: set[name], Source: source}); err != nil {
			return err
		}
	}
	return nil
}

var throttledReplicas = regexp.MustCompile(`^(\*|[0-9]+:[0-9]+(,[0-9]+:[0-9]+)*)?$`)

func checkThrottled(value string) string {
	if !throttledReplicas.MatchString(strings.ReplaceAll(value, " ", "")) {
		return "a list of partition:broker, or *"
	}
	return ""
}
