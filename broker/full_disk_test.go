package broker

import (
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/log/vfs"
)

// A start that finds no space for the partition logs serves what the journal
// holds, refuses writes as soon as the partition logs are to be written, and takes
// them again when there is space.
func TestStartOnFullDisk(t *testing.T) {
	fs := crashable(t)
	b, tr := newTest(t, Options{DataDir: "data", FS: fs.fs})
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := tr.open(0)
	createTopic(t, c, "t", 1)
	groups := []string{"g", "h", "i", "j", "k"}
	for _, group := range groups {
		if code := commitCode(t, c, commitRequest(group, "", -1, "t", 7, 0)); code != 0 {
			t.Fatalf("commit of %s: code %d", group, code)
		}
	}
	fs.kill(t, b)

	var full atomic.Bool
	full.Store(true)
	_, tr = startTest(t, Options{DataDir: "data", FS: &vfs.Hooked{FS: fs.fs, Before: func(op vfs.Op) *vfs.Failure {
		if full.Load() && op.Kind == vfs.OpWrite && strings.HasSuffix(op.Path, ".log") {
			return &vfs.Failure{Err: syscall.ENOSPC}
		}
		return nil
	}}})
	c = tr.open(0)
	for _, group := range groups {
		resp := ask[*kmsg.OffsetFetchResponse](t, c, fetchRequest(8, "t", []int32{0}, group))
		if g := resp.Groups[0]; g.ErrorCode != 0 || g.Topics[0].Partitions[0].Offset != 7 {
			t.Errorf("group %s: %+v, want offset 7", group, g)
		}
	}
	commitUntil := func(group string, want int16) {
		t.Helper()
		code := int16(-1)
		for deadline := time.Now().Add(10 * time.Second); code != want && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			code = commitCode(t, c, commitRequest(group, "", -1, "t", 8, 0))
		}
		if code != want {
			t.Errorf("commit of %s: code %d, want %d", group, code, want)
		}
	}
	for _, group := range groups {
		commitUntil(group, codeCoordinatorNotAvailable)
	}
	full.Store(false)
	for _, group := range groups {
		commitUntil(group, 0)
	}
}

// stopWithOffset leaves a folder that was stopped in order, with topic t and offset 7 of
// group g.
func stopWithOffset(t *testing.T, o Options) {
	t.Helper()
	b, tr := newTest(t, o)
	startBroker(t, b)
	c := tr.open(0)
	createTopic(t, c, "t", 1)
	if code := commitCode(t, c, commitRequest("g", "", -1, "t", 7, 0)); code != 0 {
		t.Fatalf("commit: code %d", code)
	}
	if err := b.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A folder that was stopped in order is served from although there is no space for a
// journal; writes are refused, and taken when there is.
func TestCleanStartOnFullDisk(t *testing.T) {
	fs := vfs.NewMem()
	stopWithOffset(t, Options{DataDir: "data", FS: fs})

	var full atomic.Bool
	full.Store(true)
	b, tr := startTest(t, Options{DataDir: "data", FS: &vfs.Hooked{FS: fs, Before: func(op vfs.Op) *vfs.Failure {
		if full.Load() && op.Kind == vfs.OpPreallocate {
			return &vfs.Failure{Err: syscall.ENOSPC}
		}
		return nil
	}}})
	c := tr.open(0)
	resp := ask[*kmsg.OffsetFetchResponse](t, c, fetchRequest(8, "t", []int32{0}, "g"))
	if g := resp.Groups[0]; g.ErrorCode != 0 || g.Topics[0].Partitions[0].Offset != 7 {
		t.Errorf("%+v, want offset 7", g)
	}
	if code := commitCode(t, c, commitRequest("g", "", -1, "t", 8, 0)); code != codeCoordinatorNotAvailable {
		t.Errorf("commit on a full disk: code %d", code)
	}
	if problems := b.Problems(); len(problems) == 0 {
		t.Error("no problem is told of")
	}
	full.Store(false)
	code := int16(-1)
	for deadline := time.Now().Add(10 * time.Second); code != 0 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		code = commitCode(t, c, commitRequest("g", "", -1, "t", 8, 0))
	}
	if code != 0 {
		t.Errorf("commit with space: code %d", code)
	}
}

