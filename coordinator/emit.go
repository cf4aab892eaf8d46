package coordinator

import (
	"github.com/kcoord/kcoord/coordinator/records"
)

// batchOverhead is the size of the header of the batch that one step's records
// become.
const batchOverhead = 61

// appended makes the last bytes of the arena, from start on with the value
// beginning at value, the step's next record. It returns the record's offset and
// size. value < 0: a tombstone.
func (s *Shard) appended(start, value int) (offset int64, size uint32) {
	a := s.out.arena
	var r Record
	if value < 0 {
		r.Key = a[start:len(a):len(a)]
	} else {
		r.Key = a[start:value:value]
		r.Value = a[value:len(a):len(a)]
	}
	s.out.Records = append(s.out.Records, r)
	offset = s.next
	s.next++
	return offset, recordSize(len(r.Key), len(r.Value))
}

// emitOffset writes and applies a committed offset. g nil: the record creates the
// group.
func (s *Shard) emitOffset(g *group, id, topic string, partition int32, v *records.OffsetCommitValue) *group {
	start := len(s.out.arena)
	k := records.Key{Type: records.OffsetCommit, Group: id, Name: topic, Partition: partition}
	s.out.arena = records.AppendKey(s.out.arena, &k)
	value := len(s.out.arena)
	s.out.arena = records.AppendOffsetCommitValue(s.out.arena, v)
	offset, size := s.appended(start, value)
	if g == nil {
		g = s.groupFor(id, offset)
	}
	written := v.Written()
	s.applyOffset(offset, g, topic, partition, &written, size)
	return g
}

func (s *Shard) emitOffsetTombstone(g *group, topic string, partition int32) {
	start := len(s.out.arena)
	k := records.Key{Type: records.OffsetCommit, Group: g.id, Name: topic, Partition: partition}
	s.out.arena = records.AppendKey(s.out.arena, &k)
	offset, size := s.appended(start, -1)
	s.applyOffsetTombstone(offset, g, topic, partition, size)
}

// emitGroup writes and applies a classic group.
func (s *Shard) emitGroup(id string, v *records.GroupMetadataValue) {
	start := len(s.out.arena)
	k := records.Key{Type: records.GroupMetadata, Group: id}
	s.out.arena = records.AppendKey(s.out.arena, &k)
	value := len(s.out.arena)
	s.out.arena = records.AppendGroupMetadataValue(s.out.arena, v)
	offset, size := s.appended(start, value)
	s.applyGroup(offset, id, v, size)
}

// groupFits reports whether a batch with only this record is within
// max.message.bytes.
func (s *Shard) groupFits(id string, v *records.GroupMetadataValue) bool {
	n := batchOverhead + len(id) + len(v.ProtocolType) + 64
	for i := range v.Members {
		m := &v.Members[i]
		n += len(m.MemberID) + len(m.ClientID) + len(m.ClientHost) + len(m.Subscription) + len(m.Assignment) + 24
		if m.GroupInstanceID != nil {
			n += len(*m.GroupInstanceID)
		}
	}
	return n <= s.ev.Config.MaxMessageBytes
}

func (s *Shard) emitGroupTombstone(g *group) {
	start := len(s.out.arena)
	k := records.Key{Type: records.GroupMetadata, Group: g.id}
	s.out.arena = records.AppendKey(s.out.arena, &k)
	_, size := s.appended(start, -1)
	s.applyGroupTombstone(g, size)
}
