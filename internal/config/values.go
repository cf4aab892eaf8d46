package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Values are the honoured properties of a broker in typed form. A Duration or a
// size below zero means that there is no limit; a Duration too long to be one is
// math.MaxInt64 nanoseconds (292 years).
type Values struct {
	NodeID    int32  // node.id, broker.id
	Rack      string // broker.rack
	ClusterID string // kcoord.cluster.id; empty: the data folder's, or a new one

	SocketRequestMaxBytes    int // socket.request.max.bytes
	ConnectionsMaxIdle       time.Duration
	MaxConnections           int
	MaxConnectionsPerIP      int
	MaxConnectionsPerIPOver  string // max.connections.per.ip.overrides
	FetchMaxBytes            int    // fetch.max.bytes
	MaxFetchSessions         int    // max.incremental.fetch.session.cache.slots
	MaxRequestPartitionLimit int    // max.request.partition.size.limit

	NumPartitions    int32 // num.partitions
	AutoCreateTopics bool  // auto.create.topics.enable
	DeleteTopics     bool  // delete.topic.enable

	LogDirs                   []string // log.dirs, else log.dir
	LogRetentionCheckInterval time.Duration
	LogInitialTaskDelay       time.Duration
	LogCleanerEnable          bool
	LogCleanerMaxBytesPerSec  float64
	LogCleanerDedupeBuffer    int64 // log.cleaner.dedupe.buffer.size
	LogCleanerIOBuffer        int   // log.cleaner.io.buffer.size
	LogCleanerLoadFactor      float64
	LogCleanerBackoff         time.Duration
	NumRecoveryThreads        int // num.recovery.threads.per.data.dir
	ProducerIDExpiration      time.Duration
	ProducerIDExpirationCheck time.Duration

	OffsetMetadataMaxBytes        int
	OffsetsRetention              time.Duration // offsets.retention.minutes
	OffsetsRetentionCheckInterval time.Duration
	OffsetsCommitTimeout          time.Duration
	OffsetsTopicPartitions        int32 // offsets.topic.num.partitions
	OffsetsTopicSegmentBytes      int32
	OffsetsTopicCompressionCodec  int8 // 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd

	GroupProtocols             []string // group.coordinator.rebalance.protocols
	GroupMinSessionTimeout     time.Duration
	GroupMaxSessionTimeout     time.Duration
	GroupInitialRebalanceDelay time.Duration
	GroupMaxSize               int

	ConsumerSessionTimeout        time.Duration // group.consumer.session.timeout.ms
	ConsumerMinSessionTimeout     time.Duration
	ConsumerMaxSessionTimeout     time.Duration
	ConsumerHeartbeatInterval     time.Duration
	ConsumerMinHeartbeatInterval  time.Duration
	ConsumerMaxHeartbeatInterval  time.Duration
	ConsumerAssignmentInterval    time.Duration
	ConsumerMinAssignmentInterval time.Duration
	ConsumerMaxAssignmentInterval time.Duration
	ConsumerRegexRefreshInterval  time.Duration
	ConsumerMaxSize               int
	ConsumerAssignors             []string
	ConsumerMigrationPolicy       string // in lower case

	Durability            string // kcoord.durability: sync, interval, os
	DurabilityInterval    time.Duration
	CheckpointInterval    time.Duration
	CheckpointBytes       int64
	JournalFileBytes      int64
	JournalMaxBytes       int64
	SegmentWriteDelay     time.Duration
	MetricsGroups         string // kcoord.metrics.groups, a regular expression or empty
	DiskReserveBytes      int64
	InflateMaxBytes       int64
	OffsetsMaxMessageSize int // max.message.bytes of __consumer_offsets

	Listeners []Listener
}

