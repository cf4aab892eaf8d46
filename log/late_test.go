package log

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"syscall"
	"testing"
	"time"

	"github.com/kcoord/kcoord/log/record"
	"github.com/kcoord/kcoord/log/vfs"
)

// full makes a folder that was stopped in order, on a disk that is full from then on
// until room is set.
func full(t *testing.T) (w *world, room *bool, want []byte) {
	t.Helper()
	w = newWorld(t, vfs.NewCrashable())
	w.open()
	w.meta(topicRecord(1, "offsets", 1, 2), topicRecord(2, "user", 1, 1))
	for range 6 {
		w.commit(w.partition(1, 0))
		w.produce(w.partition(2, 0), 3)
		w.flush()
	}
	w.write()
	want = readAll(w.rig, w.partition(2, 0))
	if err := w.s.Close(); err != nil {
		t.Fatal(err)
	}
	room = new(bool)
	w.fail = func(op vfs.Op) *vfs.Failure {
		if !*room && (op.Kind == vfs.OpPreallocate || op.Kind == vfs.OpWrite) {
			return &vfs.Failure{Err: syscall.ENOSPC}
		}
		return nil
	}
	return w, room, want
}

// refusedAndServed: everything that is there can be read, nothing is taken.
func (w *world) refusedAndServed(what string, want []byte) {
	w.t.Helper()
	p := w.partition(2, 0)
	if err := w.s.Admit(); !errors.Is(err, ErrNoSpace) || w.s.Refusing() != NoJournal {
		w.t.Fatalf("%s: admit: %v, refusing %q", what, err, w.s.Refusing())
	}
	if err := w.s.AppendMetadata([][]byte{deletedRecord(2)}, nil, true); !errors.Is(err, ErrNoSpace) {
		w.t.Errorf("%s: urgent metadata: %v", what, err)
	}
	if _, _, err := p.DeleteRecords(1, nil); !errors.Is(err, ErrNoSpace) {
		w.t.Errorf("%s: DeleteRecords: %v", what, err)
	}
	if got := readAll(w.rig, p); !bytes.Equal(got, want) {
		w.t.Errorf("%s: loaded %d bytes, want %d", what, len(got), len(want))
	}
	if first, next := w.fetch(p, 0, 100); first != 0 || next != p.LogEnd() {
		w.t.Errorf("%s: fetch gives %d to %d", what, first, next)
	}
	if at, _, _, err := p.MaxTimestamp(); err != nil || at < 0 {
		w.t.Errorf("%s: by time: %d, %v", what, at, err)
	}
	if rolled, err := p.RollActive(1); rolled || err != nil {
		w.t.Errorf("%s: rolled %t, %v", what, rolled, err)
	}
	if sp := w.s.JournalSpace(); sp != (JournalSpace{}) {
		w.t.Errorf("%s: journal %+v", what, sp)
	}
	w.now += time.Hour
	for _, l := range w.s.Loops() {
		if next, err := l.Step(); err != nil || next == 0 {
			w.t.Errorf("%s: %s: next in %v, %v", what, l.Name, next, err)
		}
	}
}

