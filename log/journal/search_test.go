package journal

import (
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kcoord/kcoord/log/vfs"
)

func TestShifter(t *testing.T) {
	s := newShifter()
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 8, 16, 24, 4096, 4<<20 - 24, 8 * r.IntN(1000)} {
		state := r.Uint32()
		want := ^crc32.Update(^state, castagnoli, make([]byte, n))
		if got := s.zeros(state, int64(n)); got != want {
			t.Errorf("%d zeros: %08x, want %08x", n, got, want)
		}
	}
}

// A client that fills the journal with heads of long entries cannot make the
// next start slow, nor hide a valid entry behind them.
func TestHostileHeads(t *testing.T) {
	fs := vfs.NewMem()
	must(t, fs.Mkdir(testDir))
	o := Options{FS: fs, Dir: testDir, Folder: testFolder()}
	j := create(t, o)
	appendBatches(t, j, 0, 3, fixBatch)
	end := j.Next()
	appendBatches(t, j, 3, 4, fixBatch)
	last := fileBytes(t, fs, 1)[end.Offset:j.Next().Offset]
	must(t, j.Close())
	garbage := make([]byte, DefaultFileBytes-end.Offset)
	for at := 0; at+entryHead < len(garbage); at += 32 {
		head := garbage[at:]
		copy(head, entryMagic)
		binary.BigEndian.PutUint32(head[4:], uint32(min(MaxEntryBytes, (len(garbage)-at)&^7)))
		binary.BigEndian.PutUint64(head[8:], uint64(end.Sequence+int64(at)))
		binary.BigEndian.PutUint32(head[20:], uint32(at))
		head[24], head[31] = 1, 1
	}
	setBytes(t, fs, 1, end.Offset, garbage)
	began := time.Now()
	_, tail, got, err := scan(o, First())
	if err != nil || len(got) != 3 || tail.Next != end {
		t.Fatalf("%d items, %v, %v", len(got), tail.Next, err)
	}
	if d := time.Since(began); d > time.Minute { // trying every head would take many
		t.Errorf("took %v", d)
	}
	// The valid entry near the end of the file proves that one before it is
	// damaged.
	setBytes(t, fs, 1, DefaultFileBytes-8-int64(len(last)), last)
	if e := wantCorrupt(t, o, "a valid entry among them"); e.Behind == nil || e.Behind.Position != DefaultFileBytes-8-int64(len(last)) {
		t.Errorf("error %v", e)
	}
}

// allValid finds the same as looking at each candidate alone.
func TestAllValid(t *testing.T) {
	fs, o := fixture(t)
	setBytes(t, fs, 1, entryOffset(3)+50, []byte{1, 2, 3})
	setBytes(t, fs, 1, entryOffset(7), []byte("x"))
	j, err := Open(o, First())
	must(t, err)
	var want []int64
	for i := range 10 {
		if i != 3 && i != 7 {
			want = append(want, entryOffset(i))
		}
	}
	got, err := j.allValid(j.byNumber(1), HeaderBytes, 2)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}
