package coordinator

import "unicode/utf8"

// PartitionFor returns the partition of __consumer_offsets that a group belongs
// to: the absolute value of the id's Java hash code, over UTF-16 code units,
// modulo the partition count. The smallest int32 counts as 0.
func PartitionFor(group string, partitions int32) int32 {
	h := javaHash(group)
	if h < 0 {
		h = -h
	}
	if h < 0 { // -2147483648 is its own negative
		h = 0
	}
	return h % partitions
}

func javaHash(s string) int32 {
	var h int32
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			h = 31*h + int32(c)
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		i += n
		if r >= 0x10000 { // two surrogates
			r -= 0x10000
			h = 31*h + (0xd800 + r>>10)
			r = 0xdc00 + r&0x3ff
		}
		h = 31*h + r
	}
	return h
}
