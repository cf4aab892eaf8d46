package vfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// TestConformance runs the same suite over every implementation.
func TestConformance(t *testing.T) {
	for name, make := range map[string]func(t *testing.T) (FS, string){
		"os":        func(t *testing.T) (FS, string) { return OS{}, t.TempDir() },
		"mem":       func(t *testing.T) (FS, string) { return NewMem(), "/data" },
		"crashable": func(t *testing.T) (FS, string) { return NewCrashable(), "data" },
		"hooked":    func(t *testing.T) (FS, string) { return &Hooked{FS: NewMem()}, "/data" },
		"recorder": func(t *testing.T) (FS, string) {
			return Recorder(OS{}, "/", func(string) {}), t.TempDir()
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, c := range conformance {
				t.Run(c.name, func(t *testing.T) {
					fsys, dir := make(t)
					must(t, fsys.Mkdir(dir))
					c.run(t, fsys, dir)
				})
			}
		})
	}
}

var conformance = []struct {
	name string
	run  func(t *testing.T, fsys FS, dir string)
}{
	{"open", testOpen},
	{"content", testContent},
	{"directories", testDirectories},
	{"rename", testRename},
	{"lock", testLock},
	{"preallocate", testPreallocate},
	{"errors name operation and path", testErrors},
	{"concurrent", testConcurrent},
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

func open(t *testing.T, fsys FS, name string, flag OpenFlag) File {
	t.Helper()
	f, err := fsys.Open(name, flag)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func write(t *testing.T, f File, off int64, s string) {
	t.Helper()
	if n, err := f.WriteAt([]byte(s), off); err != nil || n != len(s) {
		t.Fatalf("write: %d, %v", n, err)
	}
}

func content(t *testing.T, fsys FS, name string) string {
	t.Helper()
	f, err := fsys.Open(name, ReadOnly)
	must(t, err)
	defer f.Close()
	size, err := f.Size()
	must(t, err)
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); int64(n) != size || (err != nil && err != io.EOF) {
		t.Fatalf("read: %d, %v", n, err)
	}
	return string(b)
}

func testOpen(t *testing.T, fsys FS, dir string) {
	name := path.Join(dir, "a")
	for _, flag := range []OpenFlag{ReadOnly, ReadWrite} {
		_, err := fsys.Open(name, flag)
		wantErr(t, "open of a missing file", err, fs.ErrNotExist)
	}
	f := open(t, fsys, name, Create)
	write(t, f, 0, "hello")
	f2 := open(t, fsys, name, Create)
	if size, err := f2.Size(); err != nil || size != 5 {
		t.Errorf("size %d, %v: Create must keep the content", size, err)
	}
	if r := open(t, fsys, name, ReadOnly); r != nil {
		if _, err := r.WriteAt([]byte("x"), 0); err == nil {
			t.Error("a read-only handle writes")
		}
	}
	open(t, fsys, name, Truncate)
	if got := content(t, fsys, name); got != "" {
		t.Errorf("after Truncate %q", got)
	}
	open(t, fsys, path.Join(dir, "b"), Truncate)
	if _, err := fsys.Stat(path.Join(dir, "b")); err != nil {
		t.Errorf("Truncate makes a missing file: %v", err)
	}
	must(t, f.Close())
	if err := f.Close(); err == nil {
		t.Error("second Close succeeds")
	}
	if _, err := f.ReadAt(make([]byte, 1), 0); err == nil {
		t.Error("read after Close succeeds")
	}
}

func testContent(t *testing.T, fsys FS, dir string) {
	name := path.Join(dir, "a")
	f := open(t, fsys, name, Create)
	model := []byte{}
	put := func(off int, s string) {
		write(t, f, int64(off), s)
		if n := off + len(s) - len(model); n > 0 {
			model = append(model, make([]byte, n)...)
		}
		copy(model[off:], s)
	}
	put(0, "abc")
	put(10, "gap")
	put(2, strings.Repeat("x", 3*pageSize+7))
	put(8*pageSize-3, "across pages")
	put(pageSize, strings.Repeat("\x00", pageSize))
	for _, size := range []int{5 * pageSize, 2*pageSize + 9, 7 * pageSize} {
		must(t, f.Truncate(int64(size)))
		if size < len(model) {
			model = model[:size]
		}
		model = append(model, make([]byte, size-len(model))...)
	}
	put(7*pageSize+100, "end")
	if got := content(t, fsys, name); got != string(model) {
		t.Error("content differs from the model")
	}
	buf := make([]byte, 10)
	if n, err := f.ReadAt(buf, int64(len(model))-3); n != 3 || err != io.EOF || string(buf[:n]) != "end" {
		t.Errorf("read at the end: %d, %v, %q", n, err, buf[:n])
	}
	if n, err := f.ReadAt(buf, int64(len(model))+3); n != 0 || err != io.EOF {
		t.Errorf("read behind the end: %d, %v", n, err)
	}
	must(t, f.Sync())
	must(t, f.Datasync())
	info, err := fsys.Stat(name)
	if err != nil || info.Size != int64(len(model)) || info.IsDir || info.ModTime < 1_500_000_000_000 {
		t.Errorf("stat: %+v, %v", info, err)
	}
	must(t, fsys.SetModTime(name, 1_700_000_000_123))
	if info, _ = fsys.Stat(name); info.ModTime != 1_700_000_000_123 {
		t.Errorf("time %d", info.ModTime)
	}
}

func testDirectories(t *testing.T, fsys FS, dir string) {
	must(t, fsys.Mkdir(path.Join(dir, "x/y/z")))
	must(t, fsys.Mkdir(path.Join(dir, "x/y")))
	open(t, fsys, path.Join(dir, "x/b"), Create)
	open(t, fsys, path.Join(dir, "x/a"), Create)
	names, err := fsys.List(path.Join(dir, "x"))
	if err != nil || !slices.Equal(names, []string{"a", "b", "y"}) {
		t.Errorf("list: %v, %v", names, err)
	}
	if info, err := fsys.Stat(path.Join(dir, "x")); err != nil || !info.IsDir {
		t.Errorf("stat: %+v, %v", info, err)
	}
	if err := fsys.Remove(path.Join(dir, "x")); err == nil {
		t.Error("a directory with entries is removed")
	}
	if err := fsys.Mkdir(path.Join(dir, "x/a")); err == nil {
		t.Error("mkdir over a file")
	}
	if _, err := fsys.OpenDir(path.Join(dir, "x/a")); err == nil {
		t.Error("OpenDir of a file")
	}
	_, err = fsys.OpenDir(path.Join(dir, "none"))
	wantErr(t, "OpenDir of nothing", err, fs.ErrNotExist)
	_, err = fsys.List(path.Join(dir, "none"))
	wantErr(t, "List of nothing", err, fs.ErrNotExist)
	d, err := fsys.OpenDir(path.Join(dir, "x"))
	must(t, err)
	must(t, d.Sync())
	must(t, d.Close())
	must(t, fsys.Remove(path.Join(dir, "x/b")))
	wantErr(t, "second remove", fsys.Remove(path.Join(dir, "x/b")), fs.ErrNotExist)
	must(t, fsys.RemoveAll(path.Join(dir, "x")))
	must(t, fsys.RemoveAll(path.Join(dir, "x/y")))
	if names, err := fsys.List(dir); err != nil || len(names) != 0 {
		t.Errorf("list: %v, %v", names, err)
	}
}

func testRename(t *testing.T, fsys FS, dir string) {
	a, b := path.Join(dir, "a"), path.Join(dir, "b")
	f := open(t, fsys, a, Create)
	write(t, f, 0, "new")
	write(t, open(t, fsys, b, Create), 0, "old content")
	must(t, fsys.Rename(a, b))
	if got := content(t, fsys, b); got != "new" {
		t.Errorf("content %q", got)
	}
	write(t, f, 3, "er") // the handle follows the file
	if got := content(t, fsys, b); got != "newer" {
		t.Errorf("content %q", got)
	}
	wantErr(t, "rename of nothing", fsys.Rename(a, b), fs.ErrNotExist)
	must(t, fsys.Mkdir(path.Join(dir, "d/e")))
	must(t, fsys.Rename(b, path.Join(dir, "d/e/c")))
	must(t, fsys.Rename(path.Join(dir, "d/e"), path.Join(dir, "g")))
	if got := content(t, fsys, path.Join(dir, "g/c")); got != "newer" {
		t.Errorf("content %q", got)
	}
	if err := fsys.Rename(path.Join(dir, "d"), path.Join(dir, "g")); err == nil {
		t.Error("rename over a directory with entries")
	}
	if err := fsys.Rename(path.Join(dir, "g"), path.Join(dir, "g/h")); err == nil {
		t.Error("rename into itself")
	}
}

func testLock(t *testing.T, fsys FS, dir string) {
	name := path.Join(dir, ".lock")
	l, err := fsys.Lock(name)
	must(t, err)
	_, err = fsys.Lock(name)
	wantErr(t, "second lock", err, ErrLocked)
	must(t, l.Close())
	l, err = fsys.Lock(name)
	must(t, err)
	must(t, l.Close())
	if _, err := fsys.Stat(name); err != nil {
		t.Errorf("lock file: %v", err)
	}
	if free, err := fsys.Free(dir); err != nil || free == 0 {
		t.Errorf("free %d, %v", free, err)
	}
}

func testPreallocate(t *testing.T, fsys FS, dir string) {
	f := open(t, fsys, path.Join(dir, "a"), Create)
	write(t, f, 0, "abc")
	must(t, f.Preallocate(100_000))
	must(t, f.Preallocate(10))
	want := "abc" + strings.Repeat("\x00", 100_000-3)
	if got := content(t, fsys, path.Join(dir, "a")); got != want {
		t.Errorf("content has %d bytes", len(got))
	}
}

func testErrors(t *testing.T, fsys FS, dir string) {
	name := path.Join(dir, "none")
	_, errOpen := fsys.Open(name, ReadWrite)
	_, errStat := fsys.Stat(name)
	for _, err := range []error{errOpen, errStat, fsys.Remove(name), fsys.Rename(name, name+"2"), fsys.SetModTime(name, 0)} {
		if err == nil || !strings.Contains(err.Error(), name) || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v", err)
		}
	}
	f := open(t, fsys, path.Join(dir, "f"), Create)
	f.Close()
	for op, err := range map[string]error{"sync": f.Sync(), "datasync": f.Datasync(), "allocate": f.Preallocate(1)} {
		if err == nil || !strings.Contains(err.Error(), path.Join(dir, "f")) {
			t.Errorf("%s: %v", op, err)
		}
	}
}

