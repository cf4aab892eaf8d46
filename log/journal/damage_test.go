package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kcoord/kcoord/log/vfs"
)

// The fixture of these tests: one file with a start entry and ten entries of
// one batch each, 168 bytes long.
const (
	fixBatch = 106
	fixEntry = 168
	fixStart = 64
)

// entryOffset is where batch i stands in the fixture.
func entryOffset(i int) int64 { return int64(HeaderBytes + fixStart + i*fixEntry) }

func fixture(t testing.TB) (*vfs.Crashable, Options) {
	t.Helper()
	fs := newTestFS(t)
	o := testOptions(fs)
	j := create(t, o)
	must(t, j.AppendStart([]byte{7, 0, 0, 0}))
	appendBatches(t, j, 0, 10, fixBatch)
	if at := j.Next(); at.Offset != entryOffset(10) {
		t.Fatalf("the fixture ends at %v, want %d", at, entryOffset(10))
	}
	must(t, j.Close())
	return fs, o
}

func fixtureTexts(batches int) []string {
	return append([]string{"start"}, batchTexts(0, batches, fixBatch)...)
}

// wantEnd scans and expects the first n batches and a usable journal; it returns
// the tail.
func wantEnd(t *testing.T, o Options, n int, what string) Tail {
	t.Helper()
	j, tail, got, err := scan(o, First())
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	defer j.Close()
	if want := fixtureTexts(n); !slices.Equal(got, want) {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
	if tail.Next.Offset != entryOffset(n) || tail.Next.Sequence != int64(n)+2 {
		t.Fatalf("%s: ends at %v", what, tail.Next)
	}
	return tail
}

func wantCorrupt(t *testing.T, o Options, what string) *CorruptionError {
	t.Helper()
	before := folder(t, o.FS)
	j, _, _, err := scan(o, First())
	var e *CorruptionError
	if !errors.As(err, &e) {
		if j != nil {
			j.Close()
		}
		t.Fatalf("%s: error %v", what, err)
	}
	if e.Path == "" || e.Found == "" || e.Expected == "" || e.Reason == 0 {
		t.Errorf("%s: an error that says too little: %+v", what, e)
	}
	if after := folder(t, o.FS); before != after {
		t.Errorf("%s: refused, but the folder has changed", what)
	}
	return e
}

// folder is the content of the data folder as one string.
func folder(t *testing.T, fs vfs.FS) string {
	t.Helper()
	names, err := fs.List(testDir)
	must(t, err)
	var b strings.Builder
	for _, name := range names {
		n, _ := ParseFileName(name)
		fmt.Fprintf(&b, "%s %08x\n", name, crc32.ChecksumIEEE(fileBytes(t, fs, n)))
	}
	return b.String()
}

// With the first k bytes of the last entry and zeros behind, the journal ends
// before it, and what is appended then takes its place.
func TestTornPrefix(t *testing.T) {
	fs, o := fixture(t)
	whole := fileBytes(t, fs, 1)[entryOffset(9):entryOffset(10)]
	for k := range len(bytes.TrimRight(whole, "\x00")) {
		setBytes(t, fs, 1, entryOffset(9), append(bytes.Clone(whole[:k]), make([]byte, fixEntry-k)...))
		tail := wantEnd(t, o, 9, fmt.Sprintf("%d bytes", k))
		if got := tail.Torn; !bytes.Equal(got, bytes.TrimRight(whole[:k], "\x00")) || (k == 0) != (got == nil) {
			t.Errorf("%d bytes: %d torn bytes", k, len(got))
		}
	}
	j, _, _, err := scan(o, First())
	must(t, err)
	must(t, j.RewriteTail())
	appendBatches(t, j, 9, 10, fixBatch)
	must(t, j.Close())
	wantEnd(t, o, 10, "appended again")
}

// Any subset of the last entry's sectors may be on disk.
func TestTornSectors(t *testing.T) {
	fs, o := fixture(t)
	j, _, _, err := scan(o, First())
	must(t, err)
	j.o.Policy = PolicyOS // leaves the entry unsynced
	appendBatches(t, j, 10, 11, 5000)
	must(t, j.Close())
	for mask := range 1 << 11 {
		bit, asked := 0, 0
		img := fs.Crash(func(u vfs.Unsynced) int {
			bit++
			asked++
			return mask >> (bit - 1) & 1
		})
		if asked < 10 || asked > 11 {
			t.Fatalf("asked for %d sectors", asked)
		}
		o.FS = img
		if mask >= 1<<asked {
			break
		}
		if mask&(1<<asked-1) == 1<<asked-1 {
			j, _, got, err := scan(o, First())
			if err != nil || len(got) != 12 {
				t.Fatalf("whole: %v, %v", got, err)
			}
			j.Close()
			continue
		}
		tail := wantEnd(t, o, 10, fmt.Sprintf("sectors %b", mask))
		if (tail.Torn == nil) != (mask&(1<<asked-1) == 0) {
			t.Fatalf("sectors %b: torn %d bytes", mask, len(tail.Torn))
		}
	}
}

func flip(b []byte, bit int) []byte {
	b = bytes.Clone(b)
	b[bit/8] ^= 1 << (bit % 8)
	return b
}

func TestEveryBitOfTheLastEntry(t *testing.T) {
	fs, o := fixture(t)
	whole := fileBytes(t, fs, 1)[entryOffset(9):entryOffset(10)]
	for bit := range 8 * fixEntry {
		setBytes(t, fs, 1, entryOffset(9), flip(whole, bit))
		wantEnd(t, o, 9, fmt.Sprintf("bit %d", bit))
	}
}

func TestEveryBitOfAnEarlierEntry(t *testing.T) {
	fs, o := fixture(t)
	whole := fileBytes(t, fs, 1)[entryOffset(4):entryOffset(5)]
	for bit := range 8 * fixEntry {
		setBytes(t, fs, 1, entryOffset(4), flip(whole, bit))
		e := wantCorrupt(t, o, fmt.Sprintf("bit %d", bit))
		if e.Position != entryOffset(4) || e.Sequence != 6 || e.Behind == nil || e.Behind.Position != entryOffset(5) || e.Behind.Sequence != 7 {
			t.Fatalf("bit %d: %v", bit, e)
		}
	}
}

func TestDamagedEarlierEntry(t *testing.T) {
	length := func(n uint32) func([]byte) {
		return func(b []byte) { binary.BigEndian.PutUint32(b[4:], n) }
	}
	for name, change := range map[string]func(b []byte){
		"zeros":               func(b []byte) { clear(b) },
		"ones":                func(b []byte) { copy(b, bytes.Repeat([]byte{0xff}, len(b))) },
		"length 2^31-1":       length(1<<31 - 1),
		"length -1":           length(1<<32 - 1),
		"length 0":            length(0),
		"length 33":           length(33),
		"length beyond file":  length(testFileBytes),
		"length of two":       length(2 * fixEntry),
		"sequence too high":   func(b []byte) { b[15]++ },
		"sequence too low":    func(b []byte) { b[15]-- },
		"exchanged with next": func(b []byte) { copy(b[:40], b[40:80]) },
	} {
		fs, o := fixture(t)
		b := fileBytes(t, fs, 1)[entryOffset(4):entryOffset(5)]
		change(b)
		setBytes(t, fs, 1, entryOffset(4), b)
		if e := wantCorrupt(t, o, name); e.Position != entryOffset(4) {
			t.Errorf("%s: %v", name, e)
		}
	}
}

func TestGarbageBehindTheEnd(t *testing.T) {
	fs, o := fixture(t)
	rest := int(testFileBytes - entryOffset(10))
	setBytes(t, fs, 1, entryOffset(10), bytes.Repeat([]byte{0xff}, rest))
	wantEnd(t, o, 10, "0xff")
	garbage := make([]byte, rest)
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		for i := range garbage {
			garbage[i] = byte(r.Uint32())
		}
		for range 20 { // heads that look like entries
			at := r.IntN(rest/8-8) * 8
			copy(garbage[at:], entryMagic)
			binary.BigEndian.PutUint32(garbage[at+4:], uint32(40+8*r.IntN(900)))
			binary.BigEndian.PutUint64(garbage[at+8:], uint64(r.IntN(20)))
		}
		setBytes(t, fs, 1, entryOffset(10), garbage)
		wantEnd(t, o, 10, fmt.Sprintf("seed %d", seed))
	}
}