// lines is a log that a test reads while it is written.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lines) count(part string) int { return strings.Count(l.String(), part) }

// await waits for n lines with part and returns how many there are: a client may
// have its answer before the log has the line.
func (l *lines) await(part string, n int) int {
	for end := time.Now().Add(10 * time.Second); l.count(part) < n && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	return l.count(part)
}

// Writes that are refused for want of space are seen: one line of the log, readiness,
// metrics, DescribeLogDirs; and so is their end. A state that comes and goes is told
// of once a minute, one that stays always.
func TestFullDiskIsVisible(t *testing.T) {
	t.Parallel()
	out := &lines{}
	logger := zerolog.New(out).Level(zerolog.InfoLevel)
	fs := vfs.NewMem()
	const capacity, reserve = 1 << 30, 64 << 20
	fs.SetCapacity(capacity)
	clock := &jumpingClock{Clock: newRealClock()}
	b, tr := startTest(t, Options{FS: fs, Logger: &logger, Clock: clock})
	server := httptest.NewServer(b.httpHandler())
	defer server.Close()
	c := tr.open(0)
	createTopic(t, c, "t", 1)
	until := func(what string, done func() bool) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: not in time; the log:\n%s", what, out)
			}
		}
	}
	page := func(path string) string { _, body := httpGet(t, server.URL+path); return body }
	status := func(path string) int { code, _ := httpGet(t, server.URL+path); return code }
	full := func() { fs.SetCapacity(reserve / 2) }
	const begins, ends = `"message":"no space: writes are refused until there is some, reads are served"`, `"message":"writes are accepted again"`

	if s := status("/readyz"); s != 200 {
		t.Fatalf("readyz before: %d", s)
	}
	full()
	until("refusal", func() bool { return status("/readyz") == 503 })
	until("line", func() bool { return out.count(begins) == 1 })
	if code := commitCode(t, c, commitRequest("g", "", -1, "t", 7, 0)); code != codeCoordinatorNotAvailable {
		t.Errorf("commit: code %d", code)
	}
	for _, want := range []string{`"level":"error"`, `"reason":"disk"`, `"free_bytes":`, `"reserve_bytes":67108864`, `"property":"kcoord.disk.reserve.bytes"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in the log:\n%s", want, out)
		}
	}
	metrics := page("/metrics")
	for _, want := range []string{"\nkcoord_ready 0\n", "\nkcoord_writes_refused{reason=\"disk\"} 1\n", "\nkcoord_writes_refused{reason=\"journal\"} 0\n", "\nkcoord_writes_refused_total 1\n", "\nkcoord_disk_free_bytes "} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %q in the metrics", want)
		}
	}
	if s := status("/healthz"); s != 200 {
		t.Errorf("healthz: %d", s)
	}
	dirs := func() int16 {
		req := kmsg.NewPtrDescribeLogDirsRequest()
		req.Topics = []kmsg.DescribeLogDirsRequestTopic{}
		return ask[*kmsg.DescribeLogDirsResponse](t, c, at(req, 4)).Dirs[0].ErrorCode
	}
	if code := dirs(); code != codeStorageError {
		t.Errorf("DescribeLogDirs: code %d", code)
	}

	fs.SetCapacity(capacity)
	until("acceptance", func() bool { return out.count(ends) == 1 && status("/readyz") == 200 })
	if code := dirs(); code != 0 {
		t.Errorf("DescribeLogDirs afterwards: code %d", code)
	}
	full()
	until("second refusal", func() bool { return status("/readyz") == 503 })
	if n := out.count(begins); n != 1 {
		t.Errorf("%d lines of refusals within a minute", n)
	}
	clock.jump(warnInterval)
	until("second line", func() bool { return out.count(begins) == 2 })
	fs.SetCapacity(capacity)
	until("end", func() bool { return out.count(ends) == 2 })
}
