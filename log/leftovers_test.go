package log

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/kcoord/kcoord/log/record"
	"github.com/kcoord/kcoord/log/vfs"
)

// segmented makes a folder that was stopped in order whose compacted topic has
// segments 0 (offsets 0 to 9), 10 (10 to 19) and 20 (20 to 24).
func segmented(t *testing.T, fs vfs.FS) *rig {
	t.Helper()
	return segmentedBy(t, fs, 6)
}

// segmentedBy is segmented with another configuration: with 7 there is one segment.
func segmentedBy(t *testing.T, fs vfs.FS, config byte) *rig {
	t.Helper()
	r := newRig(t, fs)
	r.options = smallStore
	r.open()
	r.meta(topicRecord(2, "user", 1, config))
	p := r.partition(2, 0)
	for i := range 25 {
		if _, _, err := p.AppendBatch(tenth(i)); err != nil {
			t.Fatal(err)
		}
		r.flush()
	}
	r.write()
	if config == 6 && (len(p.list()) != 3 || p.list()[1].base != 10 || p.list()[2].base != 20) {
		t.Fatalf("%d segments", len(p.list()))
	}
	if err := r.s.Close(); err != nil {
		t.Fatal(err)
	}
	return r
}

func batches(offsets ...int) (b []byte) {
	for _, i := range offsets {
		b = append(b, tenth(i)...)
	}
	return b
}

func loaded(r *rig, p *Partition) (offsets []int) {
	r.t.Helper()
	if err := p.Load(func(b record.Batch) error { offsets = append(offsets, int(b.BaseOffset())); return nil }); err != nil {
		r.t.Fatal(err)
	}
	return offsets
}

func upTo(from, to int) (all []int) {
	for i := from; i <= to; i++ {
		all = append(all, i)
	}
	return all
}

