package log

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kcoord/kcoord/log/vfs"
)

// killed makes a folder whose broker was killed: partition 0 of a user topic has a
// recovery point in its second segment, and batches and segments beyond it.
func killed(t *testing.T) (r *rig, want []byte, rp recoveryPointRecord) {
	t.Helper()
	mem := vfs.NewMem()
	r = newRig(t, mem)
	r.options = smallStore
	r.open()
	r.meta(topicRecord(2, "user", 2, 6))
	p := r.partition(2, 0)
	more := func(from, to int) {
		for i := from; i < to; i++ {
			if _, _, err := p.AppendBatch(tenth(i)); err != nil {
				t.Fatal(err)
			}
			r.flush()
		}
		r.write()
	}
	more(0, 13)
	r.produce(r.partition(2, 1), 1)
	r.flush()
	if err := r.s.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	more(13, 37)
	rp = recoveryPointRecord{offset: p.RecoveryPoint(), base: p.disk.rpBase, position: p.disk.rpPosition}
	want = readAll(r, p)
	mem.Kill()
	return r, want, rp
}

// TestBeyondTheRecoveryPoint: nothing in the partition log beyond the recovery point
// is looked at: whatever it is, it is written again from the journal.
func TestBeyondTheRecoveryPoint(t *testing.T) {
	dir := path.Join(testDir, "user-0")
	file := func(base int64) string { return path.Join(dir, segmentName(base, suffixLog)) }
	edit := func(name string, f func(b []byte) []byte) func(r *rig) {
		return func(r *rig) {
			b, err := readFile(r.fs, name, 1<<30)
			if err != nil {
				t.Fatal(err)
			}
			put(t, r.fs, name, f(b))
		}
	}
	for what, damage := range map[string]func(r *rig){
		"shorter":       edit(file(10), func(b []byte) []byte { return b[:3*tenthSize+10] }),
		"exactly there": edit(file(10), func(b []byte) []byte { return b[:3*tenthSize] }),
		"garbage":       edit(file(10), func(b []byte) []byte { return append(b[:3*tenthSize], bytes.Repeat([]byte("garbage "), 500)...) }),
		"zeros":         edit(file(10), func(b []byte) []byte { clear(b[3*tenthSize:]); return b }),
		"torn":          edit(file(30), func(b []byte) []byte { return b[:len(b)-40] }),
		"an old batch behind": edit(file(30), func(b []byte) []byte {
			return append(b, tenth(5)...)
		}),
		"a gap": edit(file(10), func(b []byte) []byte { return slices.Delete(b, 4*tenthSize, 5*tenthSize) }),
		"a segment missing": func(r *rig) {
			if err := r.fs.Remove(file(20)); err != nil {
				t.Fatal(err)
			}
		},
		"a segment too many": func(r *rig) { put(t, r.fs, file(37), []byte("x")) },
		"other borders":      func(r *rig) { put(t, r.fs, file(25), bytes.Repeat(tenth(25), 3)) },
		"no indexes": func(r *rig) {
			for _, name := range filesBelow(t, r.fs, dir) {
				if strings.HasSuffix(name, "index") {
					if err := r.fs.Remove(name); err != nil {
						t.Fatal(err)
					}
				}
			}
		},
	} {
		r, want, _ := killed(t)
		damage(r)
		for start := range 3 {
			r.open()
			p := r.partition(2, 0)
			if p.Err() != nil {
				t.Fatalf("%s: start %d: %v", what, start, p.Err())
			}
			if got := readAll(r, p); !bytes.Equal(got, want) {
				t.Fatalf("%s: start %d: %d bytes of batches, want %d, or other ones", what, start, len(got), len(want))
			}
			r.write()
			var bases []int64
			for _, g := range p.list() {
				bases = append(bases, g.base)
			}
			if !slices.Equal(bases, []int64{0, 10, 20, 30}) {
				t.Errorf("%s: start %d: segments %v", what, start, bases)
			}
			if start == 1 {
				if err := r.s.Checkpoint(); err != nil {
					t.Fatal(err)
				}
			}
			r.s.abandon()
		}
	}
}

