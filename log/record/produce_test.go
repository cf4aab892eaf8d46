package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
)

func produceOptions() *ProduceOptions {
	return &ProduceOptions{MaxMessageBytes: 1 << 20, SegmentBytes: 1 << 30, TimestampBeforeMax: -1, TimestampAfterMax: 3600000, NowMillis: stamp}
}

// sample is a batch of three records as a client sends it.
func sample(change func(b Batch)) []byte {
	var b Builder
	b.Reset(nil, Plain(0, -1))
	b.Append(stamp, []byte("a"), []byte("1"))
	b.Append(stamp+5, []byte("b"), nil)
	b.Append(stamp+2, []byte("c"), []byte{})
	batch := b.Close()
	if change != nil {
		change(batch)
		batch.SetCRC()
	}
	return batch
}

func TestCheckProduce(t *testing.T) {
	put16 := func(at int, v int16) func(Batch) {
		return func(b Batch) { binary.BigEndian.PutUint16(b[at:], uint16(v)) }
	}
	put32 := func(at int, v int32) func(Batch) {
		return func(b Batch) { binary.BigEndian.PutUint32(b[at:], uint32(v)) }
	}
	put64 := func(at int, v int64) func(Batch) {
		return func(b Batch) { binary.BigEndian.PutUint64(b[at:], uint64(v)) }
	}
	all := func(fs ...func(Batch)) func(Batch) {
		return func(b Batch) {
			for _, f := range fs {
				f(b)
			}
		}
	}
	noKey := func() []byte {
		var b Builder
		b.Reset(nil, Plain(0, -1))
		b.Append(stamp, []byte("a"), []byte("1"))
		b.Append(stamp, nil, []byte("1"))
		return b.Close()
	}()
	flipped := sample(nil)
	flipped[len(flipped)-1] ^= 1
	for _, c := range []struct {
		name    string
		data    []byte
		options func(*ProduceOptions)
		code    int16
		records int
	}{
		{name: "good", data: sample(nil)},
		{name: "nothing", data: nil, code: CodeInvalidRecord},
		{name: "cut short", data: sample(nil)[:70], code: CodeInvalidRecord},
		{name: "two batches", data: append(sample(nil), sample(nil)...), code: CodeInvalidRecord},
		{name: "magic 1", data: sample(func(b Batch) { b[16] = 1 }), code: CodeInvalidRecord},
		{name: "length 48", data: sample(put32(8, 48)), code: CodeCorruptMessage},
		{name: "length -1", data: sample(put32(8, -1)), code: CodeCorruptMessage},
		{name: "at max.message.bytes", data: sample(nil), options: func(o *ProduceOptions) { o.MaxMessageBytes = int64(len(sample(nil))) }},
		{name: "over max.message.bytes", data: sample(nil), options: func(o *ProduceOptions) { o.MaxMessageBytes = int64(len(sample(nil))) - 1 }, code: CodeMessageTooLarge},
		{name: "over segment.bytes", data: sample(nil), options: func(o *ProduceOptions) { o.SegmentBytes = int64(len(sample(nil))) - 1 }, code: CodeRecordListTooLarge},
		{name: "checksum", data: flipped, code: CodeCorruptMessage},
		{name: "base offset 1", data: sample(put64(0, 1)), code: CodeInvalidRecord},
		{name: "count 0", data: sample(put32(57, 0)), code: CodeInvalidRecord},
		{name: "count 2 of 3", data: sample(put32(57, 2)), code: CodeInvalidRecord},
		{name: "count and span 2 of 3", data: sample(all(put32(57, 2), put32(23, 1))), code: CodeInvalidRecord},
		{name: "count and span 2^31-1", data: sample(all(put32(57, 1<<31-1), put32(23, 1<<31-2))), code: CodeInvalidRecord},
		{name: "control", data: sample(put16(21, BitControl)), code: CodeInvalidRecord},
		{name: "delete horizon", data: sample(put16(21, BitDeleteHorizon)), code: CodeInvalidRecord},
		{name: "codec 5", data: sample(put16(21, 5)), code: CodeInvalidRecord},
		{name: "not gzip", data: sample(put16(21, 1)), code: CodeInvalidRecord},
		{name: "not lz4", data: sample(put16(21, 3)), code: CodeInvalidRecord},
		{name: "zstd below version 7", data: sample(put16(21, 4)), options: func(o *ProduceOptions) { o.NoZstd = true }, code: CodeUnsupportedCodec},
		{name: "log append time", data: sample(put16(21, BitLogAppendTime)), code: CodeInvalidTimestamp},
		{name: "producer without epoch", data: sample(put64(43, 7)), code: CodeInvalidRecord},
		{name: "producer", data: sample(all(put64(43, 7), put16(51, 0), put32(53, 0)))},
		{name: "transaction without producer", data: sample(put16(21, BitTransactional)), code: CodeInvalidRecord},
		{name: "no key, compacted", data: noKey, options: func(o *ProduceOptions) { o.Compacted = true }, code: CodeInvalidRecord, records: 1},
		{name: "no key", data: noKey},
		{name: "too old", data: sample(nil), options: func(o *ProduceOptions) { o.NowMillis += 10000; o.TimestampBeforeMax = 9996 }, code: CodeInvalidTimestamp, records: 2},
		{name: "too new", data: sample(nil), options: func(o *ProduceOptions) { o.NowMillis -= 3599996 }, code: CodeInvalidTimestamp, records: 1},
		{name: "too new, but log append time", data: sample(nil), options: func(o *ProduceOptions) { o.NowMillis -= 3600003; o.LogAppendTime = true }},
		{name: "wrong max timestamp", data: sample(put64(35, 5))},
	} {
		o := produceOptions()
		if c.options != nil {
			c.options(o)
		}
		var r Reader
		b, err := r.CheckProduce(c.data, o)
		code, records := int16(0), 0
		if err != nil {
			code, records = err.Code, len(err.Records)
		}
		if code != c.code || records != c.records {
			t.Errorf("%s: code %d, %d records at fault (%v); want %d, %d", c.name, code, records, err, c.code, c.records)
			continue
		}
		if err != nil {
			continue
		}
		if verr := b.Validate(); verr != nil {
			t.Errorf("%s: %v", c.name, verr)
		}
		want := stamp + 5
		if o.LogAppendTime {
			want = o.NowMillis
		}
		if c.name != "no key" && (b.MaxTimestamp() != want || b.LogAppendTime() != o.LogAppendTime) {
			t.Errorf("%s: max timestamp %d, want %d", c.name, b.MaxTimestamp(), want)
		}
	}
}

