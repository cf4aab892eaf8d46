package log

import (
	"time"

	"github.com/kcoord/kcoord/log/vfs"
)

// TopicID is a topic's id (KIP-516).
type TopicID [16]byte

// A Record is one record to append. Key nil is a null key, Value nil a
// tombstone.
type Record struct {
	Key, Value []byte
}

// A Waiter is told when the round it waits for is durable. The store does not
// look into it; it returns waiters in the order they were attached.
type Waiter struct {
	Conn       any    // whose answer
	Slot       uint32 // and which
	Generation uint32
	Patience   int32  // ms by which At lies after the request's arrival
	Key        int16  // of the request's API
	Version    int16  // of the request
	At         int64  // monotonic ns: since when it waits; only TakeWaiters looks at it
	Answer     []byte // nil: the answer lies in the slot already
	// Joins: if the waiter attached just before differs in nothing but that its Slot is
	// the one before, one Waiter may stand for both. The answer lies in the slot, and
	// Conn is comparable. More is the number of Slots behind Slot that the Waiter stands
	// for besides; the store fills it in.
	Joins bool
	More  uint32
}

// takesIn makes w stand for next, which was attached behind it, if it can.
func (w *Waiter) takesIn(next *Waiter) bool {
	if !w.Joins || !next.Joins || next.Slot != w.Slot+1+w.More || next.Slot == 0 || next.Generation != w.Generation ||
		next.Key != w.Key || next.Version != w.Version || next.At != w.At || next.Patience != w.Patience || next.Conn != w.Conn {
		return false
	}
	w.More++
	return true
}

// Metadata is the state that metadata items change, as the store needs to know
// it. internal/meta implements it; the store owns the kinds "log start" (6),
// "start" (7) and "recovery point" (8) and gives Metadata all others (log
// format, metadata records). Apply is called by Open and afterwards only by the
// flusher; the other methods may be called at any time from any goroutine and
// must show what Apply has done.
type Metadata interface {
	// Apply applies metadata records (kind byte first) in order, those of a round in
	// one call. Repeating a record is harmless. An unknown kind is an error that says
	// so.
	Apply(records ...[]byte) error
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
	// Config has the topic's properties, resolved to the broker's defaults where
	// the topic has no own value.
	Config TopicConfig
}

// TopicConfig is a topic's properties that shape its logs, resolved.
type TopicConfig struct {
	SegmentBytes       int64
	SegmentMillis      int64
	SegmentJitter      int64 // ms
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
	TimestampBeforeMax int64 // ms: message.timestamp.before.max.ms
	TimestampAfterMax  int64 // ms: message.timestamp.after.max.ms
}

// Durability says when what was written counts as durable
// (kcoord.durability).
type Durability uint8

const (
	// DurabilitySync: when the journal entry is written and synced.
	DurabilitySync Durability = iota
	// DurabilityInterval: when it is written; synced every DurabilityInterval.
	DurabilityInterval
	// DurabilityOS: when it is written; synced by checkpoints and a clean stop.
	DurabilityOS
)

