package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// decodes reports whether a body is decoded, and asserts that Decode and a Decoder
// agree.
func decodes(t *testing.T, key, version int16, body []byte) bool {
	t.Helper()
	h := Header{Key: key, Version: version, Body: body}
	fresh, err := Decode(h)
	var d Decoder
	reused, reusedErr := d.Decode(h)
	if (err == nil) != (reusedErr == nil) {
		t.Errorf("Decode: %v, Decoder: %v", err, reusedErr)
	}
	for _, err := range []error{err, reusedErr} {
		if err != nil && !errors.Is(err, ErrMalformed) {
			t.Errorf("error %v is not ErrMalformed", err)
		}
	}
	if err == nil && reusedErr == nil && !bytes.Equal(fresh.AppendTo(nil), reused.AppendTo(nil)) {
		t.Error("Decode and a Decoder disagree")
	}
	return err == nil
}

// TestElements passes lists of the most elements and refuses one more, in plain
// and in flexible versions.
func TestElements(t *testing.T) {
	plain := func(n, size int) []byte {
		return append(binary.BigEndian.AppendUint32(nil, uint32(n)), make([]byte, n*size)...)
	}
	compact := func(n int, element []byte) []byte {
		return append(binary.AppendUvarint(nil, uint64(n+1)), bytes.Repeat(element, n)...)
	}
	// OffsetFetch v2: a group, a list of topics, each with a list of partitions.
	partitions := func(n int) []byte {
		return append([]byte{0, 1, 'g', 0, 0, 0, 1, 0, 1, 't'}, plain(n, 4)...)
	}
	for _, tt := range []struct {
		name         string
		key, version int16
		body         func(n int) []byte
	}{
		{"DescribeGroups v0", 15, 0, func(n int) []byte { return plain(n, 2) }},
		{"ListGroups v4", 16, 4, func(n int) []byte { return append(compact(n, []byte{1}), 0) }},
		{"OffsetFetch v2", 9, 2, partitions},
		{"Metadata v12", 3, 12, func(n int) []byte {
			return append(compact(n, append(make([]byte, 16), 0, 0)), 0, 0, 0)
		}},
	} {
		if _, err := inspect(tt.key, tt.version, tt.body(maxElements)); err != nil {
			t.Errorf("%s: %d elements: %v", tt.name, maxElements, err)
		}
		if decodes(t, tt.key, tt.version, tt.body(maxElements+1)) {
			t.Errorf("%s: %d elements were decoded", tt.name, maxElements+1)
		}
	}
}

// TestTags passes the most tagged fields in a section and refuses one more; what
// is decoded does not have them if they are many.
func TestTags(t *testing.T) {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version, req.Group, req.MemberID = 4, "group", "member"
	body := req.AppendTo(nil)
	body = body[:len(body)-1] // without the empty section
	for n, want := range map[int]int{0: 0, 1: 1, maxUnknown: maxUnknown, maxUnknown + 1: 0, maxTags: 0, maxTags + 1: -1} {
		tagged := append(bytes.Clone(body), manyTags(n)...)
		h := Header{Key: 12, Version: 4, Body: tagged}
		got, err := Decode(h)
		if (err != nil) != (want < 0) {
			t.Errorf("%d tagged fields: %v", n, err)
		}
		if err != nil {
			continue
		}
		decoded := got.(*kmsg.HeartbeatRequest)
		if decoded.Group != "group" || decoded.MemberID != "member" || decoded.UnknownTags.Len() != want {
			t.Errorf("%d tagged fields gave %+v", n, decoded)
		}
		h.Body = append(tagged, "more"...)
		if _, err := Decode(h); err != nil {
			t.Errorf("%d tagged fields with bytes behind them: %v", n, err)
		}
	}
}