// forge replaces the entry at off by one with a right checksum.
func forge(t *testing.T, o Options, off int64, change func(b []byte)) {
	t.Helper()
	b := fileBytes(t, o.FS, 1)[off : off+fixEntry]
	change(b)
	binary.BigEndian.PutUint32(b[20:], entryCRC(saltOf(o.Folder), b))
	setBytes(t, o.FS, 1, off, b)
}

// Entries with a right checksum whose content makes no sense, or is of a later
// version, are refused, also as the last one.
func TestForgedEntries(t *testing.T) {
	for _, c := range []struct {
		name   string
		reason Reason
		change func(b []byte)
	}{
		{"count 2^31-1", Damaged, func(b []byte) { binary.BigEndian.PutUint32(b[28:], 1<<31-1) }},
		{"count -1", Damaged, func(b []byte) { binary.BigEndian.PutUint32(b[28:], 1<<32-1) }},
		{"count 0", Damaged, func(b []byte) { binary.BigEndian.PutUint32(b[28:], 0) }},
		{"count 2", Damaged, func(b []byte) { binary.BigEndian.PutUint32(b[28:], 2) }},
		{"n beyond the entry", Damaged, func(b []byte) { binary.BigEndian.PutUint32(b[36:], 150) }},
		{"n 2^31-1", Damaged, func(b []byte) { binary.BigEndian.PutUint32(b[36:], 1<<31-1) }},
		{"n -1", Damaged, func(b []byte) { binary.BigEndian.PutUint32(b[36:], 1<<32-1) }},
		{"n 0", Damaged, func(b []byte) { binary.BigEndian.PutUint32(b[36:], 0) }},
		{"n of less than a batch", Damaged, func(b []byte) { binary.BigEndian.PutUint32(b[36:], 60) }},
		{"n too small", Damaged, func(b []byte) { binary.BigEndian.PutUint32(b[36:], 90) }},
		{"item kind 9", Newer, func(b []byte) { b[32] = 9 }},
		{"item flags", Newer, func(b []byte) { b[33] = 4 }},
		{"item reserved", Newer, func(b []byte) { b[35] = 1 }},
		{"continues nothing", Damaged, func(b []byte) { b[33] = flagContinue }},
		{"entry kind 9", Newer, func(b []byte) { b[24] = 9 }},
		{"entry flags", Newer, func(b []byte) { b[25] = 3 }},
		{"entry reserved", Newer, func(b []byte) { b[27] = 1 }},
		{"start with a batch", Damaged, func(b []byte) { b[24] = byte(Start) }},
	} {
		for _, i := range []int{4, 9} {
			fs, o := fixture(t)
			o.FS = fs
			forge(t, o, entryOffset(i), c.change)
			if i == 4 {
				// Repair the chain, so that only the content is wrong.
				crc := binary.BigEndian.Uint32(fileBytes(t, fs, 1)[entryOffset(4)+20:])
				for k := 5; k < 10; k++ {
					forge(t, o, entryOffset(k), func(b []byte) { binary.BigEndian.PutUint32(b[16:], crc) })
					crc = binary.BigEndian.Uint32(fileBytes(t, fs, 1)[entryOffset(k)+20:])
				}
			}
			e := wantCorrupt(t, o, c.name)
			if e.Reason != c.reason || e.Position != entryOffset(i) {
				t.Errorf("%s: %v", c.name, e)
			}
		}
	}
}