func testConcurrent(t *testing.T, fsys FS, dir string) {
	f := open(t, fsys, path.Join(dir, "a"), Create)
	must(t, f.Truncate(64<<10))
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			p, q := bytes.Repeat([]byte{byte(i + 1)}, 1000), make([]byte, 1000)
			off := int64(i) * 16 << 10
			for range 20 {
				if _, err := f.WriteAt(p, off); err != nil {
					t.Error(err)
				}
				if err := f.Datasync(); err != nil {
					t.Error(err)
				}
				if _, err := f.ReadAt(q, off); err != nil || !bytes.Equal(p, q) {
					t.Errorf("read back: %v", err)
				}
			}
		})
	}
	wg.Wait()
}

func TestMemCapacity(t *testing.T) {
	m := NewMem()
	m.SetCapacity(1000)
	f := open(t, m, "a", Create)
	write(t, f, 0, strings.Repeat("x", 900))
	_, err := f.WriteAt(make([]byte, 200), 900)
	wantErr(t, "write", err, syscall.ENOSPC)
	wantErr(t, "preallocate", f.Preallocate(1001), syscall.ENOSPC)
	write(t, f, 100, "inside")
	if free, _ := m.Free("/"); free != 100 {
		t.Errorf("free %d", free)
	}
	must(t, f.Truncate(10))
	must(t, f.Preallocate(1000))
	must(t, m.Remove("a"))
	if free, _ := m.Free("/"); free != 1000 {
		t.Errorf("free %d", free)
	}
}

func TestBlobIsSparse(t *testing.T) {
	var b blob
	b.truncate(1 << 30)
	b.writeAt(make([]byte, 1<<20), 100)
	if b.bytes() != 0 {
		t.Errorf("zeros take %d bytes", b.bytes())
	}
	b.writeAt([]byte{1}, 500<<20)
	if b.bytes() != pageSize {
		t.Errorf("one byte takes %d bytes", b.bytes())
	}
}
