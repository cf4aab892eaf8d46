package record

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// A Compressor compresses records areas in Kafka's framings. The zero value is
// ready. One goroutine at a time.
type Compressor struct {
	gzip *gzip.Writer
	zstd *zstd.Encoder
	lz4  lz4.Compressor
	out  bytes.Buffer
}

// Append compresses src with codec at its default level and appends the result.
func (c *Compressor) Append(dst, src []byte, codec Codec) ([]byte, error) {
	switch codec {
	case CodecNone:
		return append(dst, src...), nil
	case CodecGzip:
		return c.deflateGzip(dst, src)
	case CodecSnappy:
		return deflateSnappy(dst, src), nil
	case CodecLZ4:
		return deflateLZ4(dst, src, &c.lz4)
	case CodecZstd:
		if c.zstd == nil {
			z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault))
			if err != nil {
				return dst, err
			}
			c.zstd = z
		}
		return c.zstd.EncodeAll(src, dst), nil
	}
	return dst, fmt.Errorf("record: codec %d", codec)
}

func (c *Compressor) deflateGzip(dst, src []byte) ([]byte, error) {
	c.out.Reset()
	if c.gzip == nil {
		c.gzip = gzip.NewWriter(&c.out)
	} else {
		c.gzip.Reset(&c.out)
	}
	if _, err := c.gzip.Write(src); err != nil {
		return dst, err
	}
	if err := c.gzip.Close(); err != nil {
		return dst, err
	}
	return append(dst, c.out.Bytes()...), nil
}

// deflateSnappy writes the xerial format in blocks of 32 KiB of input.
func deflateSnappy(dst, src []byte) []byte {
	dst = append(dst, xerialMagic...)
	dst = append(dst, 0, 0, 0, 1, 0, 0, 0, 1)
	const block = 32 << 10
	for len(src) > 0 {
		n := min(block, len(src))
		at, bound := len(dst), snappy.MaxEncodedLen(n)
		dst = grow(dst, 4+bound)
		out := snappy.Encode(dst[at+4:at+4+bound], src[:n])
		dst = dst[:at+4+len(out)]
		binary.BigEndian.PutUint32(dst[at:], uint32(len(out)))
		src = src[n:]
	}
	return dst
}

// ParseCodec reads a compression.type name. producer means: keep what the
// producer chose, ok is false for unknown names.
func ParseCodec(name string) (codec Codec, producer, ok bool) {
	switch name {
	case "producer", "":
		return CodecNone, true, true
	case "none", "uncompressed":
		return CodecNone, false, true
	case "gzip":
		return CodecGzip, false, true
	case "snappy":
		return CodecSnappy, false, true
	case "lz4":
		return CodecLZ4, false, true
	case "zstd":
		return CodecZstd, false, true
	}
	return CodecNone, false, false
}
