package log

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kcoord/kcoord/log/record"
	"github.com/kcoord/kcoord/log/vfs"
)

// stopped is how a scenario ends when the store reports an error.
type stopped struct{ err string }

// until runs a scenario until its end or its first error.
func until(w *world, scenario func(*world)) (err error) {
	w.fatal = func(format string, args ...any) { panic(stopped{fmt.Sprintf(format, args...)}) }
	defer func() {
		w.fatal = w.t.Fatalf
		if r := recover(); r != nil {
			s, ok := r.(stopped)
			if !ok {
				panic(r)
			}
			err = errors.New(s.err)
		}
	}()
	scenario(w)
	return nil
}

// sweep is the step between the operations that a sweep looks at: 1 if
// KCOORD_SWEEP is set, else as many as fit into the time of an ordinary run.
func sweep() int {
	switch {
	case os.Getenv("KCOORD_SWEEP") != "":
		return 1
	case testing.Short():
		return 24
	}
	return 8
}

// TestEveryFailure fails each operation of each scenario once, in several ways.
// Whatever the store makes of it, a start afterwards finds all that was
// promised, on the same machine and after a power cut.
func TestEveryFailure(t *testing.T) {
	kinds := []struct {
		name string
		fail func(op vfs.Op) *vfs.Failure
	}{
		{"EIO", func(vfs.Op) *vfs.Failure { return &vfs.Failure{Err: syscall.EIO} }},
		{"ENOSPC", func(op vfs.Op) *vfs.Failure { return &vfs.Failure{Err: syscall.ENOSPC, Short: int(op.Len / 2)} }},
		{"lost", func(op vfs.Op) *vfs.Failure {
			return &vfs.Failure{Err: syscall.EIO, Lose: op.IsSync(), Revert: op.IsSync()}
		}},
		{"done", func(vfs.Op) *vfs.Failure { return &vfs.Failure{Err: syscall.EIO, After: true} }},
	}
	for name, scenario := range scenarios {
		t.Run(name, func(t *testing.T) {
			for i, kind := range kinds {
				survived, ended := 0, 0
				for n := 1 + i*sweep()/len(kinds); ; n += sweep() {
					w := newWorld(t, vfs.NewCrashable())
					w.ops = 0
					done := false
					w.fail = func(op vfs.Op) *vfs.Failure {
						if done || !op.Mutates() || w.ops != n {
							return nil
						}
						done = true
						return kind.fail(op)
					}
					err := until(w, scenario)
					w.fail = nil
					if !done {
						break // past the last operation
					}
					if err != nil && strings.Contains(err.Error(), "does not end") {
						t.Fatalf("operation %d failed with %s: %v", n, kind.name, err)
					}
					if err == nil {
						survived++
					} else {
						ended++
					}
					promises := map[string]promised{}
					for k, v := range w.promised {
						if !w.doomed[k[0]-'0'] {
							promises[k] = v
						}
					}
					what := fmt.Sprintf("operation %d failed with %s (%v)", n, kind.name, err)
					image := w.crash.Crash(vfs.KeepNone)
					w.crash.Kill()
					if n%2 == 0 {
						judge(t, what+", same machine", w.crash, promises, w.now)
					} else {
						judge(t, what+", power cut", image, promises, w.now)
					}
				}
				t.Logf("%s: %d survived, %d ended the process", kind.name, survived, ended)
			}
		})
	}
}

// TestSegmentFull: a partition log that finds no space keeps its batches, refuses
// writes everywhere, and heals.
func TestSegmentFull(t *testing.T) {
	w := newWorld(t, vfs.NewCrashable())
	w.open()
	w.meta(topicRecord(1, "offsets", 2, 2))
	p, q := w.partition(1, 0), w.partition(1, 1)
	w.commit(p)
	w.flush()
	w.write()
	full := true
	w.fail = func(op vfs.Op) *vfs.Failure {
		if full && op.Kind == vfs.OpWrite && op.Path == p.list()[0].name(suffixLog) {
			return &vfs.Failure{Err: syscall.ENOSPC, Short: 7}
		}
		return nil
	}
	w.commit(p)
	w.commit(q)
	w.flush()
	for range 5 {
		w.now += time.Second
		if next, err := w.s.WriteStep(); err != nil || next < 0 {
			t.Fatalf("write: %v, %v", next, err)
		}
	}
	if err := w.s.Admit(); !errors.Is(err, ErrNoSpace) {
		t.Fatalf("admit: %v", err)
	}
	if p.Err() == nil || q.Err() != nil || p.HighWatermark() != 1 || q.HighWatermark() != 1 {
		t.Fatalf("p: %v up to %d; q: %v up to %d", p.Err(), p.HighWatermark(), q.Err(), q.HighWatermark())
	}
	if end := w.contents(p); end != 2 {
		t.Fatalf("loaded up to %d", end)
	}
	if err := w.s.AppendMetadata([][]byte{deletedRecord(9)}, nil, true); err != nil {
		t.Fatalf("urgent metadata: %v", err)
	}
	w.checkpoint()
	judge(t, "full disk", w.crash.Crash(vfs.KeepNone), w.promised, w.now)
	full = false
	w.now += 2 * time.Second
	w.write()
	if p.Err() != nil || p.HighWatermark() != 2 || w.s.Admit() != nil {
		t.Fatalf("not healed: %v up to %d, admit %v", p.Err(), p.HighWatermark(), w.s.Admit())
	}
	checkLog(w.rig, p)
}

