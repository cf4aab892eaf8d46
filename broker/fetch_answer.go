package broker

import (
	"encoding/binary"
	"math/bits"
)

// A fetchResult is what reading found for one partition.
type fetchResult struct {
	code                    int16
	highWatermark, logStart int64
	bytes                   int
	// diverging: the client's log and this one part at divergingEnd, the end of
	// divergingEpoch (KIP-595).
	diverging      bool
	divergingEpoch int32
	divergingEnd   int64
}

// A fetchWriter writes a Fetch answer (versions 4 to 18) in one pass: records go
// from the partition logs straight to where they belong. Lengths and counts that
// are known later get the room that they will probably need; when that proves
// wrong what follows is moved.
type fetchWriter struct {
	out       []byte
	start     int // of the frame
	version   int16
	flexible  bool
	committed bool // read_committed

	topics, partitions       count
	topic                    partitionKey // of the open topic; index means nothing
	openTopic                bool
	maxTopics, maxPartitions int

	sessionAt int
	leaders   bool // a partition named its leader: node endpoints follow (version 16)
	nodeID    int32
	epoch     int32 // of the leader, for the partition being written
}

// A count is an array's length that is written when it is known.
type count struct {
	at, room, n int
}

func uvarintLen(x uint64) int { return (bits.Len64(x|1) + 6) / 7 }

// reserve leaves room for an array length of at most most.
func (w *fetchWriter) reserve(most int) count {
	c := count{at: len(w.out), room: 4}
	if w.flexible {
		c.room = uvarintLen(uint64(most) + 1)
	}
	w.out = append(w.out, make([]byte, c.room)...)
	return c
}

// fill writes an array or byte length into its room.
func (w *fetchWriter) fill(at, room, n int) {
	if !w.flexible {
		binary.BigEndian.PutUint32(w.out[at:], uint32(n))
		return
	}
	need := uvarintLen(uint64(n) + 1)
	if need != room {
		end := len(w.out)
		if need > room {
			w.out = append(w.out, make([]byte, need-room)...)
		}
		copy(w.out[at+need:], w.out[at+room:end])
		w.out = w.out[:end+need-room]
	}
	binary.PutUvarint(w.out[at:at+need], uint64(n)+1)
}

// begin starts the frame.
func (w *fetchWriter) begin(correlationID int32) {
	w.start = len(w.out)
	w.flexible = w.version >= 12
	w.out = append(w.out, 0, 0, 0, 0)
	w.out = binary.BigEndian.AppendUint32(w.out, uint32(correlationID))
	if w.flexible {
		w.out = append(w.out, 0) // tags of the header
	}
	w.out = append(w.out, 0, 0, 0, 0) // throttle time
	if w.version >= 7 {
		w.out = append(w.out, 0, 0) // error
		w.sessionAt = len(w.out)
		w.out = append(w.out, 0, 0, 0, 0)
	}
	w.topics = w.reserve(w.maxTopics)
}

// mark is where a partition begins, to take it back.
type fetchMark struct {
	length    int
	topics    count
	open      bool
	topic     partitionKey
	partition count
}

func (w *fetchWriter) mark() fetchMark {
	return fetchMark{length: len(w.out), topics: w.topics, open: w.openTopic, topic: w.topic, partition: w.partitions}
}

func (w *fetchWriter) rollback(m fetchMark) {
	w.out, w.topics, w.openTopic, w.topic, w.partitions = w.out[:m.length], m.topics, m.open, m.topic, m.partition
}

// header opens the partition's topic, if it is not the one before, and leaves
// room for the fields in front of the records. The topic before must have been
// closed (sameTopic).
func (w *fetchWriter) header(key partitionKey) (fieldsAt int) {
	if !w.openTopic {
		w.topics.n++
		w.topic, w.openTopic = key, true
		if w.version >= 13 {
			w.out = append(w.out, key.id[:]...)
		} else if w.flexible {
			w.out = binary.AppendUvarint(w.out, uint64(len(key.topic))+1)
			w.out = append(w.out, key.topic...)
		} else {
			w.out = binary.BigEndian.AppendUint16(w.out, uint16(len(key.topic)))
			w.out = append(w.out, key.topic...)
		}
		w.partitions = w.reserve(w.maxPartitions)
	}
	w.partitions.n++
	fieldsAt = len(w.out)
	n := 4 + 2 + 8 + 8 // partition, error, high watermark, last stable offset
	if w.version >= 5 {
		n += 8 // log start
	}
	if w.flexible {
		n++ // aborted transactions
	} else {
		n += 4
	}
	if w.version >= 11 {
		n += 4 // preferred read replica
	}
	w.out = append(w.out, make([]byte, n)...)
	return fieldsAt
}