// TestUnfinishedSwap: whatever of a swap a crash left, the old segments or the new
// one are served, never both and never none; what nothing explains is refused.
func TestUnfinishedSwap(t *testing.T) {
	const dir = testDir + "/user-0/"
	n := batches(3, 7, 19) // replaces segments 0 and 10
	old, swapped := upTo(0, 24), append([]int{3, 7, 19}, upTo(20, 24)...)
	type files map[string][]byte // nil: the file is removed
	moved := func(suffix string, bases ...int64) files {
		f := files{}
		for _, base := range bases {
			first, last := int(base), int(base)+9
			f[segmentName(base, suffixLog)] = nil
			f[segmentName(base, suffixIndex)] = nil
			f[segmentName(base, suffixTimeIndex)] = nil
			f[segmentName(base, suffixLog+suffix)] = batches(upTo(first, last)...)
		}
		return f
	}
	with := func(parts ...files) files {
		all := files{}
		for _, p := range parts {
			maps.Copy(all, p)
		}
		return all
	}
	set := func(suffix string, base int64, b []byte) files {
		return files{segmentName(base, suffixLog+suffix): b, segmentName(base, suffixIndex+suffix): {}, segmentName(base, suffixTimeIndex+suffix): {}}
	}
	swap := set(suffixSwap, 0, n)
	for _, c := range []struct {
		name  string
		files files
		want  []int  // nil: refused
		gone  string // must not be there afterwards
	}{
		{"an output cut short", files{segmentName(0, suffixLog+suffixCleaned): n[:130]}, old, suffixCleaned},
		{"an output without indexes", files{segmentName(0, suffixLog+suffixCleaned): n}, old, suffixCleaned},
		{"a complete output", set(suffixCleaned, 0, n), old, suffixCleaned},
		{"a log with its new name, indexes without", files{segmentName(0, suffixLog+suffixSwap): n, segmentName(0, suffixIndex+suffixCleaned): {}, segmentName(0, suffixTimeIndex+suffixCleaned): {}}, old, suffixSwap},
		{"all new names", swap, swapped, suffixSwap},
		{"one old segment away", with(swap, moved(suffixDeleted, 0)), swapped, suffixDeleted},
		{"both old segments away", with(swap, moved(suffixDeleted, 0, 10)), swapped, suffixDeleted},
		{"the log installed, an index not", with(moved(suffixDeleted, 0, 10), files{
			zeroLog: n, segmentName(0, suffixIndex+suffixSwap): {}, segmentName(0, suffixTimeIndex): {},
		}), swapped, suffixSwap},
		{"all installed", with(moved(suffixDeleted, 0, 10), files{zeroLog: n}), swapped, suffixDeleted},
		{"old names gone, new ones not given", with(moved(suffixDeleted, 0, 10), set(suffixCleaned, 0, n)), old, suffixCleaned},
		{"an output that ends early, by Kafka's hand", set(suffixSwap, 0, batches(3, 7)), append([]int{3, 7}, upTo(10, 24)...), suffixSwap},
		{"one of two outputs without its new name", with(set(suffixSwap, 0, batches(3)), set(suffixCleaned, 7, batches(7, 19))), old, suffixSwap},
		{"two outputs", with(set(suffixSwap, 0, batches(3, 6)), set(suffixSwap, 7, batches(7, 19))), append([]int{3, 6, 7, 19}, upTo(20, 24)...), suffixSwap},
		{"files of producers and transactions in the range", with(swap, files{"00000000000000000010.snapshot": {1}, "00000000000000000004.txnindex": {1}}), swapped, "txnindex"},
		{"a replacement inside a segment", set(suffixSwap, 5, batches(5, 6)), nil, ""},
		{"a damaged replacement", set(suffixSwap, 0, damagesInTheMiddle["zeros"]), nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := segmented(t, vfs.NewMem())
			for name, b := range c.files {
				if b != nil {
					put(t, r.fs, dir+name, b)
				} else if err := removeIfThere(r.fs, dir+name); err != nil {
					t.Fatal(err)
				}
			}
			for start := range 2 {
				r.open()
				p := r.partition(2, 0)
				if c.want == nil {
					if p.Err() == nil || !strings.Contains(p.Err().Error(), suffixSwap) {
						t.Fatalf("start %d: not refused: %v", start, p.Err())
					}
					if got := filesBelow(t, r.fs, path.Join(testDir, "user-0")); !slices.Contains(got, dir+zeroLog) {
						t.Errorf("start %d: refused, and %s is gone: %v", start, zeroLog, got)
					}
					r.s.abandon()
					continue
				}
				if p.Err() != nil {
					t.Fatalf("start %d: %v", start, p.Err())
				}
				if got := loaded(r, p); !slices.Equal(got, c.want) || p.LogEnd() != 25 {
					t.Errorf("start %d: batches %v, want %v; log end %d", start, got, c.want, p.LogEnd())
				}
				r.now += 2 * recoveredRest
				if _, err := r.s.RetentionStep(); err != nil {
					t.Fatal(err)
				}
				for _, name := range filesBelow(t, r.fs, path.Join(testDir, "user-0")) {
					if strings.Contains(name, c.gone) {
						t.Errorf("start %d: %s is still there", start, name)
					}
				}
				r.s.abandon()
			}
		})
	}
}

// TestCrashWhileASwapIsFinished: a start that finishes a swap may itself crash at
// any of its operations.
func TestCrashWhileASwapIsFinished(t *testing.T) {
	want := append([]int{3, 7, 19}, upTo(20, 24)...)
	images := 0
	build := func(at func(op vfs.Op)) {
		crash := vfs.NewCrashable()
		hook := &vfs.Hooked{FS: crash}
		r := segmented(t, hook)
		for _, suffix := range dataSuffixes {
			b := []byte{}
			if suffix == suffixLog {
				b = batches(3, 7, 19)
			}
			if err := writeFileSync(r.fs, path.Join(testDir, "user-0", segmentName(0, suffix+suffixSwap)), b); err != nil {
				t.Fatal(err)
			}
		}
		if err := syncDir(r.fs, path.Join(testDir, "user-0")); err != nil {
			t.Fatal(err)
		}
		hook.Before = func(op vfs.Op) *vfs.Failure {
			if !op.Mutates() {
				return nil
			}
			for seed := range uint64(3) {
				images++
				again := newRig(t, crash.Crash(vfs.Seeded(seed*1000+uint64(images))))
				again.options = smallStore
				for start := range 2 {
					again.open()
					p := again.partition(2, 0)
					if p.Err() != nil || !slices.Equal(loaded(again, p), want) {
						t.Fatalf("before %s, image %d, start %d: %v, batches %v", op, seed, start, p.Err(), loaded(again, p))
					}
					again.s.abandon()
				}
			}
			return nil
		}
		r.open()
		at(vfs.Op{})
	}
	build(func(vfs.Op) {})
	if images < 60 {
		t.Errorf("%d images", images)
	}
}

