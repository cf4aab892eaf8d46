package broker

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/kcoord/kcoord/coordinator"
	"github.com/kcoord/kcoord/log"
	"github.com/kcoord/kcoord/log/record"
)

// newShard returns a shard that is loading.
func newShard(b *Broker, index int32, p *log.Partition) *shard {
	sh := &shard{broker: b, index: index, partition: p}
	sh.nextTimer.Store(int64(never))
	sh.mu.core = coordinator.NewShard(index)
	return sh
}

// load replays the shard's partition and makes the shard serve. Nobody else
// touches the core meanwhile: the state is loading.
func (sh *shard) load(inflateMax int64) error {
	records, err := sh.replay(inflateMax)
	if err != nil {
		sh.mu.Lock()
		sh.mu.state = shardFailed
		sh.failed.Store(true)
		sh.mu.Unlock()
		return fmt.Errorf("loading partition %d of %s: %w", sh.index, offsetsTopic, err)
	}
	sh.broker.metrics.recordsLoaded.Add(records)
	var after aftermath
	sh.activate(&after)
	sh.broker.conclude(&after)
	return nil
}

func (sh *shard) replay(inflateMax int64) (records int64, err error) {
	reader := record.Reader{InflateMax: inflateMax}
	err = sh.partition.Load(func(b record.Batch) error {
		if b.Control() {
			return nil
		}
		return reader.Each(b, func(rec record.Record) error {
			records++
			return sh.broker.core.replay(sh.mu.core, rec.Offset, rec.Key, rec.Value)
		})
	})
	return records, err
}

// activate ends loading: timers are armed.
func (sh *shard) activate(after *aftermath) {
	sh.mu.Lock()
	defer sh.unlock()
	sh.mu.core.SetNextOffset(sh.partition.LogEnd())
	ev := &sh.mu.event
	*ev = coordinator.Event{Config: sh.broker.groupConfig.Load(), Topics: sh.broker.meta.Load()}
	ev.Mono, ev.Wall = sh.broker.time.now()
	sh.mu.mono = ev.Mono
	sh.mu.state = shardActive
	sh.emitLocked(ev, func() { sh.mu.core.Loaded(ev, &sh.mu.result) })
	sh.settleLocked(nil, 0, nil, after)
}

// loadShards loads all shards, some at a time, and calls done with the first
// error, which does not keep the others from serving.
func (b *Broker) loadShards(shards []*shard, workers int, done func(error)) {
	var next, finished atomic.Int32
	var firstError atomic.Pointer[error]
	progress := b.newLoading(shards)
	for range workers {
		b.options.Executor.Go("load", func() {
			for {
				sh := b.nextToLoad(shards, &next)
				if sh == nil {
					break
				}
				if err := sh.load(b.values().InflateMaxBytes); err != nil {
					firstError.CompareAndSwap(nil, &err)
					b.logger.Error().Err(err).Msg("groups of this partition are not served")
				}
				progress.loaded(sh)
			}
			if int(finished.Add(1)) == workers {
				if err := firstError.Load(); err != nil {
					done(*err)
					return
				}
				done(nil)
			}
		})
	}
}

// loadTold is how often a load that takes long is told of.
const loadTold = 2 * time.Second

// loading is how far a load is.
type loading struct {
	b     *Broker
	total int64 // bytes of all partitions
	bytes atomic.Int64
	count atomic.Int32
	of    int
	told  atomic.Int64 // monotonic ns of the last line
}

func (b *Broker) newLoading(shards []*shard) *loading {
	l := &loading{b: b, of: len(shards)}
	for _, sh := range shards {
		l.total += sh.partition.Size()
	}
	now, _ := b.options.Clock.Now()
	l.told.Store(int64(now))
	return l
}

// loaded notes that a shard serves, or never will.
func (l *loading) loaded(sh *shard) {
	bytes, count := l.bytes.Add(sh.partition.Size()), l.count.Add(1)
	now, _ := l.b.options.Clock.Now()
	last := l.told.Load()
	if int64(now)-last < int64(loadTold) || !l.told.CompareAndSwap(last, int64(now)) {
		return
	}
	l.b.logger.Info().Int32("partitions", count).Int("of", l.of).Int64("bytes", bytes).Int64("of_bytes", l.total).
		Int64("records", l.b.metrics.recordsLoaded.Load()).Msg("loading groups")
}

// nextToLoad is the shard that somebody waits for, else the next one in order, nil
// when all have been taken.
func (b *Broker) nextToLoad(shards []*shard, next *atomic.Int32) *shard {
	if i := int(b.asked.Swap(0)) - 1; i >= 0 && shards[i].taken.CompareAndSwap(false, true) {
		return shards[i]
	}
	for {
		i := int(next.Add(1)) - 1
		if i >= len(shards) {
			return nil
		}
		if shards[i].taken.CompareAndSwap(false, true) {
			return shards[i]
		}
	}
}
