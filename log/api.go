// Package log is the store: one journal in front of many partition logs. What
// is appended, to any partition, during the sync of one round becomes the next
// round: one write and one fdatasync of one file, whatever was written. The
// partition logs are Kafka's own format and follow behind without syncs.
//
// The package does not know what a record means and starts no goroutine: its
// loops are step functions that the broker runs.
package log

// TopicID is a topic's id (KIP-516).
type TopicID [16]byte

// A Record is one record to append. Value nil is a tombstone.
type Record struct {
	Key, Value []byte
}

// A Waiter is told when the round it waits for is durable. The store does not
// look into it; it returns waiters in the order they were attached.
type Waiter struct {
	Conn       any    // whose answer
	Slot       uint32 // and which
	Generation uint32
	Loop       int32
	Answer     []byte // nil: the answer lies in the slot already
}

// Metadata is the state that metadata items change, as the store needs to know
// it. internal/meta implements it; the store owns the kinds "start", "log
// start" and "recovery point" and gives Metadata all others (log format,
// metadata records).
type Metadata interface {
	// Apply applies one metadata record (kind byte first). Repeating a record is
	// harmless. An unknown kind is an error that says so.
	Apply(record []byte) error
	// AppendRecords appends the whole state as metadata records.
	AppendRecords(dst [][]byte) [][]byte
	// Topics calls f for every topic, in a fixed order, until f returns false.
	Topics(f func(t TopicInfo) bool)
	// Topic returns a topic by id.
	Topic(id TopicID) (TopicInfo, bool)
}

// TopicInfo is what the store needs to know of a topic.
type TopicInfo struct {
	ID         TopicID
	Name       string
	Partitions int32
	// Config returns a topic property by Kafka's name, resolved to its broker
	// default when the topic has no own value.
	Config TopicConfig
}

// TopicConfig is a topic's properties that shape its logs, resolved.
type TopicConfig struct {
	SegmentBytes       int64
	SegmentMillis      int64
	SegmentIndexBytes  int64
	IndexIntervalBytes int64
	MaxMessageBytes    int64
	RetentionMillis    int64 // -1: unlimited
	RetentionBytes     int64 // -1: unlimited
	DeleteRetention    int64 // ms: how long tombstones are kept
	MinCompactionLag   int64 // ms
	MaxCompactionLag   int64 // ms
	MinCleanableRatio  float64
	FileDeleteDelay    int64 // ms
	Delete, Compact    bool  // cleanup.policy
	LogAppendTime      bool  // message.timestamp.type
	CompressionType    string
}
