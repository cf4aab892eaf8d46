package compaction

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kcoord/kcoord/log/record"
	"github.com/kcoord/kcoord/log/vfs"
)

// TestPolicyChangedToDelete: a cleaned segment still ends where the next one begins, so
// that what cleaning took is no hole when the topic is not compacted any more.
func TestPolicyChangedToDelete(t *testing.T) {
	crash := vfs.NewCrashable()
	r := newRig(t, crash)
	r.open()
	for range 3 {
		for range 40 {
			r.set(kv{fmt.Sprint("kept", r.p.LogEnd()), strings.Repeat("v", 100)})
		}
		for range 10 {
			r.set(kv{"k", "v"})
		}
		must(t, r.roll())
	}
	r.compact(false)
	must(t, r.s.Checkpoint())
	r.config.Compact, r.config.Delete = false, true
	r.fs = crash.Crash(vfs.Seeded(1))
	r.open()
	read := 0
	for offset := int64(0); offset < r.p.HighWatermark(); {
		b, err := r.p.Read(offset, 1<<20, true, nil)
		if err != nil || len(b) == 0 {
			t.Fatalf("reading at %d: %d bytes, %v", offset, len(b), err)
		}
		offset = record.Batch(b).NextOffset()
		read++
	}
	if read >= 150 {
		t.Errorf("%d batches: nothing was cleaned", read)
	}
	r.batches()
}
