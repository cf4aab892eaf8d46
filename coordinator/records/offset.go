package records

import "fmt"

// NoTimestamp is the value of a timestamp that is not set.
const NoTimestamp int64 = -1

// An OffsetCommitValue is what a group committed for a partition.
type OffsetCommitValue struct {
	Offset          int64
	LeaderEpoch     int32 // -1: none
	Metadata        string
	CommitTimestamp int64 // Unix time in milliseconds
	// ExpireTimestamp is set (Unix time in milliseconds) by commits of v2-4 with a
	// retention time, else NoTimestamp. Only value version 1 has it, and that has no
	// LeaderEpoch and no TopicID.
	ExpireTimestamp int64
	TopicID         [16]byte // zero: unknown (before value version 4)
}

// Version returns the value version that AppendOffsetCommitValue writes.
func (v *OffsetCommitValue) Version() int16 {
	if v.ExpireTimestamp != NoTimestamp {
		return 1
	}
	return 4
}

// Written returns what a reader of the written value gets: version 1 loses the
// leader epoch and the topic id.
func (v OffsetCommitValue) Written() OffsetCommitValue {
	if v.Version() == 1 {
		v.LeaderEpoch = -1
		v.TopicID = [16]byte{}
	}
	return v
}

// AppendOffsetCommitValue appends the value's encoding.
func AppendOffsetCommitValue(dst []byte, v *OffsetCommitValue) []byte {
	version := v.Version()
	dst = putInt16(dst, version)
	dst = putInt64(dst, v.Offset)
	if version == 1 {
		dst = putString(dst, v.Metadata)
		dst = putInt64(dst, v.CommitTimestamp)
		return putInt64(dst, v.ExpireTimestamp)
	}
	dst = putInt32(dst, v.LeaderEpoch)
	dst = putCompactString(dst, v.Metadata)
	dst = putInt64(dst, v.CommitTimestamp)
	if v.TopicID == ([16]byte{}) {
		return append(dst, 0)
	}
	dst = append(dst, 1, 0, 16)
	return append(dst, v.TopicID[:]...)
}

// DecodeOffsetCommitValue decodes value versions 0 to 4.
func DecodeOffsetCommitValue(b []byte) (OffsetCommitValue, error) {
	r := reader{b: b}
	version := r.int16()
	if version < 0 || version > 4 {
		return OffsetCommitValue{}, fmt.Errorf("offset commit version %d: %w", version, ErrVersion)
	}
	v := OffsetCommitValue{LeaderEpoch: -1, ExpireTimestamp: NoTimestamp}
	v.Offset = r.int64()
	if version >= 3 {
		v.LeaderEpoch = r.int32()
	}
	v.Metadata = r.string(version >= 4)
	v.CommitTimestamp = r.int64()
	if version == 1 {
		v.ExpireTimestamp = r.int64()
	}
	if version >= 4 {
		r.topicIDTag(&v.TopicID)
	}
	return v, r.err("offset commit", version)
}

// topicIDTag reads a tag section of which only tag 0, a topic id, is known. It is
// tags without a closure: loading reads millions of these.
func (r *reader) topicIDTag(id *[16]byte) {
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		tag := r.uvarint()
		f := r.take(r.uvarint())
		if tag != 0 || r.bad {
			continue
		}
		if len(f) != 16 {
			r.bad = true
			return
		}
		copy(id[:], f)
	}
}
