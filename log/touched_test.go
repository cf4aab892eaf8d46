package log

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"testing"

	"github.com/kcoord/kcoord/log/record"
	"github.com/kcoord/kcoord/log/vfs"
)

// tenth is batch i of the fixture of these tests: one commit record of 106 bytes
// at offset i.
func tenth(i int) record.Batch { return batchAt(int64(i), 0, 24) }

const tenthSize = 106

// batchAt is a batch of one record at offset, with a value of some bytes.
func batchAt(offset int64, epoch int32, value int) record.Batch {
	var b record.Builder
	t := record.Plain(offset, epoch)
	b.Reset(nil, t)
	b.Append(testTime+offset, fmt.Appendf(nil, "group-%08d", offset), bytes.Repeat([]byte{byte(offset) | 1}, value))
	return b.Close()
}

// ten are batches 0 to 9.
func ten() []byte {
	var b []byte
	for i := range 10 {
		b = append(b, tenth(i)...)
	}
	return b
}

// touched makes a folder that was stopped in order, with two partitions of a user
// topic: partition 1 holds a record; partition 0 is empty for the snapshot, or, with
// vouched, holds the ten batches. Then content is what partition 0's files are.
func touched(t *testing.T, vouched bool, content map[string][]byte) *rig {
	t.Helper()
	mem := vfs.NewMem()
	r := newRig(t, mem)
	r.options = smallStore
	r.open()
	r.meta(topicRecord(2, "user", 2, 0))
	r.produce(r.partition(2, 1), 1)
	if vouched {
		for i := range 10 {
			b := bytes.Clone(tenth(i))
			if _, _, err := r.partition(2, 0).AppendBatch(b); err != nil {
				t.Fatal(err)
			}
			r.flush()
		}
	}
	if err := r.s.Close(); err != nil {
		t.Fatal(err)
	}
	dir := path.Join(testDir, "user-0")
	if err := mem.Mkdir(dir); err != nil {
		t.Fatal(err)
	}
	if !vouched {
		put(t, mem, path.Join(dir, partitionMetadata), partitionMetadataBytes(testTopic(2)))
	}
	for name, b := range content {
		put(t, mem, path.Join(dir, name), b)
	}
	return r
}

func put(t *testing.T, fs vfs.FS, name string, b []byte) {
	t.Helper()
	if err := writeFile(fs, name, b); err != nil {
		t.Fatal(err)
	}
}

const zeroLog = "00000000000000000000.log"

// wantKept opens a folder twice and expects partition 0 to hold the batches up to
// end, byte for byte, and to go on there; what is behind was cut off.
func (r *rig) wantKept(what string, end int64, size int) {
	r.t.Helper()
	for start := range 2 {
		if err := r.tryOpen(); err != nil {
			r.t.Fatalf("%s: start %d: %v", what, start, err)
		}
		p := r.partition(2, 0)
		if err := p.Err(); err != nil {
			r.t.Fatalf("%s: start %d: %v", what, start, err)
		}
		if p.LogEnd() != end || p.DurableEnd() != end {
			r.t.Fatalf("%s: start %d: the log ends at %d, want %d", what, start, p.LogEnd(), end)
		}
		if got := readAll(r, p); size >= 0 && !bytes.Equal(got, ten()[:size]) {
			r.t.Fatalf("%s: start %d: %d bytes of batches, want the first %d of the ten", what, start, len(got), size)
		}
		if other := r.partition(2, 1); other.Err() != nil || other.LogEnd() != 1 {
			r.t.Fatalf("%s: the other partition: %v, end %d", what, other.Err(), other.LogEnd())
		}
		if start == 1 {
			if got := r.produce(p, 1); got != end {
				r.t.Fatalf("%s: the next record gets offset %d, want %d", what, got, end)
			}
			r.flush()
		}
		if err := r.s.Close(); err != nil {
			r.t.Fatalf("%s: closing: %v", what, err)
		}
		on := int64(0)
		for _, name := range filesBelow(r.t.(*testing.T), r.fs, path.Join(testDir, "user-0")) {
			if info, err := r.fs.Stat(name); err == nil && strings.HasSuffix(name, suffixLog) {
				on += info.Size
			}
		}
		if start == 0 && size >= 0 && on != int64(size) {
			r.t.Fatalf("%s: the files have %d bytes after the start, want %d", what, on, size)
		}
	}
}

