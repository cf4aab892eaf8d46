package journal

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// found sums up what search sees behind the end of the chain.
type found struct {
	stale   bool // entries of an earlier life of the file
	lost    int64
	highest int64
}

// end decides what the bytes behind the last entry are: nothing, a stale or torn
// entry, entries that were lost with it, or proof of damage.
func (s *walk) end(a *ahead) error {
	j := s.j
	rest := j.mu.files[s.fl.number-j.mu.files[0].number:]
	seen := make([]behind, len(rest))
	each(j.o.Parallel, len(rest), func(i int) {
		from := int64(HeaderBytes)
		if i == 0 {
			from = s.at.Offset
		}
		b := &seen[i]
		if sum, ok := a.searched(rest[i]); ok && i > 0 {
			b.sum = sum
		} else {
			b.place, b.what, b.err = j.search(rest[i], from, s.at.Sequence, &b.sum)
		}
		if i < 2 && b.err == nil && b.place == nil { // the next entry may have been torn here
			b.torn, b.err = s.torn(rest[i], from, b.sum.stale)
			b.tornAt = Place{Path: rest[i].path, Position: from, Sequence: s.at.Sequence}
		}
	})
	for i := range seen {
		b := &seen[i]
		if b.err != nil {
			return b.err
		}
		if b.place != nil {
			return s.corrupt(s.fl, s.at.Offset, b.what, fmt.Sprintf("entry %d after crc %08x", s.at.Sequence, s.at.Prev), b.place)
		}
		s.tail.Lost += b.sum.lost
		s.tail.Highest = max(s.tail.Highest, b.sum.highest)
		if s.tail.Torn == nil && b.torn != nil {
			s.tail.Torn, s.tail.TornAt = b.torn, b.tornAt
		}
	}
	return nil
}

// behind is what one file has behind the end of the chain.
type behind struct {
	place  *Place // proof of damage
	what   string
	sum    found
	torn   []byte
	tornAt Place
	err    error
}

// torn returns the bytes of a torn entry at off: what is not zero there, unless it
// can only be the middle of an older entry; nil if there are none.
func (s *walk) torn(fl *file, off int64, stale bool) ([]byte, error) {
	// Behind a journal that was not torn there are only zeros: they are looked
	// through in pieces, before a buffer for a whole entry is made.
	w := s.j.window(fl)
	n := 0
	for at := 0; at < s.j.o.MaxEntryBytes; {
		b, err := w.bytes(off+int64(at), min(windowBytes, s.j.o.MaxEntryBytes-at))
		if err != nil {
			return nil, err
		}
		if len(b) == 0 {
			break
		}
		if k := len(trimZeros(b)); k > 0 {
			n = at + k
		}
		at += len(b)
	}
	if n == 0 {
		return nil, nil
	}
	b, err := w.bytes(off, n)
	if err != nil {
		return nil, err
	}
	ours := len(b) >= 16 && string(b[:4]) == entryMagic && int64(binary.BigEndian.Uint64(b[8:])) == s.at.Sequence
	if stale && !ours {
		return nil, nil
	}
	return bytes.Clone(b), nil
}

// zeroBlock is never written to.
var zeroBlock [4096]byte

// trimZeros cuts the zeros at the end, a block at a time: behind the journal's end
// there are megabytes of them.
func trimZeros(b []byte) []byte {
	for len(b) >= len(zeroBlock) && bytes.Equal(b[len(b)-len(zeroBlock):], zeroBlock[:]) {
		b = b[:len(b)-len(zeroBlock)]
	}
	return bytes.TrimRight(b, "\x00")
}
