package records

import "fmt"

// Type is the kind of a record: the first two bytes of its key.
type Type int16

// The record types of Apache Kafka 4.4. Type 9 was used by an early form of share
// groups, 18 by no release.
const (
	OffsetCommitV0                       Type = 0 // as OffsetCommit; read, never written
	OffsetCommit                         Type = 1
	GroupMetadata                        Type = 2
	ConsumerGroupMetadata                Type = 3
	ConsumerGroupPartitionMetadata       Type = 4 // not written since 4.1, only tombstoned
	ConsumerGroupMemberMetadata          Type = 5
	ConsumerGroupTargetMetadata          Type = 6
	ConsumerGroupTargetMember            Type = 7
	ConsumerGroupCurrentMemberAssignment Type = 8
	ShareGroupMemberMetadata             Type = 10
	ShareGroupMetadata                   Type = 11
	ShareGroupTargetMetadata             Type = 12
	ShareGroupTargetMember               Type = 13
	ShareGroupCurrentMemberAssignment    Type = 14
	ShareGroupStatePartitionMetadata     Type = 15
	ConsumerGroupRegularExpression       Type = 16
	StreamsGroupMetadata                 Type = 17
	StreamsGroupMemberMetadata           Type = 19
	StreamsGroupTargetMetadata           Type = 20
	StreamsGroupTargetMember             Type = 21
	StreamsGroupCurrentMemberAssignment  Type = 22
	StreamsGroupTopology                 Type = 23
)

// shape says which fields a key has after its type.
type shape uint8

const (
	unknownShape   shape = iota
	groupTopic           // group, topic, partition
	groupOnly            // group
	groupAndString       // group, member id or regular expression
)

func (t Type) shape() shape {
	switch t {
	case OffsetCommitV0, OffsetCommit:
		return groupTopic
	case GroupMetadata, ConsumerGroupMetadata, ConsumerGroupPartitionMetadata, ConsumerGroupTargetMetadata,
		ShareGroupMetadata, ShareGroupTargetMetadata, ShareGroupStatePartitionMetadata,
		StreamsGroupMetadata, StreamsGroupTargetMetadata, StreamsGroupTopology:
		return groupOnly
	case ConsumerGroupMemberMetadata, ConsumerGroupTargetMember, ConsumerGroupCurrentMemberAssignment,
		ConsumerGroupRegularExpression, ShareGroupMemberMetadata, ShareGroupTargetMember,
		ShareGroupCurrentMemberAssignment, StreamsGroupMemberMetadata, StreamsGroupTargetMember,
		StreamsGroupCurrentMemberAssignment:
		return groupAndString
	}
	return unknownShape
}

// Known reports whether the type is one of Apache Kafka 4.4's.
func (t Type) Known() bool { return t.shape() != unknownShape }

// A Key is a decoded record key.
type Key struct {
	Type  Type
	Group string
	// Name is the topic of an OffsetCommit, the regular expression of a
	// ConsumerGroupRegularExpression, the member id of the records that have one.
	Name      string
	Partition int32 // of an OffsetCommit
}

// DecodeKey decodes a key. Of an unknown type only Type is set, without an error.
func DecodeKey(b []byte) (Key, error) {
	r := reader{b: b}
	k := Key{Type: Type(r.int16())}
	s := k.Type.shape()
	if s != unknownShape {
		k.Group = r.string(false)
	}
	switch s {
	case groupTopic:
		k.Name = r.string(false)
		k.Partition = r.int32()
	case groupAndString:
		k.Name = r.string(false)
	}
	if r.bad {
		return Key{}, fmt.Errorf("key of record type %d: %w", k.Type, ErrDamaged)
	}
	return k, nil
}

// AppendKey appends the key's encoding. The type must be a known one. Strings may
// have at most 32767 bytes, as on the wire.
func AppendKey(dst []byte, k *Key) []byte {
	dst = putInt16(dst, int16(k.Type))
	dst = putString(dst, k.Group)
	switch k.Type.shape() {
	case groupTopic:
		dst = putString(dst, k.Name)
		dst = putInt32(dst, k.Partition)
	case groupAndString:
		dst = putString(dst, k.Name)
	case unknownShape:
		panic(fmt.Sprintf("records: key of unknown type %d", k.Type))
	}
	return dst
}
