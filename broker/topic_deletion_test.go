package broker

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/internal/meta"
	"github.com/kcoord/kcoord/log"
	"github.com/kcoord/kcoord/log/vfs"
)

// A crash after a topic's deletion has become durable and before any of its
// committed offsets got a tombstone: the next start finds the offsets, also when
// there is a new topic of that name, and leaves those of other topics alone.
func TestOffsetsOfTopicDeletedBeforeCrash(t *testing.T) {
	fs := crashable(t)
	b, tr := newTest(t, Options{DataDir: "data", FS: fs.fs})
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := tr.open(0)
	gone, kept := createTopic(t, c, "gone", 1), "kept"
	createTopic(t, c, kept, 1)
	groups := []string{"g", "h", "i", "j", "k"}
	for _, group := range groups {
		for _, topic := range []string{"gone", kept} {
			if code := commitCode(t, c, commitRequest(group, "", -1, topic, 7, 0)); code != 0 {
				t.Fatalf("commit of %s for %s: code %d", topic, group, code)
			}
		}
	}
	fs.kill(t, b)

	// What the journal holds when a broker is killed just after DeleteTopics.
	b, _ = newTest(t, Options{DataDir: "data", FS: fs.fs})
	store, err := log.Open(b.storeOptions())
	if err != nil {
		t.Fatal(err)
	}
	if err := store.AppendMetadata([][]byte{meta.AppendDeleted(nil, gone)}, nil, false); err != nil {
		t.Fatal(err)
	}
	if _, err := store.FlushStep(); err != nil {
		t.Fatal(err)
	}

	fs.fs = fs.fs.Crash(vfs.KeepNone)

	for _, first := range []bool{true, false} {
		b, tr = newTest(t, Options{DataDir: "data", FS: fs.fs})
		if err := b.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		c = tr.open(0)
		if first {
			createTopic(t, c, "gone", 1)
		}
		for _, group := range groups {
			for topic, want := range map[string]int64{"gone": -1, kept: 7} {
				got := int64(0)
				for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
					resp := ask[*kmsg.OffsetFetchResponse](t, c, fetchRequest(8, topic, []int32{0}, group))
					if got = resp.Groups[0].Topics[0].Partitions[0].Offset; got == want {
						break
					}
				}
				if got != want {
					t.Errorf("group %s has offset %d of %s, want %d", group, got, topic, want)
				}
			}
		}
		fs.kill(t, b)
	}
}
