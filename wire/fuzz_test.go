package wire

import (
	"bytes"
	"errors"
	"testing"
)

// addRecorded makes the recorded requests the corpus.
func addRecorded(f *testing.F) {
	for _, list := range exchanges(f) {
		for _, e := range list {
			f.Add(e.request)
		}
	}
	f.Add(append(header(12, 4, 1, "c", 0), append([]byte{2, 'g', 0, 0, 0, 0, 2, 'm', 0}, manyTags(maxUnknown+1)...)...))
	f.Add(append(header(12, 4, 1, "c", manyTags(3)...), 2, 'g', 0, 0, 0, 0, 2, 'm', 0, 0))
}

// FuzzParseHeader reads headers: what is accepted lies inside the frame and names
// a row of the table.
func FuzzParseHeader(f *testing.F) {
	addRecorded(f)
	f.Fuzz(func(t *testing.T, frame []byte) {
		h, err := ParseHeader(frame)
		if err != nil {
			if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrUnknownKey) && !errors.Is(err, ErrUnsupportedVersion) {
				t.Fatalf("error %v", err)
			}
			return
		}
		api, ok := Lookup(h.Key)
		if !ok || h.Version < api.Min || h.Version > api.Max || !bytes.HasSuffix(frame, h.Body) || !bytes.Contains(frame, []byte(h.ClientID)) {
			t.Fatalf("header %+v of % x", h, frame)
		}
	})
}

// FuzzDecode decodes requests of every API: Decode and a Decoder agree; what is
// accepted encodes to something that decodes to the same; nothing panics.
func FuzzDecode(f *testing.F) {
	addRecorded(f)
	var d Decoder
	f.Fuzz(func(t *testing.T, frame []byte) {
		h, err := ParseHeader(frame)
		if err != nil {
			return
		}
		before := bytes.Clone(frame)
		fresh, err := Decode(h)
		reused, reusedErr := d.Decode(h)
		if (err == nil) != (reusedErr == nil) {
			t.Fatalf("Decode: %v, Decoder: %v", err, reusedErr)
		}
		if !bytes.Equal(frame, before) {
			t.Fatal("the frame was changed")
		}
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("error %v", err)
			}
			return
		}
		body, err := inspect(h.Key, h.Version, h.Body)
		if err != nil || len(body) > len(h.Body) {
			t.Fatalf("%d bytes to decode of %d, %v", len(body), len(h.Body), err)
		}
		encoded := fresh.AppendTo(nil)
		if len(body) == len(h.Body) && !bytes.Equal(reused.AppendTo(nil), encoded) {
			t.Fatalf("Decode gave %+v, a Decoder %+v", fresh, reused)
		}
		h.Body = encoded
		again, err := Decode(h)
		if err != nil {
			t.Fatalf("%+v encodes to % x: %v", fresh, encoded, err)
		}
		if len(encoded) == len(body) && !bytes.Equal(again.AppendTo(nil), encoded) {
			t.Fatalf("%+v came back as %+v", fresh, again)
		}
		if resp := ErrorResponse(fresh, 1); resp != nil {
			AppendResponse(nil, h.CorrelationID, resp)
		}
	})
}
