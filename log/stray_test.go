package log

import (
	"errors"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/kcoord/kcoord/log/vfs"
)

// TestStrangersFolderInTheWay: a folder that belongs to no topic, and has the name that
// a new topic's partition wants, loses nothing: it gets the name that Kafka gives to
// such folders.
func TestStrangersFolderInTheWay(t *testing.T) {
	for what, id := range map[string][]byte{"another id": partitionMetadataBytes(TopicID{9}), "no id": nil, "garbage": []byte("?")} {
		for _, kill := range []bool{false, true} {
			mem := vfs.NewMem()
			r := segmented(t, mem)
			dir := path.Join(testDir, "other-3")
			if err := mem.Mkdir(dir); err != nil {
				t.Fatal(err)
			}
			put(t, mem, path.Join(dir, zeroLog), []byte("somebody's"))
			if id != nil {
				put(t, mem, path.Join(dir, partitionMetadata), id)
			}
			r.open()
			r.meta(topicRecord(3, "other", 4, 0))
			for n := range int32(4) {
				r.produce(r.partition(3, n), 2)
			}
			r.flush()
			r.write()
			check := func() {
				t.Helper()
				for n := range int32(4) {
					p := r.partition(3, n)
					if p.Err() != nil || p.LogEnd() != 2 {
						t.Fatalf("%s: %s: %v, the log ends at %d", what, p, p.Err(), p.LogEnd())
					}
					checkLog(r, p)
				}
				var kept []string
				for _, name := range filesBelow(t, mem, testDir) {
					if b, err := readFile(mem, name, 1<<20); err == nil && string(b) == "somebody's" {
						kept = append(kept, path.Base(path.Dir(name)))
					}
				}
				if len(kept) != 1 || !strings.HasPrefix(kept[0], "other-3.") || !strings.HasSuffix(kept[0], "-stray") {
					t.Errorf("%s: the stranger's file is in %q", what, kept)
				}
			}
			check()
			if !slices.ContainsFunc(r.warnings, func(w string) bool { return strings.Contains(w, "other-3") && strings.Contains(w, "-stray") }) {
				t.Errorf("%s: warnings %q", what, r.warnings)
			}
			for range 2 {
				if kill {
					mem.Kill()
				} else if err := r.s.Close(); err != nil {
					t.Fatal(err)
				}
				r.open()
				check()
			}
		}
	}
}

// TestFolderMadeInTwoTries: what a partition's own first try left is no stranger's.
func TestFolderMadeInTwoTries(t *testing.T) {
	for _, kind := range []vfs.OpKind{vfs.OpWrite, vfs.OpRename, vfs.OpOpenTrunc} {
		w := newWorld(t, vfs.NewCrashable())
		w.open()
		w.meta(topicRecord(2, "user", 1, 1))
		failed := 0
		w.fail = func(op vfs.Op) *vfs.Failure {
			if failed < 2 && op.Kind == kind && strings.Contains(op.Path, "user-0/") {
				failed++
				return &vfs.Failure{Err: syscall.ENOSPC}
			}
			return nil
		}
		w.produce(w.partition(2, 0), 3)
		w.flush()
		w.write()
		if failed < 2 || w.partition(2, 0).Err() != nil {
			t.Fatalf("%s: failed %d times, %v", kind, failed, w.partition(2, 0).Err())
		}
		for _, name := range filesBelow(t, w.fs, testDir) {
			if strings.Contains(name, "stray") {
				t.Errorf("%s: %s", kind, name)
			}
		}
		checkLog(w.rig, w.partition(2, 0))
		judge(t, string(kind), w.crash.Crash(vfs.KeepNone), w.promised, w.now)
	}
}