// sameTopic says whether key can go into the open topic; else it is closed.
func (w *fetchWriter) sameTopic(key partitionKey) {
	if w.openTopic && (w.topic.topic != key.topic || w.topic.id != key.id) {
		w.closeTopic()
	}
}

func (w *fetchWriter) closeTopic() {
	if !w.openTopic {
		return
	}
	w.fill(w.partitions.at, w.partitions.room, w.partitions.n)
	if w.flexible {
		w.out = append(w.out, 0)
	}
	w.openTopic = false
}

// fields fills in what header left room for.
func (w *fetchWriter) fields(at int, index int32, r *fetchResult) {
	b := w.out[at:at]
	b = binary.BigEndian.AppendUint32(b, uint32(index))
	b = binary.BigEndian.AppendUint16(b, uint16(r.code))
	b = binary.BigEndian.AppendUint64(b, uint64(r.highWatermark))
	b = binary.BigEndian.AppendUint64(b, uint64(r.highWatermark)) // without transactions all is stable
	if w.version >= 5 {
		b = binary.BigEndian.AppendUint64(b, uint64(r.logStart))
	}
	// Aborted transactions: null for read_uncommitted and for most errors.
	none := w.committed && r.code == 0 || r.code == codeUnknownTopicOrPartition || r.code == codeUnknownTopicID
	switch {
	case w.flexible && none:
		b = append(b, 1)
	case w.flexible:
		b = append(b, 0)
	case none:
		b = append(b, 0, 0, 0, 0)
	default:
		b = append(b, 0xff, 0xff, 0xff, 0xff)
	}
	if w.version >= 11 {
		b = append(b, 0xff, 0xff, 0xff, 0xff)
	}
	if &b[0] != &w.out[at] {
		panic("broker: the fields of a partition did not fit where header left room")
	}
}

// tags ends a partition.
func (w *fetchWriter) tags(r *fetchResult) {
	if !w.flexible {
		return
	}
	leader := w.version >= 16 && r.code == codeFencedLeaderEpoch
	n := byte(0)
	if r.diverging {
		n++
	}
	if leader {
		n++
	}
	w.out = append(w.out, n)
	if r.diverging {
		w.out = append(w.out, 0, 13)
		w.out = binary.BigEndian.AppendUint32(w.out, uint32(r.divergingEpoch))
		w.out = binary.BigEndian.AppendUint64(w.out, uint64(r.divergingEnd))
		w.out = append(w.out, 0)
	}
	if leader {
		w.leaders = true
		w.out = append(w.out, 1, 9)
		w.out = binary.BigEndian.AppendUint32(w.out, uint32(w.nodeID))
		w.out = binary.BigEndian.AppendUint32(w.out, uint32(w.epoch))
		w.out = append(w.out, 0)
	}
}

// end closes the frame and returns it with what was there before it. host and
// port are this node's, for an answer that names it.
func (w *fetchWriter) end(sessionID int32, host string, port int32, rack string) []byte {
	w.closeTopic()
	if w.version >= 7 {
		binary.BigEndian.PutUint32(w.out[w.sessionAt:], uint32(sessionID))
	}
	w.fill(w.topics.at, w.topics.room, w.topics.n)
	if w.flexible && !w.leaders {
		w.out = append(w.out, 0)
	} else if w.flexible {
		node := []byte{2} // one element
		node = binary.BigEndian.AppendUint32(node, uint32(w.nodeID))
		node = append(binary.AppendUvarint(node, uint64(len(host))+1), host...)
		node = binary.BigEndian.AppendUint32(node, uint32(port))
		if rack == "" {
			node = append(node, 0)
		} else {
			node = append(binary.AppendUvarint(node, uint64(len(rack))+1), rack...)
		}
		node = append(node, 0)
		w.out = append(w.out, 1, 0)
		w.out = append(binary.AppendUvarint(w.out, uint64(len(node))), node...)
	}
	binary.BigEndian.PutUint32(w.out[w.start:], uint32(len(w.out)-w.start-4))
	return w.out
}