// A visitor's error (a record of a kind it does not know) ends the scan.
func TestVisitorRefuses(t *testing.T) {
	_, o := fixture(t)
	j, err := Open(o, First())
	must(t, err)
	unknown := errors.New("kind 99")
	if _, err := j.Scan(keepBytes, func(*Item) error { return unknown }); !errors.Is(err, unknown) {
		t.Errorf("error %v", err)
	}
}

// An entry of a fork of the folder has the right sequence and a checksum that
// is right, but does not continue the chain.
func TestFork(t *testing.T) {
	_, o := fixture(t)
	forge(t, o, entryOffset(4), func(b []byte) { b[100]++ })
	e := wantCorrupt(t, o, "fork")
	if e.Position != entryOffset(5) || e.Behind == nil || e.Behind.Position != entryOffset(5) {
		t.Errorf("error %v", e)
	}
}

// A client may write an image of the entry that comes next, but it does not know
// the folder's id.
func TestImageOfAnEntryInAClientsBytes(t *testing.T) {
	fs, o := fixture(t)
	j, tail, _, err := scan(o, First())
	must(t, err)
	guess := Options{FS: newTestFS(t), Dir: testDir, FileBytes: testFileBytes, MaxEntryBytes: testEntryBytes}
	g, err := Create(guess, Position{File: 1, Offset: HeaderBytes, Sequence: tail.Next.Sequence + 1})
	must(t, err)
	appendBatches(t, g, 99, 100, 200)
	image := fileBytes(t, guess.FS, 1)[HeaderBytes:g.Next().Offset]
	batch := fakeBatch(10, 1000)
	copy(batch[124:], image) // 32 + 28 + 124 is a multiple of 8
	r := NewRound(testEntryBytes)
	r.Append(Batch, testTopic(), 1, batch)
	must(t, j.Append(r))
	wantImage := fileBytes(t, fs, 1)[entryOffset(10)+184:]
	if !bytes.HasPrefix(wantImage, image) {
		t.Fatal("the image is not at a multiple of 8")
	}
	setBytes(t, fs, 1, entryOffset(10), make([]byte, 100)) // tear it
	tail = wantEnd(t, o, 10, "image")
	if tail.Torn == nil {
		t.Error("no torn bytes")
	}
}

