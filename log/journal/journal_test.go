package journal

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kcoord/kcoord/log/vfs"
)

// Sizes that make files, entries and steps small enough to sweep through.
const (
	testFileBytes  = 32 << 10
	testEntryBytes = 8 << 10
	testDir        = "data"
)

func testFolder() (id FolderID) {
	for i := range id {
		id[i] = byte(i)
	}
	return id
}

func testTopic() (id TopicID) {
	for i := range id {
		id[i] = byte(0x10 + i)
	}
	return id
}

func testOptions(fs vfs.FS) Options {
	return Options{
		FS: fs, Dir: testDir, Folder: testFolder(),
		FileBytes: testFileBytes, MaxEntryBytes: testEntryBytes, ZeroStep: 4 << 10, MaxSpares: 3,
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newTestFS returns a crashable file system with a durable, empty data folder.
func newTestFS(t testing.TB) *vfs.Crashable {
	t.Helper()
	fs := vfs.NewCrashable()
	must(t, fs.Mkdir(testDir))
	for _, name := range []string{"/", testDir} {
		syncDir(t, fs, name)
	}
	return fs
}

func syncDir(t testing.TB, fs vfs.FS, name string) {
	t.Helper()
	d, err := fs.OpenDir(name)
	must(t, err)
	must(t, d.Sync())
	must(t, d.Close())
}

func create(t testing.TB, o Options) *Journal {
	t.Helper()
	j, err := Create(o, First())
	must(t, err)
	return j
}

// fakeBatch is bytes of the size of a batch with a recognisable content.
func fakeBatch(i, size int) []byte {
	b := bytes.Repeat([]byte{byte(i), byte(i >> 8), 0xb7}, size/3+1)[:size]
	copy(b, fmt.Sprintf("%08d", i))
	return b
}

// appendBatches writes one entry per batch.
func appendBatches(t testing.TB, j *Journal, from, to, size int) {
	t.Helper()
	r := NewRound(j.o.MaxEntryBytes)
	for i := from; i < to; i++ {
		r.Reset()
		r.Append(Batch, testTopic(), int32(i), fakeBatch(i, size))
		must(t, j.Append(r))
	}
}

// keepBytes is what tests have Scan keep: less than most journals have.
const keepBytes = 64 << 10

// scan opens and scans, and returns what was visited as text.
func scan(o Options, at Position) (*Journal, Tail, []string, error) {
	j, err := Open(o, at)
	if err != nil {
		return nil, Tail{}, nil, err
	}
	if err := j.Tidy(); err != nil {
		j.Close()
		return nil, Tail{}, nil, err
	}
	var got []string
	tail, err := j.Scan(keepBytes, func(it *Item) error {
		got = append(got, itemText(it.Kind, it.EntryKind, it.Data))
		return nil
	})
	if err != nil {
		j.Close()
		return nil, Tail{}, nil, err
	}
	return j, tail, got, nil
}

func itemText(kind Kind, entry EntryKind, data []byte) string {
	switch {
	case entry == Start:
		return "start"
	case kind == Metadata:
		return "m" + string(data)
	}
	return fmt.Sprintf("b%s/%d", strings.TrimLeft(string(data[:7]), "0")+string(data[7]), len(data))
}

func batchTexts(from, to, size int) (out []string) {
	for i := from; i < to; i++ {
		out = append(out, itemText(Batch, Items, fakeBatch(i, size)))
	}
	return out
}

func fileBytes(t testing.TB, fs vfs.FS, n int64) []byte {
	t.Helper()
	f, err := fs.Open(testDir+"/"+FileName(n), vfs.ReadOnly)
	must(t, err)
	defer f.Close()
	size, err := f.Size()
	must(t, err)
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	return b
}

// setBytes overwrites a file durably.
func setBytes(t testing.TB, fs vfs.FS, n int64, off int64, b []byte) {
	t.Helper()
	f, err := fs.Open(testDir+"/"+FileName(n), vfs.ReadWrite)
	must(t, err)
	_, err = f.WriteAt(b, off)
	must(t, err)
	must(t, f.Sync())
	must(t, f.Close())
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	must(t, err)
	return b
}

const goldenG1 = "00000000000000000000005e000000000286eb65db0000000000000000018bcfe568000000018bcfe56800ffffffffffffffffffffffffffff00000001580000001c0001000267310002743100000000300003000000000000002affffffff00000000018bcfe5680000"

// The bytes of a journal's beginning, as documented.
func TestGolden(t *testing.T) {
	fs := newTestFS(t)
	o := testOptions(fs)
	o.FileBytes, o.MaxEntryBytes = 0, 0
	j := create(t, o)
	must(t, j.AppendStart(unhex(t, "0700000000000003302e31")))
	r := NewRound(0)
	head := r.Append(Batch, testTopic(), 42, unhex(t, goldenG1))
	if len(head) != 106 || r.Bytes() != 168 || r.Items() != 1 {
		t.Errorf("head %d, round %d bytes, %d items", len(head), r.Bytes(), r.Items())
	}
	must(t, j.Append(r))
	b := fileBytes(t, fs, 1)
	if len(b) != DefaultFileBytes {
		t.Fatalf("file of %d bytes", len(b))
	}
	for _, c := range []struct {
		what string
		at   int
		want string
	}{
		{"header", 0, "6b636a6f75726e6c0000000100000000000102030405060708090a0b0c0d0e0f00000000000000010000000001000000000000000000000000000000ef5a4b4c"},
		{"start entry", 4096, "4b434a4500000048000000000000000100000000544ab14f0201000000000001" +
			"020000000000000b0000000000000000000000000000000000000000" + "0700000000000003302e31" + "00"},
		{"batch entry", 4096 + 72, "4b434a45000000a80000000000000002544ab14f3fd746720101000000000001" +
			"010000000000006a101112131415161718191a1b1c1d1e1f0000002a" + goldenG1 + "0000"},
	} {
		want := unhex(t, c.want)
		if got := b[c.at : c.at+len(want)]; !bytes.Equal(got, want) {
			t.Errorf("%s\n got %x\nwant %x", c.what, got, want)
		}
	}
	if rest := bytes.Trim(b[4096+72+168:], "\x00"); len(rest) != 0 {
		t.Errorf("%d bytes behind the entries", len(rest))
	}
}

func TestFileNames(t *testing.T) {
	for n, want := range map[int64]string{1: "kcoord-journal-00000001.wal", 123456789: "kcoord-journal-123456789.wal"} {
		if got := FileName(n); got != want {
			t.Errorf("FileName(%d) = %s", n, got)
		}
		if got, ok := ParseFileName(want); !ok || got != n {
			t.Errorf("ParseFileName(%s) = %d, %v", want, got, ok)
		}
	}
	for _, name := range []string{"kcoord-journal-1.wal", "kcoord-journal-00000000.wal", "kcoord-journal--0000001.wal", "kcoord-journal-+0000001.wal", "kcoord-journal-0000000x.wal", "kcoord-journal-00000001.wal.tmp", "x"} {
		if n, ok := ParseFileName(name); ok {
			t.Errorf("ParseFileName(%s) = %d", name, n)
		}
	}
}

func TestAppendAndScan(t *testing.T) {
	fs := newTestFS(t)
	o := testOptions(fs)
	j := create(t, o)
	must(t, j.AppendStart([]byte{7, 1}))
	r := NewRound(testEntryBytes)
	for i := range 3 {
		r.Append(Batch, testTopic(), int32(i), fakeBatch(i, 100+i))
		copy(r.Add(Metadata, TopicID{}, 0, 3), fmt.Sprintf("m%02d", i))
	}
	must(t, j.Append(r))
	must(t, j.Append(NewRound(testEntryBytes))) // nothing
	appendBatches(t, j, 3, 200, 300)            // crosses files
	end := j.Next()
	must(t, j.Close())

	j, tail, got, err := scan(o, First())
	must(t, err)
	want := []string{"start", "b0/100", "mm00", "b1/101", "mm01", "b2/102", "mm02"}
	want = append(want, batchTexts(3, 200, 300)...)
	if !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if tail.Next != end || tail.Entries != 199 || tail.Items != 204 || tail.Torn != nil || tail.Lost != 0 {
		t.Errorf("tail %+v, end %v", tail, end)
	}
	if tail.Synced.Sequence != 199 {
		t.Errorf("newest synced entry %v", tail.Synced)
	}
	got = got[:0]
	must(t, j.Replay(j.mu.replay, func(it *Item) error {
		got = append(got, itemText(it.Kind, it.EntryKind, it.Data))
		return nil
	}))
	if !slices.Equal(got, want) {
		t.Error("Replay differs from Scan")
	}
	must(t, j.RewriteTail())
	must(t, j.AppendStart([]byte{7, 2}))
	appendBatches(t, j, 200, 201, 99)
	must(t, j.Close())
	_, tail, got, err = scan(o, First())
	must(t, err)
	if want = append(want, "start", "b200/99"); !slices.Equal(got, want) || tail.Entries != 201 {
		t.Errorf("after a second start: %v, %+v", got[len(got)-3:], tail)
	}
}

// An item larger than an entry is cut and joined; the parts of a round lie in
// the journal in the order in which they were added.
func TestLargeItems(t *testing.T) {
	fs := newTestFS(t)
	o := testOptions(fs)
	j := create(t, o)
	r := NewRound(testEntryBytes)
	sizes := []int{100, r.MaxItemBytes(), r.MaxItemBytes() + 1, 61, 3*r.MaxItemBytes() + 5, 2 * r.MaxItemBytes(), 200}
	var want []string
	for i, n := range sizes {
		b := fakeBatch(i, n)
		head := r.Append(Batch, testTopic(), 1, b)
		if len(head) < min(n, 61) || !bytes.HasPrefix(b, head) {
			t.Fatalf("head of item %d has %d bytes", i, len(head))
		}
		copy(head[8:12], "STMP") // what a caller stamps is what is written
		copy(b[8:12], "STMP")
		want = append(want, fmt.Sprintf("%x", b))
	}
	pieces := 0
	var joined []string
	r.Each(func(p Piece) {
		pieces++
		if !p.Continued {
			joined = append(joined, "")
		}
		joined[len(joined)-1] += fmt.Sprintf("%x", p.Data)
	})
	if !slices.Equal(joined, want) || pieces != 1+1+2+1+4+2+1 || r.Items() != len(sizes) {
		t.Errorf("the round has %d pieces of %d items", pieces, r.Items())
	}
	must(t, j.Append(r))
	must(t, j.Close())
	j, err := Open(o, First())
	must(t, err)
	var got []string
	_, err = j.Scan(keepBytes, func(it *Item) error {
		got = append(got, fmt.Sprintf("%x", it.Data))
		return nil
	})
	must(t, err)
	if !slices.Equal(got, want) {
		t.Errorf("%d items read", len(got))
	}
	j.o.MaxJoinedBytes = 3 * r.MaxItemBytes()
	var damage *CorruptionError
	if _, err := j.Scan(0, nil); !errors.As(err, &damage) {
		t.Errorf("an item above the limit: %v", err)
	}
}

func TestCreateAndOpenRefuse(t *testing.T) {
	fs := newTestFS(t)
	o := testOptions(fs)
	j := create(t, o)
	if _, err := Create(o, First()); err == nil {
		t.Error("a second Create")
	}
	must(t, j.Close())
	for _, at := range []Position{{}, {File: 1, Offset: 4104, Sequence: 1}, {File: 0, Offset: 4096, Sequence: 1}} {
		if _, err := Create(o, at); err == nil {
			t.Errorf("Create at %+v", at)
		}
	}
	for _, at := range []Position{{}, {File: 1, Offset: 4097, Sequence: 1}, {File: 1, Offset: 8, Sequence: 1}, {File: 1, Offset: testFileBytes + 8, Sequence: 1}, {File: 1, Offset: 4096}} {
		if _, err := Open(o, at); err == nil {
			t.Errorf("Open at %+v", at)
		}
	}
	must(t, RemoveFiles(fs, testDir))
	if names, _ := fs.List(testDir); len(names) != 0 {
		t.Errorf("left: %v", names)
	}
	var e *CorruptionError
	if _, err := Open(o, First()); !errors.As(err, &e) || e.Reason != Missing {
		t.Errorf("Open without files: %v", err)
	}
}

// After a clean stop the journal goes on in a new file, its sequence with it.
func TestCleanStop(t *testing.T) {
	fs := newTestFS(t)
	o := testOptions(fs)
	j := create(t, o)
	appendBatches(t, j, 0, 150, 300)
	at := j.AfterClean()
	must(t, j.Close())
	must(t, RemoveFiles(fs, testDir))
	if at.Sequence != 151 || at.Offset != HeaderBytes || at.File < 3 {
		t.Errorf("position %v", at)
	}
	j, err := Create(o, at)
	must(t, err)
	appendBatches(t, j, 0, 3, 100)
	must(t, j.Close())
	_, tail, got, err := scan(o, at)
	if err != nil || tail.Next.Sequence != 154 || len(got) != 3 {
		t.Errorf("%v, %+v, %v", got, tail, err)
	}
}

// TestScanKeeps: what Scan keeps, together with what Replay reads from the first
// item on that is not kept, is the same for every amount and with helpers.
func TestScanKeeps(t *testing.T) {
	fs := vfs.NewMem()
	o := Options{FS: fs, Dir: testDir, Folder: testFolder(), FileBytes: 4 << 20, MaxEntryBytes: 1 << 20, ZeroStep: -1}
	must(t, fs.Mkdir(testDir))
	j, err := Create(o, First())
	must(t, err)
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		r := NewRound(o.MaxEntryBytes)
		for range 1 + rnd.IntN(4) {
			data := make([]byte, minBatch+rnd.IntN(300<<10))
			for i := range data {
				data[i] = byte(rnd.Uint32())
			}
			if rnd.IntN(8) == 0 {
				data = append(data, make([]byte, 1500<<10)...) // goes on in further entries
			}
			r.Append(Batch, TopicID{1}, int32(rnd.IntN(3)), data)
		}
		for err := j.Append(r); err != nil; err = j.Append(r) {
			if !errors.Is(err, ErrNoSpace) {
				t.Fatal(err)
			}
			_, err = j.PrepareStep(0)
			must(t, err)
		}
	}
	must(t, j.Close())
	type seen struct {
		data  []byte
		entry Position
	}
	var want []seen
	for _, keep := range []int{0, 1 << 20, 5 << 20, 1 << 30} {
		for _, helped := range []bool{false, true} {
			if o.Parallel = nil; helped {
				o.Parallel = inGoroutines
			}
			j, err := Open(o, First())
			must(t, err)
			must(t, j.Tidy())
			var got []seen
			var rest Position
			_, err = j.Scan(keep, func(it *Item) error {
				if rest.Sequence > 0 {
					return nil
				}
				data := it.Data
				if !it.Kept {
					if keep > 0 && !it.Joined {
						rest = it.Entry
						return nil
					}
					data = bytes.Clone(data)
				}
				got = append(got, seen{data, it.Entry})
				return nil
			})
			must(t, err)
			if (rest.Sequence > 0) != (keep == 1<<20 || keep == 5<<20) {
				t.Errorf("keeping %d: the rest begins at %v", keep, rest)
			}
			if rest.Sequence > 0 {
				must(t, j.Replay(rest, func(it *Item) error {
					got = append(got, seen{bytes.Clone(it.Data), it.Entry})
					return nil
				}))
			}
			must(t, j.Close())
			if want == nil {
				want = got
			}
			if !slices.EqualFunc(got, want, func(a, b seen) bool { return a.entry == b.entry && bytes.Equal(a.data, b.data) }) {
				t.Errorf("keeping %d, helped %v: %d items differ from those read one by one, %d", keep, helped, len(got), len(want))
			}
		}
	}
}

func inGoroutines(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}
