package log

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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

// TestRecoveryThreads: as many partitions as were asked for are in hand at a time, and
// no more; without a wish as many as there is help for.
func TestRecoveryThreads(t *testing.T) {
	const n, help = 20, 8
	for _, c := range []struct{ threads, want int }{{1, 1}, {2, 2}, {7, 7}, {0, help}, {n + 1, help}} {
		s := &Store{o: Options{
			RecoveryThreads: func() int { return c.threads },
			Parallel: func(n int, f func(int)) {
				var next atomic.Int32
				var all sync.WaitGroup
				for range min(n, help) {
					all.Go(func() {
						for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
							f(i)
						}
					})
				}
				all.Wait()
			},
		}}
		var running, most, calls atomic.Int32
		together := make(chan struct{})
		seen := make([]atomic.Int32, n)
		s.several(n, func(i int) {
			seen[i].Add(1)
			now := running.Add(1)
			for {
				if old := most.Load(); now <= old || most.CompareAndSwap(old, now) {
					break
				}
			}
			if calls.Add(1) == int32(c.want) {
				close(together)
			}
			<-together // until as many as may be are there
			running.Add(-1)
		})
		if most.Load() != int32(c.want) {
			t.Errorf("%d threads: %d at a time, want %d", c.threads, most.Load(), c.want)
		}
		for i := range seen {
			if seen[i].Load() != 1 {
				t.Errorf("%d threads: %d is done %d times", c.threads, i, seen[i].Load())
			}
		}
	}
}

// TestDueAt tells when batches of a partition are written to its log.
func TestDueAt(t *testing.T) {
	const now, delay = time.Hour, 5 * time.Millisecond
	for _, c := range []struct {
		name     string
		slot     writeSlot
		bytes    int
		watchers int32
		want     time.Duration
	}{
		{"quiet before", writeSlot{restsUntil: now - 1}, 100, 0, now + delay},
		{"just written", writeSlot{restsUntil: now + 9*delay}, 100, 0, now + 9*delay},
		{"much", writeSlot{restsUntil: now + 9*delay}, writeEnough, 0, now},
		{"somebody waits", writeSlot{restsUntil: now + 9*delay}, 100, 1, now},
		{"failed", writeSlot{retryAt: now + time.Second}, writeEnough, 1, now + time.Second},
	} {
		p := &Partition{s: &Store{o: Options{SegmentWriteDelay: delay}}, slot: c.slot, queueBytes: c.bytes}
		p.watchers.Store(c.watchers)
		if got := p.dueAt(now); got != c.want {
			t.Errorf("%s: due in %v, want %v", c.name, got-now, c.want-now)
		}
	}
}
