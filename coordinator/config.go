package coordinator

import "time"

// NewMemberJoinTimeout is how long a member that never completed a join phase is
// kept while its JoinGroup is parked. Apache Kafka has no setting for it.
const NewMemberJoinTimeout = 5 * time.Minute

// Config is the coordinator's configuration by Kafka's property names. It is
// immutable: a change is a new Config in later events.
type Config struct {
	MinSessionTimeout     time.Duration // group.min.session.timeout.ms
	MaxSessionTimeout     time.Duration // group.max.session.timeout.ms
	InitialRebalanceDelay time.Duration // group.initial.rebalance.delay.ms
	MaxSize               int           // group.max.size, members

	OffsetMetadataMaxBytes        int           // offset.metadata.max.bytes; UTF-16 code units despite the name
	OffsetsRetention              time.Duration // offsets.retention.minutes
	OffsetsRetentionCheckInterval time.Duration // offsets.retention.check.interval.ms

	// MaxMessageBytes is max.message.bytes of __consumer_offsets: what one step
	// writes is one batch and may not be larger.
	MaxMessageBytes int

	// Groups holds what was set on single groups (resource type GROUP).
	Groups map[string]*GroupConfig
}

// GroupConfig holds a group's own settings. Zero means not set. Classic groups
// have none: the names are those of the consumer protocol.
type GroupConfig struct {
	ConsumerSessionTimeout     time.Duration // consumer.session.timeout.ms
	ConsumerHeartbeatInterval  time.Duration // consumer.heartbeat.interval.ms
	ConsumerAssignmentInterval time.Duration // consumer.assignment.interval.ms
}

// DefaultConfig returns Apache Kafka's defaults.
func DefaultConfig() *Config {
	return &Config{
		MinSessionTimeout:             6 * time.Second,
		MaxSessionTimeout:             30 * time.Minute,
		InitialRebalanceDelay:         3 * time.Second,
		MaxSize:                       1<<31 - 1,
		OffsetMetadataMaxBytes:        4096,
		OffsetsRetention:              7 * 24 * time.Hour,
		OffsetsRetentionCheckInterval: 10 * time.Minute,
		MaxMessageBytes:               8 << 20,
	}
}
