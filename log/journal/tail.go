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

// search looks for valid entries with a sequence of at least min at every
// multiple of 8 from from on. It stops at the first one that proves damage:
// written when everything before was synced, or with the very sequence min (any
// one if sum is nil).
func (j *Journal) search(fl *file, from, min int64, sum *found) (behind *Place, what string, err error) {
	w := j.window(fl)
	for at := from; ; {
		b, err := w.rest(at)
		if err != nil || len(b) == 0 {
			return nil, "", err
		}
		i := nextMagic(b)
		if i < 0 {
			at += int64(len(b)) // a multiple of 8, so no place was skipped
			continue
		}
		at += int64(i)
		e, err := j.candidate(w, at, min, sum)
		if err != nil {
			return nil, "", err
		}
		if e == nil {
			at += 8
			continue
		}
		if sum == nil || e.synced || e.sequence == min {
			what = fmt.Sprintf("no valid entry %d", min)
			if e.sequence == min && at == from {
				what = fmt.Sprintf("entry %d after crc %08x", e.sequence, e.prev)
			}
			return &Place{Path: fl.path, Position: at, Sequence: e.sequence}, what, nil
		}
		sum.lost++
		sum.highest = max(sum.highest, e.sequence)
		at += int64(len(e.raw))
	}
}

// nextMagic is the first multiple of 8 in b where an entry's magic stands, -1 if
// there is none.
func nextMagic(b []byte) int {
	for i := 0; ; {
		k := bytes.Index(b[i:], []byte(entryMagic))
		if k < 0 {
			return -1
		}
		if i += k; i%8 == 0 {
			return i
		}
		i++
	}
}

// candidate returns the entry at at if it is valid and has a sequence of at
// least min.
func (j *Journal) candidate(w *window, at, min int64, sum *found) (*entry, error) {
	head, err := w.bytes(at, entryHead)
	if err != nil {
		return nil, err
	}
	if _, ok := j.plausible(head, w.size-at); !ok {
		return nil, nil
	}
	if seq := int64(binary.BigEndian.Uint64(head[8:])); seq < min {
		if sum != nil && seq > 0 {
			sum.stale = true
		}
		return nil, nil
	}
	return j.entryAt(w, at)
}

// torn keeps the bytes of a torn entry at off: what is not zero there, unless it
// can only be the middle of an older entry.
func (s *walk) torn(fl *file, off int64, stale bool) error {
	w := s.j.window(fl)
	b, err := w.bytes(off, s.j.o.MaxEntryBytes)
	if err != nil {
		return err
	}
	ours := len(b) >= 16 && string(b[:4]) == entryMagic && int64(binary.BigEndian.Uint64(b[8:])) == s.at.Sequence
	if stale && !ours {
		return nil
	}
	n := len(bytes.TrimRight(b, "\x00"))
	if n == 0 {
		return nil
	}
	s.tail.Torn = bytes.Clone(b[:n])
	s.tail.TornAt = Place{Path: fl.path, Position: off, Sequence: s.at.Sequence}
	return nil
}