// TestRewrite decodes requests of every API with unknown tagged fields in every
// section as the same requests without them.
func TestRewrite(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, api := range APIs() {
		for version := max(api.Min, api.Flexible); version <= api.Max; version++ {
			for range 5 {
				body := request(r, api.Key, version).AppendTo(nil)
				h := Header{Key: api.Key, Version: version}
				noisy := addTags(t, h, body)
				h.Body = noisy
				got, err := Decode(h)
				if err != nil {
					t.Fatalf("%s %d: %v", api.Name, version, err)
				}
				h.Body = body
				want, err := Decode(h)
				if err != nil {
					t.Fatal(err)
				}
				if api.Name == "Fetch" && version < 18 {
					continue // kmsg writes tagged fields that these versions do not know
				}
				if !bytes.Equal(got.AppendTo(nil), want.AppendTo(nil)) {
					t.Errorf("%s %d: with unknown tagged fields %+v, without %+v", api.Name, version, got, want)
				}
			}
		}
	}
}

// addTags puts 100 unknown tagged fields into every section of a body: a rewriting
// walk with every section written anew.
func addTags(t *testing.T, h Header, body []byte) []byte {
	t.Helper()
	w := walk{version: h.Version, flexible: true}
	var sections []int // the positions of all sections
	record := func(rest []byte) { sections = append(sections, len(body)-len(rest)) }
	if _, err := w.sections(body, schemas[h.Key], record); err != nil {
		t.Fatal(err)
	}
	var out []byte
	from := 0
	for _, at := range sections {
		count, rest, ok := uvarint(body[at:])
		if !ok {
			t.Fatal("no section where one was")
		}
		out = append(out, body[from:at]...)
		out = binary.AppendUvarint(out, uint64(count)+100)
		end := len(body) - len(rest)
		for range count { // the known ones first
			_, b, _ := uvarint(body[end:])
			size, b, _ := uvarint(b)
			next := len(body) - len(b) + int(size)
			out = append(out, body[end:next]...)
			end = next
		}
		for i := range 100 {
			out = append(binary.AppendUvarint(out, uint64(500+i)), 3, 'x', 'y', 'z')
		}
		from = end
	}
	return append(out, body[from:]...)
}

// sections calls f at every section of tagged fields outside of tagged fields.
func (w *walk) sections(b []byte, fields []field, f func([]byte)) ([]byte, error) {
	var err error
	for i := range fields {
		g := &fields[i]
		if g.tag != 0 || w.version < g.from || g.until != 0 && w.version >= g.until {
			continue
		}
		switch {
		case g.kind == array && g.fields != nil:
			var n int
			if n, b, err = w.length(b, blob); err != nil {
				return nil, err
			}
			for range n {
				if b, err = w.sections(b, g.fields, f); err != nil {
					return nil, err
				}
			}
		case g.kind == object:
			b, err = w.sections(b[1:], g.fields, f) // only nullable ones are not tagged
		default:
			b, err = w.field(b, g)
		}
		if err != nil {
			return nil, err
		}
	}
	f(b)
	return w.tags(b, fields)
}

// TestTaggedFieldsAreSmall holds what a rewriting walk relies on: known tagged
// fields have no lists of objects in them.
func TestTaggedFieldsAreSmall(t *testing.T) {
	var check func(fields []field, inTag bool)
	check = func(fields []field, inTag bool) {
		for _, f := range fields {
			if inTag && f.kind == array && f.fields != nil {
				t.Errorf("the tagged field %s is a list of objects", f.name)
			}
			check(f.fields, inTag || f.tag != 0)
		}
	}
	for _, fields := range schemas {
		check(fields, false)
	}
}