// TestBelowTheRecoveryPoint: what is missing or damaged there closes the partition
// and is not touched; what the journal still holds of it goes to a segment of its
// own, so that checkpoints go on and nothing acknowledged is lost with the journal.
func TestBelowTheRecoveryPoint(t *testing.T) {
	name := path.Join(testDir, "user-0", segmentName(10, suffixLog))
	for what, damage := range map[string]func(r *rig){
		"shorter": func(r *rig) { put(t, r.fs, name, tenth(10)) },
		"missing": func(r *rig) {
			if err := r.fs.Remove(name); err != nil {
				t.Fatal(err)
			}
		},
		"other batches": func(r *rig) { put(t, r.fs, name, bytes.Repeat(tenth(10), 3)) },
		"another end":   func(r *rig) { put(t, r.fs, name, batches(10, 11, 15)) },
		"zeros":         func(r *rig) { put(t, r.fs, name, make([]byte, 3*tenthSize)) },
	} {
		r, want, rp := killed(t)
		damage(r)
		before, _ := readFile(r.fs, name, 1<<20)
		for start := range 2 {
			r.open()
			p := r.partition(2, 0)
			if err := p.Err(); !errors.Is(err, ErrStorage) || !strings.Contains(err.Error(), name) {
				t.Fatalf("%s: start %d: %v", what, start, err)
			}
			if r.s.Folder().RefusedPartitions != 1 || r.partition(2, 1).Err() != nil {
				t.Fatalf("%s: start %d: %d partitions closed", what, start, r.s.Folder().RefusedPartitions)
			}
			for range 2 {
				if err := r.s.Checkpoint(); err != nil {
					t.Fatalf("%s: start %d: %v", what, start, err)
				}
			}
			if r.s.check.replay() != r.s.mu.cut {
				t.Errorf("%s: start %d: the journal is held back at %v of %v", what, start, r.s.check.replay(), r.s.mu.cut)
			}
			r.s.abandon()
		}
		kept, err := readFile(r.fs, path.Join(testDir, "user-0", segmentName(rp.offset, suffixLog)), 1<<20)
		if err != nil || !bytes.HasPrefix(kept, tenth(int(rp.offset))) || !bytes.HasPrefix(want[rp.offset*tenthSize:], kept) {
			t.Errorf("%s: what the journal held is not in a segment named after the recovery point: %d bytes, %v", what, len(kept), err)
		}
		if after, _ := readFile(r.fs, name, 1<<20); !bytes.Equal(after, before) {
			t.Errorf("%s: the damaged file has changed", what)
		}
	}
}

// TestUnreadablePartition: a file that cannot be opened or read closes its partition
// only, and is not taken for missing.
func TestUnreadablePartition(t *testing.T) {
	for _, c := range []struct {
		kind vfs.OpKind
		err  error
	}{{vfs.OpOpen, syscall.EACCES}, {vfs.OpOpen, syscall.EMFILE}, {vfs.OpRead, syscall.EIO}, {vfs.OpList, syscall.EACCES}, {vfs.OpStat, syscall.EIO}} {
		r, want, _ := killed(t)
		mem := r.fs
		before := fmt.Sprint(filesBelow(t, mem, path.Join(testDir, "user-0")))
		r.fs = &vfs.Hooked{FS: mem, Before: func(op vfs.Op) *vfs.Failure {
			if op.Kind == c.kind && strings.Contains(op.Path, "user-0") && !strings.Contains(op.Path, refusedName) {
				return &vfs.Failure{Err: c.err}
			}
			return nil
		}}
		r.open()
		if err := r.partition(2, 0).Err(); !errors.Is(err, c.err) {
			t.Errorf("%s: %v", c.kind, err)
		}
		if other := r.partition(2, 1); other.Err() != nil || r.contents(other) != 1 {
			t.Errorf("%s: the other partition: %v", c.kind, other.Err())
		}
		for _, name := range strings.Fields(strings.Trim(before, "[]")) {
			if there, _ := exists(mem, name); !there && strings.HasSuffix(name, suffixLog) {
				if base, _, _ := parseSegmentName(path.Base(name)); base <= 10 {
					t.Errorf("%s: %s is gone", c.kind, name)
				}
			}
		}
		_ = want
		r.s.abandon()
	}
}

