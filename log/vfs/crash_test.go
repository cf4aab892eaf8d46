package vfs

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
)

func syncDir(t *testing.T, fsys FS, name string) {
	t.Helper()
	d, err := fsys.OpenDir(name)
	must(t, err)
	defer d.Close()
	must(t, d.Sync())
}

// exists says what a crash image holds under a name.
func exists(t *testing.T, c *Crashable, name string) string {
	t.Helper()
	if _, err := c.Stat(name); err != nil {
		return "-"
	}
	return content(t, c, name)
}

func TestCrashNames(t *testing.T) {
	c := NewCrashable()
	must(t, c.Mkdir("d"))
	f := open(t, c, "d/a", Create)
	write(t, f, 0, "A")
	must(t, f.Sync())
	if got := exists(t, c.Crash(KeepNone), "d/a"); got != "-" {
		t.Errorf("a file without a synced name: %q", got)
	}
	syncDir(t, c, "d")
	if got := exists(t, c.Crash(KeepNone), "d/a"); got != "-" {
		t.Errorf("in a directory without a synced name: %q", got)
	}
	syncDir(t, c, "/")
	if got := exists(t, c.Crash(KeepNone), "d/a"); got != "A" {
		t.Errorf("synced: %q", got)
	}
	write(t, open(t, c, "d/b", Create), 0, "B")
	must(t, c.Rename("d/b", "d/a"))
	seen := map[string]int{}
	for seed := range uint64(200) {
		img := c.Crash(Seeded(seed))
		seen[exists(t, img, "d/a")+exists(t, img, "d/b")]++
	}
	// The rename is atomic; the content of b was never synced; its creation may
	// be known without the rename.
	for _, want := range []string{"A-", "A", "AB", "B-", "-"} {
		if seen[want] == 0 {
			t.Errorf("no image like %q: %v", want, seen)
		}
		delete(seen, want)
	}
	for got := range seen {
		if got != "A\x00" && got != "\x00-" {
			t.Errorf("impossible image %q", got)
		}
	}
	must(t, c.Remove("d/a"))
	if got := exists(t, c.Crash(KeepNone), "d/a"); got != "A" {
		t.Errorf("unsynced removal: %q", got)
	}
	syncDir(t, c, "d")
	if got := exists(t, c.Crash(KeepNone), "d/a"); got != "-" {
		t.Errorf("synced removal: %q", got)
	}
}

func TestCrashSectors(t *testing.T) {
	c := NewCrashable()
	f := open(t, c, "a", Create)
	syncDir(t, c, "/")
	write(t, f, 0, strings.Repeat("o", 4*sectorSize))
	must(t, f.Datasync())
	write(t, f, 100, strings.Repeat("n", 3*sectorSize))
	write(t, f, 4*sectorSize, "tail")
	seen := map[string]int{}
	for seed := range uint64(400) {
		got := content(t, c.Crash(Seeded(seed)), "a")
		var b strings.Builder
		for i := 0; i < len(got); i += sectorSize {
			s := got[i:min(i+sectorSize, len(got))]
			switch {
			case strings.Count(s, "o") == len(s):
				b.WriteByte('o')
			case s == "tail":
				b.WriteByte('t')
			case s == "\x00\x00\x00\x00":
				b.WriteByte('0')
			case strings.Contains(s, "n") && strings.Trim(s, "on") == "":
				b.WriteByte('n')
			default:
				t.Fatalf("sector %q", s)
			}
		}
		seen[b.String()]++
	}
	if len(seen) < 30 {
		t.Errorf("only %d of 48 images: %v", len(seen), seen)
	}
	if got := content(t, c.Crash(KeepAll), "a"); got != content(t, c, "a") {
		t.Error("KeepAll differs from what a reader sees")
	}
	must(t, f.Truncate(10))
	write(t, f, 10, "again")
	must(t, f.Sync())
	if got := content(t, c.Crash(KeepNone), "a"); got != strings.Repeat("o", 10)+"again" {
		t.Errorf("synced: %q", got)
	}
}

