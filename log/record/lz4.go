package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/pierrec/lz4/v4"
)

// The LZ4 frame as Kafka's clients write it: magic, a descriptor of flags,
// block size and optional content size, its checksum byte, then blocks with a
// little-endian length whose high bit says "stored", an end mark of zero, and
// optionally a checksum of the content that Kafka does not verify either.
const (
	lz4Magic       = 0x184d2204
	lz4Version     = 1 << 6
	lz4VersionMask = 3 << 6
	lz4Independent = 1 << 5
	lz4BlockSum    = 1 << 4
	lz4ContentSize = 1 << 3
	lz4ContentSum  = 1 << 2
	lz4Reserved    = 1 << 1
	lz4Dictionary  = 1
	lz4Stored      = 1 << 31
	lz4Block64K    = 4 << 4
)

var errLZ4Short = errors.New("lz4: frame is cut short")

func inflateLZ4(dst, src []byte, limit int64) ([]byte, error) {
	src, blockMax, blockSum, err := lz4Header(src)
	if err != nil {
		return dst, err
	}
	for {
		if len(src) < 4 {
			return dst, errLZ4Short
		}
		word := binary.LittleEndian.Uint32(src)
		src = src[4:]
		if word == 0 {
			return dst, nil
		}
		n := int(word &^ lz4Stored)
		if n > blockMax {
			return dst, fmt.Errorf("lz4: block of %d bytes", n)
		}
		if n > len(src) {
			return dst, errLZ4Short
		}
		block := src[:n]
		src = src[n:]
		if blockSum {
			if len(src) < 4 {
				return dst, errLZ4Short
			}
			if got, want := binary.LittleEndian.Uint32(src), xxh32(block); got != want {
				return dst, fmt.Errorf("lz4: block checksum %08x, computed %08x", got, want)
			}
			src = src[4:]
		}
		if dst, err = lz4Append(dst, block, word&lz4Stored != 0, blockMax); err != nil {
			return dst, err
		}
		if int64(len(dst)) > limit {
			return dst, ErrInflate
		}
	}
}

// lz4Header checks the frame's header and returns what follows it.
func lz4Header(src []byte) (rest []byte, blockMax int, blockSum bool, err error) {
	if len(src) < 7 {
		return nil, 0, false, errLZ4Short
	}
	if m := binary.LittleEndian.Uint32(src); m != lz4Magic {
		return nil, 0, false, fmt.Errorf("lz4: magic %08x", m)
	}
	flags, size := src[4], src[5]
	if flags&lz4VersionMask != lz4Version || flags&lz4Independent == 0 || flags&(lz4Reserved|lz4Dictionary) != 0 {
		return nil, 0, false, fmt.Errorf("lz4: flags %02x", flags)
	}
	code := size >> 4
	if code < 4 || code > 7 || size&0x0f != 0 {
		return nil, 0, false, fmt.Errorf("lz4: block descriptor %02x", size)
	}
	end := 6
	if flags&lz4ContentSize != 0 {
		end += 8
	}
	if len(src) < end+1 {
		return nil, 0, false, errLZ4Short
	}
	if got, want := src[end], byte(xxh32(src[4:end])>>8); got != want {
		return nil, 0, false, fmt.Errorf("lz4: header checksum %02x, computed %02x", got, want)
	}
	return src[end+1:], 1 << (8 + 2*int(code)), flags&lz4BlockSum != 0, nil
}

func lz4Append(dst, block []byte, stored bool, blockMax int) ([]byte, error) {
	if stored {
		return append(dst, block...), nil
	}
	// An LZ4 block inflates at most 255 times; a small block needs no full buffer.
	room := min(blockMax, 255*len(block)+64)
	dst = grow(dst, room)
	n, err := lz4.UncompressBlock(block, dst[len(dst):len(dst)+room])
	if err != nil {
		return dst, err
	}
	return dst[:len(dst)+n], nil
}

// deflateLZ4 appends src as a frame of independent blocks of 64 KiB without
// checksums, as Kafka writes it.
func deflateLZ4(dst, src []byte, c *lz4.Compressor) ([]byte, error) {
	dst = append(dst, 0x04, 0x22, 0x4d, 0x18, lz4Version|lz4Independent, lz4Block64K, 0x82)
	const block = 64 << 10
	for len(src) > 0 {
		n := min(block, len(src))
		at := len(dst)
		bound := lz4.CompressBlockBound(n)
		dst = grow(dst, 4+bound)
		out := dst[at+4 : at+4+bound]
		size, err := c.CompressBlock(src[:n], out)
		if err != nil {
			return dst, err
		}
		word := uint32(size)
		if size == 0 || size >= n {
			size, word = copy(out, src[:n]), uint32(n)|lz4Stored
		}
		dst = dst[:at+4+size]
		binary.LittleEndian.PutUint32(dst[at:], word)
		src = src[n:]
	}
	return append(dst, 0, 0, 0, 0), nil
}

// xxh32 is the 32-bit xxHash with seed 0, which LZ4 frames use.
func xxh32(b []byte) uint32 {
	const (
		p1 = 2654435761
		p2 = 2246822519
		p3 = 3266489917
		p4 = 668265263
		p5 = 374761393
	)
	var h uint32
	n := uint32(len(b))
	if len(b) >= 16 {
		one := uint32(p1)
		v := [4]uint32{one + p2, p2, 0, -one}
		for len(b) >= 16 {
			for i := range v {
				v[i] = bits.RotateLeft32(v[i]+binary.LittleEndian.Uint32(b[4*i:])*p2, 13) * p1
			}
			b = b[16:]
		}
		h = bits.RotateLeft32(v[0], 1) + bits.RotateLeft32(v[1], 7) + bits.RotateLeft32(v[2], 12) + bits.RotateLeft32(v[3], 18)
	} else {
		h = p5
	}
	h += n
	for len(b) >= 4 {
		h = bits.RotateLeft32(h+binary.LittleEndian.Uint32(b)*p3, 17) * p4
		b = b[4:]
	}
	for _, c := range b {
		h = bits.RotateLeft32(h+uint32(c)*p5, 11) * p1
	}
	h = (h ^ h>>15) * p2
	h = (h ^ h>>13) * p3
	return h ^ h>>16
}