func readAll(r *rig, p *Partition) (all []byte) {
	r.t.Helper()
	if err := p.Load(func(b record.Batch) error { all = append(all, b...); return nil }); err != nil {
		r.t.Fatal(err)
	}
	return all
}

// wantRefused opens a folder twice and expects partition 0 to be closed by damage
// that the error places, its log not to be changed, and the other to work.
func (r *rig) wantRefused(what string, names ...string) {
	r.t.Helper()
	before := r.logs()
	for start := range 2 {
		if err := r.tryOpen(); err != nil {
			r.t.Fatalf("%s: start %d: %v", what, start, err)
		}
		p := r.partition(2, 0)
		err := p.Err()
		if !errors.Is(err, ErrStorage) {
			r.t.Fatalf("%s: start %d: not refused (log end %d): %v", what, start, p.LogEnd(), err)
		}
		for _, name := range names {
			if !strings.Contains(err.Error(), name) {
				r.t.Errorf("%s: start %d: no %q in %v", what, start, name, err)
			}
		}
		if _, _, err := p.AppendBatch(tenth(0)); !errors.Is(err, ErrStorage) {
			r.t.Errorf("%s: an append to a closed partition: %v", what, err)
		}
		if after := r.logs(); after != before {
			r.t.Fatalf("%s: start %d: refused, but its files have changed:\n%s\nwere\n%s", what, start, after, before)
		}
		if other := r.partition(2, 1); other.Err() != nil || r.produce(other, 1) != int64(start)+1 {
			r.t.Fatalf("%s: the other partition: %v, end %d", what, other.Err(), other.LogEnd())
		}
		r.flush()
		if err := r.s.Close(); !errors.Is(err, ErrStorage) {
			r.t.Errorf("%s: a stop with a closed partition counts as clean: %v", what, err)
		}
		if there, _ := exists(r.fs, path.Join(testDir, markerName)); there {
			r.t.Errorf("%s: a marker of a clean stop with a closed partition", what)
		}
	}
}

// logs is the content of partition 0's .log files as one string.
func (r *rig) logs() string {
	var b strings.Builder
	for _, name := range filesBelow(r.t.(*testing.T), r.fs, path.Join(testDir, "user-0")) {
		if strings.HasSuffix(name, suffixLog) {
			content, err := readFile(r.fs, name, 1<<30)
			if err != nil {
				r.t.Fatal(err)
			}
			fmt.Fprintf(&b, "%s %x\n", path.Base(name), content)
		}
	}
	return b.String()
}

func withTail(tail ...byte) []byte { return append(ten(), tail...) }

// header is a batch header with a chosen length and magic, and some garbage.
func header(length int32, magic byte) []byte {
	b := bytes.Repeat([]byte{0xa5}, record.HeaderSize+20)
	binary.BigEndian.PutUint64(b, 10)
	binary.BigEndian.PutUint32(b[8:], uint32(length))
	b[16] = magic
	return b
}

// TestTornTail: what another program left behind the last whole batch is cut off,
// whatever it is, and nothing before it.
func TestTornTail(t *testing.T) {
	all := ten()
	for n := 0; n <= len(all); n += 1 + n%5 {
		whole := n / tenthSize
		touched(t, false, map[string][]byte{zeroLog: all[:n]}).wantKept(fmt.Sprintf("cut to %d bytes", n), int64(whole), whole*tenthSize)
	}
	lost := bytes.Clone(all)
	clear(lost[9*tenthSize+record.HeaderSize:])
	cases := map[string][]byte{
		"4096 zeros":              withTail(make([]byte, 4096)...),
		"an image of megabytes":   withTail(make([]byte, 8<<20)...),
		"a huge length":           withTail(header(1<<31-1, 2)...),
		"length -1":               withTail(header(-1, 2)...),
		"length 0":                withTail(header(0, 2)...),
		"length 48":               withTail(header(48, 2)...),
		"magic 3":                 withTail(header(94, 3)...),
		"an old batch":            withTail(tenth(5)...),
		"half of an old batch":    withTail(tenth(5)[:60]...),
		"the next batch, cut off": withTail(tenth(10)[:100]...),
	}
	for what, content := range cases {
		touched(t, false, map[string][]byte{zeroLog: content}).wantKept(what, 10, len(all))
	}
	touched(t, false, map[string][]byte{zeroLog: lost}).wantKept("the last batch's content zeroed", 9, 9*tenthSize)
	for seed := range uint64(200) {
		garbage := make([]byte, 10_000)
		rnd := rand.New(rand.NewPCG(seed, 1))
		for i := range garbage {
			garbage[i] = byte(rnd.Uint32())
		}
		touched(t, false, map[string][]byte{zeroLog: withTail(garbage...)}).wantKept(fmt.Sprintf("garbage %d", seed), 10, len(all))
	}
}

