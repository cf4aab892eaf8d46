package wire

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// AppendResponse appends an answer as it goes to the socket: length prefix,
// response header (v1 if the answer is flexible, v0 if not and always for
// ApiVersions), body in the response's version.
//
// kmsg writes a tagged field that is not at its default in every flexible version,
// also in one that does not know it yet: whoever fills one in has to look at the
// version.
func AppendResponse(dst []byte, correlationID int32, resp kmsg.Response) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlationID))
	if resp.IsFlexible() && resp.Key() != KeyApiVersions {
		dst = append(dst, 0)
	}
	if c, ok := resp.(*kmsg.OffsetCommitResponse); ok && c.Version >= 8 && c.UnknownTags.Len() == 0 {
		dst = appendCommit(dst, c)
	} else {
		dst = resp.AppendTo(dst)
	}
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst
}

// appendCommit is AppendTo of the answer to the request of which there are most, in a
// flexible version, without the call per field that kmsg makes. Topics and partitions of
// an answer that is sent have no tagged fields.
func appendCommit(dst []byte, r *kmsg.OffsetCommitResponse) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(r.ThrottleMillis))
	dst = binary.AppendUvarint(dst, uint64(len(r.Topics))+1)
	for i := range r.Topics {
		t := &r.Topics[i]
		if r.Version >= 10 {
			dst = append(dst, t.TopicID[:]...)
		} else {
			dst = append(binary.AppendUvarint(dst, uint64(len(t.Topic))+1), t.Topic...)
		}
		dst = binary.AppendUvarint(dst, uint64(len(t.Partitions))+1)
		for j := range t.Partitions {
			p, e := uint32(t.Partitions[j].Partition), uint16(t.Partitions[j].ErrorCode)
			dst = append(dst, byte(p>>24), byte(p>>16), byte(p>>8), byte(p), byte(e>>8), byte(e), 0)
		}
		dst = append(dst, 0)
	}
	return append(dst, 0)
}
