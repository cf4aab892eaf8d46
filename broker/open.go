package broker

import (
	"fmt"
	"runtime"
	"time"

	"github.com/kcoord/kcoord/coordinator"
	"github.com/kcoord/kcoord/internal/config"
	"github.com/kcoord/kcoord/internal/meta"
	"github.com/kcoord/kcoord/log"
)

// open opens the data folder, starts the loops and loads the groups. It runs
// once, beside the listeners.
func (b *Broker) open() {
	begun, _ := b.options.Clock.Now()
	if err := b.openStore(begun); err != nil {
		b.fail(err)
	}
}

func (b *Broker) openStore(begun time.Duration) error {
	store, err := log.Open(b.storeOptions())
	if err != nil {
		return err
	}
	b.store = store
	folder := store.Folder()
	b.clusterID = folder.ClusterID
	b.warnOfFolder(folder)
	b.setVersions(b.clusterID)
	topic, err := b.ensureOffsetsTopic(store, folder.OffsetsPartitions)
	if err != nil {
		return err
	}
	b.rebuildConfig()
	if err := b.ensureTopics(store); err != nil {
		return err
	}
	shards := make([]*shard, topic.Partitions)
	for i := range shards {
		p := store.Partition(log.TopicID(topic.ID), int32(i))
		if p == nil {
			panic(fmt.Sprintf("broker: partition %d of %s is not in the store", i, offsetsTopic))
		}
		shards[i] = newShard(b, int32(i), p)
	}
	b.shards.Store(&shards)
	close(b.opened)
	b.startLoops(store)
	b.loadShards(shards, min(len(shards), runtime.GOMAXPROCS(0), maxLoaders), func(error) {
		b.tellStarted(begun, folder)
		close(b.ready)
	})
	return nil
}

// warnOfFolder warns of settings that only a new folder takes.
func (b *Broker) warnOfFolder(folder log.FolderInfo) {
	for _, kept := range []struct{ property, value string }{
		{"kcoord.cluster.id", folder.ClusterID},
		{"offsets.topic.num.partitions", fmt.Sprint(folder.OffsetsPartitions)},
	} {
		s, set := b.static.Lookup(kept.property)
		if set && s.Value != "" && s.Value != kept.value {
			b.logger.Warn().Str("property", kept.property).Str("value", s.Value).Str("set_by", s.Origin).Str("folder_has", kept.value).
				Msg("the folder keeps what it was made with")
		}
	}
}

// maxLoaders is how many partitions are loaded at once at most.
const maxLoaders = 8

// ensureOffsetsTopic returns the offsets topic. A new folder begins with it; if a
// folder has none it is made. No loop runs yet, so the round is flushed here.
func (b *Broker) ensureOffsetsTopic(store *log.Store, partitions int32) (*meta.Topic, error) {
	if t := b.meta.Load().Topic(offsetsTopic); t != nil {
		return t, nil
	}
	if err := store.AppendMetadata([][]byte{meta.AppendTopic(nil, b.newOffsetsTopic(partitions))}, nil, false); err != nil {
		return nil, fmt.Errorf("creating %s: %w", offsetsTopic, err)
	}
	if _, err := store.FlushStep(); err != nil {
		return nil, fmt.Errorf("creating %s: %w", offsetsTopic, err)
	}
	t := b.meta.Load().Topic(offsetsTopic)
	if t == nil {
		panic("broker: the offsets topic was made and is not there")
	}
	return t, nil
}

func (b *Broker) newOffsetsTopic(partitions int32) *meta.Topic {
	v := b.values()
	_, wall := b.time.now()
	t := &meta.Topic{Name: offsetsTopic, Partitions: partitions, Created: wall, Configs: []meta.Config{
		{Name: "cleanup.policy", Value: "compact"},
		{Name: "compression.type", Value: "producer"},
		{Name: "max.message.bytes", Value: fmt.Sprint(v.OffsetsMaxMessageSize)},
		{Name: "segment.bytes", Value: fmt.Sprint(v.OffsetsTopicSegmentBytes)},
	}}
	b.options.Random(t.ID[:])
	t.ID[6], t.ID[8] = t.ID[6]&0x0f|0x40, t.ID[8]&0x3f|0x80 // a UUID of version 4, as Kafka's
	return t
}

// startLoops starts what works in the background.
func (b *Broker) startLoops(store *log.Store) {
	b.time.tick() // from here on a standstill is a pause
	run := func(l Loop) { b.options.Executor.Loop(l, b.stop, b.fail) }
	for _, l := range store.Loops() {
		run(Loop(l))
	}
	if l, ok := b.cleanerLoop(store); ok {
		run(l)
	}
	run(Loop{Name: "timers", Step: b.timers.step, Wake: b.timers.wake})
	for i := range poolWorkers {
		run(Loop{Name: fmt.Sprintf("pool %d", i), Step: b.pool.step, Wake: b.pool.wake})
	}
}

