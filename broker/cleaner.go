package broker

import (
	"time"

	"github.com/kcoord/kcoord/compaction"
	"github.com/kcoord/kcoord/log"
)

// cleanerLoop is the loop that compacts logs in the background; ok is false if
// log.cleaner.enable says that there is none.
func (b *Broker) cleanerLoop(store *log.Store) (l Loop, ok bool) {
	if !b.values().LogCleanerEnable {
		return Loop{}, false
	}
	cleaner := compaction.New(compaction.Options{
		Partitions: func(f func(p *log.Partition) bool) { eachUntil(store, f) },
		Live:       b.liveBytes,
		Done:       b.cleaned,
	})
	b.onEnd(cleaner.Close)
	step := func() (time.Duration, error) {
		mono, wall := b.options.Clock.Now()
		cleaner.Tune(b.cleanerTuning())
		return cleaner.Step(mono, wall)
	}
	return Loop{Name: "cleaner", Step: step}, true
}

// cleanerTuning are the cleaner's settings as they are now: they can be changed
// while the broker runs.
func (b *Broker) cleanerTuning() compaction.Tuning {
	v := b.values()
	return compaction.Tuning{
		MapBytes:       int(min(v.LogCleanerDedupeBuffer, b.memoryBudget())),
		LoadFactor:     v.LogCleanerLoadFactor,
		IOBufferBytes:  v.LogCleanerIOBuffer,
		BytesPerSecond: bytesPerSecond(v.LogCleanerMaxBytesPerSec),
		Backoff:        v.LogCleanerBackoff,
	}
}

func eachUntil(store *log.Store, f func(p *log.Partition) bool) {
	more := true
	store.EachPartition(func(p *log.Partition) {
		if more {
			more = f(p)
		}
	})
}

// bytesPerSecond is log.cleaner.io.max.bytes.per.second, whose default is the
// largest number there is.
func bytesPerSecond(limit float64) int64 {
	if limit <= 0 || limit >= 1<<62 {
		return 0
	}
	return max(1, int64(limit))
}

// shardOf returns the shard whose log a partition is, nil if it is another
// topic's.
func (b *Broker) shardOf(p *log.Partition) *shard {
	shards := b.allShards()
	if i := int(p.Index()); i < len(shards) && shards[i].partition == p {
		return shards[i]
	}
	return nil
}

// liveBytes tells the cleaner how much of a partition its owner still needs.
func (b *Broker) liveBytes(p *log.Partition) compaction.Live {
	sh := b.shardOf(p)
	if sh == nil {
		return compaction.Live{}
	}
	sh.mu.Lock()
	defer sh.unlock()
	switch sh.mu.state {
	case shardLoading:
		return compaction.Live{NotReady: true}
	case shardFailed:
		return compaction.Live{} // what it counted may be wrong
	}
	live := sh.mu.core.Live()
	return compaction.Live{Counted: true, Bytes: live.Values + live.Tombstones}
}

// cleaned notes the outcome of a cleaning.
func (b *Broker) cleaned(r compaction.Result) {
	if sh := b.shardOf(r.Partition); sh != nil && r.Err == nil {
		sh.forgetTombstones(r.Tombstones.Bytes())
	}
	b.tellCleaned(&r)
}

// forgetTombstones tells the core how many bytes of tombstones are left.
func (sh *shard) forgetTombstones(left int64) {
	sh.mu.Lock()
	defer sh.unlock()
	if sh.mu.state == shardActive {
		sh.mu.core.SetTombstones(left)
	}
}
