package record

import (
	"bytes"
	"errors"
	"testing"
)

func seeds(f *testing.F) {
	for _, h := range []string{g1, g2, g3, g4, g5, g6} {
		f.Add(unhex(f, h))
	}
	var w Rewriter
	var r Reader
	for codec := CodecGzip; codec <= CodecZstd; codec++ {
		b, err := w.Recompress(nil, &r, Batch(sample(nil)), codec)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
}

// FuzzBatch: nothing panics, reads past the batch or inflates past the limit;
// what can be read can be written again with the same content.
func FuzzBatch(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) >= HeaderSize {
			Batch(data).SetCRC() // or nothing would get past the checksum
		}
		b, rest, err := Next(data, 1<<20)
		if err != nil || b == nil {
			return
		}
		if len(b)+len(rest) != len(data) {
			t.Fatalf("%d and %d bytes of %d", len(b), len(rest), len(data))
		}
		r := Reader{InflateMax: 1 << 20}
		var w Rewriter
		horizon := NoHorizon
		if b.HasDeleteHorizon() {
			horizon = b.BaseTimestamp()
		}
		w.Begin(b, CodecNone, horizon)
		n := int32(0)
		err = r.Each(b, func(rec Record) error {
			n++
			rec.EachHeader(func(key, value []byte) {})
			w.Add(rec)
			return nil
		})
		if err != nil {
			if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrInflate) {
				t.Fatal(err)
			}
			return
		}
		if n != b.Count() {
			t.Fatalf("%d records of %d", n, b.Count())
		}
		if n == 0 {
			return
		}
		again, err := w.Append(nil, b.LastOffset())
		if err != nil {
			t.Fatal(err)
		}
		if err := Batch(again).Validate(); err != nil {
			t.Fatal(err)
		}
		var first, second []Record
		collect := func(into *[]Record) func(Record) error {
			return func(rec Record) error {
				rec.Key, rec.Value, rec.headers = bytes.Clone(rec.Key), bytes.Clone(rec.Value), bytes.Clone(rec.headers)
				*into = append(*into, rec)
				return nil
			}
		}
		if err := errors.Join(r.Each(b, collect(&first)), r.Each(again, collect(&second))); err != nil {
			t.Fatal(err)
		}
		for i := range first {
			x, y := first[i], second[i]
			if x.Offset != y.Offset || x.Timestamp != y.Timestamp || !bytes.Equal(x.Key, y.Key) || !bytes.Equal(x.Value, y.Value) ||
				(x.Key == nil) != (y.Key == nil) || (x.Value == nil) != (y.Value == nil) || !bytes.Equal(x.headers, y.headers) {
				t.Fatalf("record %d: %+v, written again %+v", i, x, y)
			}
		}
	})
}

// FuzzProduce: whatever a client sends is accepted or refused with a code.
func FuzzProduce(f *testing.F) {
	seeds(f)
	f.Add(sample(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) >= HeaderSize {
			Batch(data).SetCRC()
		}
		r := Reader{InflateMax: 1 << 20}
		b, err := r.CheckProduce(data, produceOptions())
		if err != nil {
			if err.Code == 0 || len(err.Records) > MaxRecordErrors {
				t.Fatalf("%+v", err)
			}
			return
		}
		if err := b.Validate(); err != nil {
			t.Fatal(err)
		}
	})
}

func BenchmarkBuild(b *testing.B) {
	key, value := make([]byte, 40), make([]byte, 30)
	var w Builder
	b.ReportAllocs()
	for b.Loop() {
		w.Reset(w.Buf[:0], Plain(0, 0))
		for range 100 {
			w.Append(stamp, key, value)
		}
		w.Close()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/record")
}

func BenchmarkEach(b *testing.B) {
	var w Builder
	w.Reset(nil, Plain(0, 0))
	for range 100 {
		w.Append(stamp, make([]byte, 40), make([]byte, 30))
	}
	batch := w.Close()
	var r Reader
	b.ReportAllocs()
	for b.Loop() {
		if err := batch.Validate(); err != nil {
			b.Fatal(err)
		}
		if err := r.Each(batch, func(Record) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/record")
}