// TestOddFiles: files and folders of others are left alone and disturb nothing.
func TestOddFiles(t *testing.T) {
	r := segmented(t, vfs.NewMem())
	odd := []string{
		"lost+found/x", ".git/HEAD", "backup/user-0/00000000000000000000.log", "notes.txt", "t-0.xyz-delete/00000000000000000000.log",
		"user-0/0.log", "user-0/00000000000000000000.log.bak", "user-0/core.1234", "user-0/sub/file", "other-3/00000000000000000000.log",
		"t-0." + strings.Repeat("0a", 16) + "-future/00000000000000000000.log",
	}
	for _, name := range odd {
		full := path.Join(testDir, name)
		if err := r.fs.Mkdir(path.Dir(full)); err != nil {
			t.Fatal(err)
		}
		put(t, r.fs, full, []byte("odd"))
	}
	tmp := []string{"recovery-point-offset-checkpoint.tmp", "user-0/leader-epoch-checkpoint.tmp", snapshotTmp}
	for _, name := range tmp {
		put(t, r.fs, path.Join(testDir, name), []byte("1\n"))
	}
	gone := path.Join(testDir, "old-0."+strings.Repeat("0b", 16)+suffixDeleteDir)
	if err := r.fs.Mkdir(gone); err != nil {
		t.Fatal(err)
	}
	for start := range 3 {
		r.open()
		if start == 0 && !strings.Contains(strings.Join(r.warnings, "\n"), "other-3") {
			t.Errorf("a folder of nobody's is not named: %q", r.warnings)
		}
		p := r.partition(2, 0)
		if got := loaded(r, p); p.Err() != nil || !slices.Equal(got, upTo(0, 24)) {
			t.Fatalf("start %d: %v, batches %v", start, p.Err(), got)
		}
		if _, err := r.s.RetentionStep(); err != nil {
			t.Fatal(err)
		}
		if err := r.s.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		if start == 1 {
			r.s.abandon()
		} else if err := r.s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range odd {
		if b, err := readFile(r.fs, path.Join(testDir, name), 100); err != nil || string(b) != "odd" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if there, _ := exists(r.fs, gone); there {
		t.Errorf("%s is still there", gone)
	}
}

// TestKafkasFiles: of its own folder kcoord believes no checkpoint file and no
// marker.
func TestKafkasFiles(t *testing.T) {
	for _, name := range []string{recoveryPointFile, highWatermarkFile, logStartFile, cleanerFile, markerName, "user-0/" + epochFile} {
		for what, content := range map[string]string{
			"malformed": "0\n1\nuser x\n", "wrong count": "0\n7\nuser 0 5\n", "version 1": "1\n1\nuser 0 5\n", "empty": "",
			"beyond the end": "0\n1\nuser 0 4000\n", "of nobody": "0\n1\nother 7 5\n", "garbage": "\x00\xff\x00",
			"epochs beyond the end": "0\n2\n0 0\n7 4000\n",
		} {
			for _, clean := range []bool{true, false} {
				r := segmented(t, vfs.NewMem())
				if !clean {
					r.open()
					r.s.abandon()
				}
				put(t, r.fs, path.Join(testDir, name), []byte(content))
				where := fmt.Sprintf("%s %s, clean %t", name, what, clean)
				for range 2 {
					r.open()
					if kind := r.s.Folder().Kind; clean && kind == FolderRecovered || !clean && kind != FolderRecovered {
						t.Errorf("%s: folder kind %d", where, kind)
					}
					clean = false
					p := r.partition(2, 0)
					if got := loaded(r, p); p.Err() != nil || !slices.Equal(got, upTo(0, 24)) || p.LogStart() != 0 || p.CleanerCheckpoint() > 25 {
						t.Errorf("%s: %v, log start %d, cleaned to %d, batches %v", where, p.Err(), p.LogStart(), p.CleanerCheckpoint(), got)
					}
					if epoch, end := p.EndOffsetForEpoch(0); epoch != 0 || end > 25 {
						t.Errorf("%s: epoch %d ends at %d", where, epoch, end)
					}
					r.s.abandon()
				}
			}
		}
	}
}

// TestPartitionFolderOfAnother: a folder that is not the partition's, or none at
// all, closes this partition only and is not touched.
func TestPartitionFolderOfAnother(t *testing.T) {
	dir := path.Join(testDir, "user-0")
	for what, damage := range map[string]func(r *rig){
		"another topic's id": func(r *rig) { put(t, r.fs, path.Join(dir, partitionMetadata), partitionMetadataBytes(TopicID{9})) },
		"no topic id":        func(r *rig) { put(t, r.fs, path.Join(dir, partitionMetadata), []byte("version: 0\n")) },
		"a file": func(r *rig) {
			if err := r.fs.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			put(t, r.fs, dir, []byte("a file"))
		},
	} {
		r := touched(t, true, nil)
		damage(r)
		before := filesBelow(t, r.fs, testDir)
		for range 2 {
			r.open()
			if err := r.partition(2, 0).Err(); err == nil || !strings.Contains(err.Error(), dir) {
				t.Errorf("%s: %v", what, err)
			}
			if other := r.partition(2, 1); other.Err() != nil || r.contents(other) < 1 {
				t.Errorf("%s: the other partition: %v", what, other.Err())
			}
			r.s.abandon()
		}
		for _, name := range filesBelow(t, r.fs, testDir) {
			if strings.HasPrefix(name, dir) && !slices.Contains(before, name) {
				t.Errorf("%s: %s was made", what, name)
			}
		}
	}
}

// TestMiddleSegmentMissing: where nothing is compacted the hole is an error, for who
// loads and for who reads.
func TestMiddleSegmentMissing(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	r.open()
	r.meta(topicRecord(2, "user", 1, 1))
	p := r.partition(2, 0)
	r.fill(p, 30, 2)
	middle, next := p.list()[1].base, p.list()[2].base
	if err := r.s.Close(); err != nil {
		t.Fatal(err)
	}
	removeSegment(t, r.fs, "user-0", middle)
	r.open()
	p = r.partition(2, 0)
	want := fmt.Sprintf("offsets from %d to %d at stake", middle, next-1)
	if err := p.Load(func(record.Batch) error { return nil }); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("loading: %v, want %q", err, want)
	}
	if b, err := p.Read(middle, 1000, true, nil); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("reading: %d bytes, %v, want %q", len(b), err, want)
	}
	if b, err := p.Read(0, 1000, true, nil); err != nil || len(b) == 0 {
		t.Errorf("reading before it: %d bytes, %v", len(b), err)
	}
	if b, err := p.Read(next, 1000, true, nil); err != nil || len(b) == 0 {
		t.Errorf("reading behind it: %d bytes, %v", len(b), err)
	}
}

