package log

import (
	"slices"
	"sync"
	"testing"

	"github.com/kcoord/kcoord/log/vfs"
)

// Opening and closing with several partitions at a time gives what one after
// another gives, and a new folder begins with the metadata that it was told.
func TestParallel(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	var calls int
	r.options = func(o *Options) {
		o.First = [][]byte{topicRecord(1, "offsets", 3, 2)}
		var mu sync.Mutex
		random := o.Random
		o.Random = func(b []byte) {
			mu.Lock()
			defer mu.Unlock()
			random(b)
		}
		o.Events.Warn = nil
		o.Parallel = func(n int, f func(int)) {
			calls++
			var all sync.WaitGroup
			for i := range n {
				all.Add(1)
				go func() {
					defer all.Done()
					f(i)
				}()
			}
			all.Wait()
		}
	}
	r.open()
	if p := r.s.Partition(testTopic(1), 2); p == nil {
		t.Fatal("a new folder has not the topic that it begins with")
	}
	r.history()
	ends := r.ends()
	for round := range 4 {
		if round%2 == 0 {
			r.s.abandon()
		} else if err := r.s.Close(); err != nil {
			t.Fatal(err)
		}
		before := calls
		r.open()
		if calls == before {
			t.Error("opened one after another")
		}
		if got := r.ends(); !slices.Equal(got, ends) {
			t.Fatalf("round %d: ends %v, want %v", round, got, ends)
		}
		i := 0
		r.s.EachPartition(func(p *Partition) {
			if end := r.contents(p); end != ends[i] || p.Err() != nil {
				t.Errorf("round %d: %s ends at %d, want %d (%v)", round, p, end, ends[i], p.Err())
			}
			i++
		})
	}
}
