package compaction

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/kcoord/kcoord/log"
	"github.com/kcoord/kcoord/log/record"
	"github.com/kcoord/kcoord/log/vfs"
)

// groupsFixture is a log of several segments, too large to become one, whose
// values are deleted by tombstones in later ones, whose horizon has passed: if a
// tombstone went before the value, the value would come back.
func groupsFixture(t *testing.T, fs vfs.FS) *rig {
	t.Helper()
	r := newRig(t, fs)
	r.config.SegmentBytes = 3000
	r.open()
	for i := range 24 {
		r.set(kv{fmt.Sprint("dead ", i%12), strings.Repeat("x", 100)}, kv{fmt.Sprint("live ", i), strings.Repeat("y", 120)})
	}
	for i := range 12 {
		var w record.Rewriter
		b := plain(0, kv{fmt.Sprint("dead ", i), "-"}, kv{fmt.Sprint("live ", 20+i), strings.Repeat("z", 150)})
		w.Begin(b, b.Codec(), stamp-1) // as another program set it
		must(t, b.Each(func(r record.Record) error { w.Add(r); return nil }))
		b, err := w.Append(nil, b.LastOffset())
		must(t, err)
		r.batch(b)
	}
	must(t, r.roll())
	return r
}

// The power fails at each file operation of a round over several groups, and the
// files that are left are opened: the table is the same each time.
func TestCrashAtEveryOperation(t *testing.T) {
	want := map[string]string{}
	ops := 0
	for n := 1; ; n++ {
		fs := vfs.NewCrashable()
		hook := &vfs.Hooked{FS: fs}
		r := groupsFixture(t, hook)
		if n == 1 {
			want = r.table()
			if len(want) != 32 {
				t.Fatalf("the fixture holds %v", want)
			}
		}
		hook.Before = vfs.FailNth(n, errors.New("power"), true, nil)
		result, err := r.tryRound(true)
		if err == nil {
			if result.Replaced < 2 {
				t.Errorf("result %+v", result)
			}
			break
		}
		ops++
		images := uint64(1)
		if n%4 == 0 {
			images = 2
		}
		for seed := range images {
			img := fs.Crash(vfs.Seeded(seed + uint64(n)*100))
			again := &rig{t: t, fs: img, config: r.config, now: r.now}
			for start := range 2 {
				if err := again.tryOpen(); err != nil {
					t.Fatalf("operation %d, image %d, start %d: %v", n, seed, start, err)
				}
				if got := again.table(); !maps.Equal(got, want) {
					t.Fatalf("operation %d, image %d, start %d: got %v, want %v", n, seed, start, got, want)
				}
				again.check()
				img.Kill()
			}
			if seed > 0 {
				continue
			}
			must(t, again.tryOpen())
			if _, err := again.tryCompact(true); err != nil {
				t.Fatalf("operation %d, image %d: the next round: %v", n, seed, err)
			}
			if got := again.table(); !maps.Equal(got, want) {
				t.Fatalf("operation %d, image %d: after the next round %v", n, seed, got)
			}
		}
	}
	if ops < 40 {
		t.Errorf("only %d operations", ops)
	}
}

// The power fails while one segment takes the place of several, whose names go and
// come: any of the changes since the last sync may be on the disk, and after a start
// the old ones or the new one are there, never both.
func TestCrashWhileSegmentsBecomeOne(t *testing.T) {
	fs := vfs.NewCrashable()
	hook := &vfs.Hooked{FS: fs}
	r := groupsFixture(t, hook)
	must(t, r.s.Close())
	r.p, r.config.SegmentBytes = nil, 1<<20
	r.open()
	want, images := r.table(), 0
	hook.Before = func(op vfs.Op) *vfs.Failure {
		if op.Kind != vfs.OpRename && op.Kind != vfs.OpSync || !strings.Contains(op.Path, r.p.Folder()) {
			return nil
		}
		for range 12 {
			images++
			again := &rig{t: t, fs: fs.Crash(vfs.Seeded(uint64(images))), config: r.config, now: r.now}
			if err := again.tryOpen(); err != nil {
				t.Fatalf("image %d, before %s: %v", images, op, err)
			}
			if got := again.table(); !maps.Equal(got, want) {
				t.Fatalf("image %d, before %s: got %v, want %v", images, op, got, want)
			}
			again.check()
		}
		return nil
	}
	if result, err := r.tryRound(true); err != nil || result.Replaced != 1 || result.SegmentsBefore < 3 {
		t.Fatalf("%+v, %v", result, err)
	}
	if images < 200 {
		t.Errorf("%d images", images)
	}
}

// Each operation of a round fails once, the process goes on: the error shows, the
// table stays, and unless the error ends the process the next round succeeds.
func TestFailEveryOperation(t *testing.T) {
	ops, fatal := 0, 0
	for n := 1; ; n++ {
		hook := &vfs.Hooked{FS: vfs.NewMem()}
		r := groupsFixture(t, hook)
		want := r.table()
		hook.Before = vfs.FailNth(n, errors.New("injected"), false, nil)
		_, err := r.tryRound(true)
		hook.Before = nil
		if err == nil {
			break
		}
		ops++
		if log.IsFinal(err) {
			fatal++
			continue
		}
		if got := r.table(); !maps.Equal(got, want) {
			t.Fatalf("operation %d: %v", n, got)
		}
		if _, err := r.tryRound(true); err != nil {
			t.Fatalf("operation %d: the next round: %v", n, err)
		}
		if got := r.table(); !maps.Equal(got, want) {
			t.Fatalf("operation %d: after the next round %v", n, got)
		}
		r.check()
	}
	if ops < 40 || fatal == 0 || fatal == ops {
		t.Errorf("%d operations, %d of them final", ops, fatal)
	}
}
