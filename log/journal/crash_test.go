package journal

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kcoord/kcoord/log/vfs"
)

// After a kill between write and sync the entry is in the page cache only. It is
// written again before anything is served, so a power cut then takes nothing.
func TestKilledBetweenWriteAndSync(t *testing.T) {
	fs, o := fixture(t)
	j, _, _, err := scan(o, First())
	must(t, err)
	h := &vfs.Hooked{FS: fs}
	j.o.FS = h
	must(t, j.Close())
	o.FS = h
	j, _, _, err = scan(o, First())
	must(t, err)
	h.Before = func(op vfs.Op) *vfs.Failure {
		if op.IsSync() {
			return &vfs.Failure{Err: errors.New("killed")}
		}
		return nil
	}
	r := NewRound(testEntryBytes)
	r.Append(Batch, testTopic(), 1, fakeBatch(10, fixBatch))
	if err := j.Append(r); !errors.Is(err, ErrFailed) {
		t.Fatalf("append: %v", err)
	}
	fs.Kill()

	o.FS = fs
	j, _, got, err := scan(o, First())
	must(t, err)
	if want := fixtureTexts(11)[:11]; !slices.Equal(got[:11], want) || len(got) != 12 {
		t.Errorf("got %v", got)
	}
	if img := fs.Crash(vfs.KeepNone); img != nil {
		o.FS = img
		wantEnd(t, o, 10, "before the tail is written again")
	}
	must(t, j.RewriteTail())
	o.FS = fs.Crash(vfs.KeepNone)
	if _, _, got, err = scan(o, First()); err != nil || len(got) != 12 {
		t.Errorf("after it: %v, %v", got, err)
	}
}

// A write or sync that fails is final: nothing is written or synced after it.
func TestFailedWriteIsFinal(t *testing.T) {
	for _, c := range []struct {
		name string
		kind vfs.OpKind
		fail vfs.Failure
		max  int // batches that may be there after a restart
	}{
		{"write ENOSPC", vfs.OpWrite, vfs.Failure{Err: syscall.ENOSPC}, 10},
		{"write EIO, short", vfs.OpWrite, vfs.Failure{Err: syscall.EIO, Short: 100}, 10},
		{"write EROFS, done", vfs.OpWrite, vfs.Failure{Err: syscall.EROFS, After: true}, 11},
		{"write of nothing", vfs.OpWrite, vfs.Failure{Err: errors.New("short write")}, 10},
		{"sync, page kept", vfs.OpDatasync, vfs.Failure{Err: syscall.EIO, Lose: true}, 11},
		{"sync, page reverted", vfs.OpDatasync, vfs.Failure{Err: syscall.EIO, Revert: true}, 10},
		{"sync done and failed", vfs.OpDatasync, vfs.Failure{Err: syscall.EIO, After: true}, 11},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs, o := fixture(t)
			h := &vfs.Hooked{FS: fs}
			o.FS = h
			j, _, _, err := scan(o, First())
			must(t, err)
			must(t, j.RewriteTail())
			failed, after := false, 0
			h.Before = func(op vfs.Op) *vfs.Failure {
				if failed {
					after++
					return nil
				}
				if op.Kind != c.kind {
					return nil
				}
				failed = true
				return &c.fail
			}
			r := NewRound(testEntryBytes)
			r.Append(Batch, testTopic(), 1, fakeBatch(10, fixBatch))
			err = j.Append(r)
			if !errors.Is(err, ErrFailed) || !errors.Is(err, c.fail.Err) || !strings.Contains(err.Error(), FileName(1)) {
				t.Errorf("first: %v", err)
			}
			for _, err := range []error{j.Append(r), j.AppendStart([]byte{7}), j.Sync()} {
				if !errors.Is(err, ErrFailed) {
					t.Errorf("after it: %v", err)
				}
			}
			if after != 0 {
				t.Errorf("%d operations after the failure", after)
			}
			fs.Kill()
			o.FS = fs
			j, tail, _, err := scan(o, First())
			must(t, err)
			shown := int(tail.Entries) - 1
			if shown > c.max {
				t.Errorf("%d batches", shown)
			}
			must(t, j.RewriteTail())
			must(t, j.AppendStart([]byte{7}))
			o.FS = fs.Crash(vfs.KeepNone)
			_, tail, _, err = scan(o, First())
			if must(t, err); int(tail.Entries) != shown+2 {
				t.Errorf("shown %d batches, then lost some: %d entries", shown, tail.Entries)
			}
		})
	}
}