// bindings names the typed value of each honoured property; those that are not a
// copy of one property's value are made in fill.
func (v *Values) bindings() map[string]any {
	return map[string]any{
		"broker.rack":                               &v.Rack,
		"kcoord.cluster.id":                         &v.ClusterID,
		"socket.request.max.bytes":                  &v.SocketRequestMaxBytes,
		"connections.max.idle.ms":                   &v.ConnectionsMaxIdle,
		"max.connections":                           &v.MaxConnections,
		"max.connections.per.ip":                    &v.MaxConnectionsPerIP,
		"max.connections.per.ip.overrides":          &v.MaxConnectionsPerIPOver,
		"fetch.max.bytes":                           &v.FetchMaxBytes,
		"max.incremental.fetch.session.cache.slots": &v.MaxFetchSessions,
		"max.request.partition.size.limit":          &v.MaxRequestPartitionLimit,
		"num.partitions":                            &v.NumPartitions,
		"auto.create.topics.enable":                 &v.AutoCreateTopics,
		"delete.topic.enable":                       &v.DeleteTopics,
		"log.retention.check.interval.ms":           &v.LogRetentionCheckInterval,
		"log.initial.task.delay.ms":                 &v.LogInitialTaskDelay,
		"log.cleaner.enable":                        &v.LogCleanerEnable,
		"log.cleaner.io.max.bytes.per.second":       &v.LogCleanerMaxBytesPerSec,
		"log.cleaner.dedupe.buffer.size":            &v.LogCleanerDedupeBuffer,
		"log.cleaner.io.buffer.size":                &v.LogCleanerIOBuffer,
		"log.cleaner.io.buffer.load.factor":         &v.LogCleanerLoadFactor,
		"log.cleaner.backoff.ms":                    &v.LogCleanerBackoff,
		"num.recovery.threads.per.data.dir":         &v.NumRecoveryThreads,
		"producer.id.expiration.ms":                 &v.ProducerIDExpiration,
		"producer.id.expiration.check.interval.ms":  &v.ProducerIDExpirationCheck,
		"offset.metadata.max.bytes":                 &v.OffsetMetadataMaxBytes,
		"offsets.retention.minutes":                 &v.OffsetsRetention,
		"offsets.retention.check.interval.ms":       &v.OffsetsRetentionCheckInterval,
		"offsets.commit.timeout.ms":                 &v.OffsetsCommitTimeout,
		"offsets.topic.num.partitions":              &v.OffsetsTopicPartitions,
		"offsets.topic.segment.bytes":               &v.OffsetsTopicSegmentBytes,
		"offsets.topic.compression.codec":           &v.OffsetsTopicCompressionCodec,
		"group.coordinator.rebalance.protocols":     &v.GroupProtocols,
		"group.min.session.timeout.ms":              &v.GroupMinSessionTimeout,
		"group.max.session.timeout.ms":              &v.GroupMaxSessionTimeout,
		"group.initial.rebalance.delay.ms":          &v.GroupInitialRebalanceDelay,
		"group.max.size":                            &v.GroupMaxSize,
		"group.consumer.session.timeout.ms":         &v.ConsumerSessionTimeout,
		"group.consumer.min.session.timeout.ms":     &v.ConsumerMinSessionTimeout,
		"group.consumer.max.session.timeout.ms":     &v.ConsumerMaxSessionTimeout,
		"group.consumer.heartbeat.interval.ms":      &v.ConsumerHeartbeatInterval,
		"group.consumer.min.heartbeat.interval.ms":  &v.ConsumerMinHeartbeatInterval,
		"group.consumer.max.heartbeat.interval.ms":  &v.ConsumerMaxHeartbeatInterval,
		"group.consumer.assignment.interval.ms":     &v.ConsumerAssignmentInterval,
		"group.consumer.min.assignment.interval.ms": &v.ConsumerMinAssignmentInterval,
		"group.consumer.max.assignment.interval.ms": &v.ConsumerMaxAssignmentInterval,
		"group.consumer.regex.refresh.interval.ms":  &v.ConsumerRegexRefreshInterval,
		"group.consumer.max.size":                   &v.ConsumerMaxSize,
		"group.consumer.assignors":                  &v.ConsumerAssignors,
		"group.consumer.migration.policy":           &v.ConsumerMigrationPolicy,
		"kcoord.durability":                         &v.Durability,
		"kcoord.durability.interval.ms":             &v.DurabilityInterval,
		"kcoord.checkpoint.interval.ms":             &v.CheckpointInterval,
		"kcoord.checkpoint.bytes":                   &v.CheckpointBytes,
		"kcoord.journal.file.bytes":                 &v.JournalFileBytes,
		"kcoord.journal.max.bytes":                  &v.JournalMaxBytes,
		"kcoord.segment.write.delay.ms":             &v.SegmentWriteDelay,
		"kcoord.disk.reserve.bytes":                 &v.DiskReserveBytes,
		"kcoord.inflate.max.bytes":                  &v.InflateMaxBytes,
		"kcoord.metrics.groups":                     &v.MetricsGroups,
		"kcoord.offsets.max.message.bytes":          &v.OffsetsMaxMessageSize,
	}
}

