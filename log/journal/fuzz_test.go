package journal

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/kcoord/kcoord/log/vfs"
)

// chainUp gives the entries that b seems to hold right sequences and checksums,
// so that fuzzing reaches what lies behind them.
func chainUp(b []byte, salt uint32, sequence int64, prev uint32) {
	for len(b) >= minEntry {
		n := int(int32(binary.BigEndian.Uint32(b[4:])))
		if n < minEntry || n > len(b) || n%8 != 0 {
			return
		}
		copy(b, entryMagic)
		binary.BigEndian.PutUint64(b[8:], uint64(sequence))
		binary.BigEndian.PutUint32(b[16:], prev)
		prev = entryCRC(salt, b[:n])
		binary.BigEndian.PutUint32(b[20:], prev)
		b, sequence = b[n:], sequence+1
	}
}

// FuzzScan reads arbitrary bytes as a journal: never a panic, only typed errors,
// the same result twice, and only items that were in the bytes.
func FuzzScan(f *testing.F) {
	fs, _ := fixture(f)
	whole := fileBytes(f, fs, 1)[HeaderBytes:entryOffset(10)]
	f.Add(whole, true)
	f.Add(whole, false)
	f.Add(whole[:1000], false)
	f.Add(append(slices.Clone(whole[:600]), make([]byte, 500)...), false)
	r := NewRound(testEntryBytes)
	r.Append(Batch, testTopic(), 1, fakeBatch(1, 2*testEntryBytes+77))
	r.Append(Metadata, TopicID{}, 0, []byte("record"))
	var cut []byte
	seq, prev := int64(1), uint32(0)
	for i := range r.used {
		b, crc := r.seal(i, saltOf(testFolder()), seq, prev, i > 0)
		cut = append(cut, b...)
		seq, prev = seq+1, crc
	}
	f.Add(cut, true)
	f.Add(cut, false)
	f.Add(cut[:testEntryBytes+100], true)
	f.Fuzz(func(t *testing.T, b []byte, chain bool) {
		if len(b) > testFileBytes-HeaderBytes {
			return
		}
		if b = slices.Clone(b); chain {
			chainUp(b, saltOf(testFolder()), 1, 0)
		}
		fs := vfs.NewMem()
		must(t, fs.Mkdir(testDir))
		o := testOptions(fs)
		must(t, create(t, o).Close())
		setBytes(t, fs, 1, HeaderBytes, b)
		total := 0
		read := func() ([]string, Tail, error) {
			j, err := Open(o, First())
			must(t, err)
			defer j.Close()
			var got []string
			tail, err := j.Scan(keepBytes, func(it *Item) error {
				if total += len(it.Data); it.Kind == Batch && len(it.Data) < minBatch {
					t.Errorf("a batch of %d bytes", len(it.Data))
				}
				got = append(got, string(it.Data))
				return nil
			})
			if err != nil {
				return got, tail, err
			}
			again := 0
			must(t, j.Replay(j.mu.replay, func(it *Item) error {
				if string(it.Data) != got[again] {
					t.Error("Replay differs from Scan")
				}
				again++
				return nil
			}))
			must(t, j.RewriteTail())
			return got, tail, nil
		}
		got, tail, err := read()
		var damage *CorruptionError
		if err != nil && !errors.As(err, &damage) {
			t.Fatalf("error %v", err)
		}
		if total > len(b) {
			t.Errorf("%d bytes of items out of %d", total, len(b))
		}
		if err != nil {
			return
		}
		if tail.Items != int64(len(got)) || tail.Next.Offset > testFileBytes || tail.Next.Sequence != tail.Entries+1 {
			t.Errorf("tail %+v, %d items", tail, len(got))
		}
		got2, tail2, err := read()
		if err != nil || !slices.Equal(got, got2) || tail.Next != tail2.Next {
			t.Errorf("a second read differs: %v", err)
		}
	})
}
