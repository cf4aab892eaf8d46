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
func (s *walk) end() error {
	j := s.j
	var sum found
	for fl := s.fl; fl != nil; fl = j.byNumber(fl.number + 1) {
		from := int64(HeaderBytes)
		if fl == s.fl {
			from = s.at.Offset
		}
		var here found
		behind, what, err := j.search(fl, from, s.at.Sequence, &here)
		if err != nil {
			return err
		}
		if behind != nil {
			return s.corrupt(s.fl, s.at.Offset, what, fmt.Sprintf("entry %d after crc %08x", s.at.Sequence, s.at.Prev), behind)
		}
		sum.lost += here.lost
		sum.highest = max(sum.highest, here.highest)
		if s.tail.Torn == nil && (fl == s.fl || fl.number == s.fl.number+1) {
			if err := s.torn(fl, from, here.stale); err != nil {
				return err
			}
		}
	}
	s.tail.Lost, s.tail.Highest = sum.lost, sum.highest
	return nil
}

// torn keeps the bytes of a torn entry at off: what is not zero there, unless it
// can only be the middle of an older entry.
func (s *walk) torn(fl *file, off int64, stale bool) error {
	// Behind a journal that was not torn there are only zeros: they are looked
	// through in pieces, before a buffer for a whole entry is made.
	w := s.j.window(fl)
	n := 0
	for at := 0; at < s.j.o.MaxEntryBytes; {
		b, err := w.bytes(off+int64(at), min(windowBytes, s.j.o.MaxEntryBytes-at))
		if err != nil {
			return err
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
		return nil
	}
	b, err := w.bytes(off, n)
	if err != nil {
		return err
	}
	ours := len(b) >= 16 && string(b[:4]) == entryMagic && int64(binary.BigEndian.Uint64(b[8:])) == s.at.Sequence
	if stale && !ours {
		return nil
	}
	s.tail.Torn = bytes.Clone(b)
	s.tail.TornAt = Place{Path: fl.path, Position: off, Sequence: s.at.Sequence}
	return nil
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
