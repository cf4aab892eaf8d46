package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
)

// Inflate returns b's records uncompressed, in the reader's buffer: valid until
// the next call. It never allocates much more than what the input really
// inflates to, nor more than InflateMax.
func (r *Reader) Inflate(b Batch) ([]byte, error) {
	limit := r.InflateMax
	if limit <= 0 {
		limit = DefaultInflateMax
	}
	src := []byte(b[HeaderSize:])
	var err error
	switch b.Codec() {
	case CodecNone:
		return src, nil
	case CodecGzip:
		err = r.inflateGzip(src, limit)
	case CodecSnappy:
		r.buf, err = inflateSnappy(r.buf[:0], src, limit)
	case CodecLZ4:
		r.buf, err = inflateLZ4(r.buf[:0], src, limit)
	case CodecZstd:
		err = r.inflateZstd(src, limit)
	default:
		err = fmt.Errorf("codec %d", b.Codec())
	}
	switch {
	case err == nil:
		return r.buf, nil
	case errors.Is(err, ErrInflate):
		return nil, fmt.Errorf("%w of %d bytes", ErrInflate, limit)
	default:
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
}

// Trim drops the buffer if it is larger than keep bytes, so that one large batch does
// not cost its size for as long as the reader lives.
func (r *Reader) Trim(keep int) {
	if cap(r.buf) > keep {
		r.buf = nil
	}
}

// Held is the size of the buffer that the reader keeps, bytes.
func (r *Reader) Held() int { return cap(r.buf) }

func (r *Reader) inflateGzip(src []byte, limit int64) error {
	if r.gzip == nil {
		z, err := gzip.NewReader(bytes.NewReader(src))
		if err != nil {
			return err
		}
		r.gzip = z
	} else if err := r.gzip.Reset(bytes.NewReader(src)); err != nil {
		return err
	}
	out := r.buf[:0]
	for {
		if int64(len(out)) > limit {
			return ErrInflate
		}
		if len(out) == cap(out) {
			out = grow(out, 4096)
		}
		n, err := r.gzip.Read(out[len(out):cap(out)])
		out = out[:len(out)+n]
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	if int64(len(out)) > limit {
		return ErrInflate
	}
	r.buf = out
	return nil
}

func (r *Reader) inflateZstd(src []byte, limit int64) error {
	if r.zstd == nil || r.zstdMax != limit {
		window := min(max(uint64(limit), zstd.MinWindowSize), 1<<29)
		z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(uint64(limit)), zstd.WithDecoderMaxWindow(window))
		if err != nil {
			return err
		}
		r.zstd, r.zstdMax = z, limit
	}
	out, err := r.zstd.DecodeAll(src, r.buf[:0])
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded) {
		return ErrInflate
	}
	if err != nil {
		return err
	}
	if int64(len(out)) > limit {
		return ErrInflate
	}
	r.buf = out
	return nil
}

// xerialMagic begins the stream format of the Java snappy library: magic,
// version and compatible version (i32 each), then blocks with an i32 length.
var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

const xerialHeader = 16

// inflateSnappy reads the xerial format, several streams in a row, or one raw
// block, as some C and Go clients send it.
func inflateSnappy(dst, src []byte, limit int64) ([]byte, error) {
	if !bytes.HasPrefix(src, xerialMagic) {
		return snappyBlock(dst, src, limit)
	}
	for len(src) > 0 {
		if bytes.HasPrefix(src, xerialMagic) {
			if len(src) < xerialHeader {
				return dst, errors.New("snappy: header cut short")
			}
			if v := binary.BigEndian.Uint32(src[12:]); v > 1 {
				return dst, fmt.Errorf("snappy: compatible version %d", v)
			}
			src = src[xerialHeader:]
			continue
		}
		if len(src) < 4 {
			return dst, errors.New("snappy: block length cut short")
		}
		n := int64(int32(binary.BigEndian.Uint32(src)))
		src = src[4:]
		if n < 0 || n > int64(len(src)) {
			return dst, fmt.Errorf("snappy: block of %d bytes, %d left", n, len(src))
		}
		var err error
		if dst, err = snappyBlock(dst, src[:n], limit); err != nil {
			return dst, err
		}
		src = src[n:]
	}
	return dst, nil
}

// maxSnappyRatio bounds what a block may claim to inflate to: a copy element
// of three bytes yields at most 64, so no block inflates more than this.
const maxSnappyRatio = 64

func snappyBlock(dst, block []byte, limit int64) ([]byte, error) {
	n, err := snappy.DecodedLen(block)
	if err != nil {
		return dst, err
	}
	if int64(len(dst))+int64(n) > limit {
		return dst, ErrInflate
	}
	if int64(n) > int64(len(block))*maxSnappyRatio {
		return dst, errors.New("snappy: implausible length")
	}
	dst = grow(dst, n)
	out, err := snappy.Decode(dst[len(dst):len(dst)+n], block)
	if err != nil {
		return dst, err
	}
	return dst[:len(dst)+len(out)], nil
}

// grow makes room for n more bytes.
func grow(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		return b
	}
	out := make([]byte, len(b), max(len(b)+n, 2*cap(b)))
	copy(out, b)
	return out
}
