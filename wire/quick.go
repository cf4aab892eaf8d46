package wire

import (
	"encoding/binary"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A quick decoder reads the plain form of the two requests that make up a steady
// load: no unknown tagged fields, no null where there should be a value, no empty
// list, nothing missing. Of everything else it says so, and the decoders that know
// every form decide; so it never has to tell what is wrong with a request. It
// allocates nothing once its lists have grown.
//
// Only for bodies of at most maxTrusted bytes: that bounds what it keeps.
type quick struct {
	// b is the body, at where what was not read yet begins.
	// Invariant: 0 <= at <= len(b).
	b        []byte
	at       int
	flexible bool
	// Invariant: once plain is false nothing that was read counts.
	plain bool

	// What the last request points into. Lists that grow leave what earlier fields
	// point to in place.
	topics     []kmsg.OffsetCommitRequestTopic
	partitions []kmsg.OffsetCommitRequestTopicPartition
	strings    []string
}

func (q *quick) begin(b []byte, flexible bool) {
	q.b, q.at, q.flexible, q.plain = b, 0, flexible, true
	q.topics, q.partitions, q.strings = q.topics[:0], q.partitions[:0], q.strings[:0]
}

// fail says that the request is not plain: nothing more is read of it.
func (q *quick) fail() { q.plain, q.at = false, len(q.b) }

// take returns the next n bytes; nil if they are not there.
func (q *quick) take(n int) []byte {
	at := q.at
	if uint(n) > uint(len(q.b)-at) {
		q.fail()
		return nil
	}
	q.at = at + n
	return q.b[at : at+n]
}

func (q *quick) int32() int32 {
	if b := q.take(4); len(b) == 4 {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (q *quick) int64() int64 {
	if b := q.take(8); len(b) == 8 {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// compact reads the length of a string or list of the flexible versions; -1: null.
func (q *quick) compact() int {
	if at := q.at; at < len(q.b) && q.b[at] < 0x80 {
		q.at++
		return int(q.b[at]) - 1
	}
	return q.compactLong()
}

func (q *quick) compactLong() int {
	v, size := binary.Uvarint(q.b[q.at:])
	if size <= 0 || v > maxTrusted {
		q.plain = false
		return -1
	}
	q.at += size
	return int(v) - 1
}

// length reads the length of a string; -1: null.
func (q *quick) length() int {
	if q.flexible {
		return q.compact()
	}
	if b := q.take(2); len(b) == 2 {
		return int(int16(binary.BigEndian.Uint16(b)))
	}
	return -1
}

// count reads the length of a list whose elements take at least least bytes.
func (q *quick) count(least int) int {
	n := 0
	if q.flexible {
		n = q.compact()
	} else {
		n = int(q.int32())
	}
	if n <= 0 || n > (len(q.b)-q.at)/least {
		q.plain = false
		return 0
	}
	return n
}

// string returns a string that aliases the body.
func (q *quick) string() string {
	b := q.take(q.length())
	return unsafe.String(unsafe.SliceData(b), len(b))
}

func (q *quick) nullable() *string {
	n := q.length()
	if n == -1 {
		return nil
	}
	b := q.take(n)
	q.strings = append(q.strings, unsafe.String(unsafe.SliceData(b), len(b)))
	return &q.strings[len(q.strings)-1]
}

// tags reads the end of a section of the flexible versions.
func (q *quick) tags() {
	if q.flexible {
		if q.at < len(q.b) && q.b[q.at] == 0 {
			q.at++
		} else {
			q.plain = false
		}
	}
}

// heartbeat reports whether body was plain; else r is unfit for use.
func (q *quick) heartbeat(r *kmsg.HeartbeatRequest, body []byte) bool {
	q.begin(body, r.Version >= 4)
	r.Group = q.string()
	r.Generation = q.int32()
	r.MemberID = q.string()
	if r.Version >= 3 {
		r.InstanceID = q.nullable()
	}
	q.tags()
	return q.plain
}

// commit is heartbeat for OffsetCommit v2 and later.
func (q *quick) commit(r *kmsg.OffsetCommitRequest, body []byte) bool {
	q.begin(body, r.Version >= 8)
	r.Group = q.string()
	r.Generation = q.int32()
	r.MemberID = q.string()
	if r.Version >= 7 {
		r.InstanceID = q.nullable()
	}
	r.RetentionTimeMillis = -1
	if r.Version <= 4 {
		r.RetentionTimeMillis = q.int64()
	}
	for range q.count(2) {
		q.topic(r.Version)
		if !q.plain {
			return false
		}
	}
	q.tags()
	r.Topics = q.topics
	return q.plain
}

func (q *quick) topic(version int16) {
	q.topics = append(q.topics, kmsg.OffsetCommitRequestTopic{})
	t := &q.topics[len(q.topics)-1]
	if version >= 10 {
		copy(t.TopicID[:], q.take(16))
	} else {
		t.Topic = q.string()
	}
	first := len(q.partitions)
	for range q.count(13) {
		q.partitions = append(q.partitions, kmsg.OffsetCommitRequestTopicPartition{LeaderEpoch: -1})
		p := &q.partitions[len(q.partitions)-1]
		p.Partition = q.int32()
		p.Offset = q.int64()
		if version >= 6 {
			p.LeaderEpoch = q.int32()
		}
		p.Metadata = q.nullable()
		q.tags()
	}
	q.tags()
	t.Partitions = q.partitions[first:len(q.partitions):len(q.partitions)]
}
