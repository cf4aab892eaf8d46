package wire

import (
	"encoding/binary"
	"fmt"
)

// What a frame may make a decoder allocate is bounded before kmsg sees it, by
// walking the request over the table of its fields. The walk finds what Kafka
// refuses and kmsg does not (null in fields that have no null, a list of more than
// maxElements elements, a section of more than maxTags tagged fields), and the
// tagged fields that nobody here reads: kmsg keeps those in a map for each section,
// close to a hundred bytes for two on the wire.

const (
	// maxElements is the largest number of elements of one list, as in Kafka since
	// 4.4.
	maxElements = 1_000_000
	// maxTags is the largest number of tagged fields in one section, the header's
	// included, as in Kafka since 4.4.
	maxTags = 10_000
	// maxUnknown is the number of unknown tagged fields in a request up to which
	// they are left to kmsg. A request with more is decoded from a copy without them.
	maxUnknown = 64
	// maxString is the longest string in bytes.
	maxString = 1<<15 - 1
)

// A kind is how a field is laid out.
type kind uint8

const (
	fixed  kind = iota + 1 // size bytes
	text                   // a string: its length is a uvarint of length+1, before the flexible versions an int16
	blob                   // bytes: as text, with an int32
	object                 // fields, nullable ones behind a byte that is negative for null
	array                  // a list of fixed, text or object elements: its count as the length of a blob
)

// always marks a field as nullable in all its versions.
const always = -1

// A field is one field of a request.
type field struct {
	name string
	kind kind
	// from is the first version with the field, until the first one without it
	// again (0: there is none).
	from, until int16
	// null is the first version in which the field may be null; 0 means that it
	// never may.
	null int16
	// tag is 1 + the number of a tagged field, 0 for an ordinary one.
	tag uint8
	// size is the length of a fixed field, or of an array's elements if they are.
	size uint8
	// of is text if an array's elements are.
	of kind
	// fields are those of an object, or of an array's elements.
	fields []field
}

// A walk goes over one request. In a rewriting walk, out receives the request
// without its unknown tagged fields.
type walk struct {
	version  int16
	flexible bool
	unknown  int // tagged fields that the table does not know

	rewrite bool
	out     []byte
	// Invariant: in a rewriting walk out holds in[:done] without what is left out.
	in   []byte
	done int
}

// inspect walks the body of a request of key at version and returns the bytes to
// decode: the body, or a copy without unknown tagged fields if it has more than
// maxUnknown. The copy is never longer than the body.
func inspect(key, version int16, body []byte) ([]byte, error) {
	w := walk{version: version, flexible: version >= apis[key].Flexible}
	if _, err := w.object(body, schemas[key]); err != nil {
		return nil, fmt.Errorf("%w: key %d version %d: %w", ErrMalformed, key, version, err)
	}
	if w.unknown <= maxUnknown {
		return body, nil
	}
	w = walk{version: version, flexible: w.flexible, rewrite: true, in: body, out: make([]byte, 0, len(body))}
	rest, err := w.object(body, schemas[key])
	if err != nil {
		panic(fmt.Sprintf("wire: key %d version %d: second walk failed: %v", key, version, err))
	}
	w.copyTo(len(body) - len(rest))
	return w.out, nil
}

// copyTo takes the input up to position end over into the output.
func (w *walk) copyTo(end int) {
	w.out = append(w.out, w.in[w.done:end]...)
	w.done = end
}

// object walks fields and, in a flexible version, the tagged fields behind them.
// It returns what follows.
func (w *walk) object(b []byte, fields []field) ([]byte, error) {
	for i := range fields {
		f := &fields[i]
		if f.tag != 0 || w.version < f.from || f.until != 0 && w.version >= f.until {
			continue
		}
		if f.kind == fixed {
			if len(b) < int(f.size) {
				return nil, &fieldError{f, errShort}
			}
			b = b[f.size:]
			continue
		}
		var err error
		if b, err = w.field(b, f); err != nil {
			return nil, err
		}
	}
	if !w.flexible {
		return b, nil
	}
	if len(b) > 0 && b[0] == 0 {
		return b[1:], nil
	}
	return w.tags(b, fields)
}

