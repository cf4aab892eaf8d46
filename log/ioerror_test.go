package log

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kcoord/kcoord/log/vfs"
)

// onUserLog accepts an operation on a segment of the user topic.
func onUserLog(kind vfs.OpKind) func(vfs.Op) bool {
	return func(op vfs.Op) bool {
		return op.Kind == kind && strings.Contains(op.Path, "user-0/") && strings.HasSuffix(op.Path, suffixLog)
	}
}

// TestSegmentWriteErrors: whatever fails while a partition log is written, what is
// durable was answered, stays in the journal, and is written without a hole when the
// fault is over; other partitions go on.
func TestSegmentWriteErrors(t *testing.T) {
	for _, c := range []struct {
		name string
		fail func(op vfs.Op) *vfs.Failure
		all  bool // every partition is refused meanwhile: there is no space
	}{
		{"nothing is written", func(op vfs.Op) *vfs.Failure {
			if onUserLog(vfs.OpWrite)(op) {
				return &vfs.Failure{Err: syscall.ENOSPC}
			}
			return nil
		}, true},
		{"a part is written", func(op vfs.Op) *vfs.Failure {
			if onUserLog(vfs.OpWrite)(op) {
				return &vfs.Failure{Err: syscall.ENOSPC, Short: 57}
			}
			return nil
		}, true},
		{"a part is written and cannot be cut off", func(op vfs.Op) *vfs.Failure {
			if onUserLog(vfs.OpWrite)(op) || onUserLog(vfs.OpTruncate)(op) {
				return &vfs.Failure{Err: syscall.EDQUOT, Short: 57}
			}
			return nil
		}, true},
		{"a segment cannot be made", func(op vfs.Op) *vfs.Failure {
			if onUserLog(vfs.OpOpenTrunc)(op) || onUserLog(vfs.OpWrite)(op) {
				return &vfs.Failure{Err: syscall.ENOSPC}
			}
			return nil
		}, true},
		{"too many open files", func(op vfs.Op) *vfs.Failure {
			if onUserLog(vfs.OpOpenTrunc)(op) || onUserLog(vfs.OpWrite)(op) {
				return &vfs.Failure{Err: syscall.EMFILE}
			}
			return nil
		}, false},
		{"a media error", func(op vfs.Op) *vfs.Failure {
			if onUserLog(vfs.OpWrite)(op) {
				return &vfs.Failure{Err: syscall.EIO, Short: 3}
			}
			return nil
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, vfs.NewCrashable())
			w.open()
			w.meta(topicRecord(1, "offsets", 1, 2), topicRecord(2, "user", 1, 1))
			p, other := w.partition(2, 0), w.partition(1, 0)
			w.produce(p, 3)
			w.flush()
			w.write()
			written := p.HighWatermark()
			w.fail = c.fail
			for range 12 { // through several segments
				w.produce(p, 3)
				w.commit(other)
				w.flush()
			}
			for range 5 {
				w.now += time.Second
				if _, err := w.s.WriteStep(); err != nil {
					t.Fatal(err)
				}
			}
			if p.HighWatermark() != written || p.Err() == nil || p.DurableEnd() != p.LogEnd() {
				t.Fatalf("high watermark %d, was %d; durable %d of %d, %v", p.HighWatermark(), written, p.DurableEnd(), p.LogEnd(), p.Err())
			}
			if other.HighWatermark() != other.DurableEnd() || other.Err() != nil {
				t.Errorf("the other partition: high watermark %d of %d, %v", other.HighWatermark(), other.DurableEnd(), other.Err())
			}
			if err := w.s.Admit(); (err != nil) != c.all {
				t.Errorf("admit: %v", err)
			}
			if _, _, err := p.AppendBatch(tenth(0)); !errors.Is(err, ErrStorage) {
				t.Errorf("an append: %v", err)
			}
			if b, err := p.Read(0, 1000, true, nil); err != nil || len(b) == 0 {
				t.Errorf("a read of what is written: %d bytes, %v", len(b), err)
			}
			at := w.s.check.replay()
			w.checkpoint()
			if got := w.s.check.replay(); got.Sequence > at.Sequence+4 {
				t.Errorf("the journal that holds the rest was given up: replay from %v, was %v", got, at)
			}
			judge(t, "meanwhile", w.crash.Crash(vfs.KeepNone), w.promised, w.now)
			w.fail = nil
			w.now += 2 * time.Second
			w.write()
			if p.Err() != nil || p.HighWatermark() != p.DurableEnd() || w.s.Admit() != nil {
				t.Fatalf("not healed: %v, high watermark %d of %d, admit %v", p.Err(), p.HighWatermark(), p.DurableEnd(), w.s.Admit())
			}
			checkLog(w.rig, p)
			w.checkpoint()
			judge(t, "healed", w.crash.Crash(vfs.KeepNone), w.promised, w.now)
		})
	}
}

