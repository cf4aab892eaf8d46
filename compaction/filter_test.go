package compaction

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kcoord/kcoord/log/record"
)

const (
	stamp     = int64(1700000000000)
	retention = int64(86400000)
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func unhex(t testing.TB, s string) record.Batch {
	t.Helper()
	b, err := hex.DecodeString(s)
	must(t, err)
	return b
}

// kv is a record of a test: value "-" is a tombstone, key "-" none.
type kv struct {
	key, value string
}

func (r kv) bytes() (key, value []byte) {
	if r.key != "-" {
		key = []byte(r.key)
	}
	if r.value != "-" {
		value = []byte(r.value)
	}
	return key, value
}

// plain builds a batch at base without a producer.
func plain(base int64, records ...kv) record.Batch {
	return build(record.Plain(base, 0), records...)
}

func build(t record.Template, records ...kv) record.Batch {
	var b record.Builder
	b.Reset(nil, t)
	for i, r := range records {
		key, value := r.bytes()
		b.Append(stamp+int64(i), key, value)
	}
	return b.Close()
}

func producer(base, id int64, txn bool) record.Template {
	t := record.Plain(base, 0)
	t.ProducerID, t.ProducerEpoch, t.BaseSequence, t.Transactional = id, 0, 0, txn
	return t
}

func marker(t testing.TB, base, id int64, commit bool) record.Batch {
	t.Helper()
	b, err := record.AppendMarker(nil, producer(base, id, true), stamp, commit, 3)
	must(t, err)
	return b
}

// text describes a batch: offsets, records, and what is special about it.
func text(b record.Batch) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%d-%d", b.BaseOffset(), b.LastOffset())
	if b.ProducerID() >= 0 {
		fmt.Fprintf(&s, " p%d", b.ProducerID())
	}
	if b.HasDeleteHorizon() {
		fmt.Fprintf(&s, " h%+d", b.BaseTimestamp()-stamp)
	}
	if b.Control() {
		s.WriteString(" marker")
		if b.Count() == 0 {
			s.WriteString(" empty")
		}
		return s.String()
	}
	s.WriteString(" [")
	err := b.Each(func(r record.Record) error {
		key, value := string(r.Key), string(r.Value)
		if r.Key == nil {
			key = "-"
		}
		if r.Value == nil {
			value = "-"
		}
		fmt.Fprintf(&s, " %d:%s=%s", r.Offset, key, value)
		return nil
	})
	if err != nil {
		fmt.Fprintf(&s, " %v", err)
	}
	s.WriteString(" ]")
	return s.String()
}

// clean runs both passes over batches, as one group that must keep its end.
func clean(t testing.TB, batches []record.Batch, from, now int64) (out []record.Batch, f *filter) {
	t.Helper()
	m := newMapper(newOffsetMap(1<<20, DefaultLoadFactor), from)
	for _, b := range batches {
		must(t, b.Validate())
		if b.LastOffset() < from {
			continue
		}
		if taken, err := m.take(b); err != nil || !taken {
			t.Fatalf("take: %v, %v", taken, err)
		}
	}
	f = &filter{
		newest: m.newest, end: m.end(), now: now, horizon: now + retention,
		aborted: m.aborted, last: m.last, kept: map[int64]bool{}, stats: Stats{Tombstones: Tombstones{}},
	}
	for i, b := range batches {
		kept, err := f.batch(b, i+1 == len(batches))
		must(t, err)
		if kept != nil {
			must(t, kept.Validate())
			out = append(out, bytes.Clone(kept))
		}
	}
	return out, f
}

func texts(batches []record.Batch) (out []string) {
	for _, b := range batches {
		out = append(out, text(b))
	}
	return out
}

