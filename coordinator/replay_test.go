package coordinator

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/kcoord/kcoord/coordinator/records"
)

func oldString(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

// TestReplayOldRecords reads what other versions of Kafka have left in a log:
// record types of the future are skipped, value versions of the future are
// refused, old ones are filled in.
func TestReplayOldRecords(t *testing.T) {
	s := NewShard(0)
	at := int64(-1)
	replay := func(key, value []byte) error {
		at++
		return s.Replay(at, key, value)
	}
	if err := replay([]byte{0, 99, 1, 2, 3}, []byte{0, 0, 5}); err != nil || s.Stats().Skipped != 1 {
		t.Errorf("a record of type 99: %v, %d skipped", err, s.Stats().Skipped)
	}
	if err := replay([]byte{0, 99, 1, 2, 3}, nil); err != nil {
		t.Errorf("its tombstone: %v", err)
	}

	// An offset under the legacy key, value version 0: offset, metadata, time.
	legacy := binary.BigEndian.AppendUint32(oldString(oldString([]byte{0, 0}, "g"), "t"), 1)
	value := binary.BigEndian.AppendUint64([]byte{0, 0}, 42)
	value = binary.BigEndian.AppendUint64(oldString(value, "m"), 1000)
	if err := replay(legacy, value); err != nil || s.Stats().Offsets != 1 {
		t.Errorf("a legacy offset: %v, %d offsets", err, s.Stats().Offsets)
	}

	// A group of value version 0 has no rebalance timeouts: the session timeout counts.
	key := records.AppendKey(nil, &records.Key{Type: records.GroupMetadata, Group: "old"})
	value = binary.BigEndian.AppendUint32(oldString([]byte{0, 0}, "consumer"), 3)
	value = oldString(oldString(value, "range"), "m1")
	value = binary.BigEndian.AppendUint32(value, 1) // members
	value = oldString(oldString(oldString(value, "m1"), "c"), "/h")
	value = binary.BigEndian.AppendUint32(value, 9000)
	value = append(binary.BigEndian.AppendUint32(value, 2), 'm', 'm')
	value = append(binary.BigEndian.AppendUint32(value, 1), 'p')
	if err := replay(key, value); err != nil {
		t.Fatalf("a group of value version 0: %v", err)
	}
	c := s.groups["old"].kind.(*classicGroup)
	if m := c.byID["m1"]; c.state != stateStable || c.generation != 3 || m == nil || m.rebalanceTimeout != 9*time.Second || string(m.assignment) != "p" {
		t.Errorf("the group is %+v", c)
	}

	// Tombstones of what is not there.
	for _, gone := range []records.Key{
		{Type: records.OffsetCommit, Group: "none", Name: "t"}, {Type: records.OffsetCommit, Group: "g", Name: "u"}, {Type: records.GroupMetadata, Group: "none"}, {Type: records.GroupMetadata, Group: "g"},
	} {
		if err := replay(records.AppendKey(nil, &gone), nil); err != nil {
			t.Errorf("a tombstone for %+v: %v", gone, err)
		}
	}
	if s.Stats().Offsets != 1 {
		t.Errorf("%d offsets after the tombstone of a group that only has offsets", s.Stats().Offsets)
	}

	// What cannot be understood must not be guessed.
	offset := records.AppendKey(nil, &records.Key{Type: records.OffsetCommit, Group: "g", Name: "t"})
	if err := replay(offset, []byte{0, 9, 1}); err == nil {
		t.Error("an offset of value version 9 was taken")
	}
	if err := replay(key, []byte{0, 9, 1}); err == nil {
		t.Error("a group of value version 9 was taken")
	}
	if err := replay(offset, value[:5]); err == nil {
		t.Error("a value that is cut short was taken")
	}
}