func (b *Broker) storeOptions() log.Options {
	v := b.values()
	return log.Options{
		FS: b.options.FS, Dir: b.options.DataDir, Metadata: b.data.metalog(),
		Durability:         durabilities[v.Durability],
		DurabilityInterval: v.DurabilityInterval,
		CheckpointInterval: v.CheckpointInterval,
		CheckpointBytes:    v.CheckpointBytes,
		JournalMaxBytes:    v.JournalMaxBytes,
		JournalFileBytes:   v.JournalFileBytes &^ 4095,
		SegmentWriteDelay:  v.SegmentWriteDelay,
		DiskReserveBytes:   v.DiskReserveBytes,
		InflateMaxBytes:    v.InflateMaxBytes,
		RetentionInterval:  v.LogRetentionCheckInterval,
		RetentionDelay:     orNone(v.LogInitialTaskDelay),
		ProducerCheck:      v.ProducerIDExpirationCheck,
		ProducerExpiration: func() time.Duration { return b.values().ProducerIDExpiration },
		Now: func() time.Time {
			_, wall := b.options.Clock.Now()
			return time.UnixMilli(wall)
		},
		Mono:              b.storeMono,
		Random:            b.options.Random,
		Version:           b.options.Version,
		ClusterID:         v.ClusterID,
		NodeID:            v.NodeID,
		OffsetsPartitions: v.OffsetsTopicPartitions,
		First:             [][]byte{meta.AppendTopic(nil, b.newOffsetsTopic(v.OffsetsTopicPartitions))},
		Parallel:          b.parallel(),
		RecoveryThreads:   b.recoveryThreads,
		Gathering:         b.gather.gathering,
		OnDurable:         b.release.durable,
		OnAdvance:         b.data.advance,
		Events:            b.storeEvents(),
	}
}

// parallelism is how many things the store does at once when it opens and closes: most
// of them wait for the disk.
const parallelism = 8

// storeMono is the store's monotonic clock.
func (b *Broker) storeMono() time.Duration {
	mono, _ := b.options.Clock.Now()
	return mono
}

// parallel is how the store does several things at once, nil if it cannot: an
// executor that is not made of goroutines.
func (b *Broker) parallel() func(n int, f func(i int)) {
	g, ok := b.options.Executor.(*goroutines)
	if !ok {
		return nil
	}
	return func(n int, f func(i int)) { g.each(n, max(parallelism, b.recoveryThreads()), f) }
}

// recoveryThreads is num.recovery.threads.per.data.dir if somebody has set it, else 0:
// the default stays parallelism, since Kafka's 2 would make starts and stops slower.
func (b *Broker) recoveryThreads() int {
	c := b.config.Load()
	if _, set := c.Lookup("num.recovery.threads.per.data.dir"); !set {
		return 0
	}
	return c.Values().NumRecoveryThreads
}

// orNone makes a delay of 0 one that the store does not take for not set.
func orNone(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

var durabilities = map[string]log.Durability{
	"sync": log.DurabilitySync, "interval": log.DurabilityInterval, "os": log.DurabilityOS,
}

// coordinatorConfig is what the coordinator needs of the settings.
func coordinatorConfig(v *config.Values) *coordinator.Config {
	c := coordinator.DefaultConfig()
	c.MinSessionTimeout = v.GroupMinSessionTimeout
	c.MaxSessionTimeout = v.GroupMaxSessionTimeout
	c.InitialRebalanceDelay = v.GroupInitialRebalanceDelay
	c.MaxSize = v.GroupMaxSize
	c.OffsetMetadataMaxBytes = v.OffsetMetadataMaxBytes
	c.OffsetsRetention = v.OffsetsRetention
	c.OffsetsRetentionCheckInterval = v.OffsetsRetentionCheckInterval
	c.MaxMessageBytes = v.OffsetsMaxMessageSize
	return c
}

// groupConfigs are the settings of single groups.
func groupConfigs(snap *meta.Snapshot, c *config.Config) map[string]*coordinator.GroupConfig {
	groups := make(map[string]*coordinator.GroupConfig)
	for _, name := range snap.Resources(meta.ResourceGroup) {
		v := c.Group(asMap(snap.Configs(meta.ResourceGroup, name)))
		groups[name] = &coordinator.GroupConfig{ConsumerSessionTimeout: v.ConsumerSessionTimeout,
			ConsumerHeartbeatInterval: v.ConsumerHeartbeatInterval, ConsumerAssignmentInterval: v.ConsumerAssignmentInterval}
	}
	return groups
}
