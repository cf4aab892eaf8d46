package log

import (
	"encoding/binary"
	"fmt"
)

// Kinds of metadata records that the store looks into. The kinds from 1 to 5
// are Metadata's; the store needs the topic id of the first three, which stands
// right behind the kind.
const (
	kindTopic         = 1
	kindTopicDeleted  = 2
	kindPartitions    = 3
	kindLogStart      = 6 // id, partition i32, offset i64
	kindStart         = 7 // leader epoch i32, durability i8, program version string
	kindRecoveryPoint = 8 // id, partition i32, recovery point i64, base of its segment i64, position in it i64
)

// topicOf is the topic id of a record of the kinds that begin with one.
func topicOf(record []byte) (id TopicID, ok bool) {
	if len(record) < 17 {
		return id, false
	}
	switch record[0] {
	case kindTopic, kindTopicDeleted, kindPartitions, kindLogStart, kindRecoveryPoint:
		return TopicID(record[1:17]), true
	}
	return id, false
}

// storeKind says whether records of a kind are the store's own: Metadata does not
// know them.
func storeKind(kind byte) bool {
	return kind == kindLogStart || kind == kindStart || kind == kindRecoveryPoint
}

// logStartRecord is a log start that was raised on demand.
type logStartRecord struct {
	id        TopicID
	partition int32
	offset    int64
}

func (r logStartRecord) append(dst []byte) []byte {
	dst = append(dst, kindLogStart)
	dst = append(dst, r.id[:]...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(r.partition))
	return binary.BigEndian.AppendUint64(dst, uint64(r.offset))
}

func parseLogStart(b []byte) (r logStartRecord, err error) {
	if len(b) != 1+16+4+8 || b[0] != kindLogStart {
		return r, fmt.Errorf("log start record of %d bytes", len(b))
	}
	r.id = TopicID(b[1:17])
	r.partition = int32(binary.BigEndian.Uint32(b[17:]))
	r.offset = int64(binary.BigEndian.Uint64(b[21:]))
	if r.partition < 0 || r.offset < 0 {
		return r, fmt.Errorf("log start %d of partition %d", r.offset, r.partition)
	}
	return r, nil
}

// startRecord is written once per start: the leader epoch of all appends until
// the next one, the durability that holds, and the program's version.
type startRecord struct {
	epoch      int32
	durability Durability
	version    string
}

func (r startRecord) append(dst []byte) []byte {
	dst = append(dst, kindStart)
	dst = binary.BigEndian.AppendUint32(dst, uint32(r.epoch))
	dst = append(dst, byte(r.durability))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(r.version)))
	return append(dst, r.version...)
}

func parseStart(b []byte) (r startRecord, err error) {
	if len(b) < 8 || b[0] != kindStart {
		return r, fmt.Errorf("start record of %d bytes", len(b))
	}
	r.epoch = int32(binary.BigEndian.Uint32(b[1:]))
	r.durability = Durability(b[5])
	n := int(binary.BigEndian.Uint16(b[6:]))
	if len(b) != 8+n || r.epoch < 0 {
		return r, fmt.Errorf("start record of %d bytes, epoch %d", len(b), r.epoch)
	}
	r.version = string(b[8:])
	return r, nil
}

// recoveryPointRecord says where a partition's synced part ends: everything
// below offset is durable and ends at position of the segment named base.
type recoveryPointRecord struct {
	id        TopicID
	partition int32
	offset    int64
	base      int64
	position  int64
}

func (r recoveryPointRecord) append(dst []byte) []byte {
	dst = append(dst, kindRecoveryPoint)
	dst = append(dst, r.id[:]...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(r.partition))
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.offset))
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.base))
	return binary.BigEndian.AppendUint64(dst, uint64(r.position))
}

func parseRecoveryPoint(b []byte) (r recoveryPointRecord, err error) {
	if len(b) != 1+16+4+3*8 || b[0] != kindRecoveryPoint {
		return r, fmt.Errorf("recovery point record of %d bytes", len(b))
	}
	r.id = TopicID(b[1:17])
	r.partition = int32(binary.BigEndian.Uint32(b[17:]))
	r.offset = int64(binary.BigEndian.Uint64(b[21:]))
	r.base = int64(binary.BigEndian.Uint64(b[29:]))
	r.position = int64(binary.BigEndian.Uint64(b[37:]))
	if r.partition < 0 || r.base < 0 || r.offset < r.base || r.position < 0 || r.position == 0 && r.offset != r.base {
		return r, fmt.Errorf("recovery point %d of partition %d at byte %d of segment %d", r.offset, r.partition, r.position, r.base)
	}
	return r, nil
}