func TestFilter(t *testing.T) {
	horizon := func(b record.Batch, at int64) record.Batch {
		var w record.Rewriter
		w.Begin(b, b.Codec(), at)
		must(t, b.Each(func(r record.Record) error { w.Add(r); return nil }))
		out, err := w.Append(nil, b.LastOffset())
		must(t, err)
		return out
	}
	for _, c := range []struct {
		name    string
		batches []record.Batch
		want    []string
	}{
		{"the newest value stays", []record.Batch{
			plain(0, kv{"a", "0"}), plain(1, kv{"k", "1"}), plain(5, kv{"k", "5"}), plain(9, kv{"k", "9"}), plain(10, kv{"z", "10"}),
		}, []string{"0-0 [ 0:a=0 ]", "9-9 [ 9:k=9 ]", "10-10 [ 10:z=10 ]"}},
		{"a tombstone without horizon gets one", []record.Batch{
			plain(1, kv{"k", "1"}), plain(5, kv{"k", "-"}), plain(6, kv{"z", "6"}),
		}, []string{"5-5 h+86400500 [ 5:k=- ]", "6-6 [ 6:z=6 ]"}},
		{"a horizon to come stays as it is", []record.Batch{
			horizon(plain(5, kv{"k", "-"}), stamp+501), plain(6, kv{"z", "6"}),
		}, []string{"5-5 h+501 [ 5:k=- ]", "6-6 [ 6:z=6 ]"}},
		{"a tombstone whose horizon has passed goes, with the value it deletes", []record.Batch{
			plain(1, kv{"k", "1"}), horizon(plain(5, kv{"k", "-"}), stamp+500), plain(6, kv{"z", "6"}),
		}, []string{"6-6 [ 6:z=6 ]"}},
		{"others in its batch stay, with the horizon", []record.Batch{
			horizon(plain(5, kv{"k", "-"}, kv{"l", "6"}), stamp+500), plain(7, kv{"z", "7"}),
		}, []string{"5-6 h+500 [ 6:l=6 ]", "7-7 [ 7:z=7 ]"}},
		{"a tombstone with a newer value goes at once", []record.Batch{
			plain(1, kv{"k", "1"}), plain(5, kv{"k", "-"}), plain(6, kv{"k", "6"}),
		}, []string{"6-6 [ 6:k=6 ]"}},
		{"the last batch of a group stays without records", []record.Batch{
			plain(1, kv{"k", "1"}), horizon(plain(5, kv{"k", "-"}, kv{"k", "-"}), stamp),
		}, []string{"5-6 [ ]"}},
		{"an empty batch in the middle goes", []record.Batch{
			record.AppendEmpty(nil, plain(1, kv{"k", "1"})), plain(5, kv{"k", "5"}),
		}, []string{"5-5 [ 5:k=5 ]"}},
		{"records without key go, an empty key is a key", []record.Batch{
			plain(1, kv{"-", "1"}, kv{"", "2"}, kv{"-", "3"}), plain(5, kv{"", "5"}), plain(6, kv{"a", "6"}, kv{"-", "7"}),
		}, []string{"5-5 [ 5:=5 ]", "6-7 [ 6:a=6 ]"}},
		{"the last batch of a producer keeps its sequence", []record.Batch{
			build(producer(0, 7, false), kv{"k", "0"}), build(producer(1, 7, false), kv{"k", "1"}, kv{"l", "2"}),
			plain(3, kv{"k", "3"}), plain(4, kv{"l", "4"}),
		}, []string{"1-2 p7 [ ]", "3-3 [ 3:k=3 ]", "4-4 [ 4:l=4 ]"}},
		{"an aborted record hides nothing and goes", []record.Batch{
			plain(0, kv{"k", "0"}), build(producer(1, 7, true), kv{"k", "1"}), marker(t, 2, 7, false), plain(3, kv{"z", "3"}),
		}, []string{"0-0 [ 0:k=0 ]", "2-2 p7 h+86400500 marker", "3-3 [ 3:z=3 ]"}},
		{"a committed record counts", []record.Batch{
			plain(0, kv{"k", "0"}), build(producer(1, 7, true), kv{"k", "1"}), marker(t, 2, 7, true), plain(3, kv{"z", "3"}),
		}, []string{"1-1 p7 [ 1:k=1 ]", "2-2 p7 marker", "3-3 [ 3:z=3 ]"}},
		{"a plain record between a pending one and its marker wins", []record.Batch{
			build(producer(0, 7, true), kv{"k", "0"}), plain(1, kv{"k", "1"}), marker(t, 2, 7, true), plain(3, kv{"z", "3"}),
		}, []string{"1-1 [ 1:k=1 ]", "2-2 p7 h+86400500 marker", "3-3 [ 3:z=3 ]"}},
		{"two transactions of a producer", []record.Batch{
			build(producer(0, 7, true), kv{"k", "0"}), marker(t, 1, 7, true), build(producer(2, 7, true), kv{"k", "2"}), marker(t, 3, 7, false), plain(4, kv{"z", "4"}),
		}, []string{"0-0 p7 [ 0:k=0 ]", "1-1 p7 marker", "3-3 p7 h+86400500 marker", "4-4 [ 4:z=4 ]"}},
		{"nothing from an open transaction on is touched", []record.Batch{
			plain(0, kv{"k", "0"}), plain(1, kv{"k", "1"}), build(producer(2, 7, true), kv{"k", "2"}), plain(3, kv{"k", "3"}), plain(4, kv{"k", "4"}),
		}, []string{"2-2 p7 [ 2:k=2 ]", "3-3 [ 3:k=3 ]", "4-4 [ 4:k=4 ]"}},
		{"a marker is not matched by key", []record.Batch{
			plain(0, kv{"\x00\x00\x00\x01", "0"}), build(producer(1, 7, true), kv{"a", "1"}), marker(t, 2, 7, true), plain(3, kv{"z", "3"}),
		}, []string{"0-0 [ 0:\x00\x00\x00\x01=0 ]", "1-1 p7 [ 1:a=1 ]", "2-2 p7 marker", "3-3 [ 3:z=3 ]"}},
		{"an expired marker goes", []record.Batch{
			horizon(marker(t, 2, 7, true), stamp), build(producer(3, 7, true), kv{"a", "3"}), marker(t, 4, 7, true), plain(5, kv{"z", "5"}),
		}, []string{"3-3 p7 [ 3:a=3 ]", "4-4 p7 marker", "5-5 [ 5:z=5 ]"}},
		{"the expired marker of a producer's end becomes an empty batch", []record.Batch{
			horizon(marker(t, 2, 7, true), stamp), plain(5, kv{"z", "5"}),
		}, []string{"2-2 p7 marker empty", "5-5 [ 5:z=5 ]"}},
	} {
		got, _ := clean(t, c.batches, 0, stamp+500)
		if !slices.Equal(texts(got), c.want) {
			t.Errorf("%s:\n got %q\nwant %q", c.name, texts(got), c.want)
		}
		// Cleaned again the same comes out, byte for byte.
		if again, _ := clean(t, got, 0, stamp+500); fmt.Sprint(again) != fmt.Sprint(got) {
			t.Errorf("%s: a second round gives %q", c.name, texts(again))
		}
	}
}