// TestShortWritesGoOn: a write to a partition log that writes less than it was given,
// for no other reason, is continued.
func TestShortWritesGoOn(t *testing.T) {
	w := newWorld(t, vfs.NewCrashable())
	w.open()
	w.meta(topicRecord(2, "user", 1, 1))
	short := 0
	w.fail = func(op vfs.Op) *vfs.Failure {
		if op.Kind == vfs.OpWrite && op.Len > 100 && strings.HasSuffix(op.Path, suffixLog) && short%2 == 0 {
			short++
			return &vfs.Failure{Err: io.ErrShortWrite, Short: int(op.Len) / 3}
		}
		short++
		return nil
	}
	for range 10 {
		w.produce(w.partition(2, 0), 3)
		w.flush()
		w.write()
	}
	if short == 0 {
		t.Fatal("no write was cut short")
	}
	checkLog(w.rig, w.partition(2, 0))
	w.crash.Kill()
	w.fail = nil
	judge(t, "after it", w.crash, w.promised, w.now)
}

// TestSnapshotCannotBeWritten: the old snapshot holds and nothing is freed; a failed
// rename ends the process; a stop is not clean then.
func TestSnapshotCannotBeWritten(t *testing.T) {
	for _, c := range []struct {
		kind  vfs.OpKind
		final bool
	}{{vfs.OpWrite, false}, {vfs.OpSync, false}, {vfs.OpOpenTrunc, false}, {vfs.OpRename, true}} {
		w := newWorld(t, vfs.NewCrashable())
		w.open()
		w.meta(topicRecord(1, "offsets", 1, 2))
		w.commit(w.partition(1, 0))
		w.flush()
		w.write()
		replay := w.s.check.replay()
		w.fail = func(op vfs.Op) *vfs.Failure {
			if op.Kind == c.kind && strings.Contains(op.Path, snapshotTmp) {
				return &vfs.Failure{Err: syscall.ENOSPC, Short: 10}
			}
			return nil
		}
		w.s.RequestCheckpoint()
		next, err := w.s.CheckpointStep()
		if (err != nil) != c.final || err == nil && next != checkpointRetry {
			t.Errorf("%s: %v, next in %v", c.kind, err, next)
		}
		if got := w.s.check.replay(); got != replay || w.partition(1, 0).RecoveryPoint() != 0 {
			t.Errorf("%s: replay from %v, was %v; recovery point %d", c.kind, got, replay, w.partition(1, 0).RecoveryPoint())
		}
		if err := w.s.Close(); err == nil {
			t.Errorf("%s: the stop counts as clean", c.kind)
		}
		if there, _ := exists(w.fs, path.Join(testDir, markerName)); there {
			t.Errorf("%s: a marker of a clean stop", c.kind)
		}
		w.fail = nil
		w.crash.Kill()
		judge(t, string(c.kind), w.crash, w.promised, w.now)
	}
}

// TestStopThatFails: whichever operation of a clean stop fails, there is no marker
// unless everything it vouches for is there.
func TestStopThatFails(t *testing.T) {
	failed := 0
	for n := 1; ; n++ {
		w := newWorld(t, vfs.NewCrashable())
		w.open()
		w.meta(topicRecord(1, "offsets", 2, 2), topicRecord(2, "user", 1, 1))
		w.commit(w.partition(1, 0))
		w.produce(w.partition(2, 0), 9)
		w.flush()
		w.ops = 0
		w.fail = func(op vfs.Op) *vfs.Failure {
			if op.Mutates() && w.ops == n {
				return &vfs.Failure{Err: syscall.EIO, Lose: true}
			}
			return nil
		}
		err := w.s.Close()
		if w.ops < n {
			break
		}
		image := w.crash.Crash(vfs.KeepNone)
		if there, _ := exists(image, path.Join(testDir, markerName)); there && err != nil {
			if guard, _ := exists(image, path.Join(testDir, guardName)); guard {
				t.Errorf("operation %d: marker and guard at once", n)
			}
		}
		if err != nil {
			failed++
		}
		judge(t, fmt.Sprintf("operation %d (%v)", n, err), image, w.promised, w.now)
	}
	if failed < 10 {
		t.Errorf("%d stops failed", failed)
	}
}

