package log

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/kcoord/kcoord/log/record"
	"github.com/kcoord/kcoord/log/vfs"
)

// TestOneSyncPerRound: a round costs one write and one sync of one file, however
// many partitions it touches; beside that it only makes, without a sync, the files
// of a few partitions that have none yet.
func TestOneSyncPerRound(t *testing.T) {
	for _, c := range []struct {
		name             string
		offsets, user    int32
		commits, batches int
	}{
		{"1 offsets partition", 1, 1, 100, 0},
		{"50 offsets partitions", 50, 1, 100, 0},
		{"500 topic partitions", 50, 500, 50, 500},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, vfs.NewCrashable())
			w.options = nil
			w.open()
			w.meta(topicRecord(1, "offsets", c.offsets, 2), topicRecord(2, "user", c.user, 0))
			for range 3 {
				for i := range c.commits {
					w.commit(w.partition(1, int32(i)%c.offsets))
				}
				for i := range c.batches {
					w.produce(w.partition(2, int32(i)%c.user), 1)
				}
				var ops []string
				w.at = func(op vfs.Op) { ops = append(ops, string(op.Kind)) }
				w.flush()
				w.at = nil
				rest, ok := strings.CutPrefix(strings.Join(ops, " "), "write datasync")
				if !ok || strings.Contains(rest, "sync") || strings.Count(rest, "mkdir") > firstWrites {
					t.Errorf("a round does %q", ops)
				}
			}
			w.at = func(op vfs.Op) {
				if op.IsSync() {
					t.Errorf("the writer syncs: %s", op)
				}
			}
			w.write()
			w.at = nil
		})
	}
}