// The bytes of what a round writes.
func TestGolden(t *testing.T) {
	const (
		g2 = "000000000000000100000046000000000244bed6c60000000000000000018bcfe56be80000018bcfe56be8ffffffffffffffffffffffffffff00000001280000001c00010002673100027431000000000100"
		g3 = "00000000000000010000004900000000021cb594600040000000000000018bd50bc7e80000018bcfe56be8ffffffffffffffffffffffffffff000000012e00ffefb252001c00010002673100027431000000000100"
		g6 = "000000000000000a0000005e0000000002852b24e90000000000040000018bcfe568000000018bcfe56800ffffffffffffffffffffffffffff00000001580000061c0001000267310002743100000000300003000000000000002affffffff00000000018bcfe5680000"
		g4 = "000000000000000500000031000000000261226a29000000000002ffffffffffffffff0000018bcfe56800ffffffffffffffffffffffffffff00000000"
	)
	out, f := clean(t, []record.Batch{unhex(t, g2)}, 0, stamp+1000)
	if len(out) != 1 || !bytes.Equal(out[0], unhex(t, g3)) {
		t.Errorf("tombstone:\n got %x\nwant %s", out, g3)
	}
	if f.stats.Tombstones.Bytes() == 0 {
		t.Error("its bytes are not counted")
	}
	if again, _ := clean(t, out, 0, stamp+2000); !bytes.Equal(again[0], out[0]) {
		t.Error("a second round changes it")
	}

	key := unhex(t, "0001000267310002743100000000")
	value := unhex(t, "0003000000000000002affffffff00000000018bcfe56800")
	var b record.Builder
	b.Reset(nil, record.Plain(10, 0))
	for i := range 5 {
		k := fmt.Appendf(nil, "key %d", i)
		if i == 3 {
			k = key
		}
		b.Append(stamp, k, value)
	}
	newer := []record.Batch{bytes.Clone(b.Close())}
	for i := range 5 {
		if i != 3 {
			newer = append(newer, plain(20+int64(i), kv{fmt.Sprintf("key %d", i), "new"}))
		}
	}
	out, _ = clean(t, newer, 0, stamp)
	if !bytes.Equal(out[0], unhex(t, g6)) {
		t.Errorf("survivor of five:\n got %x\nwant %s", out[0], g6)
	}
	b.Reset(nil, record.Plain(5, 0))
	for range 3 {
		b.Append(stamp, key, value)
	}
	f = &filter{newest: newOffsetMap(0, DefaultLoadFactor), end: 100}
	f.newest.put(f.newest.hash(key), 50)
	if empty, err := f.batch(b.Close(), true); err != nil || !bytes.Equal(empty, unhex(t, g4)) {
		t.Errorf("empty batch:\n got %x, %v\nwant %s", empty, err, g4)
	}
}