// madeOf are the honoured properties that have no binding: values are made of
// several of them, in fill or for a topic.
var madeOf = []string{"node.id", "broker.id", "listeners", "advertised.listeners", "listener.security.protocol.map",
	"controller.listener.names", "log.dir", "log.dirs"}

// fill makes the typed values of a configuration whose settings were checked one
// by one, and checks what has to hold between them.
func (v *Values) fill(c *Config) error {
	for name, into := range v.bindings() {
		store(into, name, c.Get(name))
	}
	v.ConsumerMigrationPolicy = strings.ToLower(v.ConsumerMigrationPolicy)
	var err error
	if v.NodeID, err = c.nodeID(); err != nil {
		return err
	}
	if v.LogDirs, err = c.logDirs(); err != nil {
		return err
	}
	if v.Listeners, err = c.listeners(); err != nil {
		return err
	}
	if !slices.Contains(v.GroupProtocols, "classic") {
		return c.wrong("group.coordinator.rebalance.protocols", "must have classic")
	}
	if v.ConsumerAssignors, err = c.assignors(); err != nil {
		return err
	}
	if err := c.checkBounds(); err != nil {
		return err
	}
	_, err = c.Topic(nil)
	return err
}

// nodeID is node.id, else its older name.
func (c *Config) nodeID() (int32, error) {
	node, nodeSet := c.Lookup("node.id")
	broker, brokerSet := c.Lookup("broker.id")
	brokerSet = brokerSet && broker.Value != "-1"
	id := c.Get("node.id")
	switch {
	case nodeSet && brokerSet && node.Value != broker.Value:
		return 0, c.wrong("broker.id", "must be the same as node.id, which is %s", node.Value)
	case brokerSet && !nodeSet:
		id = broker.Value
	}
	n, err := integer[int32](id, 32)
	if err != nil || n < 0 {
		return 0, c.wrong("broker.id", "must be %s", atLeast(0).describe(Int))
	}
	return n, nil
}

// logDirs is log.dirs, else log.dir.
func (c *Config) logDirs() ([]string, error) {
	name := "log.dirs"
	if c.Get(name) == "" {
		name = "log.dir"
	}
	dirs := SplitList(c.Get(name))
	if len(dirs) != 1 {
		return nil, c.wrong(name, "must be one folder")
	}
	return dirs, nil
}

// assignors are the names of the consumer groups' assignors.
func (c *Config) assignors() ([]string, error) {
	const name = "group.consumer.assignors"
	classes := map[string]string{
		"org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
		"org.apache.kafka.coordinator.group.assignor.RangeAssignor":   "range",
	}
	var names []string
	for _, word := range SplitList(c.Get(name)) {
		if short, ok := classes[word]; ok {
			word = short
		}
		if word != "uniform" && word != "range" {
			return nil, c.wrong(name, "must be a list of uniform, range; assignors in Java cannot be loaded")
		}
		if slices.Contains(names, word) {
			return nil, c.wrong(name, "has %s twice", word)
		}
		names = append(names, word)
	}
	if len(names) == 0 {
		return nil, c.wrong(name, "must have an assignor")
	}
	return names, nil
}

