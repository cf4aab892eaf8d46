package record

import (
	"encoding/binary"
	"fmt"
)

// Peek returns the size that the header at the start of b gives, if b has the 17
// bytes that tell it and they are plausible: magic 2, size at least HeaderSize
// and at most limit. Otherwise ErrShort, ErrMagic or ErrLength.
func Peek(b []byte, limit int64) (size int64, err error) {
	if len(b) <= atMagic {
		return 0, ErrShort
	}
	if b[atMagic] != Magic {
		return 0, fmt.Errorf("%w but %d", ErrMagic, int8(b[atMagic]))
	}
	length := int64(int32(binary.BigEndian.Uint32(b[atLength:])))
	if length < MinLength || length+LengthOverhead > limit {
		return 0, fmt.Errorf("%w %d", ErrLength, length)
	}
	return length + LengthOverhead, nil
}

// Next cuts the first batch off b and validates it. limit bounds its size. At
// the end of b it returns nil, nil, nil.
func Next(b []byte, limit int64) (batch Batch, rest []byte, err error) {
	if len(b) == 0 {
		return nil, nil, nil
	}
	size, err := Peek(b, limit)
	if err != nil {
		return nil, b, err
	}
	if size > int64(len(b)) {
		return nil, b, ErrShort
	}
	batch = Batch(b[:size:size])
	if err := batch.Validate(); err != nil {
		return nil, b, err
	}
	return batch, b[size:], nil
}

// Validate checks everything that can be checked without decoding records: the
// length, magic 2, the checksum, a known codec, and that count and last offset
// agree. The base offset, the length and the leader epoch lie outside the
// checksum: whoever knows what they should be has to compare them.
func (b Batch) Validate() error {
	if err := b.ValidateHeader(); err != nil {
		return err
	}
	if got, want := b.CRC(), b.ComputeCRC(); got != want {
		return fmt.Errorf("%w: stored %08x, computed %08x", ErrCRC, got, want)
	}
	return nil
}

// ValidateHeader is Validate without the checksum.
func (b Batch) ValidateHeader() error {
	if len(b) < HeaderSize {
		return ErrShort
	}
	if b.Magic() != Magic {
		return fmt.Errorf("%w but %d", ErrMagic, b.Magic())
	}
	switch size := b.Size(); {
	case size < HeaderSize:
		return fmt.Errorf("%w %d", ErrLength, b.Length())
	case size > int64(len(b)):
		return ErrShort
	case size < int64(len(b)):
		return fmt.Errorf("%w: %d bytes behind the batch", ErrLength, int64(len(b))-size)
	}
	last, count := b.LastOffsetDelta(), b.Count()
	if b.BaseOffset() < 0 || b.NextOffset() <= b.BaseOffset() {
		return fmt.Errorf("%w: base offset %d, last offset delta %d", ErrMalformed, b.BaseOffset(), last)
	}
	if count < 0 || int64(count) > int64(last)+1 {
		return fmt.Errorf("%w: %d records, last offset delta %d", ErrMalformed, count, last)
	}
	if b.Codec() > CodecZstd {
		return fmt.Errorf("%w: codec %d", ErrMalformed, b.Codec())
	}
	return nil
}
