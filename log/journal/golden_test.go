package journal

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kcoord/kcoord/log/vfs"
)

// The file operations of a journal's life, in order. A missing or additional sync
// shows here; to regenerate set KCOORD_REWRITE=1 and read the difference.
func TestOperations(t *testing.T) {
	var lines []string
	note := func(what string) { lines = append(lines, "# "+what) }
	mem := vfs.NewMem()
	must(t, mem.Mkdir(testDir))
	rec := vfs.Recorder(mem, testDir, func(line string) { lines = append(lines, line) })
	o := testOptions(rec)
	o.ZeroStep = 16 << 10

	note("a new journal and its start entry")
	j := create(t, o)
	must(t, j.AppendStart([]byte{7, 0}))
	note("three rounds, the last one of two entries")
	appendBatches(t, j, 0, 2, fixBatch)
	r := NewRound(testEntryBytes)
	r.Append(Batch, testTopic(), 1, fakeBatch(2, testEntryBytes+100))
	must(t, j.Append(r))
	note("the preparer zeroes ahead")
	zeroAll(t, j)
	note("half full: a spare is prepared and zeroed")
	appendBatches(t, j, 3, 7, 2000)
	zeroAll(t, j)
	note("into the next file, a snapshot, the first file is recycled")
	appendBatches(t, j, 7, 9, 7000)
	j.Recycle(j.Next())
	zeroAll(t, j)
	note("killed and started again")
	at := j.mu.replay
	must(t, j.Close())
	j, err := Open(o, at)
	must(t, err)
	must(t, j.Tidy())
	_, err = j.Scan(0, nil)
	must(t, err)
	must(t, j.RewriteTail())
	must(t, j.AppendStart([]byte{7, 1}))
	note("stopped in order")
	must(t, j.Close())
	must(t, RemoveFiles(rec, testDir))

	got := strings.Join(lines, "\n") + "\n"
	const name = "testdata/operations"
	if os.Getenv("KCOORD_REWRITE") != "" {
		must(t, os.MkdirAll("testdata", 0o755))
		must(t, os.WriteFile(name, []byte(got), 0o644))
	}
	want, err := os.ReadFile(name)
	must(t, err)
	if got != string(want) {
		t.Errorf("operations:\n%s\nwant:\n%s", got, want)
	}
}

// Read gives entries that are in use, joined as Scan gives them, up to where it
// is told.
func TestReadWhileInUse(t *testing.T) {
	fs := newTestFS(t)
	j := create(t, testOptions(fs))
	appendBatches(t, j, 0, 5, fixBatch)
	from := j.Next()
	appendBatches(t, j, 5, 6, 3*testEntryBytes) // cut into pieces, crosses into a file
	appendBatches(t, j, 6, 9, fixBatch)
	to := j.Next()
	appendBatches(t, j, 9, 12, fixBatch)
	var got []string
	must(t, j.Read(from, to, func(it *Item) error {
		got = append(got, itemText(it.Kind, it.EntryKind, it.Data))
		return nil
	}))
	want := append([]string{itemText(Batch, Items, fakeBatch(5, 3*testEntryBytes))}, batchTexts(6, 9, fixBatch)...)
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	setBytes(t, fs, from.File, from.Offset+100, []byte("damage"))
	var damage *CorruptionError
	if err := j.Read(from, to, nil); !errors.As(err, &damage) {
		t.Errorf("damaged: %v", err)
	}
	appendBatches(t, j, 12, 13, fixBatch) // the journal is still usable
	if got := fmt.Sprint(j.Next().Sequence); got == "" {
		t.Error("no sequence")
	}
}