// ranges are the properties that lie between two others, called as they are with
// min and max put in where the star is.
var ranges = []string{
	"group.consumer.*session.timeout.ms", "group.consumer.*heartbeat.interval.ms", "group.consumer.*assignment.interval.ms",
	"group.share.*session.timeout.ms", "group.share.*heartbeat.interval.ms", "group.share.*assignment.interval.ms",
	"group.share.*delivery.count.limit", "group.share.*record.lock.duration.ms", "group.share.*partition.max.record.locks",
	"group.streams.*session.timeout.ms", "group.streams.*heartbeat.interval.ms", "group.streams.*assignment.interval.ms",
}

// checkBounds checks properties against those that bound them.
func (c *Config) checkBounds() error {
	number := func(name string) int64 {
		n, err := strconv.ParseInt(strings.TrimSpace(c.Get(name)), 10, 64)
		if err != nil {
			panic(fmt.Sprintf("config: %s=%s was found valid: %v", name, c.Get(name), err))
		}
		return n
	}
	for _, pattern := range ranges {
		name := strings.Replace(pattern, "*", "", 1)
		low, high := strings.Replace(pattern, "*", "min.", 1), strings.Replace(pattern, "*", "max.", 1)
		if number(low) > number(high) {
			return c.wrong(c.set1(low, high), "%s is above %s", low, high)
		}
		if n := number(name); n < number(low) || n > number(high) {
			err := c.wrong(c.set1(name, low, high), "%s (%d) must be from %s (%d) to %s (%d)", name, n, low, number(low), high, number(high))
			err.message = name + " must be greater than or equal to " + low
			if n > number(high) {
				err.message = name + " must be less than or equal to " + high
			}
			return err
		}
	}
	for _, kind := range []string{"consumer", "share", "streams"} {
		heartbeat, session := "group."+kind+".heartbeat.interval.ms", "group."+kind+".session.timeout.ms"
		if number(heartbeat) >= number(session) {
			return c.wrong(c.set1(heartbeat, session), "%s (%d) must be below %s (%d)", heartbeat, number(heartbeat), session, number(session))
		}
	}
	return nil
}

// set1 is the first of some properties that was set, or the first.
func (c *Config) set1(names ...string) string {
	for _, name := range names {
		if _, ok := c.Lookup(name); ok {
			return name
		}
	}
	return names[0]
}

// store puts a checked value into a typed one.
func store(into any, name, text string) {
	text = strings.TrimSpace(text)
	var err error
	switch into := into.(type) {
	case *string:
		*into = text
	case *bool:
		*into, err = strconv.ParseBool(strings.ToLower(text))
	case *int:
		*into, err = strconv.Atoi(text)
	case *int8:
		*into, err = integer[int8](text, 8)
	case *int32:
		*into, err = integer[int32](text, 32)
	case *int64:
		*into, err = integer[int64](text, 64)
	case *float64:
		*into, err = strconv.ParseFloat(text, 64)
	case *[]string:
		*into = SplitList(text)
	case *time.Duration:
		var n int64
		n, err = integer[int64](text, 64)
		*into = duration(n, unit(name))
	default:
		panic(fmt.Sprintf("config: %s is bound to a %T", name, into))
	}
	if err != nil {
		panic(fmt.Sprintf("config: %s=%s was found valid: %v", name, text, err))
	}
}

func integer[T int8 | int32 | int64](text string, bits int) (T, error) {
	n, err := strconv.ParseInt(text, 10, bits)
	return T(n), err
}

// unit is the unit of time that a property's name ends with.
func unit(name string) time.Duration {
	switch {
	case strings.HasSuffix(name, ".hours"):
		return time.Hour
	case strings.HasSuffix(name, ".minutes"):
		return time.Minute
	case strings.HasSuffix(name, ".seconds"):
		return time.Second
	}
	return time.Millisecond
}

// duration is n units, or the longest Duration if it does not fit.
func duration(n int64, unit time.Duration) time.Duration {
	if n > math.MaxInt64/int64(unit) {
		return math.MaxInt64
	}
	return time.Duration(n) * unit
}