// Compressed batches of which some records stay keep their codec.
func TestFilterCompressed(t *testing.T) {
	for _, codec := range []record.Codec{record.CodecGzip, record.CodecSnappy, record.CodecLZ4, record.CodecZstd} {
		var w record.Rewriter
		var r record.Reader
		b, err := w.Recompress(nil, &r, plain(0, kv{"a", "0"}, kv{"b", "1"}, kv{"c", "2"}), codec)
		must(t, err)
		out, _ := clean(t, []record.Batch{b, plain(3, kv{"b", "3"})}, 0, stamp)
		if got := texts(out); !slices.Equal(got, []string{"0-2 [ 0:a=0 2:c=2 ]", "3-3 [ 3:b=3 ]"}) || out[0].Codec() != codec {
			t.Errorf("codec %d: %q, written with %d", codec, got, out[0].Codec())
		}
		if same, _ := clean(t, []record.Batch{b}, 0, stamp); !bytes.Equal(same[0], b) {
			t.Errorf("codec %d: an unchanged batch is rewritten", codec)
		}
	}
}

// A batch with a right checksum that cannot be decoded is copied, and none of its
// keys count.
func TestFilterUnreadable(t *testing.T) {
	bad := bytes.Clone(plain(1, kv{"k", "1"}, kv{"l", "2"}))
	bad[record.HeaderSize] = 0x7e // a record longer than the batch
	record.Batch(bad).SetCRC()
	out, f := clean(t, []record.Batch{plain(0, kv{"k", "0"}), bad, plain(3, kv{"z", "3"})}, 0, stamp)
	if len(out) != 3 || !bytes.Equal(out[1], bad) || f.stats.Unreadable != 1 {
		t.Errorf("got %q, %+v", texts(out), f.stats)
	}
}

func TestOffsetMap(t *testing.T) {
	m := newOffsetMap(1<<20, DefaultLoadFactor)
	model := map[string]int64{}
	for i := range 30_000 {
		k := fmt.Sprintf("key %d", i*7919%5000)
		off := int64(i * 31 % 20_000)
		m.put(m.hash([]byte(k)), off)
		model[k] = max(model[k], off)
	}
	if m.used != len(model) {
		t.Errorf("%d keys of %d", m.used, len(model))
	}
	for k, want := range model {
		if got := m.newest([]byte(k)); got != want {
			t.Errorf("%s: %d, want %d", k, got, want)
		}
	}
	if got := m.newest([]byte("none")); got != -1 {
		t.Errorf("unknown key: %d", got)
	}
	if limit := (1 << 20) / slotBytes; m.limit > limit || m.limit < limit/4 {
		t.Errorf("limit %d", m.limit)
	}
	if m.room(m.limit-m.used+1) || !m.room(m.limit-m.used) {
		t.Error("room is wrong at the limit")
	}
}