// TestTornSectorOfTheTail: a large last batch of which one sector was not written.
func TestTornSectorOfTheTail(t *testing.T) {
	large := batchAt(10, 0, 5000)
	for at := (10*tenthSize + 511) / 512 * 512; at+512 <= 10*tenthSize+len(large); at += 512 {
		content := withTail(large...)
		clear(content[at : at+512])
		touched(t, false, map[string][]byte{zeroLog: content}).wantKept(fmt.Sprintf("zeros at %d", at), 10, 10*tenthSize)
	}
}

// TestTailThatHoldsAnImage: a torn batch whose record contains the image of a whole
// batch, as a client may choose it, is torn and not damage.
func TestTailThatHoldsAnImage(t *testing.T) {
	var b record.Builder
	b.Reset(nil, record.Plain(10, 0))
	value := append(bytes.Repeat([]byte("x"), 800), batchAt(11, 0, 300)...)
	b.Append(testTime, []byte("key"), append(value, bytes.Repeat([]byte("y"), 700)...))
	whole := b.Close()
	for n := 1; n < len(whole); n += 13 {
		touched(t, false, map[string][]byte{zeroLog: withTail(whole[:n]...)}).wantKept(fmt.Sprintf("%d bytes of it", n), 10, 10*tenthSize)
	}
}

// TestTailOfSeveralSegments: only the newest segment has a tail that may be torn.
func TestTailOfSeveralSegments(t *testing.T) {
	const second = "00000000000000000010.log"
	all := ten()
	touched(t, false, map[string][]byte{zeroLog: all, second: nil}).wantKept("an empty newest segment", 10, len(all))
	touched(t, false, map[string][]byte{zeroLog: all, second: tenth(10)[:50]}).wantKept("a newest segment of one torn batch", 10, len(all))
	r := touched(t, false, map[string][]byte{zeroLog: all[:len(all)-1], second: tenth(10)})
	r.wantRefused("a torn tail of a closed segment", zeroLog, "at byte 954", "offsets from 9")
	r = touched(t, false, map[string][]byte{zeroLog: all, "00000000000000000005.log": tenth(10)})
	r.wantRefused("a segment that begins inside the one before", "overlap")
}

// TestGapBehindTheTail: offsets that another program left out are told of.
func TestGapBehindTheTail(t *testing.T) {
	r := touched(t, false, map[string][]byte{zeroLog: withTail(tenth(12)...)})
	r.wantKept("a gap", 13, -1)
	told := touched(t, false, map[string][]byte{zeroLog: withTail(tenth(12)...)})
	told.open()
	if !strings.Contains(strings.Join(told.warnings, "\n"), "offsets 10 to 11 are missing") {
		t.Errorf("warnings %q", told.warnings)
	}
}

