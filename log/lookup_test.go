package log

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kcoord/kcoord/log/record"
	"github.com/kcoord/kcoord/log/vfs"
)

// many makes a log of many closed segments, with batches of two records a second apart.
func many(t *testing.T, segments int) (*rig, *Partition) {
	t.Helper()
	r := newRig(t, vfs.NewMem())
	r.options = smallStore
	r.open()
	r.meta(topicRecord(2, "user", 1, 1))
	p := r.partition(2, 0)
	for len(p.list()) <= segments {
		r.produce(p, 2)
		r.now += time.Second
		r.flush()
		if p.LogEnd()%20 == 0 {
			r.write()
		}
	}
	return r, p
}

// inMemory counts the index entries of closed segments that are in memory.
func inMemory(p *Partition) (n int) {
	for _, g := range p.list() {
		if g != p.active() {
			index, times, _ := g.entries()
			n += cap(index) + cap(times)
		}
	}
	return n
}

// readEverything reads at each offset, and looks for each time, and compares. It goes
// backwards, so that no read begins where another one ended.
func readEverything(t *testing.T, what string, p *Partition) {
	t.Helper()
	for offset := p.DurableEnd() - 1; offset >= 0; offset-- {
		b, err := p.Read(offset, 1, true, nil)
		if err != nil || len(b) == 0 {
			t.Fatalf("%s: read at %d: %d bytes, %v", what, offset, len(b), err)
		}
		if got := record.Batch(b); got.BaseOffset() > offset || got.LastOffset() < offset {
			t.Fatalf("%s: read at %d gives %d to %d", what, offset, got.BaseOffset(), got.LastOffset())
		}
		if offset%2 == 0 {
			at, _, _, err := p.OffsetForTimestamp(testTime + offset/2*1000)
			if err != nil || at != offset {
				t.Fatalf("%s: at time %d: offset %d, %v", what, offset/2, at, err)
			}
		}
	}
	if at, _, _, err := p.MaxTimestamp(); err != nil || at != p.DurableEnd()-1 {
		t.Errorf("%s: the largest timestamp is at %d, %v", what, at, err)
	}
}

// TestClosedSegmentsKeepNoEntries: however many segments were written and read, the
// index entries of closed ones stay in their files.
func TestClosedSegmentsKeepNoEntries(t *testing.T) {
	for _, segments := range []int{3, 40} {
		r, p := many(t, segments)
		readEverything(t, "written", p)
		if n := inMemory(p); n > 0 {
			t.Errorf("%d segments: %d entries stay in memory after writing and reading", segments, n)
		}
		if err := r.s.Close(); err != nil {
			t.Fatal(err)
		}
		r.open()
		p = r.partition(2, 0)
		readEverything(t, "after a start", p)
		if n := inMemory(p); n > 0 {
			t.Errorf("%d segments: %d entries stay in memory after a start and reading", segments, n)
		}
		r.s.abandon()
		for _, name := range filesBelow(t, r.fs, path.Join(testDir, "user-0")) {
			if strings.HasSuffix(name, "index") {
				put(t, r.fs, name, []byte{1})
			}
		}
		r.open()
		p = r.partition(2, 0)
		readEverything(t, "without index files", p)
		if err := r.s.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		if n := inMemory(p); n > 0 {
			t.Errorf("%d segments: %d entries stay in memory although the files were made anew", segments, n)
		}
		readEverything(t, "with index files made anew", p)
		checkLog(r, p)
	}
}

