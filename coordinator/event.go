// Package coordinator is the group coordinator as a pure, deterministic core:
// one Shard per partition of __consumer_offsets turns an Event into a Result.
// It has no clock, no randomness, no I/O and no goroutine; the same events give
// the same bytes.
package coordinator

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A Token names who waits for a reply. The core only stores and returns it.
type Token uint64

// Client is what a request's connection and header say of its sender.
type Client struct {
	ID   string // client id of the request header; may alias the network buffer
	Host string // "/192.0.2.1", as Kafka prints it
}

// Topics is the topic metadata as of an event: an immutable snapshot.
type Topics interface {
	// ByName returns the id and partition count of a topic.
	ByName(name string) (id [16]byte, partitions int32, ok bool)
	// ByID returns the name and partition count of a topic.
	ByID(id [16]byte) (name string, partitions int32, ok bool)
}

// EventKind says which fields of an Event count.
type EventKind uint8

const (
	// EventRequest carries Request, Client and Token.
	EventRequest EventKind = iota
	// EventTimer carries Timer: it may be early or stale, which is harmless.
	EventTimer
	// EventTopicsDeleted carries Deleted: the topics' offsets become tombstones, in
	// pieces that ask for a TimerWork until they are done.
	EventTopicsDeleted
	// EventUnload answers everything parked with NOT_COORDINATOR.
	EventUnload
)

// An Event is one input of a Shard. Time, chance and metadata enter as values.
type Event struct {
	Kind    EventKind
	Mono    time.Duration // monotonic time since the process started
	Wall    int64         // Unix time in milliseconds, for records
	Entropy [16]byte      // random bytes for a generated member id (a UUID)
	Config  *Config       // immutable
	Topics  Topics        // taken under the shard's lock

	Token   Token
	Client  Client
	Request kmsg.Request // may alias the network buffer: what is kept is copied

	Timer   TimerKey
	Deleted []DeletedTopic
}

// A DeletedTopic is a topic that metadata no longer has.
type DeletedTopic struct {
	Name string
	ID   [16]byte // offsets stored without an id match by name
}

// TimerKind is what a timer is for.
type TimerKind uint8

const (
	// TimerSession ends a member's session (Group, Member).
	TimerSession TimerKind = iota
	// TimerPending forgets a member id that was handed out with MEMBER_ID_REQUIRED
	// and never used (Group, Member).
	TimerPending
	// TimerJoin ends a group's join phase, its initial delay included (Group).
	TimerJoin
	// TimerSync removes the members that did not send SyncGroup (Group).
	TimerSync
	// TimerSweep starts a sweep over the shard for expired offsets and empty groups.
	TimerSweep
	// TimerWork goes on with work that is done in pieces. It is due at once.
	TimerWork
)

// A TimerKey names a timer. Setting a timer again replaces its deadline.
type TimerKey struct {
	Kind   TimerKind
	Group  string
	Member string
}

// A Timer asks for an EventTimer at (or after) Deadline. The strings of its key
// belong to the shard and may be kept.
type Timer struct {
	Key      TimerKey
	Deadline time.Duration // on the scale of Event.Mono
	Cancel   bool          // the timer is no longer wanted (its expiry would be harmless)
}

// A Record is one record for the shard's partition. Value nil is a tombstone.
// Key and Value are valid until the Result is reused.
type Record struct {
	Key, Value []byte
}

// NoDependency is the DependsOn of a reply that may leave at once.
const NoDependency int64 = -1

// A Reply answers the request that Token names.
type Reply struct {
	Token Token
	// Response has its version set. It may alias the request and the Result: encode
	// it before the request's buffer or the Result is reused.
	Response kmsg.Response
	// DependsOn is the offset, in the shard's partition, of the newest record that
	// the reply reveals: it may leave when that record is durable.
	DependsOn int64
}

// A Transition is an observation for logs, metrics and history. Nothing that
// decides anything may depend on it. From == To: the state is the same, a member came
// or went, while the group rebalanced or beside the one that makes it rebalance.
type Transition struct {
	Group      string
	From, To   string // Kafka's state names
	Generation int32
	Reason     string // Kafka's words where there are some
	Member     string // who caused it, if anybody
	ClientID   string
	ClientHost string
	Members    int

	// Leader is the member whose assignments made the group Stable: nobody's fault.
	Leader string
	// WaitedFor names some of those that a join or sync phase waited for until it timed
	// out, the removed ones first: member ids, and ids given out that nobody used.
	WaitedFor      []string
	WaitedForCount int           // all of them
	JoinTook       time.Duration // of a join phase that ends with this, its initial delay included
}

// A Refusal tells of a JoinGroup that was refused for what it asks, not for its time or
// place. It is an observation like a Transition.
type Refusal struct {
	Group, Reason        string
	Code                 int16
	Member, Instance     string // as the request has them
	ClientID, ClientHost string
}

// An Expiry tells of committed offsets that the coordinator removed on its own:
// one per group, topic and piece of work. It is an observation like a Transition.
type Expiry struct {
	Group, Topic string
	Partitions   int
	Reason       string // ExpiredRetention, ExpiredTimestamp or ExpiredTopicDeleted
}

// A Replacement tells of a static member whose place another took that joined without a
// member id (KIP-345). It is an observation like a Transition.
type Replacement struct {
	Group, Instance      string
	Before, Member       string // member ids
	ClientID, ClientHost string // of the new one
}

// A Result is everything a Step decided. The caller owns and reuses it.
type Result struct {
	Records      []Record
	Replies      []Reply
	Timers       []Timer
	Transitions  []Transition
	Expiries     []Expiry
	Replacements []Replacement
	Refusals     []Refusal

	scratch // response objects and byte arenas reused between steps
}

// Reasons of an Expiry.
const (
	ExpiredRetention    = "older than offsets.retention.minutes"
	ExpiredTimestamp    = "past the retention time given by the commit"
	ExpiredTopicDeleted = "topic was deleted"
)