// TestCodecs compresses and reads back, recompresses, and meets the limit exactly.
func TestCodecs(t *testing.T) {
	var b Builder
	b.Reset(nil, Plain(100, 3))
	for i := range 3000 {
		b.Append(stamp+int64(i), fmt.Appendf(nil, "key %d", i), bytes.Repeat([]byte{byte(i), byte(i * 7)}, i%100))
	}
	plain := b.Close()
	inflated := int64(len(plain) - HeaderSize)
	var w Rewriter
	var r Reader
	for codec := CodecNone; codec <= CodecZstd; codec++ {
		packed, err := w.Recompress(nil, &r, plain, codec)
		if err != nil {
			t.Fatalf("codec %d: %v", codec, err)
		}
		p := Batch(packed)
		if err := p.Validate(); err != nil || p.Codec() != codec || p.BaseOffset() != 100 || p.LeaderEpoch() != 3 {
			t.Fatalf("codec %d: %v, header of codec %d at %d", codec, err, p.Codec(), p.BaseOffset())
		}
		if codec != CodecNone && len(p) >= len(plain) {
			t.Errorf("codec %d: %d bytes of %d", codec, len(p), len(plain))
		}
		back, err := w.Recompress(nil, &r, p, CodecNone)
		if err != nil || !bytes.Equal(back, plain) {
			t.Errorf("codec %d does not come back: %v", codec, err)
		}
		if codec == CodecNone {
			continue
		}
		exact := Reader{InflateMax: inflated}
		if _, err := exact.Inflate(p); err != nil {
			t.Errorf("codec %d at the limit: %v", codec, err)
		}
		small := Reader{InflateMax: inflated - 1}
		if _, err := small.Inflate(p); !errors.Is(err, ErrInflate) {
			t.Errorf("codec %d past the limit: %v", codec, err)
		}
		for cut := 1; cut < len(p)-HeaderSize; cut += 37 {
			bad := bytes.Clone(p[:len(p)-cut])
			binary.BigEndian.PutUint32(bad[atLength:], uint32(len(bad)-LengthOverhead))
			if err := r.Each(bad, func(Record) error { return nil }); !errors.Is(err, ErrMalformed) {
				t.Fatalf("codec %d cut by %d: %v", codec, cut, err)
			}
		}
	}
}

