package broker

import (
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

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