// TestGoldenOperations compares every change that a short life makes to the disk
// with a recorded list: a missing sync shows as a difference. KCOORD_UPDATE=1
// records anew.
func TestGoldenOperations(t *testing.T) {
	var out bytes.Buffer
	section := func(name string) { fmt.Fprintf(&out, "# %s\n", name) }
	r := newRig(t, vfs.Recorder(vfs.NewCrashable(), testDir, func(line string) { fmt.Fprintln(&out, line) }))
	section("new folder")
	r.open()
	section("topics")
	r.meta(topicRecord(1, "offsets", 2, 2), topicRecord(2, "user", 1, 1))
	section("round")
	r.commit(r.partition(1, 0))
	for range 6 {
		r.produce(r.partition(2, 0), 3)
	}
	r.flush()
	section("partition logs, with a roll")
	r.write()
	section("checkpoint")
	if err := r.s.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	section("checkpoint without change")
	if err := r.s.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	section("another round")
	r.commit(r.partition(1, 0))
	r.flush()
	section("unclean start")
	r.s.abandon()
	r.open()
	section("delete a topic")
	r.meta(deletedRecord(2))
	if _, err := r.s.RetentionStep(); err != nil {
		t.Fatal(err)
	}
	section("clean stop")
	if err := r.s.Close(); err != nil {
		t.Fatal(err)
	}
	section("clean start")
	r.open()

	name := "testdata/operations.txt"
	if os.Getenv("KCOORD_UPDATE") != "" {
		if err := os.WriteFile(name, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	got, wanted := strings.Split(out.String(), "\n"), strings.Split(string(want), "\n")
	for i := range max(len(got), len(wanted)) {
		if i >= len(got) || i >= len(wanted) || got[i] != wanted[i] {
			t.Fatalf("line %d differs from %s:\n%s", i+1, name, strings.Join(got[min(i, len(got)):min(i+3, len(got))], "\n"))
		}
	}
}

func TestListOffsets(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	r.open()
	r.meta(topicRecord(2, "user", 1, 1))
	p := r.partition(2, 0)
	times := []int64{100, 300, 200, 300, 50, 900, 400, 800}
	for i, ts := range times {
		var b record.Builder
		b.Reset(nil, record.Plain(0, -1))
		b.Append(testTime+ts, []byte("k"), bytes.Repeat([]byte("v"), 100+i))
		b.Append(testTime+ts-10, []byte("k"), bytes.Repeat([]byte("v"), 100+i))
		if _, _, err := p.AppendBatch(b.Close()); err != nil {
			t.Fatal(err)
		}
		r.flush()
		if i%3 == 0 {
			r.write()
		}
	}
	check := func() {
		t.Helper()
		if len(p.list()) < 2 {
			t.Fatalf("%d segments", len(p.list()))
		}
		for ts := int64(0); ts < 1000; ts += 10 {
			want := int64(-1)
			for i := len(times) - 1; i >= 0; i-- {
				if times[i] >= ts {
					want = int64(2 * i)
				}
				if times[i]-10 >= ts && want != int64(2*i) {
					want = int64(2*i + 1)
				}
			}
			off, at, _, err := p.OffsetForTimestamp(testTime + ts)
			if err != nil || off != want || off >= 0 && at < testTime+ts {
				t.Errorf("offset for %d: %d at %d, %v; want %d", ts, off, at-testTime, err, want)
			}
		}
		if off, at, _, err := p.MaxTimestamp(); off != 10 || at != testTime+900 || err != nil {
			t.Errorf("max timestamp %d at %d, %v", off, at, err)
		}
	}
	check()
	if err := r.s.Close(); err != nil {
		t.Fatal(err)
	}
	r.open()
	p = r.partition(2, 0)
	check()
}

func TestRetention(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	r.open()
	r.meta(topicRecord(3, "short", 1, 3), topicRecord(4, "small", 1, 4), topicRecord(1, "offsets", 1, 2))
	age, size, compact := r.partition(3, 0), r.partition(4, 0), r.partition(1, 0)
	for range 40 {
		r.produce(age, 2)
		r.produce(size, 2)
		r.commit(compact)
	}
	r.flush()
	r.write()
	step := func() {
		t.Helper()
		for range 3 {
			if _, err := r.s.RetentionStep(); err != nil {
				t.Fatal(err)
			}
			r.flush()
			if err := r.s.Checkpoint(); err != nil {
				t.Fatal(err)
			}
			r.now += 6 * time.Minute
		}
	}
	if _, err := r.s.RetentionStep(); err != nil || age.LogStart() != 0 || size.LogStart() != 0 {
		t.Fatalf("removed before the first run, or above the recovery point: %v", err)
	}
	r.now += time.Hour
	end := age.LogEnd()
	step()
	if age.LogStart() != end || age.LogEnd() != end || age.Size() != 0 || len(age.list()) != 1 {
		t.Errorf("by age: log start %d, end %d of %d, %d bytes in %d segments", age.LogStart(), age.LogEnd(), end, age.Size(), len(age.list()))
	}
	if s := size.Size(); s < 2000 || s >= 3000 || size.LogStart() == 0 {
		t.Errorf("by size: %d bytes are left, log start %d", s, size.LogStart())
	}
	if compact.LogStart() != 0 {
		t.Errorf("a compacted topic lost records up to %d", compact.LogStart())
	}
	if _, err := size.Read(size.LogStart()-1, 100, true, nil); !errors.Is(err, ErrOffsetOutOfRange) {
		t.Errorf("read below the log start: %v", err)
	}
	if _, _, err := compact.DeleteRecords(1, nil); !errors.Is(err, ErrPolicy) {
		t.Errorf("DeleteRecords of a compacted topic: %v", err)
	}
	for _, off := range []int64{-2, size.LogEnd() + 1} {
		if _, _, err := size.DeleteRecords(off, nil); !errors.Is(err, ErrOffsetOutOfRange) {
			t.Errorf("DeleteRecords to %d: %v", off, err)
		}
	}
	r.s.abandon()
	r.open()
	age, size = r.partition(3, 0), r.partition(4, 0)
	if age.LogEnd() != end || age.LogStart() != end || r.produce(age, 1) != end {
		t.Errorf("after a start: log start %d, end %d", age.LogStart(), age.LogEnd())
	}
	to := size.LogEnd() - 1
	if low, durable, err := size.DeleteRecords(to, &Waiter{Slot: 9}); low != to || durable || err != nil {
		t.Fatalf("DeleteRecords: %d, %v, %v", low, durable, err)
	}
	r.flush()
	if size.LogStart() != to || len(r.released) != 1 {
		t.Fatalf("log start %d, want %d", size.LogStart(), to)
	}
	r.s.abandon()
	r.open()
	if size = r.partition(4, 0); size.LogStart() != to {
		t.Errorf("after a start: log start %d, want %d", size.LogStart(), to)
	}
	if first, next := r.fetch(size, to, 10); first > to || next != to+1 {
		t.Errorf("fetch from %d gives %d to %d", to, first, next)
	}
}

// TestRefusals opens folders that must not be opened.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name   string
		clean  bool
		damage func(fs vfs.FS) error
		want   error
	}{
		{"no snapshot", false, func(fs vfs.FS) error { return fs.Remove(path.Join(testDir, snapshotName)) }, ErrDamaged},
		{"no properties", false, func(fs vfs.FS) error { return fs.Remove(path.Join(testDir, propertiesName)) }, ErrForeign},
		{"no properties, clean", true, func(fs vfs.FS) error { return fs.Remove(path.Join(testDir, propertiesName)) }, ErrForeign},
		{"no journal", false, func(fs vfs.FS) error { return fs.Remove(path.Join(testDir, "kcoord-journal-00000001.wal")) }, ErrDamaged},
		{"newer properties", true, func(fs vfs.FS) error {
			return writeFile(fs, path.Join(testDir, propertiesName), []byte("format.version=2\n"))
		}, ErrNewer},
		{"other node", true, func(fs vfs.FS) error {
			return writeFile(fs, path.Join(testDir, metaName), []byte("version=1\ncluster.id=cluster\nnode.id=7\n"))
		}, ErrOtherNode},
		{"other cluster", true, func(fs vfs.FS) error {
			return writeFile(fs, path.Join(testDir, metaName), []byte("version=1\ncluster.id=other\nnode.id=1\n"))
		}, ErrOtherNode},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := vfs.NewMem()
			r := newRig(t, fs)
			r.open()
			r.history()
			if c.clean {
				if err := r.s.Close(); err != nil {
					t.Fatal(err)
				}
			} else {
				fs.Kill()
			}
			if err := c.damage(fs); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := r.tryOpen(); !errors.Is(err, c.want) {
					t.Errorf("open: %v, want %v", err, c.want)
				}
			}
		})
	}
	fs := vfs.NewMem()
	r := newRig(t, fs)
	first := r.open()
	if err := r.tryOpen(); !errors.Is(err, ErrLocked) {
		t.Errorf("a second process: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestSnapshotDamage: a snapshot that is cut or has any bit flipped is refused.
func TestSnapshotDamage(t *testing.T) {
	sn := &snapshot{folder: [16]byte{1}, records: [][]byte{topicRecord(1, "t", 2, 0), startRecord{3, 0, "v"}.append(nil)}}
	sn.replay.File, sn.replay.Offset, sn.replay.Sequence = 2, 4096, 17
	b := sn.append(nil)
	got, err := parseSnapshot(b)
	if err != nil || got.replay != sn.replay || len(got.records) != 2 || got.folder != sn.folder || got.clean {
		t.Fatalf("%+v, %v", got, err)
	}
	for n := range b {
		if _, err := parseSnapshot(b[:n]); err == nil {
			t.Errorf("%d of %d bytes are accepted", n, len(b))
		}
		for bit := range 8 {
			bad := bytes.Clone(b)
			bad[n] ^= 1 << bit
			if _, err := parseSnapshot(bad); !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNewer) {
				t.Errorf("byte %d bit %d: %v", n, bit, err)
			}
		}
	}
}