// TestNull refuses null where Kafka does, though kmsg takes it for empty.
func TestNull(t *testing.T) {
	null32, null16 := []byte{0xff, 0xff, 0xff, 0xff}, []byte{0xff, 0xff}
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	text := func(s string) []byte { return append([]byte{0, byte(len(s))}, s...) }
	long := text(strings.Repeat("g", 200))
	for _, tt := range []struct {
		name         string
		key, version int16
		body         []byte
		want         bool
	}{
		{"Metadata v0, topics", 3, 0, null32, false},
		{"Metadata v1, topics", 3, 1, null32, true},
		{"Metadata v9, topics", 3, 9, []byte{0, 1, 0, 0, 0}, true},
		{"OffsetFetch v1, topics", 9, 1, join(text("g"), null32), false},
		{"OffsetFetch v2, topics", 9, 2, join(text("g"), null32), true},
		{"OffsetFetch v2, no topics", 9, 2, join(text("g"), make([]byte, 4)), true},
		{"OffsetFetch v2, partitions", 9, 2, join(text("g"), []byte{0, 0, 0, 1}, text("t"), null32), false},
		{"OffsetFetch v8, groups", 9, 8, []byte{0, 0, 0}, false},
		{"OffsetFetch v8, no groups", 9, 8, []byte{1, 0, 0}, true},
		{"OffsetFetch v8, a group's topics", 9, 8, []byte{2, 2, 'g', 0, 0, 0, 0}, true},
		{"OffsetFetch v8, a topic's partitions", 9, 8, []byte{2, 2, 'g', 2, 2, 't', 0, 0, 0, 0, 0}, false},
		{"OffsetCommit v2, group", 8, 2, join(null16, make([]byte, 100)), false},
		{"OffsetCommit v2, topics", 8, 2, join(text("g"), make([]byte, 4), text("m"), make([]byte, 8), null32), false},
		{"OffsetCommit v2, no topics", 8, 2, join(text("g"), make([]byte, 4), text("m"), make([]byte, 12)), true},
		{"OffsetCommit v2, long, topics", 8, 2, join(long, make([]byte, 4), long, make([]byte, 8), null32), false},
		{"OffsetCommit v8, partitions", 8, 8, join([]byte{2, 'g', 0, 0, 0, 0, 2, 'm', 0}, []byte{2, 2, 't', 0, 0}, []byte{0}), false},
		{"Heartbeat v4, group", 12, 4, []byte{0, 0, 0, 0, 0, 2, 'm', 0, 0}, false},
		{"Heartbeat v4, member", 12, 4, []byte{2, 'g', 0, 0, 0, 0, 0, 0, 0}, false},
		{"Heartbeat v4, instance", 12, 4, []byte{2, 'g', 0, 0, 0, 0, 2, 'm', 0, 0}, true},
		{"JoinGroup v0, protocols", 11, 0, join(text("g"), make([]byte, 4), text(""), text("consumer"), null32), false},
		{"JoinGroup v0, no protocols", 11, 0, join(text("g"), make([]byte, 4), text(""), text("consumer"), make([]byte, 4)), true},
		{"SyncGroup v0, an assignment", 14, 0, join(text("g"), make([]byte, 4), text("m"), []byte{0, 0, 0, 1}, text("m"), null32), false},
		{"DescribeGroups v0, groups", 15, 0, null32, false},
		{"DescribeGroups v0, a group", 15, 0, join([]byte{0, 0, 0, 1}, null16), false},
		{"DescribeTopicPartitions v0, cursor", 75, 0, []byte{1, 0, 0, 0, 0, 0xff, 0}, true},
		{"DescribeTopicPartitions v0, a cursor without topic", 75, 0, []byte{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}, false},
		{"negative count", 15, 0, []byte{0x80, 0, 0, 0}, false},
		{"count above the bytes left", 15, 0, []byte{0, 0, 0, 9, 0, 1, 'g'}, false},
		{"length above the bytes left", 15, 0, []byte{0, 0, 0, 1, 0, 9, 'g'}, false},
		{"string above 32767 bytes", 18, 3, join([]byte{0x81, 0x80, 2}, make([]byte, 32768), []byte{2, '1', 0}), false},
		{"the longest string", 18, 3, join([]byte{0x80, 0x80, 2}, make([]byte, 32767), []byte{2, '1', 0}), true},
	} {
		if got := decodes(t, tt.key, tt.version, tt.body); got != tt.want {
			t.Errorf("%s: decoded %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestMemory decodes frames made to cost as much as possible: what a frame costs is
// bounded by its length.
func TestMemory(t *testing.T) {
	const size = 256 << 10
	repeat := func(head, element, tail []byte) []byte {
		n := (size - len(head) - len(tail) - 5) / len(element)
		body := binary.AppendUvarint(bytes.Clone(head), uint64(n+1))
		return append(append(body, bytes.Repeat(element, n)...), tail...)
	}
	tag := []byte{1, 99, 0} // a section with an empty unknown field
	partition := make([]byte, 4+8+4+1)
	for _, tt := range []struct {
		name         string
		key, version int16
		body         []byte
	}{
		{"Heartbeat, tagged fields", 12, 4, append([]byte{2, 'g', 0, 0, 0, 0, 2, 'm', 0}, manyTags(maxTags)...)},
		{"Metadata, topics with tagged fields", 3, 13, repeat(nil, append(make([]byte, 17), tag...), []byte{0, 0, 0})},
		{"Metadata, topics", 3, 13, repeat(nil, make([]byte, 18), []byte{0, 0, 0})},
		{"OffsetCommit, topics with tagged fields", 8, 9, repeat([]byte{2, 'g', 0, 0, 0, 0, 2, 'm', 0}, append([]byte{1, 1}, tag...), []byte{0})},
		{"OffsetCommit, topics", 8, 9, repeat([]byte{2, 'g', 0, 0, 0, 0, 2, 'm', 0}, []byte{1, 1, 0}, []byte{0})},
		{"OffsetCommit, partitions", 8, 9, repeat([]byte{2, 'g', 0, 0, 0, 0, 2, 'm', 0, 2, 2, 't'}, append(bytes.Clone(partition), 0), []byte{0, 0})},
		{"OffsetCommit, partitions with tagged fields", 8, 9, repeat([]byte{2, 'g', 0, 0, 0, 0, 2, 'm', 0, 2, 2, 't'}, append(bytes.Clone(partition), tag...), []byte{0, 0})},
		{"OffsetFetch, groups with tagged fields", 9, 9, repeat(nil, append([]byte{1, 0, 0, 0, 0, 0, 1}, tag...), []byte{0, 0})},
		{"JoinGroup, protocols with tagged fields", 11, 9, repeat([]byte{2, 'g', 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1}, append([]byte{1, 1}, tag...), []byte{0, 0})},
		{"LeaveGroup, members with tagged fields", 13, 5, repeat([]byte{2, 'g'}, append([]byte{1, 0, 0}, tag...), []byte{0})},
		{"CreateTopics, topics with tagged fields", 19, 7, repeat(nil, append([]byte{1, 0, 0, 0, 1, 0, 1, 1, 1}, tag...), []byte{0, 0, 0, 0, 0, 0})},
		{"ListGroups, filters", 16, 5, repeat(nil, []byte{1}, []byte{1, 0})},
	} {
		h := Header{Key: tt.key, Version: tt.version, Body: tt.body}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		req, err := Decode(h)
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		runtime.KeepAlive(req)
		const most = 48 // 22 as measured; the race detector makes kmsg allocate lists twice
		if cost := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(tt.body)); cost > most {
			t.Errorf("%s: %.1f bytes for each byte of the frame, more than %d", tt.name, cost, most)
		} else {
			t.Logf("%s: %.1f bytes for each byte of the frame", tt.name, cost)
		}
	}
}

// TestDecoderForgets decodes requests that differ in which fields they have: none
// sees what the one before it had.
func TestDecoderForgets(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var d Decoder
	for range 2000 {
		key := []int16{keyHeartbeat, keyOffsetCommit, keyOffsetFetch}[r.IntN(3)]
		api, _ := Lookup(key)
		version := api.Min + int16(r.IntN(int(api.Max-api.Min)+1))
		h := Header{Key: key, Version: version, Body: request(r, key, version).AppendTo(nil)}
		fresh, err := Decode(h)
		if err != nil {
			t.Fatal(err)
		}
		reused, err := d.Decode(h)
		if err != nil {
			t.Fatal(err)
		}
		fresh.SetVersion(99) // kmsg writes the fields of all versions
		reused.SetVersion(99)
		if !bytes.Equal(fresh.AppendTo(nil), reused.AppendTo(nil)) {
			t.Fatalf("%s %d: fresh %+v, reused %+v", api.Name, version, fresh, reused)
		}
	}
}

// TestDecoderKeepsLittle drops large lists.
func TestDecoderKeepsLittle(t *testing.T) {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Topics = 9, make([]kmsg.OffsetCommitRequestTopic, 5*maxKept)
	var d Decoder
	for range 2 {
		if _, err := d.Decode(Header{Key: keyOffsetCommit, Version: 9, Body: req.AppendTo(nil)}); err != nil {
			t.Fatal(err)
		}
		req.Topics = req.Topics[:1]
	}
	if got := cap(d.offsetCommit.Topics); got > maxKept {
		t.Errorf("a Decoder keeps %d topics", got)
	}
}
