package records

import "fmt"

// A GroupMetadataValue is a classic group as it was last written: at the end of a
// rebalance, when a static member was replaced, and when it became empty.
type GroupMetadataValue struct {
	ProtocolType          string
	Generation            int32
	Protocol              *string // nil: none selected
	Leader                *string // nil: no members
	CurrentStateTimestamp int64   // Unix time in milliseconds; NoTimestamp before value version 2
	Members               []GroupMetadataMember
}

// A GroupMetadataMember is a member of a GroupMetadataValue.
type GroupMetadataMember struct {
	MemberID        string
	GroupInstanceID *string // nil: dynamic member
	ClientID        string
	ClientHost      string
	// Timeouts in milliseconds. A value of version 0 has no rebalance timeout: -1.
	RebalanceTimeout int32
	SessionTimeout   int32
	Subscription     []byte // the member's metadata for the selected protocol
	Assignment       []byte
}

// groupMetadataVersion is the value version that is written; 0 to 4 are read.
const groupMetadataVersion = 3

// AppendGroupMetadataHead appends a value up to its member count. The members
// follow with AppendGroupMetadataMember, so that a caller with thousands need not
// gather them.
func AppendGroupMetadataHead(dst []byte, v *GroupMetadataValue, members int) []byte {
	dst = putInt16(dst, groupMetadataVersion)
	dst = putString(dst, v.ProtocolType)
	dst = putInt32(dst, v.Generation)
	dst = putNullableString(dst, v.Protocol)
	dst = putNullableString(dst, v.Leader)
	dst = putInt64(dst, v.CurrentStateTimestamp)
	return putInt32(dst, int32(members))
}

// AppendGroupMetadataMember appends one member.
func AppendGroupMetadataMember(dst []byte, m *GroupMetadataMember) []byte {
	dst = putString(dst, m.MemberID)
	dst = putNullableString(dst, m.GroupInstanceID)
	dst = putString(dst, m.ClientID)
	dst = putString(dst, m.ClientHost)
	dst = putInt32(dst, m.RebalanceTimeout)
	dst = putInt32(dst, m.SessionTimeout)
	dst = putBytes(dst, m.Subscription)
	return putBytes(dst, m.Assignment)
}

// AppendGroupMetadataValue appends the value's encoding.
func AppendGroupMetadataValue(dst []byte, v *GroupMetadataValue) []byte {
	dst = AppendGroupMetadataHead(dst, v, len(v.Members))
	for i := range v.Members {
		dst = AppendGroupMetadataMember(dst, &v.Members[i])
	}
	return dst
}

// DecodeGroupMetadataValue decodes value versions 0 to 4.
func DecodeGroupMetadataValue(b []byte) (GroupMetadataValue, error) {
	r := reader{b: b}
	version := r.int16()
	if version < 0 || version > 4 {
		return GroupMetadataValue{}, fmt.Errorf("group metadata version %d: %w", version, ErrVersion)
	}
	compact := version >= 4
	v := GroupMetadataValue{CurrentStateTimestamp: NoTimestamp}
	v.ProtocolType = r.string(compact)
	v.Generation = r.int32()
	v.Protocol = r.nullableString(compact)
	v.Leader = r.nullableString(compact)
	if version >= 2 {
		v.CurrentStateTimestamp = r.int64()
	}
	n := r.count(compact, 8)
	if n < 0 {
		r.bad = true
	}
	if n > 0 && !r.bad {
		v.Members = make([]GroupMetadataMember, n)
	}
	for i := range v.Members {
		r.groupMetadataMember(&v.Members[i], version)
	}
	if compact {
		r.tags(nil)
	}
	return v, r.err("group metadata", version)
}

func (r *reader) groupMetadataMember(m *GroupMetadataMember, version int16) {
	compact := version >= 4
	m.MemberID = r.string(compact)
	if version >= 3 {
		m.GroupInstanceID = r.nullableString(compact)
	}
	m.ClientID = r.string(compact)
	m.ClientHost = r.string(compact)
	m.RebalanceTimeout = -1
	if version >= 1 {
		m.RebalanceTimeout = r.int32()
	}
	m.SessionTimeout = r.int32()
	m.Subscription = r.bytes(compact)
	m.Assignment = r.bytes(compact)
	if compact {
		r.tags(nil)
	}
}