// TestCrashWhileATailIsCut: a start that cuts what another program left may crash at
// any of its operations: the next one cuts the same.
func TestCrashWhileATailIsCut(t *testing.T) {
	const name = testDir + "/user-0/" + "00000000000000000020.log"
	crash := vfs.NewCrashable()
	hook := &vfs.Hooked{FS: crash}
	r := segmented(t, hook)
	b := append(batches(upTo(20, 26)...), tenth(27)[:50]...)
	if err := writeFileSync(r.fs, name, b); err != nil {
		t.Fatal(err)
	}
	images := 0
	hook.Before = func(op vfs.Op) *vfs.Failure {
		if !op.Mutates() {
			return nil
		}
		for range 3 {
			images++
			again := newRig(t, crash.Crash(vfs.Seeded(uint64(images))))
			again.options = smallStore
			for start := range 2 {
				again.open()
				p := again.partition(2, 0)
				if p.Err() != nil || !slices.Equal(loaded(again, p), upTo(0, 26)) || p.LogEnd() != 27 {
					t.Fatalf("before %s, start %d: %v, batches %v, log end %d", op, start, p.Err(), loaded(again, p), p.LogEnd())
				}
				again.s.abandon()
			}
		}
		return nil
	}
	r.open()
	if images < 30 {
		t.Errorf("%d images", images)
	}
}
