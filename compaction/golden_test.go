package compaction

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/kcoord/kcoord/log/vfs"
)

// TestGoldenOperations compares every change that one round makes to the disk with a
// recorded list: a missing sync of the folder shows as a difference. KCOORD_UPDATE=1
// records anew.
func TestGoldenOperations(t *testing.T) {
	var out strings.Builder
	hook := vfs.Recorder(vfs.NewMem(), testDir, func(line string) { fmt.Fprintln(&out, line) })
	r := newRig(t, hook)
	r.config.SegmentBytes = 400
	r.open()
	for i := range 6 {
		r.set(kv{fmt.Sprint("key ", i%2), strings.Repeat("v", 150)})
	}
	must(t, r.roll())
	must(t, r.s.Close())
	r.p, r.config.SegmentBytes = nil, 1<<20 // the segments become one
	r.open()
	out.Reset()
	result, err := r.tryRound(true)
	must(t, err)
	if result.Replaced != 1 || result.SegmentsBefore != 6 {
		t.Fatalf("%+v", result)
	}
	const name = "testdata/operations.txt"
	if os.Getenv("KCOORD_UPDATE") != "" {
		must(t, os.MkdirAll("testdata", 0o755))
		must(t, os.WriteFile(name, []byte(out.String()), 0o644))
	}
	want, err := os.ReadFile(name)
	must(t, err)
	if out.String() != string(want) {
		t.Errorf("operations:\n%s\nwant those of %s:\n%s", out.String(), name, want)
	}
}