// Options configures a store. Zero values of limits and intervals mean the
// defaults named at the fields.
type Options struct {
	FS       vfs.FS
	Dir      string // the data folder; made if missing
	Metadata Metadata

	Durability         Durability
	DurabilityInterval time.Duration // 1 s
	CheckpointInterval time.Duration // 10 s
	CheckpointBytes    int64         // 32 MiB of journal
	JournalMaxBytes    int64         // 256 MiB, at least 64 MiB
	JournalFileBytes   int64         // 16 MiB: of one journal file, fixed when a folder is made; at least 64 KiB
	SegmentWriteDelay  time.Duration // how long batches may wait for the partition log; 0: 5 ms; negative: none
	DiskReserveBytes   int64         // 64 MiB; negative: none
	InflateMaxBytes    int64         // 64 MiB: what a compressed batch may inflate to
	RetentionInterval  time.Duration // 5 min: how often retention looks at all partitions
	RetentionDelay     time.Duration // 30 s: from the start to its first look; negative: none
	ProducerCheck      time.Duration // 10 min: how often idle producers are looked for
	// ProducerExpiration is how long an idle producer is remembered; it is asked each
	// time. nil: a day.
	ProducerExpiration func() time.Duration

	// Now is the wall clock, for timestamps, file names and retention; Mono is
	// the monotonic clock, for intervals.
	Now  func() time.Time
	Mono func() time.Duration
	// Random fills b; it makes the ids of a new folder.
	Random func(b []byte)

	Version           string // of the program, for kcoord.properties and the start record
	ClusterID         string // of a new folder; empty: made from Random
	NodeID            int32
	OffsetsPartitions int32 // of a new folder: partitions of __consumer_offsets
	// First are the metadata records that a new folder begins with: they are in its
	// first snapshot and cost no round.
	First [][]byte

	// Parallel calls f for 0 to n-1, several at a time, and returns when all have
	// ended. It is used by Open and Close, where nobody is served who would suffer
	// from it. nil: one after another.
	Parallel func(n int, f func(i int))
	// RecoveryThreads bounds how many partitions Open and Close have in hand at a time
	// (num.recovery.threads.per.data.dir); it is asked each time. nil or 0: as many as
	// Parallel takes.
	RecoveryThreads func() int

	// Gathering reports that more is about to be appended, by somebody who calls
	// Store.Gathered when that has ended: the flusher waits for it. It is asked under
	// no lock, may be called from any goroutine and must not block. nil: never.
	Gathering func() bool
	// OnDurable gets the waiters of a round after its records are durable and its
	// metadata applied. The slice is reused after it returns. It is called by the
	// flusher and must not block.
	OnDurable func(ws []Waiter)
	// OnAdvance is called when a partition's high watermark has moved, by whoever
	// wrote the partition log. It must not block nor call the partition.
	OnAdvance func(id TopicID, partition int32, highWatermark int64)
	Events    Events
}

// Events are observations; every function may be nil, must not block, and may
// be called from any goroutine. Nothing depends on them.
type Events struct {
	// Warn is something an operator should know that needs no action at once:
	// torn bytes cut, files ignored, leftovers. kind is constant per cause.
	Warn func(kind, text string)
	// Round is called after each round: entries' bytes, items, records and
	// batches, how long writing and syncing took.
	Round func(bytes, items int, took time.Duration)
	// Checkpoint is called after each checkpoint that wrote a snapshot.
	Checkpoint func(files int, took time.Duration)
	// Refused is called when a partition closes because of damage or recovers.
	Refused func(topic string, partition int32, err error)
	// Damaged is called whenever a read meets damage that does not close the partition
	// (see Partition.Damage), but for Load, whose caller knows.
	Damaged func(topic string, partition int32, damage *CorruptError)
	// Writes is called again and again, and soon after each change, with what Refusing
	// says. Only PrepareStep calls it.
	Writes func(refusing string)
	// Progress tells of loading: bytes and records read so far.
	Progress func(topic string, partition int32, bytes, total int64)
}

// FolderKind says in what state Open found the folder.
type FolderKind uint8

const (
	// FolderNew was empty.
	FolderNew FolderKind = iota
	// FolderClean was stopped in order.
	FolderClean
	// FolderRecovered was not: the journal was replayed.
	FolderRecovered
)

// FolderInfo tells what Open found.
type FolderInfo struct {
	Kind              FolderKind
	ClusterID         string
	FolderID          [16]byte
	OffsetsPartitions int32
	LeaderEpoch       int32
	Entries           int64         // journal entries replayed
	ReplayedBytes     int64         // and their bytes
	TornBytes         int64         // bytes behind the last whole entry, saved aside
	Took              time.Duration // Open, all of it
	TookJournal       time.Duration // reading the journal
	TookPartitions    time.Duration // cutting and replaying the partition logs
	RefusedPartitions int           // see Partition.Err
}

// A Loop is a part of the store that needs a goroutine: it calls Step, then waits
// for next (0: not at all, negative: until woken only) or Wake, and so on. An
// error of Step must end the process.
type Loop struct {
	Name string
	Step func() (next time.Duration, err error)
	Wake <-chan struct{}
}