// A batch in three entries; the power fails after the first or the second, or
// with the third torn: the batch is void, and a further crash changes nothing.
func TestUnfinishedItem(t *testing.T) {
	big := fakeBatch(10, 2*testEntryBytes+1000)
	for written := 1; written <= 3; written++ {
		for _, torn := range []bool{false, true} {
			fs, o := fixture(t)
			o.FileBytes = testFileBytes
			h := &vfs.Hooked{FS: fs}
			o.FS = h
			j, _, _, err := scan(o, First())
			must(t, err)
			n := 0
			h.Before = func(op vfs.Op) *vfs.Failure {
				if op.Kind != vfs.OpWrite {
					return nil
				}
				if n++; n <= written {
					return nil
				}
				fail := &vfs.Failure{Err: errors.New("power")}
				if torn {
					fail.Short = 700
				}
				return fail
			}
			r := NewRound(testEntryBytes)
			r.Append(Batch, testTopic(), 1, big)
			if err := j.Append(r); (err == nil) != (written == 3) {
				t.Fatalf("append: %v", err)
			}
			o.FS = fs.Crash(vfs.KeepAll)
			for crash := range 3 {
				j, tail, got, err := scan(o, First())
				must(t, err)
				want := fixtureTexts(10)
				if written == 3 {
					want = append(want, itemText(Batch, Items, big))
				}
				for range crash {
					want = append(want, "start")
				}
				if !slices.Equal(got, want) {
					t.Fatalf("%d written, crash %d: %v", written, crash, got)
				}
				if int(tail.Entries) != 11+written+crash {
					t.Errorf("%d entries", tail.Entries)
				}
				must(t, j.RewriteTail())
				must(t, j.AppendStart([]byte{7}))
				img, ok := o.FS.(*vfs.Crashable)
				if !ok {
					t.Fatal("not crashable")
				}
				o.FS = img.Crash(vfs.KeepNone)
			}
		}
	}
}

// zeroed by nobody, written by nobody: a recycled file keeps entries of its
// earlier life, at the same places as the new ones.
func TestStaleEntries(t *testing.T) {
	fs := newTestFS(t)
	o := testOptions(fs)
	j := create(t, o)
	perFile := (testFileBytes - HeaderBytes) / fixEntry
	appendBatches(t, j, 0, perFile, fixBatch)
	zeroAll(t, j)
	appendBatches(t, j, perFile, 2*perFile, fixBatch)
	at := j.Next()
	if at.File != 2 {
		t.Fatalf("next %v", at)
	}
	j.Recycle(at)
	zeroAll(t, j)
	if s := j.Space(); s.Files != 2 || s.Spares != 1 || s.Used != 0 {
		t.Fatalf("%+v", s)
	}
	for i := range 2 * perFile {
		appendBatches(t, j, 2*perFile+i, 2*perFile+i+1, fixBatch)
		re, tail, got, err := scan(o, at)
		must(t, err)
		must(t, re.Close())
		if len(got) != i+1 || tail.Torn != nil || tail.Next != j.Next() {
			t.Fatalf("after %d: %d items, tail %+v", i, len(got), tail)
		}
	}
}