// TestReserveHoldsBetweenLooks: writes are refused at the reserve, however many come
// before the time to look at the free space.
func TestReserveHoldsBetweenLooks(t *testing.T) {
	const reserve, left = 4 << 20, 64 << 10
	mem := vfs.NewMem()
	r := newRig(t, mem)
	r.options = func(o *Options) { o.DiskReserveBytes = reserve }
	s := r.open()
	defer s.Close()
	r.meta(topicRecord(1, "user", 1, 1))
	p := r.partition(1, 0)
	prepare := func() {
		t.Helper()
		for {
			if next, err := s.PrepareStep(); err != nil {
				t.Fatal(err)
			} else if next != 0 {
				return
			}
		}
	}
	prepare()
	mem.SetCapacity(1 << 40)
	free, err := mem.Free("/")
	if err != nil {
		t.Fatal(err)
	}
	mem.SetCapacity(1<<40 - free + reserve + left)
	r.now += time.Second
	prepare()
	before := p.LogEnd()
	for s.Admit() == nil && p.LogEnd() < 10_000 {
		r.produce(p, 3)
		r.flush()
	}
	r.write()
	free, _ = mem.Free("/")
	if err := s.Admit(); !errors.Is(err, ErrNoSpace) || p.LogEnd() == before || free < reserve-2*left {
		t.Errorf("%v after %d records, %d bytes free", err, p.LogEnd()-before, free)
	}
	mem.SetCapacity(1 << 41)
	prepare()
	if err := s.Admit(); err != nil {
		t.Errorf("refused with space: %v", err)
	}
}

// TestLoadWhileWritingHeals: what moves from memory to the partition log while it
// is loaded is loaded once.
func TestLoadWhileWritingHeals(t *testing.T) {
	w := newWorld(t, vfs.NewCrashable())
	w.open()
	w.meta(topicRecord(1, "offsets", 2, 2))
	p := w.partition(1, 0)
	w.commit(p)
	w.flush()
	w.write()
	full := true
	w.fail = func(op vfs.Op) *vfs.Failure {
		if full && op.Kind == vfs.OpWrite && op.Path == p.list()[0].name(suffixLog) {
			return &vfs.Failure{Err: syscall.ENOSPC}
		}
		return nil
	}
	w.commit(p)
	w.flush()
	if err := p.CatchUp(); err == nil {
		t.Fatal("written without space")
	}
	var loaded []int64
	err := p.Load(func(b record.Batch) error {
		loaded = append(loaded, b.BaseOffset())
		full = false
		return p.CatchUp()
	})
	if err != nil || !slices.Equal(loaded, []int64{0, 1}) {
		t.Fatalf("loaded the batches at %v: %v", loaded, err)
	}
}

// TestSegmentSyncFails: after a failed sync in a checkpoint the log is written
// again from the journal before the recovery point moves; a second failure ends
// the process.
func TestSegmentSyncFails(t *testing.T) {
	for _, c := range []struct {
		name   string
		match  func(op vfs.Op) bool
		revert bool
		killed bool // before; no checkpoint has been made since
	}{
		{"data kept", vfs.Match(vfs.OpDatasync, "user-0/"), false, false},
		{"data gone", vfs.Match(vfs.OpDatasync, "user-0/"), true, false},
		{"folder", vfs.Match(vfs.OpSync, "user-0"), false, false},
		{"after a kill", vfs.Match(vfs.OpDatasync, "user-0/"), false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, times := range []int{1, 2} {
				w := newWorld(t, vfs.NewCrashable())
				w.open()
				w.meta(topicRecord(2, "user", 1, 1))
				p := w.partition(2, 0)
				more := func() {
					for range 7 {
						w.produce(p, 3)
						w.flush()
					}
					w.write()
				}
				more()
				w.checkpoint()
				more()
				if c.killed {
					w.crash.Kill()
					w.open()
					p = w.partition(2, 0)
				}
				rp := p.RecoveryPoint()
				left := times
				w.fail = func(op vfs.Op) *vfs.Failure {
					if left == 0 || !c.match(op) {
						return nil
					}
					left--
					return &vfs.Failure{Err: syscall.EIO, Lose: true, Revert: c.revert}
				}
				err := w.s.Checkpoint()
				if times == 1 {
					if err != nil || p.RecoveryPoint() != p.DurableEnd() || p.Err() != nil {
						t.Fatalf("%v; recovery point %d of %d, %v", err, p.RecoveryPoint(), p.DurableEnd(), p.Err())
					}
					checkLog(w.rig, p)
				} else if !IsFinal(err) || p.RecoveryPoint() != rp || !errors.Is(w.s.Admit(), ErrFailed) {
					t.Fatalf("%v; recovery point %d, was %d", err, p.RecoveryPoint(), rp)
				}
				judge(t, "after it", w.crash.Crash(vfs.KeepNone), w.promised, w.now)
			}
		})
	}
}

