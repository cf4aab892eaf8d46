package records

import "fmt"

// The values of the consumer protocol (KIP-848). All have version 0 and tagged
// fields; a field that came with a later release is a tag with a default.

// consumerVersion is the one version of these values.
const consumerVersion = 0

// A ConsumerGroupMetadataValue is a group's epoch.
type ConsumerGroupMetadataValue struct {
	Epoch        int32
	MetadataHash int64 // 0: nothing subscribed, or written before 4.1
}

// A ConsumerGroupMemberMetadataValue is what a member said of itself.
type ConsumerGroupMemberMetadataValue struct {
	InstanceID           *string
	RackID               *string
	ClientID             string
	ClientHost           string
	SubscribedTopicNames []string // sorted
	SubscribedTopicRegex *string
	RebalanceTimeout     int32 // milliseconds; -1: not set
	ServerAssignor       *string
	Classic              *ClassicMemberMetadata // non-nil: the member speaks the classic protocol
}

// ClassicMemberMetadata is kept for a classic member of a consumer group.
type ClassicMemberMetadata struct {
	SessionTimeout     int32 // milliseconds
	SupportedProtocols []ClassicProtocol
}

// A ClassicProtocol is one entry of a JoinGroup's protocol list.
type ClassicProtocol struct {
	Name     string
	Metadata []byte
}

// A ConsumerGroupTargetMetadataValue says for which epoch targets were computed.
type ConsumerGroupTargetMetadataValue struct {
	AssignmentEpoch     int32
	AssignmentTimestamp int64 // Unix time in milliseconds; 0 before 4.3 and once the group is empty
}

// TopicPartitions are partitions of one topic.
type TopicPartitions struct {
	TopicID    [16]byte
	Partitions []int32
	// AssignmentEpochs has one epoch per partition, or is nil (before 4.3, and in
	// target assignments always): then the member's epoch counts for each.
	AssignmentEpochs []int32
}

// A ConsumerGroupTargetMemberValue is a member's target assignment.
type ConsumerGroupTargetMemberValue struct {
	TopicPartitions []TopicPartitions
}

// A ConsumerGroupCurrentMemberAssignmentValue is where a member is on its way to
// its target.
type ConsumerGroupCurrentMemberAssignmentValue struct {
	MemberEpoch                 int32
	PreviousMemberEpoch         int32
	State                       int8
	AssignedPartitions          []TopicPartitions
	PartitionsPendingRevocation []TopicPartitions
}

// A ConsumerGroupRegularExpressionValue is a resolved regular expression.
type ConsumerGroupRegularExpressionValue struct {
	Topics    []string // sorted
	Version   int64    // of the metadata it was resolved against
	Timestamp int64    // Unix time in milliseconds
}

// Append appends the value's encoding.
func (v *ConsumerGroupMetadataValue) Append(dst []byte) []byte {
	dst = putInt16(dst, consumerVersion)
	dst = putInt32(dst, v.Epoch)
	if v.MetadataHash == 0 {
		return append(dst, 0)
	}
	return putTag(append(dst, 1), 0, putInt64(nil, v.MetadataHash))
}

// Append appends the value's encoding.
func (v *ConsumerGroupMemberMetadataValue) Append(dst []byte) []byte {
	dst = putInt16(dst, consumerVersion)
	dst = putCompactNullableString(dst, v.InstanceID)
	dst = putCompactNullableString(dst, v.RackID)
	dst = putCompactString(dst, v.ClientID)
	dst = putCompactString(dst, v.ClientHost)
	dst = putCompactStrings(dst, v.SubscribedTopicNames)
	dst = putCompactNullableString(dst, v.SubscribedTopicRegex)
	dst = putInt32(dst, v.RebalanceTimeout)
	dst = putCompactNullableString(dst, v.ServerAssignor)
	if v.Classic == nil {
		return append(dst, 0)
	}
	c := append([]byte(nil), 1) // a nullable struct starts with its presence
	c = putInt32(c, v.Classic.SessionTimeout)
	c = putUvarint(c, len(v.Classic.SupportedProtocols)+1)
	for i := range v.Classic.SupportedProtocols {
		p := &v.Classic.SupportedProtocols[i]
		c = putCompactString(c, p.Name)
		c = putCompactBytes(c, p.Metadata)
		c = append(c, 0)
	}
	c = append(c, 0)
	return putTag(append(dst, 1), 0, c)
}

// Append appends the value's encoding.
func (v *ConsumerGroupTargetMetadataValue) Append(dst []byte) []byte {
	dst = putInt16(dst, consumerVersion)
	dst = putInt32(dst, v.AssignmentEpoch)
	if v.AssignmentTimestamp == 0 {
		return append(dst, 0)
	}
	return putTag(append(dst, 1), 0, putInt64(nil, v.AssignmentTimestamp))
}

// Append appends the value's encoding.
func (v *ConsumerGroupTargetMemberValue) Append(dst []byte) []byte {
	dst = putInt16(dst, consumerVersion)
	dst = putTopicPartitions(dst, v.TopicPartitions)
	return append(dst, 0)
}

// Append appends the value's encoding.
func (v *ConsumerGroupCurrentMemberAssignmentValue) Append(dst []byte) []byte {
	dst = putInt16(dst, consumerVersion)
	dst = putInt32(dst, v.MemberEpoch)
	dst = putInt32(dst, v.PreviousMemberEpoch)
	dst = append(dst, byte(v.State))
	dst = putTopicPartitions(dst, v.AssignedPartitions)
	dst = putTopicPartitions(dst, v.PartitionsPendingRevocation)
	return append(dst, 0)
}