func TestFramings(t *testing.T) {
	if got := xxh32([]byte("Nobody inspects the spammish repetition")); got != 0xe2293b2f {
		t.Errorf("xxh32 gives %08x", got)
	}
	if got := xxh32(nil); got != 0x02cc5d05 {
		t.Errorf("xxh32 of nothing gives %08x", got)
	}
	var c Compressor
	frame, err := c.Append(nil, []byte("hello hello hello hello hello hello"), CodecLZ4)
	if err != nil || !bytes.HasPrefix(frame, []byte{0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82}) {
		t.Errorf("lz4 frame %x, %v", frame, err)
	}
	raw := []byte{5, 16, 'h', 'e', 'l', 'l', 'o'} // one snappy block without framing
	out, err := inflateSnappy(nil, raw, 100)
	if err != nil || string(out) != "hello" {
		t.Errorf("raw snappy: %q, %v", out, err)
	}
	framed, err := c.Append(nil, []byte("one"), CodecSnappy)
	if err != nil {
		t.Fatal(err)
	}
	framed, err = c.Append(framed, []byte("two"), CodecSnappy)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := inflateSnappy(nil, framed, 100); err != nil || string(out) != "onetwo" {
		t.Errorf("two xerial streams: %q, %v", out, err)
	}
}

func TestVarints(t *testing.T) {
	for _, v := range []int64{0, -1, 1, -2, 63, -64, 64, 1 << 20, -1 << 20, 1<<31 - 1, -1 << 31, 1<<63 - 1, -1 << 63} {
		b := AppendVarlong(nil, v)
		if got, n := Varlong(b); got != v || n != len(b) || n != varlongSize(v) {
			t.Errorf("%d: %d in %d bytes of %d, size %d", v, got, n, len(b), varlongSize(v))
		}
		if v != int64(int32(v)) {
			if _, n := Varint(b); n != 0 {
				t.Errorf("%d passes for an int32", v)
			}
			continue
		}
		b = AppendVarint(nil, int32(v))
		if got, n := Varint(b); int64(got) != v || n != len(b) || n != varintSize(int32(v)) {
			t.Errorf("%d: %d in %d bytes", v, got, n)
		}
	}
	for _, bad := range [][]byte{nil, {0x80}, {0x80, 0x80, 0x80, 0x80, 0x80, 0}, {0xff, 0xff, 0xff, 0xff, 0x1f}} {
		if _, n := Varint(bad); n != 0 {
			t.Errorf("%x is accepted", bad)
		}
	}
	if v, n := Varint([]byte{0x82, 0x80, 0x00}); v != 1 || n != 3 {
		t.Errorf("over-long 1 reads as %d in %d bytes", v, n)
	}
}
