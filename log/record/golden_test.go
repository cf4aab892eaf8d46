package record

import (
	"bytes"
	"encoding/hex"
	"testing"
)

// The vectors were verified against Apache Kafka's own reader.
const (
	stamp = int64(1700000000000)
	gKey  = "0001000267310002743100000000"
	gVal  = "0003000000000000002affffffff00000000018bcfe56800"
	g1    = "00000000000000000000005e000000000286eb65db0000000000000000018bcfe568000000018bcfe56800ffffffffffffffffffffffffffff00000001580000001c0001000267310002743100000000300003000000000000002affffffff00000000018bcfe5680000"
	g2    = "000000000000000100000046000000000244bed6c60000000000000000018bcfe56be80000018bcfe56be8ffffffffffffffffffffffffffff00000001280000001c00010002673100027431000000000100"
	g3    = "00000000000000010000004900000000021cb594600040000000000000018bd50bc7e80000018bcfe56be8ffffffffffffffffffffffffffff000000012e00ffefb252001c00010002673100027431000000000100"
	g4    = "000000000000000500000031000000000261226a29000000000002ffffffffffffffff0000018bcfe56800ffffffffffffffffffffffffffff00000000"
	g5    = "0000000000000007000000420000000002954be1060030000000000000018bcfe568000000018bcfe5680000000000000003e80000ffffffff000000012000000008000000010c00000000000300"
	g6    = "000000000000000a0000005e0000000002852b24e90000000000040000018bcfe568000000018bcfe56800ffffffffffffffffffffffffffff00000001580000061c0001000267310002743100000000300003000000000000002affffffff00000000018bcfe5680000"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func wantBytes(t *testing.T, name string, got []byte, want string) {
	t.Helper()
	if h := hex.EncodeToString(got); h != want {
		t.Errorf("%s:\n got %s\nwant %s", name, h, want)
	}
}

func TestGoldenBuild(t *testing.T) {
	key, value := unhex(t, gKey), unhex(t, gVal)
	var b Builder
	b.Reset(nil, Plain(0, 0))
	b.Append(stamp, key, value)
	wantBytes(t, "G1", b.Close(), g1)

	b.Reset(b.Buf, Plain(1, 0))
	if off := b.Append(stamp+1000, key, nil); off != 1 {
		t.Errorf("offset %d, want 1", off)
	}
	tombstone := b.Close()
	wantBytes(t, "G2", tombstone, g2)
	wantBytes(t, "G1 and G2", b.Buf, g1+g2)

	var w Rewriter
	w.Begin(tombstone, CodecNone, stamp+1000+86400000)
	if err := tombstone.Each(func(r Record) error { w.Add(r); return nil }); err != nil {
		t.Fatal(err)
	}
	got, err := w.Append(nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	wantBytes(t, "G3", got, g3)

	b.Reset(nil, Plain(5, 0))
	for range 3 {
		b.Append(stamp, key, value)
	}
	wantBytes(t, "G4", AppendEmpty(nil, b.Close()), g4)

	marker, err := AppendMarker(nil, Template{BaseOffset: 7, ProducerID: 1000}, stamp, true, 3)
	if err != nil {
		t.Fatal(err)
	}
	wantBytes(t, "G5", marker, g5)

	b.Reset(nil, Plain(10, 0))
	for range 5 {
		b.Append(stamp, key, value)
	}
	five := b.Close()
	w.Begin(five, CodecNone, NoHorizon)
	if err := five.Each(func(r Record) error {
		if r.OffsetDelta == 3 {
			w.Add(r)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got, err = w.Append(nil, five.LastOffset()); err != nil {
		t.Fatal(err)
	}
	wantBytes(t, "G6", got, g6)
}

func TestGoldenRead(t *testing.T) {
	for _, c := range []struct {
		name, hex      string
		first, last    int64
		records        int
		offset, ts     int64
		tombstone, ctl bool
		horizon        bool
		producer       int64
		maxTimestamp   int64
	}{
		{"G1", g1, 0, 0, 1, 0, stamp, false, false, false, -1, stamp},
		{"G2", g2, 1, 1, 1, 1, stamp + 1000, true, false, false, -1, stamp + 1000},
		{"G3", g3, 1, 1, 1, 1, stamp + 1000, true, false, true, -1, stamp + 1000},
		{"G4", g4, 5, 7, 0, 0, 0, false, false, false, -1, stamp},
		{"G5", g5, 7, 7, 1, 7, stamp, false, true, false, 1000, stamp},
		{"G6", g6, 10, 14, 1, 13, stamp, false, false, false, -1, stamp},
	} {
		b := Batch(unhex(t, c.hex))
		if err := b.Validate(); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if b.BaseOffset() != c.first || b.LastOffset() != c.last || b.Control() != c.ctl ||
			b.HasDeleteHorizon() != c.horizon || b.ProducerID() != c.producer || b.MaxTimestamp() != c.maxTimestamp {
			t.Errorf("%s: header reads %d..%d control %v horizon %v producer %d max %d", c.name,
				b.BaseOffset(), b.LastOffset(), b.Control(), b.HasDeleteHorizon(), b.ProducerID(), b.MaxTimestamp())
		}
		n := 0
		if err := b.Each(func(r Record) error {
			n++
			if r.Offset != c.offset || r.Timestamp != c.ts || (r.Value == nil) != c.tombstone || r.Key == nil {
				t.Errorf("%s: record %+v", c.name, r)
			}
			if !c.ctl && !bytes.Equal(r.Key, unhex(t, gKey)) {
				t.Errorf("%s: key %x", c.name, r.Key)
			}
			if c.ctl {
				kind, err := ControlKey(r.Key)
				epoch, err2 := EndTransaction(r.Value)
				if kind != ControlCommit || epoch != 3 || err != nil || err2 != nil {
					t.Errorf("%s: control type %d epoch %d: %v, %v", c.name, kind, epoch, err, err2)
				}
			}
			return nil
		}); err != nil || n != c.records {
			t.Errorf("%s: %d records, %v", c.name, n, err)
		}
	}
}

func TestCRC(t *testing.T) {
	b := make(Batch, HeaderSize)
	b = append(b[:atAttributes], "123456789"...)
	if got := b.ComputeCRC(); got != 0xe3069283 {
		t.Errorf("CRC-32C of 123456789 is %08x", got)
	}
}

// TestEveryBit flips each bit of a batch: outside the three fields that the
// checksum leaves out, Validate notices, and nothing panics anywhere.
func TestEveryBit(t *testing.T) {
	orig := unhex(t, g1)
	for i := range orig {
		for bit := range 8 {
			b := bytes.Clone(orig)
			b[i] ^= 1 << bit
			err := Batch(b).Validate()
			covered := i >= atMagic || i >= atLength && i < atEpoch
			if covered && err == nil {
				t.Errorf("byte %d bit %d: accepted", i, bit)
			}
			if err == nil {
				if err := Batch(b).Each(func(Record) error { return nil }); err != nil {
					t.Errorf("byte %d bit %d: %v", i, bit, err)
				}
			}
		}
	}
}

func TestNext(t *testing.T) {
	all := unhex(t, g1+g2+g5+g6)
	for cut := range len(all) + 1 {
		rest, n := all[:cut], 0
		for {
			b, r, err := Next(rest, 1<<20)
			if b == nil {
				if whole := len(rest) == 0; whole != (err == nil) {
					t.Errorf("cut %d: %d batches, then %d bytes left and %v", cut, n, len(rest), err)
				}
				break
			}
			rest = r
			n++
		}
	}
	if _, err := Peek(all, 105); err == nil {
		t.Error("a batch of 106 bytes passes a limit of 105")
	}
	if size, err := Peek(all, 106); err != nil || size != 106 {
		t.Errorf("size %d, %v", size, err)
	}
}
