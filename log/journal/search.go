package journal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
)

// searchBudget is how many bytes of entries search checksums one by one, per
// file. Bytes that a client chose can look like the heads of very many long
// entries; beyond the budget all checksums are taken in one pass.
const searchBudget = 64 << 20

// maxSequence bounds what search takes for a sequence.
const maxSequence = 1 << 48

// search looks for valid entries with a sequence of at least min at every
// multiple of 8 from from on. It stops at the first one that proves damage:
// written when everything before was synced, or with the very sequence min (any
// one if sum is nil).
func (j *Journal) search(fl *file, from, min int64, sum *found) (behind *Place, what string, err error) {
	w := j.window(fl)
	budget := searchBudget
	var valid []int64 // offsets at which entries are valid, once the budget is spent
	for at := from; ; at += 8 {
		var n int
		if at, n, err = j.candidate(w, at, min, sum); err != nil || n == 0 {
			return nil, "", err
		}
		if budget -= n; budget < 0 {
			if valid == nil {
				if valid, err = j.allValid(fl, at, min); err != nil {
					return nil, "", err
				}
			}
			if _, ok := slices.BinarySearch(valid, at); !ok {
				continue
			}
		}
		e, err := j.entryAt(w, at)
		if err != nil {
			return nil, "", err
		}
		if e == nil {
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
		at += int64(len(e.raw)) - 8
	}
}

// candidate returns the next multiple of 8 from at on where the head of an entry
// with a sequence of at least min stands, and the entry's length; 0 at the end of
// the file.
func (j *Journal) candidate(w *window, at, min int64, sum *found) (int64, int, error) {
	for {
		b, err := w.rest(at)
		if err != nil || len(b) == 0 {
			return 0, 0, err
		}
		i := nextMagic(b)
		if i < 0 {
			at += int64(len(b)) // a multiple of 8, so no place was skipped
			continue
		}
		at += int64(i)
		head, err := w.bytes(at, entryHead)
		if err != nil {
			return 0, 0, err
		}
		if n, ok := j.plausible(head, w.size-at); ok && head[24]-1 < 15 && head[25] < 16 && head[26] == 0 && head[27] == 0 {
			seq := int64(binary.BigEndian.Uint64(head[8:]))
			if seq >= min && seq < maxSequence {
				return at, n, nil
			}
			if sum != nil && seq > 0 && seq < min {
				sum.stale = true
			}
		}
		at += 8
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

// suspect is an entry whose checksum allValid computes: over the bytes from
// body to end, beginning in state.
type suspect struct {
	at, body, end int64
	state, want   uint32
}

// allValid returns the offsets of all valid entries from from on that candidate
// finds, in time that does not depend on how they overlap. A CRC is linear: the
// checksum of any range follows from those of the two prefixes of the file that
// end where the range begins and ends.
func (j *Journal) allValid(fl *file, from, min int64) ([]int64, error) {
	var all []suspect
	var ends []int64
	w := j.window(fl)
	for at := from; ; at += 8 {
		var n int
		var err error
		if at, n, err = j.candidate(w, at, min, nil); err != nil {
			return nil, err
		}
		if n == 0 {
			break
		}
		head, err := w.bytes(at, entryHead)
		if err != nil {
			return nil, err
		}
		all = append(all, suspect{
			at: at, body: at + 24, end: at + int64(n),
			state: ^crc32.Update(j.salt, castagnoli, head[:20]), want: ^binary.BigEndian.Uint32(head[20:]),
		})
		ends = append(ends, at+24, at+int64(n))
	}
	slices.Sort(ends)
	ends = slices.Compact(ends)
	prefixes, err := prefixStates(w, from, ends)
	if err != nil {
		return nil, err
	}
	shift := newShifter()
	valid := []int64{}
	for _, s := range all {
		i, _ := slices.BinarySearch(ends, s.body)
		k, _ := slices.BinarySearch(ends, s.end)
		if shift.zeros(s.state^prefixes[i], s.end-s.body)^prefixes[k] == s.want {
			valid = append(valid, s.at)
		}
	}
	return valid, nil
}

// prefixStates returns the CRC register, begun with 0 at from, at each of the
// ascending offsets.
func prefixStates(w *window, from int64, offsets []int64) ([]uint32, error) {
	states := make([]uint32, 0, len(offsets))
	crc := ^uint32(0) // register 0
	for _, to := range offsets {
		for from < to {
			b, err := w.rest(from)
			if err != nil {
				return nil, err
			}
			b = b[:min(int64(len(b)), to-from)]
			crc = crc32.Update(crc, castagnoli, b)
			from += int64(len(b))
		}
		states = append(states, ^crc)
	}
	return states, nil
}

// shifter advances a CRC register over zeros. matrix[k] advances over 8<<k bytes;
// column i is what becomes of bit i.
type shifter struct{ matrix [20][32]uint32 }

func newShifter() *shifter {
	s := new(shifter)
	for i := range 32 {
		s.matrix[0][i] = ^crc32.Update(^(uint32(1) << i), castagnoli, make([]byte, 8))
	}
	for k := 1; k < len(s.matrix); k++ {
		for i := range 32 {
			s.matrix[k][i] = multiply(&s.matrix[k-1], s.matrix[k-1][i])
		}
	}
	return s
}

func multiply(m *[32]uint32, v uint32) (out uint32) {
	for i := 0; v != 0; i, v = i+1, v>>1 {
		out ^= m[i] & -(v & 1)
	}
	return out
}

// zeros advances a register over n zero bytes, a multiple of 8 below 8 MiB.
func (s *shifter) zeros(register uint32, n int64) uint32 {
	for k, n := 0, n/8; n != 0; k, n = k+1, n>>1 {
		if n&1 != 0 {
			register = multiply(&s.matrix[k], register)
		}
	}
	return register
}
