// Package adapter is what the scenario needs of a client library, and the way
// to a library of another language.
package adapter

import "errors"

// ErrUnsupported says that the library has no such call. The scenario then has
// the step done by another client, so that it can go on.
var ErrUnsupported = errors.New("the library has no such call")

// A Record is a consumed record.
type Record struct {
	Partition int32
	Offset    int64
	Value     string
}

// A Client drives one client library against one broker.
type Client interface {
	CreateTopic(topic string, partitions int) error
	DeleteTopic(topic string) error
	// Produce writes records with key k<i> and value v<i> for from <= i < to
	// with acks=all, and waits until all are acknowledged. The producer is
	// idempotent where the library has such a one: a request that met the killed
	// broker's connections may be sent again, and the scenario counts records.
	Produce(topic string, from, to int) error

	// Join makes a consumer of the group, subscribed to topic, beginning at the
	// earliest offset where the group has none, with commits only on demand.
	Join(consumer, group, topic string) error
	// Poll waits at most millis for records. assigned are the partitions that
	// the consumer owns afterwards.
	Poll(consumer string, millis int) (records []Record, assigned []int32, err error)
	// Commit commits, and waits for, the offsets behind all polled records.
	Commit(consumer string) error
	// Leave closes the consumer, which leaves its group.
	Leave(consumer string) error

	ListGroups() ([]string, error)
	// DescribeGroup returns the state in Kafka's spelling, as Stable or Empty.
	DescribeGroup(group string) (state string, members int, err error)
	// Offsets returns the committed offset of each partition that has one.
	Offsets(group, topic string) (map[int32]int64, error)
	// SetOffsets changes the offsets of a group without members.
	SetOffsets(group, topic string, offsets map[int32]int64) error
	DeleteGroup(group string) error

	Close() error
}