// TestCleanStartOnAFullDisk: without space for a journal the folder is served from, and
// stays one that was stopped in order; writes are taken when there is space.
func TestCleanStartOnAFullDisk(t *testing.T) {
	for _, then := range []string{"space comes back", "kill", "stop"} {
		w, room, want := full(t)
		w.open()
		if k := w.s.Folder().Kind; k != FolderClean {
			t.Fatalf("%s: kind %d", then, k)
		}
		for range 3 {
			w.refusedAndServed(then, want)
		}
		// What a coordinator finds to say while it loads does not ask: it waits.
		p := w.partition(1, 0)
		off := w.commit(p)
		if p.Await(off, Waiter{Slot: 1}) {
			t.Fatalf("%s: durable without a journal", then)
		}
		w.rig.flush()
		switch then {
		case "space comes back":
			*room = true
			for range 3 {
				if _, err := w.s.PrepareStep(); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.s.Admit(); err != nil || w.s.Refusing() != "" {
				t.Fatalf("refused with space: %v", err)
			}
			w.flush()
			if len(w.released) != 1 || p.DurableEnd() != off+1 {
				t.Errorf("released %d, durable up to %d", len(w.released), p.DurableEnd())
			}
			w.produce(w.partition(2, 0), 2)
			w.flush()
			judge(t, then, w.crash.Crash(vfs.KeepNone), w.promised, w.now)
			continue
		case "kill":
			w.crash.Kill()
		case "stop": // nothing of it needs space, but the marker, which the start took away
			if err := w.s.Close(); !outOfSpace(err) {
				t.Fatalf("a stop: %v", err)
			}
		}
		for start := range 2 {
			w.open() // full as before
			w.refusedAndServed(fmt.Sprintf("after a %s, start %d", then, start), want)
			w.s.abandon()
		}
		*room = true
		w.open()
		if k := w.s.Folder().Kind; k != FolderClean || w.s.Admit() != nil {
			t.Errorf("%s: kind %d, admit %v", then, k, w.s.Admit())
		}
		w.s.abandon()
		judge(t, then, w.crash.Crash(vfs.KeepNone), w.promised, w.now)
	}
}

// TestStopWhileWaitingForSpace: the stop is in order if the marker can be written.
func TestStopWhileWaitingForSpace(t *testing.T) {
	w, room, _ := full(t)
	w.open()
	*room = true
	if err := w.s.Close(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{markerName: true, guardName: false, "kcoord-journal-00000001.wal": false, "kcoord-journal-00000002.wal": false} {
		if there, _ := exists(w.fs, path.Join(testDir, name)); there != want {
			t.Errorf("%s is there: %t", name, there)
		}
	}
	judge(t, "stopped", w.crash.Crash(vfs.KeepNone), w.promised, w.now)
}

// TestLateBeginFails: each operation with which a folder becomes one that is written to
// finds no space, or ends with a power cut, at the start or when there was space for
// the ones before it: what was promised is there, and either the store waits on or the
// process ends.
func TestLateBeginFails(t *testing.T) {
	waited, ended, images := 0, 0, 0
	for i := range 4 {
		late, stop := i%2 > 0, i/2 > 0
		for n := 1; ; n++ {
			w, room, want := full(t)
			if !late {
				*room = true
			} else {
				w.open()
				*room = true
			}
			w.ops = 0
			w.at = func(vfs.Op) {
				if w.ops == n {
					images++
					judge(t, fmt.Sprintf("late %t, before operation %d", late, n), w.crash.Crash(vfs.Seeded(uint64(n))), w.promised, w.now)
				}
			}
			failed := false
			w.fail = func(op vfs.Op) *vfs.Failure {
				if failed || !op.Mutates() || w.ops != n {
					return nil
				}
				failed = true
				return &vfs.Failure{Err: syscall.ENOSPC, Short: int(op.Len / 2)}
			}
			var err error
			if late {
				_, err = w.s.PrepareStep()
			} else {
				err = w.tryOpen()
			}
			w.at, w.fail = nil, nil
			if !failed {
				break
			}
			what := fmt.Sprintf("late %t, operation %d", late, n)
			switch {
			case err != nil:
				ended++
			case w.s.Admit() != nil:
				if waited++; stop {
					if err := w.s.Close(); err != nil {
						t.Errorf("%s: stopping: %v", what, err)
					}
					break
				}
				w.refusedAndServedUntilNext(what, want)
			}
			w.crash.Kill()
			judge(t, what, w.crash, w.promised, w.now)
		}
	}
	if waited < 4 || ended < 2 || images < 15 {
		t.Errorf("waited %d times, ended %d times, %d images", waited, ended, images)
	}
}

// refusedAndServedUntilNext is refusedAndServed but for the preparer, which would find
// space.
func (w *world) refusedAndServedUntilNext(what string, want []byte) {
	w.t.Helper()
	var got []byte
	if err := w.partition(2, 0).Load(func(b record.Batch) error { got = append(got, b...); return nil }); err != nil || !bytes.Equal(got, want) {
		w.t.Errorf("%s: loaded %d bytes, want %d: %v", what, len(got), len(want), err)
	}
	for range 3 {
		if _, err := w.s.PrepareStep(); err != nil {
			w.t.Fatalf("%s: %v", what, err)
		}
	}
	if err := w.s.Admit(); err != nil {
		w.t.Errorf("%s: not healed: %v", what, err)
	}
	w.commit(w.partition(1, 0))
	w.flush()
}

// TestFolderRemovedWhileWaiting: nothing is made where the folder was.
func TestFolderRemovedWhileWaiting(t *testing.T) {
	w, room, _ := full(t)
	w.open()
	if err := w.crash.RemoveAll(testDir); err != nil {
		t.Fatal(err)
	}
	*room = true
	if _, err := w.s.PrepareStep(); !errors.Is(err, ErrFolderGone) {
		t.Errorf("preparing: %v", err)
	}
	if there, _ := exists(w.fs, testDir); there {
		t.Error("the folder is there again")
	}
}
