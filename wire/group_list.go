package wire

import (
	"encoding/binary"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxListHead is the most bytes of a ListGroups answer before its list: length,
// correlation id, tags, throttle time, error code, and the list's own length.
const maxListHead = 4 + 4 + 1 + 4 + 2 + binary.MaxVarintLen32

// A GroupList is the answer to ListGroups, v0-5, in the making: groups are encoded
// piece by piece as they are found, for as values they take three times as much
// memory, and encoding a hundred thousand of them at once takes its processor for
// milliseconds.
type GroupList struct {
	version int16
	count   int
	// b has the groups behind maxListHead bytes that are left free for what comes
	// before them.
	b []byte
}

// NewGroupList returns an empty list for a version that is served.
func NewGroupList(version int16) *GroupList {
	return &GroupList{version: version, b: make([]byte, maxListHead, 1<<10)}
}

// Len is the number of bytes of the groups so far.
func (l *GroupList) Len() int { return len(l.b) - maxListHead }

// Expect makes room for about n more bytes of groups.
func (l *GroupList) Expect(n int) {
	if cap(l.b)-len(l.b) < n {
		l.b = slices.Grow(l.b, n+n/16)
	}
}

// Add appends groups. They have no tagged fields.
func (l *GroupList) Add(groups []kmsg.ListGroupsResponseGroup) {
	l.count += len(groups)
	b := l.b
	for i := range groups {
		g := &groups[i]
		b = l.text(b, g.Group)
		b = l.text(b, g.ProtocolType)
		if l.version >= 4 {
			b = l.text(b, g.GroupState)
		}
		if l.version >= 5 {
			b = l.text(b, g.GroupType)
		}
		if l.flexible() {
			b = append(b, 0)
		}
	}
	l.b = b
}

func (l *GroupList) flexible() bool { return l.version >= apis[keyListGroups].Flexible }

func (l *GroupList) text(b []byte, s string) []byte {
	if l.flexible() {
		b = binary.AppendUvarint(b, uint64(len(s))+1)
	} else {
		b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
	}
	return append(b, s...)
}

// Frame returns the whole answer, without an error, as AppendResponse would make it.
// The list is used up.
func (l *GroupList) Frame(correlationID int32) []byte {
	if l.flexible() {
		l.b = append(l.b, 0)
	}
	head := make([]byte, 4, maxListHead)
	head = binary.BigEndian.AppendUint32(head, uint32(correlationID))
	if l.flexible() {
		head = append(head, 0)
	}
	if l.version >= 1 {
		head = append(head, 0, 0, 0, 0) // throttle time
	}
	head = append(head, 0, 0) // error code
	if l.flexible() {
		head = binary.AppendUvarint(head, uint64(l.count)+1)
	} else {
		head = binary.BigEndian.AppendUint32(head, uint32(l.count))
	}
	frame := l.b[maxListHead-len(head):]
	l.b = nil
	binary.BigEndian.PutUint32(head, uint32(len(frame)-4))
	copy(frame, head)
	return frame
}
