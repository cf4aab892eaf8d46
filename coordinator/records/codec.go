package records

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"
)

// Errors of the decoders, wrapped with the record type and version.
var (
	// ErrDamaged means that the bytes do not follow the schema.
	ErrDamaged = errors.New("damaged record")
	// ErrVersion means a value version that this package does not know. Skipping
	// such a value would lose state, so a partition that holds one is not served.
	ErrVersion = errors.New("unknown value version")
)

// A reader consumes bytes and remembers the first failure; after one it returns
// zero values.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if r.bad || n < 0 || n > len(r.b) {
		r.bad = true
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) int8() int8 {
	if b := r.take(1); b != nil {
		return int8(b[0])
	}
	return 0
}

func (r *reader) int16() int16 {
	if b := r.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *reader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *reader) uuid() (id [16]byte) {
	copy(id[:], r.take(16))
	return id
}

// uvarint reads a length or tag of at most 32 bits.
func (r *reader) uvarint() int {
	v, n := binary.Uvarint(r.b)
	if r.bad || n <= 0 || v > 1<<31 {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return int(v)
}

// length reads the length of a string, or of bytes or an array where wide is set:
// -1 for null. compact selects the flexible encoding.
func (r *reader) length(compact, wide bool) int {
	n := 0
	switch {
	case compact:
		n = r.uvarint() - 1
	case wide:
		n = int(r.int32())
	default:
		n = int(r.int16())
	}
	if r.bad || n < -1 {
		r.bad = true
		return -1
	}
	return n
}

func (r *reader) string(compact bool) string {
	n := r.length(compact, false)
	if n < 0 {
		r.bad = true // null where the schema has none
	}
	return alias(r.take(n))
}

func (r *reader) nullableString(compact bool) *string {
	n := r.length(compact, false)
	if n < 0 {
		return nil
	}
	s := alias(r.take(n))
	return &s
}

func (r *reader) bytes(compact bool) []byte {
	n := r.length(compact, true)
	if n < 0 {
		r.bad = true
	}
	return r.take(n)
}

// count reads an array's length and refuses one that the bytes left cannot hold
// with elements of at least min bytes. Null counts as -1.
func (r *reader) count(compact bool, min int) int {
	n := r.length(compact, true)
	if n > 0 && n > len(r.b)/min {
		r.bad = true
	}
	if r.bad {
		return 0
	}
	return n
}

func (r *reader) int32s(compact bool) []int32 {
	n := r.count(compact, 4)
	if n < 0 {
		r.bad = true
	}
	if r.bad {
		return nil
	}
	v := make([]int32, n)
	for i := range v {
		v[i] = r.int32()
	}
	return v
}

// nullableInt32s reads a compact array that may be null.
func (r *reader) nullableInt32s() []int32 {
	n := r.count(true, 4)
	if n < 0 || r.bad {
		return nil
	}
	v := make([]int32, n)
	for i := range v {
		v[i] = r.int32()
	}
	return v
}

func (r *reader) strings(compact bool) []string {
	n := r.count(compact, 1)
	if n < 0 {
		r.bad = true
	}
	if r.bad {
		return nil
	}
	v := make([]string, n)
	for i := range v {
		v[i] = r.string(compact)
	}
	return v
}

// tags reads a section of tagged fields and calls known for each; known returns
// false for a tag to skip.
func (r *reader) tags(known func(tag int, f *reader)) {
	n := r.uvarint()
	for ; n > 0 && !r.bad; n-- {
		tag := r.uvarint()
		f := reader{b: r.take(r.uvarint()), bad: r.bad}
		if known != nil && !r.bad {
			known(tag, &f)
			r.bad = f.bad
		}
	}
}

func (r *reader) err(what string, version int16) error {
	if r.bad {
		return fmt.Errorf("%s version %d: %w", what, version, ErrDamaged)
	}
	return nil
}

// alias makes a string of b without a copy: the bytes must not change while it is
// used.
func alias(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// Below, the writers. All append.

func putInt16(b []byte, v int16) []byte { return binary.BigEndian.AppendUint16(b, uint16(v)) }
func putInt32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }
func putInt64(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

func putUvarint(b []byte, v int) []byte { return binary.AppendUvarint(b, uint64(v)) }

func putString(b []byte, s string) []byte {
	return append(putInt16(b, int16(len(s))), s...)
}

func putNullableString(b []byte, s *string) []byte {
	if s == nil {
		return putInt16(b, -1)
	}
	return putString(b, *s)
}

func putBytes(b, v []byte) []byte {
	return append(putInt32(b, int32(len(v))), v...)
}

func putCompactString(b []byte, s string) []byte {
	return append(putUvarint(b, len(s)+1), s...)
}

func putCompactNullableString(b []byte, s *string) []byte {
	if s == nil {
		return append(b, 0)
	}
	return putCompactString(b, *s)
}

func putCompactBytes(b, v []byte) []byte {
	return append(putUvarint(b, len(v)+1), v...)
}

func putCompactInt32s(b []byte, v []int32) []byte {
	b = putUvarint(b, len(v)+1)
	for _, x := range v {
		b = putInt32(b, x)
	}
	return b
}

func putCompactStrings(b []byte, v []string) []byte {
	b = putUvarint(b, len(v)+1)
	for _, x := range v {
		b = putCompactString(b, x)
	}
	return b
}

// putTag appends one tagged field whose body was encoded apart.
func putTag(b []byte, tag int, body []byte) []byte {
	b = putUvarint(b, tag)
	b = putUvarint(b, len(body))
	return append(b, body...)
}