// TestCheckpointFindsNoSpace: a checkpoint that fails half-way has not synced the
// segments, and the next one must not believe that they are.
func TestCheckpointFindsNoSpace(t *testing.T) {
	for _, file := range []string{epochFile, suffixIndex, suffixTimeIndex, snapshotName} {
		w := newWorld(t, vfs.NewCrashable())
		w.open()
		w.meta(topicRecord(2, "user", 1, 1))
		w.produce(w.partition(2, 0), 3)
		w.flush()
		w.write()
		failed := 0
		w.fail = func(op vfs.Op) *vfs.Failure {
			if failed > 0 || op.Kind != vfs.OpWrite || !strings.Contains(op.Path, file) {
				return nil
			}
			failed++
			return &vfs.Failure{Err: syscall.ENOSPC}
		}
		if err := w.s.Checkpoint(); IsFinal(err) {
			t.Fatalf("%s: %v", file, err)
		}
		w.checkpoint()
		if failed == 0 && file != suffixIndex && file != suffixTimeIndex {
			t.Errorf("%s was not written", file)
		}
		judge(t, file, w.crash.Crash(vfs.KeepNone), w.promised, w.now)
	}
}

// TestJournalFails: a failed write or sync of the journal ends the process and
// answers nobody; it is not tried again.
func TestJournalFails(t *testing.T) {
	for _, kind := range []vfs.OpKind{vfs.OpWrite, vfs.OpDatasync} {
		for _, revert := range []bool{false, true} {
			w := newWorld(t, vfs.NewCrashable())
			w.open()
			w.meta(topicRecord(1, "offsets", 1, 2))
			p := w.partition(1, 0)
			w.commit(p)
			w.flush()
			seen := 0
			w.fail = func(op vfs.Op) *vfs.Failure {
				if op.Kind != kind || !vfs.Match(kind, ".wal")(op) {
					return nil
				}
				if seen++; seen > 1 {
					t.Errorf("%s again", op)
				}
				return &vfs.Failure{Err: syscall.EIO, Short: 20, Lose: true, Revert: revert}
			}
			off := w.commit(p)
			p.Await(off, Waiter{Slot: 1})
			if _, err := w.s.FlushStep(); err == nil {
				t.Fatal("no error")
			}
			if len(w.released) != 0 || p.DurableEnd() != 1 || !errors.Is(w.s.Admit(), ErrFailed) {
				t.Fatalf("released %d, durable %d, admit %v", len(w.released), p.DurableEnd(), w.s.Admit())
			}
			if _, err := w.s.FlushStep(); err == nil {
				t.Fatal("no error the second time")
			}
			w.crash.Kill()
			judge(t, string(kind), w.crash, w.promised, w.now)
		}
	}
}

// TestReserveIsNotForSpares: no journal file is made ahead of what is free above the
// reserve, and it is as soon as there is more.
func TestReserveIsNotForSpares(t *testing.T) {
	const reserve = 4 << 20
	mem := vfs.NewMem()
	r := newRig(t, mem)
	r.options = func(o *Options) { o.DiskReserveBytes, o.JournalFileBytes = reserve, 1<<20 }
	s := r.open()
	defer s.Close()
	r.meta(topicRecord(1, "user", 1, 0))
	p := r.partition(1, 0)
	prepare := func() {
		for range 100 {
			_, _ = s.PrepareStep()
			r.now += 20 * time.Millisecond
		}
	}
	mem.SetCapacity(1 << 40)
	free, err := mem.Free("/")
	if err != nil {
		t.Fatal(err)
	}
	mem.SetCapacity(1<<40 - free + reserve + 1<<20 + 1<<19)
	least := int64(1 << 40)
	for range 400 {
		if s.Admit() == nil {
			if _, _, err := p.AppendBatch(batchAt(0, 0, 20_000)); err != nil {
				t.Fatal(err)
			}
			r.flush()
		}
		prepare()
		r.write()
		free, _ = mem.Free("/")
		least = min(least, free)
	}
	if err := s.Admit(); !errors.Is(err, ErrNoSpace) || least < reserve-1<<19 {
		t.Errorf("admit %v, least free %d of %d reserved", err, least, reserve)
	}
	mem.SetCapacity(1 << 41)
	prepare()
	prepare()
	if err := s.Admit(); err != nil || s.j.Space().PrepareErr != nil {
		t.Errorf("refused with space: %v, %v", err, s.j.Space().PrepareErr)
	}
}
