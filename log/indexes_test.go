package log

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"path"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kcoord/kcoord/log/record"
	"github.com/kcoord/kcoord/log/vfs"
)

// indexed makes a folder with several segments, all of which have index entries,
// and returns its index files.
func indexed(t *testing.T) (*rig, map[string][]byte) {
	t.Helper()
	r := newRig(t, vfs.NewMem())
	r.options = smallStore
	r.open()
	r.meta(topicRecord(2, "user", 1, 1))
	for range 30 {
		r.produce(r.partition(2, 0), 2)
		r.now += time.Second
		r.flush()
	}
	if err := r.s.Close(); err != nil {
		t.Fatal(err)
	}
	return r, indexFiles(t, r)
}

func indexFiles(t *testing.T, r *rig) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for _, name := range filesBelow(t, r.fs, path.Join(testDir, "user-0")) {
		if strings.HasSuffix(name, suffixIndex) || strings.HasSuffix(name, suffixTimeIndex) {
			b, err := readFile(r.fs, name, 1<<30)
			if err != nil {
				t.Fatal(err)
			}
			files[name] = b
		}
	}
	return files
}

// TestDamagedIndex: index files that do not say what their log says are made anew,
// byte for byte, and retention and search by time are not misled meanwhile.
func TestDamagedIndex(t *testing.T) {
	for what, damage := range map[string]func(name string, b []byte, others map[string][]byte) []byte{
		"not a multiple of an entry": func(_ string, b []byte, _ map[string][]byte) []byte { return append(b, 0, 0, 1) },
		"cut":                        func(_ string, b []byte, _ map[string][]byte) []byte { return b[:len(b)/2] },
		"empty":                      func(string, []byte, map[string][]byte) []byte { return nil },
		"reserved, with zeros behind": func(name string, b []byte, _ map[string][]byte) []byte {
			size := 10485760
			if strings.HasSuffix(name, suffixTimeIndex) {
				size = 10485756
			}
			return append(b, make([]byte, size-len(b))...)
		},
		"all zeros": func(_ string, b []byte, _ map[string][]byte) []byte { return make([]byte, len(b)) },
		"of another segment": func(name string, b []byte, others map[string][]byte) []byte {
			for other, content := range others {
				if other != name && path.Ext(other) == path.Ext(name) && !bytes.Equal(content, b) {
					return content
				}
			}
			return b
		},
		"behind the log's end": func(_ string, b []byte, _ map[string][]byte) []byte {
			return append(b, 0x7f, 0, 0, 0, 0x7f, 0, 0, 0, 0, 0, 0, 0, 0x7f, 0, 0, 0, 0x7f, 0, 0, 0, 0, 0, 0, 0)
		},
		"not rising":       func(_ string, b []byte, _ map[string][]byte) []byte { return append(b, b...) },
		"a negative entry": func(_ string, b []byte, _ map[string][]byte) []byte { b[0] |= 0x80; return b },
		"a later time": func(name string, b []byte, _ map[string][]byte) []byte {
			if strings.HasSuffix(name, suffixTimeIndex) {
				b[len(b)-12+2]++ // some 35 years
			}
			return b
		},
	} {
		_, files := indexed(t)
		for name := range files {
			r, files := indexed(t)
			if len(files[name]) == 0 {
				continue
			}
			put(t, r.fs, name, damage(name, bytes.Clone(files[name]), files))
			r.open()
			p := r.partition(2, 0)
			if at, _, _, err := p.OffsetForTimestamp(testTime + 10_000); at != 20 || err != nil {
				t.Errorf("%s %s: offset %d by time: %v", path.Base(name), what, at, err)
			}
			r.now += 6 * time.Minute
			if _, err := r.s.RetentionStep(); err != nil || p.LogStart() != 0 {
				t.Errorf("%s %s: retention: log start %d: %v", path.Base(name), what, p.LogStart(), err)
			}
			checkLog(r, p)
			if err := r.s.Close(); err != nil {
				t.Fatal(err)
			}
			for file, b := range indexFiles(t, r) {
				if !bytes.Equal(b, files[file]) {
					t.Errorf("%s %s: %s is not as it was: %x, want %x", path.Base(name), what, path.Base(file), b, files[file])
				}
			}
		}
	}
}