// With the other policies entries are written before earlier ones are synced, so
// a power cut may take one and leave later ones. They are counted and never
// come back.
func TestLostEntries(t *testing.T) {
	fs, o := fixture(t)
	o.Policy = PolicyInterval
	j, _, _, err := scan(o, First())
	must(t, err)
	must(t, j.RewriteTail())
	appendBatches(t, j, 10, 12, 300)
	must(t, j.Sync())
	must(t, j.Sync())                // nothing to do
	appendBatches(t, j, 12, 40, 300) // crosses into the next file
	if tail := j.Next(); tail.File != 1 {
		t.Fatalf("next %v", tail)
	}
	appendBatches(t, j, 40, 120, 300)
	if j.Next().File < 2 {
		t.Fatalf("next %v", j.Next())
	}
	o.FS = fs.Crash(func(u vfs.Unsynced) int {
		if u.Thing == vfs.Sector && u.Path == "/"+testDir+"/"+FileName(1) && u.Offset == (entryOffset(10)+4*368)/512*512 {
			return 0
		}
		return u.Versions - 1
	})
	j, tail, got, err := scan(o, First())
	must(t, err)
	if len(got) < 13 || len(got) > 16 || tail.Lost < 100 || tail.Highest != 121 {
		t.Fatalf("%d items, tail %+v", len(got), tail)
	}
	if tail.Torn == nil {
		t.Error("no torn bytes")
	}
	kept := len(got)
	must(t, j.RewriteTail())
	must(t, j.StartOver())
	at := j.Next()
	if at.Sequence != 122 || at.Prev != tail.Next.Prev || at.Offset != HeaderBytes {
		t.Errorf("goes on at %v", at)
	}
	// Before the snapshot is written a crash finds the same again.
	img, ok := o.FS.(*vfs.Crashable)
	if !ok {
		t.Fatal("not crashable")
	}
	again := o
	again.FS = img.Crash(vfs.KeepNone)
	if _, tail2, got2, err := scan(again, First()); err != nil || len(got2) != kept || tail2.Lost != tail.Lost {
		t.Fatalf("again: %d items, %+v, %v", len(got2), tail2, err)
	}
	j.Recycle(at)
	must(t, j.AppendStart([]byte{7}))
	zeroAll(t, j)
	appendBatches(t, j, 0, 200, 300)
	must(t, j.Sync())
	appendBatches(t, j, 200, 201, 300)
	o.FS = img.Crash(vfs.KeepNone)
	_, tail, got, err = scan(o, at)
	if err != nil || len(got) != 201 || tail.Lost != 0 {
		t.Errorf("%d items, tail %+v, %v", len(got), tail, err)
	}
}

// flagged reports which entries say that everything before them is synced.
func flagged(t *testing.T, fs vfs.FS, n int64) (flags []bool) {
	t.Helper()
	b := fileBytes(t, fs, n)
	for at := HeaderBytes; bytes.HasPrefix(b[at:], []byte(entryMagic)); {
		flags = append(flags, b[at+25]&flagSynced != 0)
		at += int(b[at+6])<<8 | int(b[at+7])
	}
	return flags
}

func TestSyncedFlag(t *testing.T) {
	fs := newTestFS(t)
	o := testOptions(fs)
	o.Policy = PolicyOS
	j := create(t, o)
	must(t, j.AppendStart([]byte{7}))
	appendBatches(t, j, 0, 3, fixBatch)
	must(t, j.Sync())
	appendBatches(t, j, 3, 5, fixBatch)
	must(t, j.AppendStart([]byte{7}))
	appendBatches(t, j, 5, 6, fixBatch)
	want := []bool{true, true, false, false, true, false, false, false}
	if got := flagged(t, fs, 1); !slices.Equal(got, want) {
		t.Errorf("flags %v, want %v", got, want)
	}
	_, tail, _, err := scan(o, First())
	if must(t, err); tail.Synced.Sequence != 5 {
		t.Errorf("newest synced entry %v", tail.Synced)
	}
}

// Crash at every operation of preparing, zeroing and recycling: every subset of
// what was unsynced is tried at random, and every acknowledged entry is there.
func TestCrashInPreparing(t *testing.T) {
	ops := 0
	for crashAt := 1; ; crashAt++ {
		fs := newTestFS(t)
		h := &vfs.Hooked{FS: fs}
		o := testOptions(h)
		var at, durable Position
		acked := 0
		err := func() error {
			j, err := Create(o, First())
			if err != nil {
				return err
			}
			durable = First()
			h.Before = vfs.FailNth(crashAt, errors.New("crash"), true, nil)
			r := NewRound(testEntryBytes)
			for i := range 420 {
				r.Reset()
				r.Append(Batch, testTopic(), 1, fakeBatch(i, fixBatch))
				if err := j.Append(r); err != nil {
					return err
				}
				acked++
				if i%20 == 0 {
					if _, err := j.PrepareStep(0); err != nil {
						return err
					}
				}
				if i%90 == 89 {
					at = j.Next()
					j.Recycle(at) // as if a snapshot had been written
					durable, acked = at, 0
				}
			}
			return nil
		}()
		if err == nil {
			ops = crashAt
			break
		}
		images := uint64(1)
		if crashAt%9 == 0 {
			images = 8
		}
		for seed := range images {
			o := testOptions(fs.Crash(vfs.Seeded(seed)))
			for range 2 {
				j, tail, got, err := scan(o, durable)
				if err != nil {
					t.Fatalf("crash at operation %d, image %d: %v", crashAt, seed, err)
				}
				if len(got) != acked && len(got) != acked+1 || tail.Lost != 0 {
					t.Fatalf("crash at operation %d, image %d: %d items, %d acknowledged, tail %+v", crashAt, seed, len(got), acked, tail)
				}
				must(t, j.Close())
			}
		}
	}
	if ops < 700 {
		t.Errorf("only %d operations", ops)
	}
}