// TestIndexFileLostWhileServed: what happens to the index files of a closed segment
// while it is read leads no reader astray, is told once, and is mended.
func TestIndexFileLostWhileServed(t *testing.T) {
	for what, damage := range map[string]func(r *rig, name string) error{
		"removed": func(r *rig, name string) error { return r.fs.Remove(name) },
		"cut":     func(r *rig, name string) error { return truncateFile(r.fs, name, 3) },
		"zeros": func(r *rig, name string) error {
			b, err := readFile(r.fs, name, 1<<20)
			if err == nil {
				err = writeFile(r.fs, name, make([]byte, len(b)))
			}
			return err
		},
		"garbage": func(r *rig, name string) error {
			b, err := readFile(r.fs, name, 1<<20)
			rnd := rand.New(rand.NewPCG(3, uint64(len(name))))
			for i := range b {
				b[i] = byte(rnd.Uint32())
			}
			return errors.Join(err, writeFile(r.fs, name, b))
		},
		"positions behind the end": func(r *rig, name string) error {
			b, err := readFile(r.fs, name, 1<<20)
			for i := range b {
				if i%8 == 4 {
					b[i] = 0x7f
				}
			}
			return errors.Join(err, writeFile(r.fs, name, b))
		},
		"of another log": func(r *rig, name string) error {
			b, err := readFile(r.fs, name, 1<<20)
			if err == nil {
				for i := 3; i < len(b); i += 4 {
					b[i]++
				}
				err = writeFile(r.fs, name, b)
			}
			return err
		},
	} {
		for _, suffix := range []string{suffixIndex, suffixTimeIndex} {
			r, p := many(t, 5)
			readEverything(t, "before", p)
			name := p.list()[2].name(suffix)
			before, err := readFile(r.fs, name, 1<<20)
			if err != nil || len(before) < 16 {
				t.Fatalf("%d bytes of index, %v", len(before), err)
			}
			if err := damage(r, name); err != nil {
				t.Fatal(err)
			}
			readEverything(t, what+suffix, p)
			told := 0
			for _, w := range r.warnings {
				if strings.HasPrefix(w, "index-wrong") {
					told++
				}
			}
			// What is wrong may mean that nothing is indexed: that costs time only.
			if quiet := told == 0 && what != "removed" && what != "cut"; told != 1 && !quiet {
				t.Errorf("%s %s: %d warnings: %q", suffix, what, told, r.warnings)
			}
			if err := r.s.Checkpoint(); err != nil {
				t.Fatal(err)
			}
			if n := inMemory(p); n > 0 {
				t.Errorf("%s %s: %d entries stay in memory", suffix, what, n)
			}
			if after, err := readFile(r.fs, name, 1<<20); told > 0 && (err != nil || !bytes.Equal(after, before)) {
				t.Errorf("%s %s: %x, was %x, %v", suffix, what, after, before, err)
			}
		}
	}
}