// Append appends the value's encoding.
func (v *ConsumerGroupRegularExpressionValue) Append(dst []byte) []byte {
	dst = putInt16(dst, consumerVersion)
	dst = putCompactStrings(dst, v.Topics)
	dst = putInt64(dst, v.Version)
	dst = putInt64(dst, v.Timestamp)
	return append(dst, 0)
}

func putTopicPartitions(dst []byte, v []TopicPartitions) []byte {
	dst = putUvarint(dst, len(v)+1)
	for i := range v {
		t := &v[i]
		dst = append(dst, t.TopicID[:]...)
		dst = putCompactInt32s(dst, t.Partitions)
		if t.AssignmentEpochs == nil {
			dst = append(dst, 0)
			continue
		}
		dst = putTag(append(dst, 1), 0, putCompactInt32s(nil, t.AssignmentEpochs))
	}
	return dst
}

// open starts decoding a value of the consumer protocol.
func open(b []byte, what string) (reader, error) {
	r := reader{b: b}
	if v := r.int16(); v != consumerVersion {
		return r, fmt.Errorf("%s version %d: %w", what, v, ErrVersion)
	}
	return r, nil
}

// Decode replaces v by the decoded value.
func (v *ConsumerGroupMetadataValue) Decode(b []byte) error {
	r, err := open(b, "consumer group metadata")
	if err != nil {
		return err
	}
	*v = ConsumerGroupMetadataValue{Epoch: r.int32()}
	r.tags(func(tag int, f *reader) {
		if tag == 0 {
			v.MetadataHash = f.int64()
		}
	})
	return r.err("consumer group metadata", consumerVersion)
}

// Decode replaces v by the decoded value.
func (v *ConsumerGroupMemberMetadataValue) Decode(b []byte) error {
	r, err := open(b, "consumer group member")
	if err != nil {
		return err
	}
	*v = ConsumerGroupMemberMetadataValue{
		InstanceID: r.nullableString(true),
		RackID:     r.nullableString(true),
		ClientID:   r.string(true),
		ClientHost: r.string(true),
	}
	v.SubscribedTopicNames = r.strings(true)
	v.SubscribedTopicRegex = r.nullableString(true)
	v.RebalanceTimeout = r.int32()
	v.ServerAssignor = r.nullableString(true)
	r.tags(func(tag int, f *reader) {
		if tag == 0 && f.int8() == 1 {
			v.Classic = f.classicMember()
		}
	})
	return r.err("consumer group member", consumerVersion)
}

func (r *reader) classicMember() *ClassicMemberMetadata {
	c := &ClassicMemberMetadata{SessionTimeout: r.int32()}
	n := r.count(true, 3)
	if n < 0 {
		r.bad = true
	}
	for ; n > 0 && !r.bad; n-- {
		c.SupportedProtocols = append(c.SupportedProtocols, ClassicProtocol{Name: r.string(true), Metadata: r.bytes(true)})
		r.tags(nil)
	}
	r.tags(nil)
	return c
}

// Decode replaces v by the decoded value.
func (v *ConsumerGroupTargetMetadataValue) Decode(b []byte) error {
	r, err := open(b, "consumer group target metadata")
	if err != nil {
		return err
	}
	*v = ConsumerGroupTargetMetadataValue{AssignmentEpoch: r.int32()}
	r.tags(func(tag int, f *reader) {
		if tag == 0 {
			v.AssignmentTimestamp = f.int64()
		}
	})
	return r.err("consumer group target metadata", consumerVersion)
}

// Decode replaces v by the decoded value.
func (v *ConsumerGroupTargetMemberValue) Decode(b []byte) error {
	r, err := open(b, "consumer group target assignment")
	if err != nil {
		return err
	}
	*v = ConsumerGroupTargetMemberValue{TopicPartitions: r.topicPartitions()}
	r.tags(nil)
	return r.err("consumer group target assignment", consumerVersion)
}

// Decode replaces v by the decoded value.
func (v *ConsumerGroupCurrentMemberAssignmentValue) Decode(b []byte) error {
	r, err := open(b, "consumer group current assignment")
	if err != nil {
		return err
	}
	*v = ConsumerGroupCurrentMemberAssignmentValue{
		MemberEpoch:         r.int32(),
		PreviousMemberEpoch: r.int32(),
		State:               r.int8(),
	}
	v.AssignedPartitions = r.topicPartitions()
	v.PartitionsPendingRevocation = r.topicPartitions()
	r.tags(nil)
	return r.err("consumer group current assignment", consumerVersion)
}

// Decode replaces v by the decoded value.
func (v *ConsumerGroupRegularExpressionValue) Decode(b []byte) error {
	r, err := open(b, "consumer group regular expression")
	if err != nil {
		return err
	}
	*v = ConsumerGroupRegularExpressionValue{Topics: r.strings(true)}
	v.Version = r.int64()
	v.Timestamp = r.int64()
	r.tags(nil)
	return r.err("consumer group regular expression", consumerVersion)
}

func (r *reader) topicPartitions() []TopicPartitions {
	n := r.count(true, 18)
	if n < 0 {
		r.bad = true
	}
	if r.bad {
		return nil
	}
	v := make([]TopicPartitions, n)
	for i := range v {
		t := &v[i]
		t.TopicID = r.uuid()
		t.Partitions = r.int32s(true)
		r.tags(func(tag int, f *reader) {
			if tag == 0 {
				t.AssignmentEpochs = f.nullableInt32s()
			}
		})
	}
	return v
}
