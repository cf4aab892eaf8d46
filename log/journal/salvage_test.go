package journal

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

func salvage(t *testing.T, o Options) (Salvaged, []string) {
	t.Helper()
	before := folder(t, o.FS)
	var got []string
	sum, err := Salvage(o, First(), func(it *Item) error {
		got = append(got, itemText(it.Kind, it.EntryKind, it.Data))
		return nil
	})
	must(t, err)
	if sum.Items != int64(len(got)) {
		t.Errorf("%d items visited, counted %d", len(got), sum.Items)
	}
	if folder(t, o.FS) != before {
		t.Error("the folder has changed")
	}
	return sum, got
}

func TestSalvage(t *testing.T) {
	fs, o := fixture(t)
	sum, got := salvage(t, o)
	if !slices.Equal(got, fixtureTexts(10)) || len(sum.Gaps) != 0 || sum.Last != 11 || sum.Entries != 11 {
		t.Errorf("a whole journal: %v, %+v", got, sum)
	}
	setBytes(t, fs, 1, entryOffset(4)+100, []byte("damage"))
	sum, got = salvage(t, o)
	if want := slices.Delete(fixtureTexts(10), 5, 6); !slices.Equal(got, want) {
		t.Errorf("one entry lost: %v", got)
	}
	if fmt.Sprint(sum.Gaps) != "[entry 6]" || sum.Broken != 0 {
		t.Errorf("%+v", sum)
	}
	setBytes(t, fs, 1, 0, make([]byte, HeaderBytes)) // a header is not needed
	if _, again := salvage(t, o); !slices.Equal(got, again) {
		t.Errorf("without header: %v", again)
	}
	refuse := errors.New("unknown kind")
	if _, err := Salvage(o, First(), func(*Item) error { return refuse }); !errors.Is(err, refuse) {
		t.Errorf("error %v", err)
	}
}

// A file of the middle is missing.
func TestSalvageWithoutAFile(t *testing.T) {
	fs := newTestFS(t)
	o := testOptions(fs)
	j := create(t, o)
	appendBatches(t, j, 0, 400, fixBatch)
	must(t, j.Close())
	perFile := (testFileBytes - HeaderBytes) / fixEntry
	must(t, fs.Remove(testDir+"/"+FileName(2)))
	sum, got := salvage(t, o)
	want := append(batchTexts(0, perFile, fixBatch), batchTexts(2*perFile, 400, fixBatch)...)
	if gaps := fmt.Sprintf("[entries %d to %d]", perFile+1, 2*perFile); !slices.Equal(got, want) || fmt.Sprint(sum.Gaps) != gaps {
		t.Errorf("%d items of %d, gaps %v, want %s", len(got), len(want), sum.Gaps, gaps)
	}
}

// Items that were cut into pieces come whole or not at all.
func TestSalvagePieces(t *testing.T) {
	for lost := range 4 {
		fs := newTestFS(t)
		o := testOptions(fs)
		j := create(t, o)
		appendBatches(t, j, 0, 1, fixBatch)
		at := []Position{j.Next()}
		r := NewRound(testEntryBytes)
		r.Append(Batch, testTopic(), 1, fakeBatch(1, 3*testEntryBytes-1000))
		r.Append(Batch, testTopic(), 1, fakeBatch(2, 100))
		for i := range r.used {
			must(t, j.ensure(r))
			must(t, j.write(r, i, true))
			at = append(at, j.Next())
		}
		appendBatches(t, j, 3, 4, fixBatch)
		if len(at) != 4 {
			t.Fatalf("the item has %d pieces", len(at)-1)
		}
		want := []string{"b0/106", itemText(Batch, Items, fakeBatch(1, 3*testEntryBytes-1000)), "b2/100", "b3/106"}
		gaps := "[]"
		switch lost {
		case 0: // nothing
		default: // one piece
			setBytes(t, fs, 1, at[lost-1].Offset+200, []byte("damage"))
			want = []string{"b0/106", "b2/100", "b3/106"}
			if lost == 3 {
				want = []string{"b0/106", "b3/106"}
			}
			gaps = fmt.Sprintf("[entry %d]", lost+1)
		}
		sum, got := salvage(t, o)
		if !slices.Equal(got, want) || fmt.Sprint(sum.Gaps) != gaps || (sum.Broken > 0) != (lost > 0) {
			t.Errorf("piece %d lost: got %v, want %v, %+v", lost, got, want, sum)
		}
	}
}
