package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// forEachVersion calls f for every API and version in the table.
func forEachVersion(t *testing.T, f func(t *testing.T, api API, version int16)) {
	for _, api := range APIs() {
		for version := api.Min; version <= api.Max; version++ {
			t.Run(fmt.Sprintf("%s/%d", api.Name, version), func(t *testing.T) { f(t, api, version) })
		}
	}
}

// fill puts random values into every field of a kmsg value, tagged fields
// included. Lists get one to three elements; nothing is null.
func fill(r *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(r, v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; name != "Version" && name != "UnknownTags" {
				fill(r, v.Field(i))
			}
		}
	case reflect.Slice:
		n := 1 + r.IntN(3)
		if v.Type().Elem().Kind() == reflect.Uint8 {
			n = r.IntN(200)
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(r, v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(r, v.Index(i))
		}
	case reflect.String:
		v.SetString(string(bytes.Repeat([]byte{'s'}, r.IntN(200))))
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Uint8, reflect.Uint16:
		v.SetUint(uint64(r.IntN(256)))
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(r.IntN(100)))
	default:
		panic("no filling for a " + v.Type().String())
	}
}

// request makes a request full of random values.
func request(r *rand.Rand, key, version int16) kmsg.Request {
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	fill(r, reflect.ValueOf(req).Elem())
	return req
}

// prefixes are the lengths of prefixes of a body to try: in the first round all of
// a short one, and some of a long one.
func prefixes(round int, body []byte) iter.Seq[int] {
	return func(yield func(int) bool) {
		for n := 0; round == 0 && n < len(body); n += 1 + len(body)/200 {
			if !yield(n) {
				return
			}
		}
	}
}

// TestRequestRoundTrip encodes, walks, decodes and encodes requests of every API
// and version: the table of fields agrees with kmsg to the byte.
func TestRequestRoundTrip(t *testing.T) {
	forEachVersion(t, func(t *testing.T, api API, version int16) {
		r := rand.New(rand.NewPCG(uint64(api.Key), uint64(version)))
		var d Decoder
		for round := range 5 {
			req := request(r, api.Key, version)
			body := req.AppendTo(nil)
			w := walk{version: version, flexible: version >= api.Flexible}
			rest, err := w.object(body, schemas[api.Key])
			// kmsg writes Fetch's tagged fields in versions that do not know them yet.
			if err != nil || len(rest) != 0 || w.unknown != 0 && api.Name != "Fetch" {
				t.Fatalf("walk over %+v: %d bytes left, %d unknown tagged fields, %v", req, len(rest), w.unknown, err)
			}
			frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("c")).AppendRequest(nil, req, 9)[4:]
			h, err := ParseHeader(frame)
			if err != nil || h.Key != api.Key || h.Version != version || h.CorrelationID != 9 || h.ClientID != "c" || !bytes.Equal(h.Body, body) {
				t.Fatalf("header %+v, %v", h, err)
			}
			fresh, err := Decode(h)
			if err != nil || !bytes.Equal(fresh.AppendTo(nil), body) {
				t.Fatalf("Decode gave %+v for %+v: %v", fresh, req, err)
			}
			reused, err := d.Decode(h)
			if err != nil || !bytes.Equal(reused.AppendTo(nil), body) {
				t.Fatalf("Decoder gave %+v for %+v: %v", reused, req, err)
			}
			// Bytes behind a request are ignored, and no prefix of it is a request.
			h.Body = append(bytes.Clone(body), 1, 2, 3)
			if _, err := Decode(h); err != nil {
				t.Fatalf("with bytes behind it: %v", err)
			}
			for n := range prefixes(round, body) {
				h.Body = body[:n:n]
				if _, err := Decode(h); err == nil {
					t.Fatalf("%d of %d bytes were decoded", n, len(body))
				}
				if _, err := d.Decode(h); err == nil {
					t.Fatalf("%d of %d bytes were decoded by a Decoder", n, len(body))
				}
			}
		}
	})
}

// TestResponseRoundTrip sends answers of every API and version through
// AppendResponse and kmsg's decoder.
func TestResponseRoundTrip(t *testing.T) {
	forEachVersion(t, func(t *testing.T, api API, version int16) {
		r := rand.New(rand.NewPCG(uint64(api.Key), uint64(version)))
		for round := range 5 {
			req := kmsg.RequestForKey(api.Key)
			req.SetVersion(version)
			resp := req.ResponseKind()
			fill(r, reflect.ValueOf(resp).Elem())
			prefix := []byte("before")
			frame := AppendResponse(bytes.Clone(prefix), -5, resp)
			body := checkResponse(t, api, version, frame[len(prefix):], -5)
			again := req.ResponseKind()
			if err := again.ReadFrom(body); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(again.AppendTo(nil), body) {
				t.Fatalf("%+v came back as %+v", resp, again)
			}
			for n := range prefixes(round, body) {
				if err := req.ResponseKind().ReadFrom(body[:n:n]); err == nil {
					t.Fatalf("%d of %d bytes were decoded", n, len(body))
				}
			}
		}
	})
}