// TestDeletedFolderInTheWay: as long as the folder of a deleted topic cannot be put
// aside, the start of a new one of the same name fails, and mixes nothing.
func TestDeletedFolderInTheWay(t *testing.T) {
	mem := vfs.NewMem()
	hook := &vfs.Hooked{FS: mem}
	r := newRig(t, hook)
	r.open()
	r.meta(topicRecord(2, "user", 1, 1))
	r.fill(r.partition(2, 0), 20, 2)
	if err := r.s.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	bad := true
	hook.Before = func(op vfs.Op) *vfs.Failure {
		if bad && op.Kind == vfs.OpRename && op.Path == path.Join(testDir, "user-0") {
			return &vfs.Failure{Err: syscall.EBUSY}
		}
		return nil
	}
	r.meta(deletedRecord(2))
	r.meta(topicRecord(3, "user", 1, 0))
	r.produce(r.partition(3, 0), 5)
	r.flush()
	mem.Kill()
	before := filesBelow(t, mem, path.Join(testDir, "user-0"))
	for range 2 {
		if err := r.tryOpen(); !errors.Is(err, syscall.EBUSY) {
			t.Fatalf("start: %v", err)
		}
		if after := filesBelow(t, mem, path.Join(testDir, "user-0")); !slices.Equal(after, before) {
			t.Errorf("%v, was %v", after, before)
		}
	}
	bad = false
	r.open()
	p := r.partition(3, 0)
	r.write()
	if p.Err() != nil || p.LogEnd() != 5 {
		t.Errorf("%v, the log ends at %d", p.Err(), p.LogEnd())
	}
	checkLog(r, p)
}

// TestStrangersFolderAtAStart: the same for a topic that was made and has nothing yet.
func TestStrangersFolderAtAStart(t *testing.T) {
	for _, clean := range []bool{true, false} {
		mem := vfs.NewMem()
		r := segmented(t, mem)
		r.open()
		r.meta(topicRecord(3, "other", 4, 0))
		if !clean {
			mem.Kill()
		} else if err := r.s.Close(); err != nil {
			t.Fatal(err)
		}
		dir := path.Join(testDir, "other-3")
		if err := mem.Mkdir(dir); err != nil {
			t.Fatal(err)
		}
		put(t, mem, path.Join(dir, zeroLog), tenth(0))
		put(t, mem, path.Join(dir, partitionMetadata), partitionMetadataBytes(TopicID{9}))
		for start := range 3 {
			r.open()
			p := r.partition(3, 3)
			if p.Err() != nil || p.LogEnd() != int64(start) {
				t.Fatalf("clean %t, start %d: %v, the log ends at %d", clean, start, p.Err(), p.LogEnd())
			}
			r.produce(p, 1)
			r.flush()
			r.write()
			checkLog(r, p)
			if err := r.s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		kept := 0
		for _, name := range filesBelow(t, mem, testDir) {
			if b, err := readFile(mem, name, 1<<20); err == nil && string(b) == string(tenth(0)) && strings.Contains(name, "-stray/") {
				kept++
			}
		}
		if kept != 1 {
			t.Errorf("clean %t: the stranger's file is there %d times: %v", clean, kept, filesBelow(t, mem, testDir))
		}
	}
}

// TestCrashWhileAStrangerMovesAside: whatever a power cut leaves of it, the stranger's
// file is there, and so is what was acknowledged.
func TestCrashWhileAStrangerMovesAside(t *testing.T) {
	w := newWorld(t, vfs.NewCrashable())
	w.open()
	dir := path.Join(testDir, "user-0")
	if err := w.crash.Mkdir(dir); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(writeFileSync(w.crash, path.Join(dir, zeroLog), []byte("somebody's")), syncDir(w.crash, dir), syncDir(w.crash, testDir)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(writeFileSync(w.crash, path.Join(dir, partitionMetadata), partitionMetadataBytes(TopicID{9})), syncDir(w.crash, dir)); err != nil {
		t.Fatal(err)
	}
	images := 0
	w.at = func(op vfs.Op) {
		for seed := range uint64(4) {
			images++
			image := w.crash.Crash(vfs.Seeded(uint64(w.ops)*10 + seed))
			judge(t, op.String(), image, w.promised, w.now)
			found := 0
			for _, name := range filesBelow(t, image, testDir) {
				if b, err := readFile(image, name, 1<<20); err == nil && string(b) == "somebody's" {
					found++
				}
			}
			if found == 0 {
				t.Fatalf("before %s, image %d: the stranger's file is gone: %v", op, seed, filesBelow(t, image, testDir))
			}
		}
	}
	w.meta(topicRecord(2, "user", 1, 1))
	w.produce(w.partition(2, 0), 3)
	w.flush()
	w.write()
	w.checkpoint()
	if images < 40 {
		t.Errorf("%d images", images)
	}
}