// TestRecoveryCrashesAgainAndAgain: a start that crashes, a second one and a third
// at any of their operations: the fourth finds what was promised.
func TestRecoveryCrashesAgainAndAgain(t *testing.T) {
	w := newWorld(t, vfs.NewCrashable())
	w.open()
	w.meta(topicRecord(1, "offsets", 2, 2), topicRecord(2, "user", 1, 1))
	for i := range 6 {
		w.commit(w.partition(1, int32(i%2)))
		w.produce(w.partition(2, 0), 2)
		w.flush()
		if i == 2 {
			w.write()
			w.checkpoint()
		}
	}
	w.write()
	w.commit(w.partition(1, 0)) // a torn entry that must never come back
	if next, err := w.s.FlushStep(); err != nil || next != 0 {
		t.Fatal(next, err)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	lives, images := 150, 0
	if sweep() > 1 {
		lives = 40
	}
	for life := range lives {
		image := w.crash.Crash(vfs.Seeded(uint64(life)))
		for depth := range 3 {
			again := newWorld(t, image)
			again.now = w.now
			at, next := 1+rnd.IntN(12), (*vfs.Crashable)(nil)
			again.ops = 0
			again.at = func(vfs.Op) {
				if again.ops == at {
					next = image.Crash(vfs.Seeded(uint64(life*10 + depth)))
				}
			}
			if err := again.tryOpen(); err != nil {
				t.Fatalf("life %d, start %d: %v", life, depth, err)
			}
			if again.at = nil; next != nil {
				image, images = next, images+1
			} else {
				again.s.abandon()
			}
			image.Kill()
		}
		judge(t, fmt.Sprintf("life %d", life), image, w.promised, w.now)
	}
	if images < lives {
		t.Errorf("%d starts crashed", images)
	}
}

// TestClockJumps: nothing in the journal, the recovery or retention takes a clock
// that was set for the passing of time.
func TestClockJumps(t *testing.T) {
	const year = 365 * 24 * time.Hour
	r, want, _ := killed(t)
	for i, shift := range []time.Duration{-year, year / 100, -2 * year, 0} {
		r.options = func(o *Options) {
			smallStore(o)
			o.Now = func() time.Time { return time.UnixMilli(testTime).Add(r.now + shift) }
		}
		r.open()
		p := r.partition(2, 0)
		if got := readAll(r, p); !bytes.Equal(got, want) {
			t.Errorf("start %d: other batches", i)
		}
		r.now += time.Hour
		for range 2 {
			if _, err := r.s.RetentionStep(); err != nil {
				t.Fatal(err)
			}
			r.now += 6 * time.Minute
		}
		if p.LogStart() != 0 {
			t.Errorf("start %d: log start %d", i, p.LogStart())
		}
		if err := r.s.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		r.s.abandon()
	}
}

// TestPartsOfAnotherFolder: neither a journal nor a snapshot of another folder is
// believed, whose entries may look the same.
func TestPartsOfAnotherFolder(t *testing.T) {
	make := func(seed byte) *rig {
		r := newRig(t, vfs.NewMem())
		r.options = func(o *Options) {
			smallStore(o)
			o.Random = func(b []byte) { clear(b); b[0] = seed }
		}
		r.open()
		r.history()
		r.write()
		r.s.abandon()
		return r
	}
	const wal = "kcoord-journal-00000001.wal"
	for _, names := range [][]string{{wal}, {snapshotName}, {wal, snapshotName}} {
		r, other := make(1), make(2)
		for _, name := range names {
			b, err := readFile(other.fs, path.Join(testDir, name), 1<<30)
			if err != nil {
				t.Fatal(err)
			}
			put(t, r.fs, path.Join(testDir, name), b)
		}
		for range 2 {
			if err := r.tryOpen(); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "another folder") {
				t.Errorf("%v of another folder: %v", names, err)
			}
		}
	}
}