// The header's fields are checked, and whose journal it is.
func TestHeaders(t *testing.T) {
	fs, o := fixture(t)
	good := fileBytes(t, fs, 1)[:headerSealed]
	for bit := range 8 * headerSealed {
		setBytes(t, fs, 1, 0, flip(good, bit))
		wantCorrupt(t, o, fmt.Sprintf("bit %d", bit))
	}
	sealed := func(change func(b []byte)) []byte {
		b := bytes.Clone(good)
		change(b)
		binary.BigEndian.PutUint32(b[60:], crc32.Checksum(b[:60], castagnoli))
		return b
	}
	for _, c := range []struct {
		name   string
		reason Reason
		change func(b []byte)
	}{
		{"version 2", Newer, func(b []byte) { b[11] = 2 }},
		{"version 0", Damaged, func(b []byte) { b[11] = 0 }},
		{"folder id", Foreign, func(b []byte) { b[16]++ }},
		{"number", Damaged, func(b []byte) { b[39] = 2 }},
		{"size", Damaged, func(b []byte) { b[46]++ }},
	} {
		setBytes(t, fs, 1, 0, sealed(c.change))
		if e := wantCorrupt(t, o, c.name); e.Reason != c.reason {
			t.Errorf("%s: %v", c.name, e)
		}
	}
	setBytes(t, fs, 1, 0, good)
	o.Folder[3]++
	if e := wantCorrupt(t, o, "foreign"); e.Reason != Foreign {
		t.Errorf("foreign: %v", e)
	}
}