// TestIndexWithoutLog: index files alone are no segment.
func TestIndexWithoutLog(t *testing.T) {
	r, _ := indexed(t)
	for _, base := range []int64{1, 1000} {
		put(t, r.fs, path.Join(testDir, "user-0", segmentName(base, suffixIndex)), []byte{0, 0, 0, 1, 0, 0, 0, 1})
	}
	r.open()
	p := r.partition(2, 0)
	for _, g := range p.list() {
		if g.base == 1 || g.base == 1000 {
			t.Errorf("segment %d", g.base)
		}
	}
	checkLog(r, p)
}

// TestIndexRule: an entry for the first batch that begins more than the interval
// behind the last one, none for the one at position 0.
func TestIndexRule(t *testing.T) {
	tl := newTail(0)
	var index []indexEntry
	since := int64(0)
	for i := range 10_000 {
		b := batchAt(int64(i), 0, 18+i%3)
		e := tl.add(b, 0, 4096)
		if want := since > 4096; e.hasIndex != want {
			t.Fatalf("batch %d: entry %t, %d bytes since the last one", i, e.hasIndex, since)
		}
		if e.hasIndex {
			index, since = append(index, e.index), 0
			if int64(e.index.relative) != b.LastOffset() || int64(e.index.position) != tl.size-b.Size() {
				t.Fatalf("batch %d: entry %+v", i, e.index)
			}
		}
		since += b.Size()
	}
	if len(index) < 200 {
		t.Errorf("%d entries", len(index))
	}
	// What Apache Kafka makes of batches of 106 bytes.
	tl, index = newTail(0), nil
	for i := range 60 {
		if e := tl.add(tenth(i), 0, 4096); e.hasIndex {
			index = append(index, e.index)
		}
	}
	if got := hex.EncodeToString(appendIndex(nil, index)); got != "0000002700001026" {
		t.Errorf("index %s", got)
	}
}