// field walks one field.
func (w *walk) field(b []byte, f *field) ([]byte, error) {
	var err error
	switch f.kind {
	case fixed:
		b, err = skip(b, int(f.size))
	case text, blob:
		b, err = w.bytes(b, f.kind, f.nullable(w.version))
	case object:
		if f.null != 0 {
			if len(b) == 0 {
				return nil, &fieldError{f, errShort}
			}
			null := int8(b[0]) < 0
			if b = b[1:]; null {
				if !f.nullable(w.version) {
					return nil, &fieldError{f, errNull}
				}
				return b, nil
			}
		}
		return w.object(b, f.fields)
	case array:
		return w.array(b, f)
	}
	if err != nil {
		return nil, &fieldError{f, err}
	}
	return b, nil
}

func (f *field) nullable(version int16) bool {
	return f.null != 0 && version >= f.null
}

// array walks a list.
func (w *walk) array(b []byte, f *field) ([]byte, error) {
	n, b, err := w.length(b, blob)
	switch {
	case err != nil:
		return nil, &fieldError{f, err}
	case n < 0 && !f.nullable(w.version):
		return nil, &fieldError{f, errNull}
	case n > len(b): // an element takes at least one byte
		return nil, &fieldError{f, errShort}
	case n > maxElements:
		return nil, &fieldError{f, errElements}
	}
	if f.size != 0 {
		if n > 0 {
			if b, err = skip(b, n*int(f.size)); err != nil {
				return nil, &fieldError{f, err}
			}
		}
		return b, nil
	}
	for range n {
		if f.of == text {
			if b, err = w.bytes(b, text, false); err != nil {
				return nil, &fieldError{f, err}
			}
			continue
		}
		if b, err = w.object(b, f.fields); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// bytes walks a string or bytes.
func (w *walk) bytes(b []byte, k kind, nullable bool) ([]byte, error) {
	n, b, err := w.length(b, k)
	switch {
	case err != nil:
		return nil, err
	case n < 0 && !nullable:
		return nil, errNull
	case n < 0:
		return b, nil
	case k == text && n > maxString:
		return nil, errLong
	case n > len(b):
		return nil, errShort
	}
	return b[n:], nil
}

// length reads the length of a string (k is text), or of bytes or a list. Below
// zero means null.
func (w *walk) length(b []byte, k kind) (int, []byte, error) {
	switch {
	case w.flexible:
		if len(b) > 0 && b[0] < 0x80 {
			return int(b[0]) - 1, b[1:], nil
		}
		n, b, ok := uvarint(b)
		if !ok {
			return 0, nil, errShort
		}
		return int(int32(n - 1)), b, nil
	case k == text:
		if len(b) < 2 {
			return 0, nil, errShort
		}
		return int(int16(binary.BigEndian.Uint16(b))), b[2:], nil
	}
	if len(b) < 4 {
		return 0, nil, errShort
	}
	return int(int32(binary.BigEndian.Uint32(b))), b[4:], nil
}

// tags walks a section of tagged fields. Those that fields names are walked as
// well; the others are counted, and left out by a rewriting walk. Known tagged
// fields are copied as they are: they hold no lists, so what unknown ones inside
// them can cost is bounded by maxTags.
func (w *walk) tags(b []byte, fields []field) ([]byte, error) {
	start := len(w.in) - len(b)
	count, b, ok := uvarint(b)
	if !ok || count > maxTags {
		return nil, errTags
	}
	var known []byte // in a rewriting walk: the tagged fields to keep
	keep := uint32(0)
	for range count {
		from := b
		var number, size uint32
		if number, b, ok = uvarint(b); !ok {
			return nil, errTags
		}
		if size, b, ok = uvarint(b); !ok || uint64(size) > uint64(len(b)) {
			return nil, errTags
		}
		value := b[:size]
		b = b[size:]
		f := tagged(fields, number, w.version)
		if f == nil {
			w.unknown++
			continue
		}
		inner := walk{version: w.version, flexible: true}
		if _, err := inner.field(value, f); err != nil {
			return nil, err
		}
		if w.rewrite {
			known = append(known, from[:len(from)-len(b)]...)
			keep++
		}
	}
	if w.rewrite {
		w.copyTo(start)
		w.out = append(binary.AppendUvarint(w.out, uint64(keep)), known...)
		w.done = len(w.in) - len(b)
	}
	return b, nil
}

// tagged finds a tagged field, nil if the version does not know it.
func tagged(fields []field, number uint32, version int16) *field {
	for i := range fields {
		f := &fields[i]
		if f.tag != 0 && uint32(f.tag-1) == number && version >= f.from && (f.until == 0 || version < f.until) {
			return f
		}
	}
	return nil
}

func skip(b []byte, n int) ([]byte, error) {
	if n > len(b) {
		return nil, errShort
	}
	return b[n:], nil
}