// TestRemovalIsTriedAgain: files whose removal fails are removed later.
func TestRemovalIsTriedAgain(t *testing.T) {
	w := newWorld(t, vfs.NewCrashable())
	w.open()
	w.meta(topicRecord(4, "small", 1, 4))
	for range 30 {
		w.produce(w.partition(4, 0), 3)
		w.flush()
	}
	w.write()
	w.checkpoint()
	w.fail = func(op vfs.Op) *vfs.Failure {
		if op.Kind == vfs.OpRemove {
			return &vfs.Failure{Err: syscall.EBUSY}
		}
		return nil
	}
	w.retain()
	w.retain()
	left := func() (n int) {
		for _, name := range filesBelow(t, w.fs, path.Join(testDir, "small-0")) {
			if strings.HasSuffix(name, suffixDeleted) {
				n++
			}
		}
		return n
	}
	if left() == 0 || !strings.Contains(strings.Join(w.warnings, "\n"), "remove: ") {
		t.Fatalf("%d files are left, warnings %q", left(), w.warnings)
	}
	w.fail = nil
	w.retain()
	if n := left(); n != 0 {
		t.Errorf("%d files are left", n)
	}
}

// TestStartOnAFullDisk: a start after a kill needs no space: what cannot be written
// stays in memory and in the journal, is served to who loads, and writes are refused
// until there is room.
func TestStartOnAFullDisk(t *testing.T) {
	r, want, _ := killed(t)
	mem := r.fs.(*vfs.Mem)
	full := true
	r.fs = &vfs.Hooked{FS: mem, Before: func(op vfs.Op) *vfs.Failure {
		grows := op.Kind == vfs.OpWrite && !strings.HasSuffix(op.Path, ".wal") || op.Kind == vfs.OpPreallocate || op.Kind == vfs.OpOpenTrunc
		if full && grows {
			return &vfs.Failure{Err: syscall.ENOSPC}
		}
		return nil
	}}
	r.open()
	p := r.partition(2, 0)
	for range 3 {
		_, _ = r.s.WriteStep()
		r.now += time.Second
	}
	if got := readAll(r, p); !bytes.Equal(got, want) {
		t.Fatalf("loaded %d bytes, want %d", len(got), len(want))
	}
	if err := r.s.Admit(); !errors.Is(err, ErrNoSpace) {
		t.Errorf("admit: %v", err)
	}
	if b, err := p.Read(0, 1000, true, nil); err != nil || len(b) == 0 {
		t.Errorf("read: %d bytes, %v", len(b), err)
	}
	full = false
	r.now += 2 * time.Second
	r.write()
	for range 3 {
		if _, err := r.s.PrepareStep(); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.s.Admit(); err != nil || p.Err() != nil || p.HighWatermark() != p.DurableEnd() {
		t.Errorf("not healed: admit %v, %v, high watermark %d of %d", err, p.Err(), p.HighWatermark(), p.DurableEnd())
	}
	if err := r.s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestAcknowledgedMetadata: topics, partitions, log starts that were answered are
// there after a kill, with or without the folders.
func TestAcknowledgedMetadata(t *testing.T) {
	dir := path.Join(testDir, "user-0")
	for what, damage := range map[string]func(r *rig) error{
		"as it is":              func(*rig) error { return nil },
		"no folder":             func(r *rig) error { return r.fs.RemoveAll(dir) },
		"no partition.metadata": func(r *rig) error { return r.fs.Remove(path.Join(dir, partitionMetadata)) },
		"an empty partition.metadata": func(r *rig) error {
			return writeFile(r.fs, path.Join(dir, partitionMetadata), make([]byte, 44))
		},
	} {
		mem := vfs.NewMem()
		r := newRig(t, mem)
		r.options = smallStore
		r.open()
		r.meta(topicRecord(2, "user", 1, 1))
		for range 8 {
			r.produce(r.partition(2, 0), 2)
		}
		r.flush()
		r.write()
		if _, _, err := r.partition(2, 0).DeleteRecords(5, nil); err != nil {
			t.Fatal(err)
		}
		r.meta(topicRecord(2, "user", 3, 1), topicRecord(3, "new", 2, 0))
		mem.Kill()
		if err := damage(r); err != nil {
			t.Fatal(err)
		}
		for start := range 2 {
			r.open()
			p := r.partition(2, 0)
			if p.Err() != nil || p.LogStart() != 5 || p.LogEnd() != 16 {
				t.Errorf("%s, start %d: %v, log start %d, end %d", what, start, p.Err(), p.LogStart(), p.LogEnd())
			}
			if first, next := r.fetch(p, 5, 100); first > 5 || next != 16 {
				t.Errorf("%s, start %d: fetch gives %d to %d", what, start, first, next)
			}
			if _, err := p.Read(4, 100, true, nil); !errors.Is(err, ErrOffsetOutOfRange) {
				t.Errorf("%s, start %d: a read below the log start: %v", what, start, err)
			}
			if r.s.Partition(testTopic(2), 2) == nil || r.s.Partition(testTopic(3), 1) == nil || r.s.Partition(testTopic(3), 2) != nil {
				t.Errorf("%s, start %d: other partitions", what, start)
			}
			mem.Kill()
		}
	}
}

// TestHeldReaderOfRemovedSegment: a reader that holds a segment finishes although
// retention has removed it; then its offsets are out of range.
func TestHeldReaderOfRemovedSegment(t *testing.T) {
	w := newWorld(t, vfs.NewCrashable())
	w.open()
	w.meta(topicRecord(4, "small", 1, 4))
	p := w.partition(4, 0)
	for range 30 {
		w.produce(p, 3)
		w.flush()
	}
	w.write()
	w.checkpoint()
	g := p.list()[0]
	if !g.acquire() {
		t.Fatal("segment 0 is closed")
	}
	w.retain()
	w.retain()
	if there, _ := exists(w.fs, g.name(suffixLog)); there || p.LogStart() == 0 {
		t.Fatalf("segment 0 is still there, log start %d", p.LogStart())
	}
	b, err := p.readSegment(g, 0, 1<<20, true, nil)
	if err != nil || int64(len(b)) != g.size.Load() {
		t.Errorf("read %d of %d bytes: %v", len(b), g.size.Load(), err)
	}
	g.release()
	if _, err := p.Read(0, 1000, true, nil); !errors.Is(err, ErrOffsetOutOfRange) {
		t.Errorf("a read of removed offsets: %v", err)
	}
	if g.acquire() {
		t.Error("the file of a removed segment is still open")
	}
}

// TestJournalAtItsLimit: while checkpoints cannot keep up writes are refused, but for
// those that free space; the next checkpoint heals it.
func TestJournalAtItsLimit(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	r.options = func(o *Options) { o.JournalMaxBytes = 64 << 20 }
	s := r.open()
	r.meta(topicRecord(2, "user", 1, 0))
	p := r.partition(2, 0)
	large := batchAt(0, 0, 6<<20)
	for s.Admit() == nil && p.LogEnd() < 30 {
		if _, _, err := p.AppendBatch(large); err != nil {
			t.Fatal(err)
		}
		r.flush()
		r.write()
		if _, err := s.PrepareStep(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Admit(); !errors.Is(err, ErrNoSpace) || s.j.Space().Used > s.o.JournalMaxBytes+2*16<<20 {
		t.Fatalf("admit after %d batches: %v, %d bytes of journal", p.LogEnd(), err, s.j.Space().Used)
	}
	if err := s.AppendMetadata([][]byte{deletedRecord(9)}, nil, true); err != nil {
		t.Errorf("urgent metadata: %v", err)
	}
	r.flush()
	if err := s.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	if err := s.Admit(); err != nil {
		t.Errorf("not healed: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestFolderRemovedWhileServed: within a second nothing more is acknowledged and the
// process is to end; nothing is made where the folder was.
func TestFolderRemovedWhileServed(t *testing.T) {
	mem := vfs.NewMem()
	r := newRig(t, mem)
	s := r.open()
	r.meta(topicRecord(2, "user", 1, 0))
	if err := mem.RemoveAll(s.o.Dir); err != nil {
		t.Fatal(err)
	}
	r.now += freeCheckInterval
	if _, err := s.PrepareStep(); !errors.Is(err, ErrFolderGone) {
		t.Errorf("preparing: %v", err)
	}
	if err := s.Admit(); !errors.Is(err, ErrFailed) {
		t.Errorf("admit: %v", err)
	}
	if _, err := mem.List(s.o.Dir); err == nil {
		t.Error("the folder is there again")
	}
}