// TestNewerFormats are refused in one line.
func TestNewerFormats(t *testing.T) {
	for name, at := range map[string]int{"kcoord-journal-00000001.wal": 11, snapshotName: 11} {
		r, _, _ := killed(t)
		full := path.Join(testDir, name)
		b, err := readFile(r.fs, full, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		b[at] = 2
		put(t, r.fs, full, b)
		if err := r.tryOpen(); !errors.Is(err, ErrNewer) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLaxDurability: with the policies that do not sync each round, a kill loses
// nothing, and a power cut loses what was not synced and no more: what was lost never
// comes back.
func TestLaxDurability(t *testing.T) {
	for _, policy := range []Durability{DurabilityInterval, DurabilityOS} {
		for seed := range uint64(40) {
			crash := vfs.NewCrashable()
			rnd := rand.New(rand.NewPCG(seed, uint64(policy)))
			sure := int64(0)
			for life := range 5 {
				r := newRig(t, crash)
				r.options = func(o *Options) { smallStore(o); o.Durability = policy }
				if err := r.tryOpen(); err != nil {
					t.Fatalf("%s, seed %d, life %d: %v", policy, seed, life, err)
				}
				if life == 0 {
					r.meta(topicRecord(1, "offsets", 1, 2))
					if err := r.s.Checkpoint(); err != nil {
						t.Fatal(err)
					}
				}
				p := r.partition(1, 0)
				if p.DurableEnd() < sure {
					t.Fatalf("%s, seed %d, life %d: the log ends at %d, sure were %d", policy, seed, life, p.DurableEnd(), sure)
				}
				checkLog(r, p)
				for range rnd.IntN(12) {
					r.commit(p)
					r.flush()
					switch rnd.IntN(5) {
					case 0:
						r.write()
						if err := r.s.Checkpoint(); err != nil {
							t.Fatal(err)
						}
						sure = p.RecoveryPoint()
					case 1:
						r.now += 2 * time.Second // the interval is over
					}
				}
				if rnd.IntN(3) == 0 {
					sure = p.DurableEnd()
					crash.Kill()
				} else {
					crash = crash.Crash(vfs.Seeded(rnd.Uint64()))
				}
			}
		}
	}
}

// TestFolderTakenAway: a data folder that is removed, or becomes read-only, while the
// store runs: what can be done is done, what cannot is an error, and no panic.
func TestFolderTakenAway(t *testing.T) {
	for what, err := range map[string]error{"read-only": syscall.EROFS, "removed": fs.ErrNotExist} {
		w := newWorld(t, vfs.NewCrashable())
		w.open()
		w.meta(topicRecord(1, "offsets", 1, 2))
		p := w.partition(1, 0)
		w.commit(p)
		w.flush()
		w.write()
		w.fail = func(op vfs.Op) *vfs.Failure {
			switch op.Kind {
			case vfs.OpWrite, vfs.OpDatasync, vfs.OpSync, vfs.OpRead, vfs.OpSize, vfs.OpClose, vfs.OpTruncate:
				if what == "removed" {
					return nil // open files stay
				}
			}
			if op.Mutates() || what == "removed" {
				return &vfs.Failure{Err: err}
			}
			return nil
		}
		if cerr := w.s.Checkpoint(); cerr == nil {
			t.Errorf("%s: a checkpoint succeeds", what)
		}
		if _, rerr := w.s.RetentionStep(); rerr != nil {
			t.Errorf("%s: retention: %v", what, rerr)
		}
		for range 3 {
			_, _ = w.s.PrepareStep()
			w.now += time.Second
		}
		if b, rerr := p.Read(0, 1000, true, nil); rerr != nil || len(b) == 0 {
			t.Errorf("%s: read: %d bytes, %v", what, len(b), rerr)
		}
		w.commit(p)
		_, ferr := w.s.FlushStep()
		if what == "read-only" && ferr == nil {
			t.Error("a round becomes durable on a read-only disk")
		}
		if cerr := w.s.Close(); cerr == nil {
			t.Errorf("%s: a clean stop", what)
		}
		w.fail = nil
		w.crash.Kill()
		judge(t, what, w.crash, w.promised, w.now)
	}
}
