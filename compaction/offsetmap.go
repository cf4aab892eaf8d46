package compaction

import (
	"hash/maphash"
	"slices"
)

// slotBytes is the memory that a slot of an offset map takes.
const slotBytes = 24

// keyHash stands for a key. Two keys with the same 128 bits are taken for one:
// with seeds that nobody outside knows this does not happen.
type keyHash struct{ a, b uint64 }

// offsetMap maps keys to the newest offset at which they were seen. It grows as
// needed, up to a fixed number of keys.
type offsetMap struct {
	seedA, seedB maphash.Seed
	slots        []slot // a power of two; nil at first
	used         int
	// extra counts keys that wait elsewhere and need a slot later.
	extra int
	limit int // keys
}

type slot struct {
	key  keyHash
	next int64 // offset + 1; 0: free
}

const firstSlots = 1 << 10

// newOffsetMap returns a map that takes at most bytes and keys in a share of its
// slots, load, of which more than nine tenths are never used.
func newOffsetMap(bytes int, load float64) *offsetMap {
	slots := firstSlots
	for 2*slots*slotBytes <= bytes {
		slots *= 2
	}
	return &offsetMap{seedA: maphash.MakeSeed(), seedB: maphash.MakeSeed(), limit: min(max(int(float64(slots)*load), 1), slots/10*9)}
}

func (m *offsetMap) hash(key []byte) keyHash {
	return keyHash{maphash.Bytes(m.seedA, key), maphash.Bytes(m.seedB, key)}
}

// room reports whether n more keys certainly fit.
func (m *offsetMap) room(n int) bool { return m.used+m.extra+n <= m.limit }

// find returns the slot of a key, or the free one where it belongs.
func (m *offsetMap) find(k keyHash) *slot {
	mask := uint64(len(m.slots) - 1)
	for i := k.a & mask; ; i = (i + 1) & mask {
		if s := &m.slots[i]; s.next == 0 || s.key == k {
			return s
		}
	}
}

// put records that a key was seen at offset. An older offset than the one known
// changes nothing.
func (m *offsetMap) put(k keyHash, offset int64) {
	if m.used+1 > len(m.slots)/10*9 {
		m.grow()
	}
	s := m.find(k)
	if s.next == 0 {
		m.used++
		s.key = k
	}
	s.next = max(s.next, offset+1)
}

func (m *offsetMap) grow() {
	old := m.slots
	m.slots = make([]slot, max(firstSlots, 2*len(old)))
	for _, s := range old {
		if s.next != 0 {
			*m.find(s.key) = s
		}
	}
}

// maxSorted bounds the keys whose newest offsets are worth sorting: more would take
// longer than a step of the cleaner may.
const maxSorted = 16 << 10

// sorted returns the newest offset of every key in rising order, nil if there are
// more than maxSorted.
func (m *offsetMap) sorted() []int64 {
	if m.used > maxSorted {
		return nil
	}
	out := make([]int64, 0, m.used)
	for i := range m.slots {
		if next := m.slots[i].next; next != 0 {
			out = append(out, next-1)
		}
	}
	slices.Sort(out)
	return out
}

// newest returns the newest offset known of a key, -1 if none.
func (m *offsetMap) newest(key []byte) int64 {
	if len(m.slots) == 0 {
		return -1
	}
	return m.find(m.hash(key)).next - 1
}