// TestShorterThanVouched: what a clean stop vouched for is never cut off.
func TestShorterThanVouched(t *testing.T) {
	all := ten()
	for _, n := range []int{0, 5, 954, 1059} {
		touched(t, true, map[string][]byte{zeroLog: all[:n]}).wantRefused(fmt.Sprintf("%d bytes", n), zeroLog, "recovery point")
	}
	touched(t, true, map[string][]byte{zeroLog: withTail(make([]byte, 4096)...)}).wantKept("zeros behind it", 10, len(all))
	r := touched(t, true, nil)
	if err := r.fs.Remove(path.Join(testDir, "user-0", zeroLog)); err != nil {
		t.Fatal(err)
	}
	r.wantRefused("no segment", "missing")
	r = touched(t, true, nil)
	if err := r.fs.RemoveAll(path.Join(testDir, "user-0")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.tryOpen(); err != nil {
			t.Fatal(err)
		}
		if err := r.partition(2, 0).Err(); !errors.Is(err, ErrStorage) || !strings.Contains(err.Error(), "missing") {
			t.Errorf("without the folder: %v", err)
		}
		r.s.abandon()
	}
}

// changed returns the ten batches with batch 4 replaced.
func with4(f func(b record.Batch)) []byte {
	all := ten()
	f(record.Batch(all[4*tenthSize : 5*tenthSize]))
	return all
}

// damagesInTheMiddle are ways in which batch 4 of ten can be wrong.
var damagesInTheMiddle = map[string][]byte{
	"a bit of the value":       with4(func(b record.Batch) { b[100] ^= 4 }),
	"a huge length":            with4(func(b record.Batch) { binary.BigEndian.PutUint32(b[8:], 1<<30) }),
	"a negative length":        with4(func(b record.Batch) { binary.BigEndian.PutUint32(b[8:], 1<<31) }),
	"another plausible length": with4(func(b record.Batch) { binary.BigEndian.PutUint32(b[8:], 94+106) }),
	"a length of 50":           with4(func(b record.Batch) { binary.BigEndian.PutUint32(b[8:], 50) }),
	"zeros":                    with4(func(b record.Batch) { clear(b) }),
	"base offset 3":            with4(func(b record.Batch) { b.SetBaseOffset(3) }),
	"base offset 100":          with4(func(b record.Batch) { b.SetBaseOffset(100) }),
	"a last offset too high": with4(func(b record.Batch) {
		binary.BigEndian.PutUint32(b[23:], 5)
		b.SetCRC()
	}),
	"five records announced": with4(func(b record.Batch) {
		binary.BigEndian.PutUint32(b[57:], 5)
		b.SetCRC()
	}),
	"two batches swapped": func() []byte {
		all := ten()
		copy(all[4*tenthSize:], tenth(5))
		copy(all[5*tenthSize:], tenth(4))
		return all
	}(),
}

// TestDamageInTheMiddle: damage in front of valid batches is refused, not taken for
// a torn tail: by another program's hand, and, where the clean stop vouched for it,
// when the log is loaded.
func TestDamageInTheMiddle(t *testing.T) {
	for what, content := range damagesInTheMiddle {
		touched(t, false, map[string][]byte{zeroLog: content}).wantRefused(what, zeroLog, "at stake")
		r := touched(t, true, map[string][]byte{zeroLog: content})
		r.open()
		p := r.partition(2, 0)
		seen := int64(0)
		err := p.Err()
		if err == nil {
			err = p.Load(func(b record.Batch) error {
				if !bytes.Equal(b, tenth(int(seen))) {
					return fmt.Errorf("batch %d is not what was written", seen)
				}
				seen++
				return nil
			})
		}
		if what == "base offset 100" || what == "two batches swapped" {
			if err == nil {
				t.Errorf("%s: loaded", what)
			}
			continue // the first wrong batch is sound by itself
		}
		if !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: loading gives %v after %d batches", what, err, seen)
		}
	}
}

// TestEveryBitInTheMiddle flips each bit of batch 4: it is refused, or nothing of
// the content changed.
func TestEveryBitInTheMiddle(t *testing.T) {
	accepted := 0
	for bit := 0; bit < 8*tenthSize; bit += 1 + bit%3 {
		content := with4(func(b record.Batch) { b[bit/8] ^= 1 << (bit % 8) })
		what := fmt.Sprintf("byte %d, bit %d", bit/8, bit%8)
		r := touched(t, false, map[string][]byte{zeroLog: content})
		r.open()
		p := r.partition(2, 0)
		if p.Err() != nil {
			if r.s.abandon(); !strings.Contains(r.logs(), fmt.Sprintf("%x", content)) {
				t.Errorf("%s: refused, but changed", what)
			}
			continue
		}
		accepted++
		if b := bit / 8; b < 12 || b > 15 || p.LogEnd() != 10 { // the leader epoch
			t.Errorf("%s: accepted, the log ends at %d", what, p.LogEnd())
		}
	}
	if accepted == 0 || accepted > 32 {
		t.Errorf("%d of the flipped bits were accepted", accepted)
	}
}