// TestTimeIndexRule: the last entry has the largest timestamp and the first batch
// that reached it; without timestamps there is none.
func TestTimeIndexRule(t *testing.T) {
	for _, c := range []struct {
		name  string
		times func(i int) int64
		want  string
	}{
		{"no timestamps", func(int) int64 { return -1 }, "[]"},
		{"one for all", func(int) int64 { return testTime }, fmt.Sprintf("[{%d 0}]", testTime)},
		{"the largest in the middle", func(i int) int64 {
			if i == 10 {
				return testTime + 99
			}
			return testTime
		}, fmt.Sprintf("[{%d 0} {%d 10}]", testTime, testTime+99)},
	} {
		tl := newTail(0)
		times := []timeEntry{}
		for i := range 20 {
			var b record.Builder
			b.Reset(nil, record.Plain(int64(i), 0))
			b.Append(c.times(i), nil, make([]byte, 300))
			if e := tl.add(b.Close(), 0, 1000); e.hasTime {
				times = append(times, e.time)
			}
		}
		if e, ok := tl.closing(0); ok {
			times = append(times, e)
		}
		if got := fmt.Sprint(times); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestFullIndexRolls: a segment ends before its index, or its offsets, overflow.
func TestFullIndexRolls(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	r.open()
	r.meta(topicRecord(5, "small", 1, 5))
	p := r.partition(5, 0)
	r.fill(p, 60, 2)
	if len(p.list()) < 3 {
		t.Errorf("%d segments", len(p.list()))
	}
	for _, g := range p.list() {
		if index, times := allEntries(r, p, g); len(index) > 8 || len(times) > 5 {
			t.Errorf("segment %d: %d entries, %d times", g.base, len(index), len(times))
		}
	}
	checkLog(r, p)

	const far = 1<<31 + 5
	r = touched(t, false, map[string][]byte{zeroLog: append(bytes.Clone(tenth(0)), batchAt(far-10, 0, 24)...)})
	r.open()
	p = r.partition(2, 0)
	if p.Err() != nil || p.LogEnd() != far-9 {
		t.Fatalf("a gap: %v, log end %d", p.Err(), p.LogEnd())
	}
	r.fill(p, 20, 1)
	if list := p.list(); len(list) != 2 || list[1].base != 1<<31 {
		t.Errorf("the second of %d segments begins at %d", len(list), list[len(list)-1].base)
	}
	checkFetch(t, r, p, far-9+20)
	r = touched(t, false, map[string][]byte{zeroLog: append(bytes.Clone(tenth(0)), batchAt(far, 0, 24)...)})
	r.wantRefused("offsets too far apart for one segment", zeroLog, "too far")
}

func checkFetch(t *testing.T, r *rig, p *Partition, end int64) {
	t.Helper()
	if first, next := r.fetch(p, 0, 1000); first != 0 || next != end {
		t.Errorf("fetch gives %d to %d, want %d", first, next, end)
	}
}

// TestIndexWriteFails: appends go on, and the index is made anew when there is room.
func TestIndexWriteFails(t *testing.T) {
	w := newWorld(t, vfs.NewCrashable())
	w.open()
	w.meta(topicRecord(2, "user", 1, 1))
	p := w.partition(2, 0)
	full := true
	w.fail = func(op vfs.Op) *vfs.Failure {
		if full && strings.Contains(op.Path, "index") && op.Mutates() {
			return &vfs.Failure{Err: syscall.ENOSPC, Short: 5}
		}
		return nil
	}
	for range 20 {
		w.produce(p, 2)
		w.flush()
	}
	w.write()
	w.checkpoint()
	if p.Err() != nil || p.HighWatermark() != p.LogEnd() || p.RecoveryPoint() != p.LogEnd() || w.s.Admit() != nil {
		t.Fatalf("%v, high watermark %d, recovery point %d, end %d", p.Err(), p.HighWatermark(), p.RecoveryPoint(), p.LogEnd())
	}
	checkLog(w.rig, p)
	judge(t, "without index files", w.crash.Crash(vfs.KeepNone), w.promised, w.now)
	full = false
	w.produce(p, 2)
	w.flush()
	w.write()
	w.checkpoint()
	checkLog(w.rig, p)
	for name, b := range indexFiles(t, w.rig) {
		if strings.HasSuffix(name, suffixIndex) && len(b)%indexEntrySize != 0 {
			t.Errorf("%s has %d bytes", name, len(b))
		}
	}
	judge(t, "with index files again", w.crash.Crash(vfs.KeepNone), w.promised, w.now)
}

// TestDamageIsNotServed: a batch below the recovery point that was damaged since is
// an error where it is read, without data; what comes before it is served.
func TestDamageIsNotServed(t *testing.T) {
	r := touched(t, true, map[string][]byte{zeroLog: damagesInTheMiddle["a bit of the value"]})
	r.open()
	p := r.partition(2, 0)
	b, err := p.Read(0, 1<<20, true, nil)
	if err != nil || !bytes.Equal(b, ten()[:4*tenthSize]) {
		t.Errorf("read from 0: %d bytes, %v", len(b), err)
	}
	if b, err := p.Read(4, 1<<20, true, nil); err == nil || len(b) != 0 || !strings.Contains(err.Error(), zeroLog+" at byte 424") {
		t.Errorf("read of the damaged batch: %d bytes, %v", len(b), err)
	}
	if b, err := p.Read(5, 1<<20, true, nil); err != nil || !bytes.Equal(b, ten()[5*tenthSize:]) {
		t.Errorf("read behind it: %d bytes, %v", len(b), err)
	}
}

// TestDamagedEntryInTheMiddle: an entry that is wrong although the index as a whole
// looks right leads no reader astray.
func TestDamagedEntryInTheMiddle(t *testing.T) {
	for _, delta := range []int32{-1, 1, 2} {
		for _, position := range []bool{false, true} {
			r, files := indexed(t)
			name := path.Join(testDir, "user-0", segmentName(0, suffixIndex))
			b := bytes.Clone(files[name])
			index, err := parseIndex(b, 1<<30)
			if err != nil || len(index) < 3 {
				t.Fatalf("%v, %v", index, err)
			}
			if e := &index[1]; position {
				e.position += delta
			} else {
				e.relative += delta
			}
			put(t, r.fs, name, appendIndex(nil, index))
			r.open()
			p := r.partition(2, 0)
			for offset := range p.LogEnd() {
				b, err := p.Read(offset, 1, true, nil)
				if err != nil || len(b) == 0 {
					t.Fatalf("entry off by %d: read at %d: %d bytes, %v", delta, offset, len(b), err)
				}
				if got := record.Batch(b); got.BaseOffset() > offset || got.LastOffset() < offset {
					t.Errorf("entry off by %d: read at %d gives %d to %d", delta, offset, got.BaseOffset(), got.LastOffset())
				}
			}
			r.s.abandon()
		}
	}
}
