package record

import "math/bits"

// A varint is zigzag-encoded and then cut into groups of seven bits, least
// significant first; the high bit says that another group follows. Over-long
// encodings within the size limit are read, and never written.
const (
	maxVarintSize  = 5
	maxVarlongSize = 10
)

// uvarint reads up to limit bytes of b. It returns the value and how many bytes
// it took; 0 bytes if the encoding is cut short, longer than limit, or has bits
// beyond the type's width.
func uvarint(b []byte, limit int, width uint) (uint64, int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	var v uint64
	var shift uint
	for i := 0; i < len(b) && i < limit; i++ {
		c := uint64(b[i] & 0x7f)
		if shift+uint(bits.Len64(c)) > width {
			return 0, 0
		}
		v |= c << shift
		if b[i] < 0x80 {
			return v, i + 1
		}
		shift += 7
	}
	return 0, 0
}

// Varint reads a zigzag varint of at most 5 bytes: its value and size, or size
// 0 if it is corrupt or cut short.
func Varint(b []byte) (int32, int) {
	u, n := uvarint(b, maxVarintSize, 32)
	return int32(uint32(u)>>1) ^ -int32(u&1), n
}

// Varlong reads a zigzag varint of at most 10 bytes, like Varint.
func Varlong(b []byte) (int64, int) {
	u, n := uvarint(b, maxVarlongSize, 64)
	return int64(u>>1) ^ -int64(u&1), n
}

// AppendVarint appends v.
func AppendVarint(dst []byte, v int32) []byte {
	u := uint32(v<<1) ^ uint32(v>>31)
	for u >= 0x80 {
		dst = append(dst, byte(u)|0x80)
		u >>= 7
	}
	return append(dst, byte(u))
}

// AppendVarlong appends v.
func AppendVarlong(dst []byte, v int64) []byte {
	u := uint64(v<<1) ^ uint64(v>>63)
	for u >= 0x80 {
		dst = append(dst, byte(u)|0x80)
		u >>= 7
	}
	return append(dst, byte(u))
}

func varintSize(v int32) int {
	return (bits.Len32(uint32(v<<1)^uint32(v>>31)|1) + 6) / 7
}

func varlongSize(v int64) int {
	return (bits.Len64(uint64(v<<1)^uint64(v>>63)|1) + 6) / 7
}