// checkResponse checks length prefix and response header, and returns the body.
func checkResponse(t *testing.T, api API, version int16, frame []byte, correlationID int32) []byte {
	t.Helper()
	size := int(frame[0])<<24 | int(frame[1])<<16 | int(frame[2])<<8 | int(frame[3])
	if size != len(frame)-4 {
		t.Fatalf("length prefix %d before %d bytes", size, len(frame)-4)
	}
	if got := int32(frame[4])<<24 | int32(frame[5])<<16 | int32(frame[6])<<8 | int32(frame[7]); got != correlationID {
		t.Fatalf("correlation id %d, want %d", got, correlationID)
	}
	body := frame[8:]
	if version >= api.Flexible && api.Key != KeyApiVersions {
		if body[0] != 0 {
			t.Fatalf("response header has %d tagged fields", body[0])
		}
		body = body[1:]
	}
	return body
}

// TestErrorResponses makes every API's error answer in every version: it carries
// the code wherever the schema has a place for it, and decodes to the last byte.
func TestErrorResponses(t *testing.T) {
	const code = 42
	// A top-level error came to these with the version named.
	nowhere := map[string]int16{"DescribeLogDirs": 3}
	forEachVersion(t, func(t *testing.T, api API, version int16) {
		r := rand.New(rand.NewPCG(uint64(api.Key), uint64(version)))
		req := request(r, api.Key, version)
		if produce, ok := req.(*kmsg.ProduceRequest); ok {
			produce.Acks = 0
			if resp := ErrorResponse(req, code); resp != nil {
				t.Fatalf("Produce with acks=0 is answered %+v", resp)
			}
			produce.Acks = 1
		}
		resp := ErrorResponse(req, code)
		if resp == nil {
			t.Fatal("no error response")
		}
		body := checkResponse(t, api, version, AppendResponse(nil, 1, resp), 1)
		again := req.ResponseKind()
		if err := again.ReadFrom(body); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again.AppendTo(nil), body) {
			t.Fatalf("%+v came back as %+v", resp, again)
		}
		if found := codes(reflect.ValueOf(again), code); found == 0 && version >= nowhere[api.Name] {
			t.Fatalf("no place has the code: %+v", again)
		}
	})
	if resp := ErrorResponse(kmsg.NewPtrVoteRequest(), code); resp != nil {
		t.Errorf("an API outside the table is answered %+v", resp)
	}
}

// codes counts the ErrorCode fields that hold code.
func codes(v reflect.Value, code int64) int {
	found := 0
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			found += codes(v.Elem(), code)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Name == "ErrorCode" && v.Field(i).Int() == code {
				found++
				continue
			}
			found += codes(v.Field(i), code)
		}
	case reflect.Slice:
		for i := range v.Len() {
			found += codes(v.Index(i), code)
		}
	}
	return found
}

// The answer to an OffsetCommit is what kmsg makes of it, in every version.
func TestCommitAnswer(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for version := int16(2); version <= 10; version++ {
		for range 200 {
			resp := kmsg.NewPtrOffsetCommitResponse()
			fill(r, reflect.ValueOf(resp).Elem())
			if r.IntN(10) == 0 {
				resp.Topics = make([]kmsg.OffsetCommitResponseTopic, 200)
			}
			if r.IntN(4) == 0 {
				resp.UnknownTags.Set(3, []byte("tag"))
			}
			resp.Version = version
			want := []byte("before\x00\x00\x00\x00\x00\x00\x00\x07")
			if version >= 8 {
				want = append(want, 0)
			}
			want = resp.AppendTo(want)
			binary.BigEndian.PutUint32(want[6:], uint32(len(want)-10))
			if got := AppendResponse([]byte("before"), 7, resp); !bytes.Equal(got, want) {
				t.Fatalf("version %d: %+v\n%x\n%x", version, resp, got, want)
			}
		}
	}
}

// A GroupList is what AppendResponse makes of the same groups, in every version,
// whatever the pieces.
func TestGroupList(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	text := func() string { return strings.Repeat("x", r.IntN(3)*r.IntN(100)) }
	for version := int16(0); version <= 5; version++ {
		for range 50 {
			resp := kmsg.NewPtrListGroupsResponse()
			resp.Version = version
			list := NewGroupList(version)
			for range r.IntN(4) {
				piece := make([]kmsg.ListGroupsResponseGroup, r.IntN(100))
				for i := range piece {
					piece[i] = kmsg.ListGroupsResponseGroup{Group: text(), ProtocolType: text(), GroupState: text(), GroupType: text()}
				}
				resp.Groups = append(resp.Groups, piece...)
				list.Add(piece)
				list.Expect(r.IntN(10_000))
			}
			if got, want := list.Frame(7), AppendResponse(nil, 7, resp); !bytes.Equal(got, want) {
				t.Fatalf("version %d: %+v\n%x\n%x", version, resp, got, want)
			}
		}
	}
}