// A full disk: preparing fails and says so, prepared space is used to the end,
// nothing is half written, and it heals.
func TestFullDisk(t *testing.T) {
	fs := newTestFS(t)
	o := testOptions(fs)
	j := create(t, o)
	fs.SetCapacity(testFileBytes + 100)
	r := NewRound(testEntryBytes)
	written, room := 0, int64(0)
	for ; ; written++ {
		r.Reset()
		r.Append(Batch, testTopic(), 1, fakeBatch(written, 4000))
		_, _ = j.PrepareStep(0)
		s := j.Space()
		err := j.Append(r)
		if room = s.Room; err == nil {
			continue
		}
		if !errors.Is(err, ErrNoSpace) || !errors.Is(err, syscall.ENOSPC) || errors.Is(err, ErrFailed) {
			t.Fatalf("error %v", err)
		}
		if s.PrepareErr == nil || room >= int64(r.Bytes()) {
			t.Errorf("refused with %+v for %d bytes", s, r.Bytes())
		}
		break
	}
	if written < 6 || written > 7 {
		t.Errorf("%d entries of 4 KiB in a file of %d", written, testFileBytes)
	}
	fs.SetCapacity(0)
	if next, err := j.PrepareStep(0); err != nil || next != 0 {
		t.Errorf("step: %v, %v", next, err)
	}
	if s := j.Space(); s.PrepareErr != nil || s.Spares != 1 || s.Room < testFileBytes/2 {
		t.Errorf("healed: %+v", s)
	}
	must(t, j.Append(r))
	must(t, j.Close())
	if _, _, got, err := scan(o, First()); err != nil || len(got) != written+1 {
		t.Errorf("%d items, %v", len(got), err)
	}
}

func TestSparesFollowTheRate(t *testing.T) {
	fs := newTestFS(t)
	j := create(t, testOptions(fs))
	wants := 0
	j.o.OnWant = func() { wants++ }
	if next, err := j.PrepareStep(0); err != nil || next != zeroPause {
		t.Fatalf("first step: %v, %v", next, err)
	}
	zeroAll(t, j)
	if s := j.Space(); s.Files != 1 {
		t.Errorf("an idle folder has %+v", s)
	}
	appendBatches(t, j, 0, 1, fixBatch)
	if wants != 1 {
		t.Errorf("asleep: %d wake-ups", wants)
	}
	appendBatches(t, j, 1, 100, fixBatch)
	if wants != 2 {
		t.Errorf("half full: %d wake-ups", wants)
	}
	if _, err := j.PrepareStep(rateSample); err != nil { // 16 KiB in 100 ms
		t.Fatal(err)
	}
	for range 10 {
		if _, err := j.PrepareStep(rateSample); err != nil {
			t.Fatal(err)
		}
	}
	if s := j.Space(); s.Spares != 3 {
		t.Errorf("under load %+v", s)
	}
	if got := fmt.Sprint(j.rate.rate); got == "0" {
		t.Error("no rate")
	}
}

// Zeroing hurries while little is ahead of the flusher, and keeps step with it when
// there is enough.
func TestZeroingPaces(t *testing.T) {
	j := create(t, testOptions(newTestFS(t)))
	defer j.Close()
	fl := j.mu.files[0]
	for _, c := range []struct {
		rate, zeroed int64
		want         time.Duration
	}{
		{0, testFileBytes, zeroPause},
		{2*testFileBytes + 2*HeaderBytes, testFileBytes, zeroPause}, // less than half a second ahead
		{testFileBytes, testFileBytes, time.Duration(j.o.ZeroStep) * time.Second / (testFileBytes * 3 / 2)},
		{1, testFileBytes, zeroPauseMax},
	} {
		j.rate.rate, fl.zeroed = c.rate, c.zeroed
		if got := j.pace(); got != min(max(c.want, zeroPause), zeroPauseMax) {
			t.Errorf("rate %d, %d zeroed: %v", c.rate, c.zeroed, got)
		}
	}
}
