package log

import (
	"path"
	"syscall"
	"testing"

	"github.com/kcoord/kcoord/log/vfs"
)

// rolledEmpty makes a store whose recovery point lies at the beginning of an empty
// active segment behind a closed one.
func rolledEmpty(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, vfs.NewCrashable())
	w.open()
	w.meta(topicRecord(1, "offsets", 1, 2))
	p := w.partition(1, 0)
	for range 5 {
		w.commit(p)
	}
	w.flush()
	w.write()
	if rolled, err := p.RollActive(1); !rolled || err != nil {
		t.Fatal(rolled, err)
	}
	w.checkpoint()
	if p.RecoveryPoint() != 5 || p.disk.rpBase != 5 || p.disk.rpPosition != 0 {
		t.Fatalf("recovery point %d at byte %d of segment %d", p.RecoveryPoint(), p.disk.rpPosition, p.disk.rpBase)
	}
	return w
}

// TestSyncFailsBehindAnEmptySegment: the log is cut to the recovery point, which takes
// the active segment away; what is written again goes to a new one, not to the closed
// one before it.
func TestSyncFailsBehindAnEmptySegment(t *testing.T) {
	for _, start := range []string{"no", "kill", "clean"} {
		w := rolledEmpty(t)
		switch start {
		case "kill":
			w.crash.Kill()
			w.open()
		case "clean":
			if err := w.s.Close(); err != nil {
				t.Fatal(err)
			}
			w.open()
		}
		p := w.partition(1, 0)
		closed := p.list()[0].size.Load()
		w.commit(p)
		w.flush()
		w.write()
		failed := false
		w.fail = func(op vfs.Op) *vfs.Failure {
			if failed || op.Kind != vfs.OpDatasync || op.Path != path.Join(testDir, "offsets-0", segmentName(5, suffixLog)) {
				return nil
			}
			failed = true
			return &vfs.Failure{Err: syscall.EIO, Lose: true, Revert: true}
		}
		if err := w.s.Checkpoint(); err != nil || !failed || p.RecoveryPoint() != 6 || p.Err() != nil {
			t.Fatalf("start %s: %v (failed %t); recovery point %d, %v", start, err, failed, p.RecoveryPoint(), p.Err())
		}
		if list := p.list(); len(list) != 2 || list[0].size.Load() != closed || list[1].base != 5 {
			t.Errorf("start %s: %d segments, the first of %d bytes, had %d", start, len(list), list[0].size.Load(), closed)
		}
		checkLog(w.rig, p)
		judge(t, start, w.crash.Crash(vfs.KeepNone), w.promised, w.now)
	}
}

// TestEmptySegmentIsMissing: nothing is lost with it, and the next record begins it
// anew.
func TestEmptySegmentIsMissing(t *testing.T) {
	for _, clean := range []bool{true, false} {
		w := rolledEmpty(t)
		if !clean {
			w.crash.Kill()
		} else if err := w.s.Close(); err != nil {
			t.Fatal(err)
		}
		removeSegment(t, w.fs, "offsets-0", 5)
		w.open()
		w.checkpoint()
		p := w.partition(1, 0)
		if p.Err() != nil || p.RecoveryPoint() != 5 || w.commit(p) != 5 {
			t.Fatalf("clean %t: %v, recovery point %d, end %d", clean, p.Err(), p.RecoveryPoint(), p.LogEnd())
		}
		w.flush()
		w.write()
		checkLog(w.rig, p)
		if list := p.list(); len(list) != 2 || list[1].base != 5 {
			t.Errorf("clean %t: %d segments", clean, len(list))
		}
		w.checkpoint()
		judge(t, "after it", w.crash.Crash(vfs.KeepNone), w.promised, w.now)
	}
}
