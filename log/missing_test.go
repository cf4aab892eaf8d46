package log

import (
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/kcoord/kcoord/log/vfs"
)

// filesBelow are the files of a folder and of the folders in it.
func filesBelow(t *testing.T, fs vfs.FS, dir string) (files []string) {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		full := path.Join(dir, name)
		info, err := fs.Stat(full)
		if err != nil {
			t.Fatal(err)
		}
		if info.IsDir {
			files = append(files, filesBelow(t, fs, full)...)
		} else {
			files = append(files, full)
		}
	}
	return files
}

// removeSegment takes a segment's files away.
func removeSegment(t *testing.T, fs vfs.FS, dir string, base int64) {
	t.Helper()
	for _, suffix := range dataSuffixes {
		if err := fs.Remove(path.Join(testDir, dir, segmentName(base, suffix))); err != nil {
			t.Fatal(err)
		}
	}
}

// needed are the files that tell which records are durable; all others can be
// made again.
func needed(name string) bool {
	_, suffix, _ := parseSegmentName(path.Base(name))
	return suffix == suffixLog || strings.HasSuffix(name, ".wal") ||
		slices.Contains([]string{propertiesName, snapshotName, lockName}, path.Base(name))
}

// Whichever side file is missing, after a clean stop or a kill: the folder opens,
// everything is there, and each segment has its index files again.
func TestMissingSideFile(t *testing.T) {
	for _, clean := range []bool{true, false} {
		build := func() (*rig, []int64) {
			r := newRig(t, vfs.NewMem())
			r.open()
			r.history()
			r.write()
			if err := r.s.Checkpoint(); err != nil {
				t.Fatal(err)
			}
			r.commit(r.partition(1, 0))
			r.flush()
			r.write()
			ends := r.ends()
			if !clean {
				r.s.abandon()
			} else if err := r.s.Close(); err != nil {
				t.Fatal(err)
			}
			return r, ends
		}
		first, _ := build()
		names := filesBelow(t, first.fs, testDir)
		missing := map[string]func(string) bool{
			"all indexes": func(n string) bool {
				return strings.HasSuffix(n, suffixIndex) || strings.HasSuffix(n, suffixTimeIndex)
			},
			"*.snapshot":   func(n string) bool { return strings.HasSuffix(n, ".snapshot") },
			"*-checkpoint": func(n string) bool { return strings.HasSuffix(n, "-checkpoint") },
		}
		for _, name := range names {
			if !needed(name) {
				missing[name] = func(n string) bool { return n == name }
			}
		}
		for what, gone := range missing {
			r, ends := build()
			for _, name := range filesBelow(t, r.fs, testDir) {
				if gone(name) {
					if err := r.fs.Remove(name); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := r.tryOpen(); err != nil {
				t.Fatalf("clean %t, without %s: %v", clean, what, err)
			}
			checkRestored(t, r, what, ends)
		}
	}
}

func checkRestored(t *testing.T, r *rig, without string, ends []int64) {
	t.Helper()
	i := 0
	r.s.EachPartition(func(p *Partition) {
		if err := p.Err(); err != nil {
			t.Errorf("without %s: %s: %v", without, p, err)
		}
		if end := r.contents(p); end != ends[i] {
			t.Errorf("without %s: %s ends at %d, want %d", without, p, end, ends[i])
		}
		i++
	})
	files := filesBelow(t, r.fs, testDir)
	for _, name := range files {
		stem, isLog := strings.CutSuffix(name, suffixLog)
		if isLog && (!slices.Contains(files, stem+suffixIndex) || !slices.Contains(files, stem+suffixTimeIndex)) {
			t.Errorf("without %s: %s has not both of its index files", without, name)
		}
	}
}
