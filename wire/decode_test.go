package wire

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestNullTopics decodes requests of which the second has null where the first
// had a list: null asks for all offsets of a group, an empty list for none.
func TestNullTopics(t *testing.T) {
	var d Decoder
	for version := int16(2); version <= 7; version++ {
		for _, topics := range [][]kmsg.OffsetFetchRequestTopic{{{Topic: "t", Partitions: []int32{0}}}, nil, {}} {
			req := kmsg.NewPtrOffsetFetchRequest()
			req.SetVersion(version)
			req.Group, req.Topics = "g", topics
			got, err := d.Decode(Header{Key: keyOffsetFetch, Version: version, Body: req.AppendTo(nil)})
			if err != nil {
				t.Fatal(err)
			}
			if have := got.(*kmsg.OffsetFetchRequest).Topics; (have == nil) != (topics == nil) || len(have) != len(topics) {
				t.Errorf("version %d: %#v decoded as %#v", version, topics, have)
			}
		}
	}
}
