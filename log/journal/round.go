package journal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// A Round collects items that are written together. Items are laid out as they
// will stand in the file, so that writing a round is filling in headers and
// checksums. A round larger than an entry becomes several entries.
//
// A Round belongs to one owner at a time; buffers are kept across Reset, so
// that a steady load allocates nothing.
type Round struct {
	max     int // largest entry
	entries []roundEntry
	// Invariant: entries[:used] have at least one item; those behind are kept
	// for their buffers.
	used  int
	items int
	start bool // becomes an entry of kind Start
}

// roundEntry is one entry in the making: room for its header, then items.
type roundEntry struct {
	buf   []byte
	items int
}

// NewRound returns an empty round whose entries fit into a journal with the
// given Options.MaxEntryBytes (0: MaxEntryBytes).
func NewRound(maxEntryBytes int) *Round {
	if maxEntryBytes == 0 {
		maxEntryBytes = MaxEntryBytes
	}
	if maxEntryBytes < entryHead+itemHead+2*minBatch || maxEntryBytes > MaxEntryBytes || maxEntryBytes%8 != 0 {
		panic(fmt.Sprintf("journal: entries of %d bytes", maxEntryBytes))
	}
	return &Round{max: maxEntryBytes}
}

// Reset empties the round and keeps its buffers.
func (r *Round) Reset() {
	r.used, r.items, r.start = 0, 0, false
}

// Trim gives buffers back until at most keep bytes are held. The round must be
// empty.
func (r *Round) Trim(keep int) {
	if r.used != 0 {
		panic(fmt.Sprintf("journal: Trim of a round with %d entries", r.used))
	}
	for i := range r.entries {
		if keep -= cap(r.entries[i].buf); keep < 0 {
			clear(r.entries[i:])
			r.entries = r.entries[:i]
			return
		}
	}
}

// Items is the number of items added, Bytes what the round will take in the
// journal, headers and padding included (0 when empty).
func (r *Round) Items() int { return r.items }

// Bytes is what the round will take in the journal, headers and padding
// included; 0 when it is empty.
func (r *Round) Bytes() int {
	n := 0
	for i := range r.entries[:r.used] {
		n += align8(len(r.entries[i].buf))
	}
	return n
}

// MaxItemBytes is the largest item that Add takes.
func (r *Round) MaxItemBytes() int { return r.max - entryHead - itemHead }

// Add makes room for an item of n bytes, 1..MaxItemBytes, and returns it for the
// caller to fill. The slice is valid until the next call of a method.
func (r *Round) Add(kind Kind, topic TopicID, partition int32, n int) []byte {
	if n < 1 || n > r.MaxItemBytes() {
		panic(fmt.Sprintf("journal: item of %d bytes, largest %d", n, r.MaxItemBytes()))
	}
	r.items++
	return r.piece(kind, 0, topic, partition, n)
}

// Append copies an item of any size; one that is larger than MaxItemBytes is cut
// into pieces for several entries. It returns the first piece of the copy, which
// holds at least the header of a batch, for the caller to stamp offset and epoch
// into; it is valid until the next call of a method.
func (r *Round) Append(kind Kind, topic TopicID, partition int32, data []byte) (head []byte) {
	limit := r.MaxItemBytes()
	if len(data) <= limit {
		head = r.Add(kind, topic, partition, len(data))
		copy(head, data)
		return head
	}
	r.items++
	flags := byte(flagGoesOn)
	first := r.used
	for len(data) > 0 {
		n := min(len(data), limit)
		if n == len(data) {
			flags &^= flagGoesOn
		}
		copy(r.piece(kind, flags, topic, partition, n), data)
		data = data[n:]
		flags |= flagContinue
	}
	// The first piece filled an entry of its own: the first of those made here.
	return r.entries[first].buf[entryHead+itemHead:]
}

// piece appends the head of an item and room for its data to the last entry, or
// to a new one when it does not fit or goes on from the last.
func (r *Round) piece(kind Kind, flags byte, topic TopicID, partition int32, n int) []byte {
	size := itemHead + n
	if r.used == 0 || len(r.entries[r.used-1].buf)+size > r.max {
		if r.used == len(r.entries) {
			r.entries = append(r.entries, roundEntry{})
		}
		e := &r.entries[r.used]
		if cap(e.buf) < entryHead {
			e.buf = make([]byte, entryHead, max(4096, align8(entryHead+size)))
		}
		e.buf, e.items = e.buf[:entryHead], 0
		r.used++
	}
	e := &r.entries[r.used-1]
	at := len(e.buf)
	e.buf = grow(e.buf, size)
	h := e.buf[at:]
	h[0], h[1], h[2], h[3] = byte(kind), flags, 0, 0
	binary.BigEndian.PutUint32(h[4:], uint32(n))
	if kind == Batch {
		copy(h[8:24], topic[:])
		binary.BigEndian.PutUint32(h[24:], uint32(partition))
	} else {
		clear(h[8:itemHead])
	}
	e.items++
	return h[itemHead : itemHead+n]
}

// grow extends b by n bytes of any content, with room for 7 more (padding).
func grow(b []byte, n int) []byte {
	need := len(b) + n
	if need+7 <= cap(b) {
		return b[:need]
	}
	g := make([]byte, need, max(align8(need), 2*cap(b))+8)
	copy(g, b)
	return g
}

// A Piece is an item, or the part of one that stands in one entry.
type Piece struct {
	Kind      Kind
	Topic     TopicID
	Partition int32
	Data      []byte
	// Continued: the item began in an earlier piece. GoesOn: it ends in a later one.
	Continued, GoesOn bool
}

// Each calls f for every piece of the round in order. Data points into the
// round and lives until Reset.
func (r *Round) Each(f func(p Piece)) {
	for i := range r.entries[:r.used] {
		e := &r.entries[i]
		b := e.buf[entryHead:]
		for range e.items {
			n := int(binary.BigEndian.Uint32(b[4:]))
			f(pieceAt(b, n))
			b = b[itemHead+n:]
		}
	}
}

// seal fills in the header of entry i and returns its bytes.
func (r *Round) seal(i int, salt uint32, seq int64, prev uint32, synced bool) (entry []byte, crc uint32) {
	e := &r.entries[i]
	n := len(e.buf)
	b := e.buf[:align8(n)]
	clear(b[n:])
	copy(b, entryMagic)
	binary.BigEndian.PutUint32(b[4:], uint32(len(b)))
	binary.BigEndian.PutUint64(b[8:], uint64(seq))
	binary.BigEndian.PutUint32(b[16:], prev)
	b[24], b[25], b[26], b[27] = byte(Items), 0, 0, 0
	if r.start {
		b[24] = byte(Start)
	}
	if synced {
		b[25] = flagSynced
	}
	binary.BigEndian.PutUint32(b[28:], uint32(e.items))
	crc = entryCRC(salt, b)
	binary.BigEndian.PutUint32(b[20:], crc)
	return b, crc
}

// saltOf is the checksum state that every entry of a folder begins with.
func saltOf(folder FolderID) uint32 { return crc32.Checksum(folder[:], castagnoli) }

// entryCRC is the checksum of a whole entry.
func entryCRC(salt uint32, b []byte) uint32 {
	return crc32.Update(crc32.Update(salt, castagnoli, b[:20]), castagnoli, b[24:])
}
