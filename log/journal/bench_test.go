package journal

import (
	"fmt"
	"testing"

	"github.com/kcoord/kcoord/log/vfs"
)

// BenchmarkAppend measures a round of one small batch against the bare write and
// sync of the same bytes into the same kind of file, zeroed ahead.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{106, 4096, 65536} {
		for name, fs := range map[string]vfs.FS{"os": vfs.OS{}, "mem": vfs.NewMem()} {
			b.Run(fmt.Sprintf("%s/journal/%d", name, size), func(b *testing.B) { benchJournal(b, fs, size) })
			b.Run(fmt.Sprintf("%s/bare/%d", name, size), func(b *testing.B) { benchBare(b, fs, size) })
		}
	}
}

func benchDir(b *testing.B, fs vfs.FS) string {
	dir := "bench"
	if _, ok := fs.(vfs.OS); ok {
		dir = b.TempDir()
	}
	must(b, fs.RemoveAll(dir))
	must(b, fs.Mkdir(dir))
	return dir
}

func benchJournal(b *testing.B, fs vfs.FS, size int) {
	j, err := Create(Options{FS: fs, Dir: benchDir(b, fs), Folder: testFolder()}, First())
	must(b, err)
	defer j.Close()
	zeroAll(b, j)
	r := NewRound(0)
	batch := fakeBatch(1, size)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		r.Reset()
		r.Append(Batch, testTopic(), 1, batch)
		must(b, j.Append(r))
		if at := j.Next(); at.Offset > DefaultFileBytes-2<<20 {
			b.StopTimer()
			j.Recycle(at)
			zeroAll(b, j)
			b.StartTimer()
		}
	}
}

// zeroAll does all of the preparer's work.
func zeroAll(b testing.TB, j *Journal) {
	for mono := int64(0); ; mono++ {
		next, err := j.PrepareStep(0)
		must(b, err)
		if next < 0 {
			return
		}
		if mono > 10_000 {
			b.Fatal("the preparer never ends")
		}
		if next == retryPause {
			j.rate.bytes = j.written
		}
	}
}

func benchBare(b *testing.B, fs vfs.FS, size int) {
	f, err := fs.Open(benchDir(b, fs)+"/bare", vfs.Create)
	must(b, err)
	defer f.Close()
	must(b, f.Preallocate(DefaultFileBytes))
	_, err = f.WriteAt(make([]byte, DefaultFileBytes), 0)
	must(b, err)
	must(b, f.Datasync())
	entry := make([]byte, align8(entryHead+itemHead+size))
	copy(entry, fakeBatch(1, len(entry)))
	b.SetBytes(int64(size))
	b.ResetTimer()
	off := int64(HeaderBytes)
	for range b.N {
		if off+int64(len(entry)) > DefaultFileBytes {
			off = HeaderBytes
		}
		_, err := f.WriteAt(entry, off)
		must(b, err)
		must(b, f.Datasync())
		off += int64(len(entry))
	}
}

// BenchmarkOpen measures a start: reading a chain of 10,000 entries and what is
// behind it.
func BenchmarkOpen(b *testing.B) {
	o := Options{FS: vfs.OS{}, Dir: benchDir(b, vfs.OS{}), Folder: testFolder(), Policy: PolicyOS}
	j, err := Create(o, First())
	must(b, err)
	zeroAll(b, j)
	appendBatches(b, j, 0, 10_000, 300)
	must(b, j.Sync())
	must(b, j.Close())
	b.ResetTimer()
	for range b.N {
		j, err := Open(o, First())
		must(b, err)
		tail, err := j.Scan(keepBytes, func(*Item) error { return nil })
		if must(b, err); tail.Entries != 10_000 {
			b.Fatalf("%+v", tail)
		}
		must(b, j.Close())
	}
}
