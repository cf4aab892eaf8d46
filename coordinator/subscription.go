package coordinator

import (
	"encoding/binary"
	"strings"
)

// subscription adds the topics of a consumer's subscription metadata to topics. It
// reports whether the bytes could be parsed, as version 0 whatever version they
// name: an int16 version, an array of topic names, nullable user data; what
// follows is not looked at.
func subscription(b []byte, topics map[string]struct{}) bool {
	if len(b) < 6 || int16(binary.BigEndian.Uint16(b)) < 0 {
		return false
	}
	n := int32(binary.BigEndian.Uint32(b[2:]))
	b = b[6:]
	for ; n > 0; n-- {
		if len(b) < 2 {
			return false
		}
		size := int(int16(binary.BigEndian.Uint16(b)))
		if size < 0 || size > len(b)-2 {
			return false
		}
		name := b[2 : 2+size]
		if _, ok := topics[string(name)]; !ok {
			topics[strings.Clone(string(name))] = struct{}{}
		}
		b = b[2+size:]
	}
	if n != 0 || len(b) < 4 {
		return false
	}
	userData := int32(binary.BigEndian.Uint32(b))
	return userData == -1 || userData >= 0 && int(userData) <= len(b)-4
}