// TestIndexOfAnOlderKafka: before KAFKA-806 Kafka made one entry for the batches of an
// append, with the last offset of all and the position of the first. Every offset is
// found all the same, and an index with such an entry is made anew.
func TestIndexOfAnOlderKafka(t *testing.T) {
	for _, together := range []int{2, 3, 4} {
		r, p := many(t, 4)
		var bases []int64
		for _, g := range p.list() {
			bases = append(bases, g.base)
		}
		if err := r.s.Close(); err != nil {
			t.Fatal(err)
		}
		for _, base := range bases {
			put(t, r.fs, path.Join(testDir, "user-0", segmentName(base, suffixIndex)), olderIndex(t, r, base, together))
		}
		r.open()
		p = r.partition(2, 0)
		readEverything(t, fmt.Sprintf("%d together", together), p)
		if err := r.s.Close(); err != nil {
			t.Fatal(err)
		}
		for name, b := range indexFiles(t, r) {
			stem, ok := strings.CutSuffix(name, suffixIndex)
			if !ok {
				continue
			}
			content, err := readFile(r.fs, stem+suffixLog, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			index, err := parseIndex(b, int64(len(content)))
			base, _, _ := parseSegmentName(path.Base(name))
			for _, e := range index { // fewer entries than kcoord makes are no fault
				if got := record.Batch(content[e.position:]).LastOffset(); got != base+int64(e.relative) {
					t.Errorf("%d together: %s says %+v of a batch that ends with %d", together, name, e, got)
				}
			}
			if err != nil || len(index) == 0 && len(content) > 500 {
				t.Errorf("%d together: %s has %d entries, %v", together, name, len(index), err)
			}
		}
	}
}

// olderIndex is the index of a segment for appends of some batches each.
func olderIndex(t *testing.T, r *rig, base int64, together int) []byte {
	t.Helper()
	b, err := readFile(r.fs, path.Join(testDir, "user-0", segmentName(base, suffixLog)), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	var index []indexEntry
	position, since := int64(0), int64(0)
	for len(b) > 0 {
		size, last := int64(0), int64(0)
		for range together {
			if len(b) == 0 {
				break
			}
			batch, rest, err := record.Next(b, 1<<30)
			if err != nil {
				t.Fatal(err)
			}
			size, last, b = size+batch.Size(), batch.LastOffset(), rest
		}
		if since > 150 {
			index, since = append(index, indexEntry{int32(last - base), int32(position)}), 0
		}
		position, since = position+size, since+size
	}
	return appendIndex(nil, index)
}

// TestSearchFile finds in files of all sizes what a search in memory finds.
func TestSearchFile(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	r.options = smallStore
	r.open()
	r.meta(topicRecord(2, "user", 1, 1))
	p := r.partition(2, 0)
	name := path.Join(testDir, "some.index")
	for _, n := range []int{0, 1, 2, searchBlock - 1, searchBlock, searchBlock + 1, 2*searchBlock + 1, 5000} {
		var index []indexEntry
		for i := range n {
			index = append(index, indexEntry{int32(3*i + 1), int32(100 * (i + 1))})
		}
		put(t, r.fs, name, appendIndex(nil, index))
		for target := int64(-1); target < int64(3*n+3); target += 1 + target/50 {
			position := int64(0)
			ok, err := p.searchFile(name, indexEntrySize, n, func(b []byte) bool {
				e := indexEntryAt(b)
				if int64(e.relative) > target {
					return false
				}
				position = int64(e.position)
				return true
			})
			if want, any := floorEntry(index, target); err != nil || position != int64(want.position) || ok != any {
				t.Fatalf("%d entries: %d is at %d (%t), want %d: %v", n, target, position, ok, want.position, err)
			}
		}
	}
}

// TestReadersSideBySide: readers that go through the same closed segments, each at a
// place of its own, and jump now and then, read what is there.
func TestReadersSideBySide(t *testing.T) {
	_, p := many(t, 6)
	rnd := rand.New(rand.NewPCG(1, 2))
	all, err := p.Read(0, 1<<20, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	for int64(len(all)) < p.Size() {
		last := record.Batch(nil)
		for b := all; len(b) > 0; {
			if last, b, err = record.Next(b, 1<<30); err != nil {
				t.Fatal(err)
			}
		}
		more, err := p.Read(last.NextOffset(), 1<<20, true, nil)
		if err != nil || len(more) == 0 {
			t.Fatal(len(more), err)
		}
		all = append(all, more...)
	}
	starts := map[int64]int{} // of batches, by each of their offsets
	for at := 0; at < len(all); {
		b, _, err := record.Next(all[at:], 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		for o := b.BaseOffset(); o <= b.LastOffset(); o++ {
			starts[o] = at
		}
		at += len(b)
	}
	next := make([]int64, keptEnds+3)
	for range 4000 {
		i := rnd.IntN(len(next))
		if rnd.IntN(10) == 0 || next[i] >= p.DurableEnd() {
			next[i] = rnd.Int64N(p.DurableEnd())
		}
		got, err := p.Read(next[i], 1+rnd.IntN(400), true, nil)
		if err != nil || len(got) == 0 {
			t.Fatalf("read at %d: %d bytes, %v", next[i], len(got), err)
		}
		at := starts[next[i]]
		if !bytes.Equal(got, all[at:at+len(got)]) {
			t.Fatalf("read at %d gives other batches", next[i])
		}
		for len(got) > 0 {
			batch, rest, err := record.Next(got, 1<<30)
			if err != nil {
				t.Fatal(err)
			}
			next[i], got = batch.NextOffset(), rest
		}
	}
	used := 0
	for _, g := range p.list() {
		if slices.ContainsFunc(g.mu.ends[:], func(e readEnd) bool { return e.position > 0 }) {
			used++
		}
	}
	if used < 5 {
		t.Errorf("%d segments know where reads ended", used)
	}
}

// TestReadErrors: a medium that cannot be read, or a lack of descriptors, fails who
// reads what is there and nobody else, changes no file, and is over when it is over; an
// index that cannot be read fails nobody.
func TestReadErrors(t *testing.T) {
	for _, c := range []struct {
		suffix string
		kind   vfs.OpKind
		err    error
		fails  bool
		told   int
	}{
		{suffixLog, vfs.OpRead, syscall.EIO, true, 0},
		{suffixIndex, vfs.OpRead, syscall.EIO, false, 1},
		{suffixIndex, vfs.OpOpen, syscall.EMFILE, false, 0},
		{suffixTimeIndex, vfs.OpRead, syscall.EIO, false, 1},
		{suffixTimeIndex, vfs.OpOpen, syscall.ENFILE, false, 0},
	} {
		r, p := many(t, 5)
		readEverything(t, "before", p)
		g := p.list()[2]
		bad := true
		mem := r.fs
		r.s.fs = &vfs.Hooked{FS: mem, Before: func(op vfs.Op) *vfs.Failure {
			if bad && op.Kind == c.kind && op.Path == g.name(c.suffix) {
				return &vfs.Failure{Err: c.err}
			}
			return nil
		}}
		f, err := r.s.fs.Open(g.name(suffixLog), vfs.ReadOnly)
		if err != nil {
			t.Fatal(err)
		}
		g.file = f
		before := fmt.Sprint(indexFiles(t, r), r.logs())
		for offset := g.base; offset < g.tail.next; offset += 2 {
			b, err := p.Read(offset, 1, true, nil)
			if c.fails != errors.Is(err, ErrStorage) || c.fails == (len(b) > 0) {
				t.Errorf("%s, %v: read at %d: %d bytes, %v", c.suffix, c.err, offset, len(b), err)
			}
			at, _, _, err := p.OffsetForTimestamp(testTime + offset/2*1000)
			if c.fails != errors.Is(err, ErrStorage) || !c.fails && at != offset {
				t.Errorf("%s, %v: by time: %d, want %d, %v", c.suffix, c.err, at, offset, err)
			}
		}
		if b, err := p.Read(0, 1, true, nil); err != nil || len(b) == 0 {
			t.Errorf("%s, %v: read of another segment: %d bytes, %v", c.suffix, c.err, len(b), err)
		}
		if got := strings.Count(strings.Join(r.warnings, "\n"), "index-wrong"); got != c.told {
			t.Errorf("%s, %v: %d warnings: %q", c.suffix, c.err, got, r.warnings)
		}
		if p.Err() != nil || fmt.Sprint(indexFiles(t, r), r.logs()) != before {
			t.Errorf("%s, %v: a file has changed, or the partition is closed: %v", c.suffix, c.err, p.Err())
		}
		bad = false
		readEverything(t, "afterwards", p)
		checkLog(r, p)
	}
}

// TestReadersBesideTheWriter: readers of closed segments while others are written,
// rolled and synced.
func TestReadersBesideTheWriter(t *testing.T) {
	r, p := many(t, 3)
	var readers sync.WaitGroup
	for i := range 3 {
		readers.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 1))
			for offset := int64(0); offset < 4000; offset++ {
				at := rnd.Int64N(p.HighWatermark())
				if offset%3 > 0 {
					at = offset % p.HighWatermark()
				}
				b, err := p.Read(at, 300, true, nil)
				if err != nil || len(b) == 0 || record.Batch(b).BaseOffset() > at || record.Batch(b).LastOffset() < at {
					t.Errorf("read at %d: %d bytes, %v", at, len(b), err)
					return
				}
				if offset%50 == 0 {
					if found, _, _, err := p.OffsetForTimestamp(testTime + offset); err != nil || found < 0 {
						t.Errorf("by time: %d, %v", found, err)
						return
					}
				}
			}
		})
	}
	for range 60 {
		for range 5 {
			r.produce(p, 2)
			r.flush()
		}
		if err := errors.Join(p.CatchUp(), r.s.Checkpoint()); err != nil {
			t.Fatal(err)
		}
	}
	readers.Wait()
	if n := inMemory(p); n > 0 {
		t.Errorf("%d entries stay in memory", n)
	}
	checkLog(r, p)
}