// TestEmptyBatches: batches without records are legal and carry the log's end.
func TestEmptyBatches(t *testing.T) {
	empty := record.AppendEmpty(nil, func() record.Batch {
		b := record.Batch(bytes.Clone(tenth(5)))
		binary.BigEndian.PutUint32(b[23:], 2)
		return b
	}())
	content := append(ten()[:5*tenthSize], empty...)
	content = append(content, tenth(8)...)
	r := touched(t, false, map[string][]byte{zeroLog: content})
	r.wantKept("an empty batch between others", 9, -1)
	r.open()
	p := r.partition(2, 0)
	if first, next := r.fetch(p, 6, 100); first != 5 || next != p.LogEnd() {
		t.Errorf("fetch at 6 gives %d to %d", first, next)
	}
	alone := record.AppendEmpty(nil, func() record.Batch {
		b := record.Batch(bytes.Clone(tenth(0)))
		binary.BigEndian.PutUint32(b[23:], 99)
		return b
	}())
	touched(t, false, map[string][]byte{zeroLog: alone}).wantKept("nothing but an empty batch", 100, -1)
}

// TestTimesOfEmptiedBatches: a batch that cleaning emptied keeps its timestamp, but no
// search by time finds a record there.
func TestTimesOfEmptiedBatches(t *testing.T) {
	emptied := func(base, lastDelta, timestamp int64) record.Batch {
		b := record.Batch(bytes.Clone(batchAt(base, 0, 24)))
		binary.BigEndian.PutUint32(b[23:], uint32(lastDelta))
		binary.BigEndian.PutUint64(b[35:], uint64(timestamp))
		return record.AppendEmpty(nil, b)
	}
	content := append(ten()[:5*tenthSize], emptied(5, 2, testTime+500)...)
	content = append(append(content, tenth(8)...), emptied(9, 0, testTime+900)...)
	second := append(emptied(10, 1, testTime+5000), batchAt(12, 0, 24)...)
	r := touched(t, false, map[string][]byte{zeroLog: content, "00000000000000000010.log": second})
	for start := range 2 {
		r.open()
		p := r.partition(2, 0)
		if p.Err() != nil || p.LogEnd() != 13 {
			t.Fatalf("start %d: %v, log end %d", start, p.Err(), p.LogEnd())
		}
		for ts, want := range map[int64]int64{0: 0, 4: 4, 5: 8, 8: 8, 9: 12, 12: 12, 13: -1, 500: -1, 5000: -1} {
			if at, _, _, err := p.OffsetForTimestamp(testTime + ts); at != want || err != nil {
				t.Errorf("start %d: at %d: offset %d, want %d: %v", start, ts, at, want, err)
			}
		}
		if at, ts, _, err := p.MaxTimestamp(); at != 12 || ts != testTime+12 || err != nil {
			t.Errorf("start %d: the largest timestamp is %d at offset %d: %v", start, ts-testTime, at, err)
		}
		if err := r.s.Close(); err != nil {
			t.Fatal(err)
		}
	}

	// So many of them, and nothing else, that the index of their segment is read.
	var alone []byte
	for i := range int64(200) {
		alone = append(alone, emptied(10+i, 0, testTime+5000-i)...)
	}
	r = touched(t, false, map[string][]byte{zeroLog: ten(), segmentName(10, suffixLog): alone, segmentName(210, suffixLog): batchAt(210, 0, 24)})
	for start := range 3 {
		r.open()
		if at, ts, _, err := r.partition(2, 0).MaxTimestamp(); at != 210 || ts != testTime+210 || err != nil {
			t.Errorf("start %d, a segment without records: the largest timestamp is %d at offset %d: %v", start, ts-testTime, at, err)
		}
		if err := r.s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