func TestCrashTruncateNotDurable(t *testing.T) {
	c := NewCrashable()
	f := open(t, c, "a", Create)
	write(t, f, 0, strings.Repeat("x", 2000))
	must(t, f.Sync())
	syncDir(t, c, "/")
	must(t, f.Truncate(100))
	must(t, f.Truncate(2000))
	lengths := map[int]bool{}
	for seed := range uint64(100) {
		got := content(t, c.Crash(Seeded(seed)), "a")
		lengths[len(got)] = true
		if strings.Trim(got, "x\x00") != "" || !strings.HasPrefix(got, strings.Repeat("x", 100)) {
			t.Fatalf("content %q", got)
		}
	}
	if !lengths[100] || !lengths[2000] || len(lengths) != 2 {
		t.Errorf("lengths %v", lengths)
	}
}

func TestKill(t *testing.T) {
	c := NewCrashable()
	f := open(t, c, "a", Create)
	write(t, f, 0, "x")
	_, err := c.Lock("lock")
	must(t, err)
	c.Kill()
	if _, err := f.WriteAt([]byte("y"), 0); err == nil {
		t.Error("a killed process writes")
	}
	if got := content(t, c, "a"); got != "x" {
		t.Errorf("content %q", got)
	}
	_, err = c.Lock("lock")
	must(t, err)
}

func TestFailingSyncThatThenSucceeds(t *testing.T) {
	for _, revert := range []bool{false, true} {
		t.Run(fmt.Sprintf("revert %v", revert), func(t *testing.T) {
			c := NewCrashable()
			h := &Hooked{FS: c}
			f := open(t, h, "a", Create)
			write(t, f, 0, "old")
			must(t, f.Sync())
			syncDir(t, c, "/")
			write(t, f, 0, "new")
			failed := false
			h.Before = func(op Op) *Failure {
				if !op.IsSync() || failed {
					return nil
				}
				failed = true
				return &Failure{Err: syscall.EIO, Lose: true, Revert: revert}
			}
			wantErr(t, "first sync", f.Datasync(), syscall.EIO)
			must(t, f.Datasync())
			if got := content(t, c.Crash(KeepAll), "a"); got != "old" {
				t.Errorf("on disk %q", got)
			}
			want := map[bool]string{false: "new", true: "old"}[revert]
			if got := content(t, c, "a"); got != want {
				t.Errorf("a reader sees %q, want %q", got, want)
			}
			write(t, f, 0, "new") // written again, it is safe
			must(t, f.Datasync())
			if got := content(t, c.Crash(KeepNone), "a"); got != "new" {
				t.Errorf("on disk %q", got)
			}
		})
	}
}

func TestHookedFailures(t *testing.T) {
	m := NewMem()
	h := &Hooked{FS: m}
	f := open(t, h, "dir-less", Create)
	h.Before = FailNth(2, syscall.ENOSPC, true, Match(OpWrite, "less"))
	write(t, f, 0, "one")
	_, err := f.WriteAt([]byte("two"), 3)
	wantErr(t, "second", err, syscall.ENOSPC)
	_, err = f.WriteAt([]byte("two"), 3)
	wantErr(t, "third", err, syscall.ENOSPC)
	h.Before = func(Op) *Failure { return &Failure{Err: syscall.EIO, Short: 2} }
	n, err := f.WriteAt([]byte("two"), 3)
	wantErr(t, "short", err, syscall.EIO)
	h.Before = func(Op) *Failure { return &Failure{Err: syscall.EIO, After: true} }
	wantErr(t, "rename", h.Rename("dir-less", "b"), syscall.EIO)
	h.Before = nil
	if got := content(t, h, "b"); n != 2 || got != "onetw" {
		t.Errorf("%d bytes of a short write, content %q", n, got)
	}
	var pe interface{ Timeout() bool }
	if !errors.As(err, &pe) || !strings.Contains(err.Error(), "write dir-less") {
		t.Errorf("error %v", err)
	}
}

func TestRecorder(t *testing.T) {
	var lines []string
	m := NewMem()
	r := Recorder(m, "/data", func(line string) { lines = append(lines, line) })
	must(t, r.Mkdir("/data"))
	f := open(t, r, "/data/a.tmp", Truncate)
	write(t, f, 0, "hello")
	must(t, f.Sync())
	must(t, r.Rename("/data/a.tmp", "/data/a"))
	syncDir(t, r, "/data")
	if err := r.Remove("/data/none"); err == nil {
		t.Error("removed nothing")
	}
	want := `mkdir .
open-truncate a.tmp
write a.tmp 0+5
sync a.tmp
rename a.tmp a
sync .
remove none failed`
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("recorded\n%s\nwant\n%s", got, want)
	}
}