// Three files of entries: none of them may be missing or damaged.
func TestFilesInBetween(t *testing.T) {
	build := func() (vfs.FS, Options) {
		fs := newTestFS(t)
		o := testOptions(fs)
		j := create(t, o)
		appendBatches(t, j, 0, 400, fixBatch)
		if at := j.Next(); at.File != 3 {
			t.Fatalf("the fixture ends at %v", at)
		}
		must(t, j.Close())
		return fs, o
	}
	name := func(n int64) string { return testDir + "/" + FileName(n) }
	truncate := func(fs vfs.FS, n, size int64) {
		f, err := fs.Open(name(n), vfs.ReadWrite)
		must(t, err)
		must(t, f.Truncate(size))
		must(t, f.Close())
	}
	for what, change := range map[string]func(fs vfs.FS){
		"1 missing":        func(fs vfs.FS) { must(t, fs.Remove(name(1))) },
		"2 missing":        func(fs vfs.FS) { must(t, fs.Remove(name(2))) },
		"1 empty":          func(fs vfs.FS) { truncate(fs, 1, 0) },
		"2 empty":          func(fs vfs.FS) { truncate(fs, 2, 0) },
		"2 short":          func(fs vfs.FS) { truncate(fs, 2, testFileBytes-512) },
		"2 header":         func(fs vfs.FS) { setBytes(t, fs, 2, 3, []byte{0}) },
		"3 header":         func(fs vfs.FS) { setBytes(t, fs, 3, 3, []byte{0}) },
		"3 under name 2":   func(fs vfs.FS) { must(t, fs.Rename(name(3), name(2))) },
		"2 under name 4":   func(fs vfs.FS) { must(t, fs.Rename(name(2), name(4))) },
		"2 content zeroed": func(fs vfs.FS) { setBytes(t, fs, 2, HeaderBytes, make([]byte, testFileBytes-HeaderBytes)) },
		"1 end zeroed":     func(fs vfs.FS) { setBytes(t, fs, 1, testFileBytes-1024, make([]byte, 1024)) },
	} {
		fs, o := build()
		change(fs)
		e := wantCorrupt(t, o, what)
		if !strings.Contains(e.Path, "0000000"+what[:1]) && what[0] != '3' && !strings.Contains(what, "under") && !strings.Contains(what, "content") {
			t.Errorf("%s: %v", what, e)
		}
	}
}

// The newest file without entries may be what a crash left of preparing it.
func TestSpares(t *testing.T) {
	spare := testDir + "/" + FileName(2)
	for what, change := range map[string]func(fs vfs.FS){
		"missing": func(fs vfs.FS) { must(t, fs.Remove(spare)) },
		"empty": func(fs vfs.FS) {
			f, err := fs.Open(spare, vfs.Truncate)
			must(t, err)
			must(t, f.Close())
		},
		"no header":   func(fs vfs.FS) { setBytes(t, fs, 2, 0, make([]byte, HeaderBytes)) },
		"torn header": func(fs vfs.FS) { setBytes(t, fs, 2, 20, make([]byte, 30)) },
		"whole":       func(vfs.FS) {},
	} {
		fs, o := fixture(t)
		j, _, _, err := scan(o, First())
		must(t, err)
		j.prep.Lock()
		must(t, j.prepare(2))
		j.prep.Unlock()
		must(t, j.Close())
		change(fs)
		j, _, _, err = scan(o, First())
		must(t, err)
		want := 1
		if what == "whole" {
			want = 2
		}
		if got := j.Space(); got.Files != want || got.Spares != want-1 {
			t.Errorf("%s: %+v", what, got)
		}
		must(t, j.RewriteTail())
		appendBatches(t, j, 10, 300, fixBatch)
		must(t, j.Close())
		_, _, got, err := scan(o, First())
		if err != nil || len(got) != 301 {
			t.Errorf("%s: %d items, %v", what, len(got), err)
		}
	}
}
