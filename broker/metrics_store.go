package broker

import (
	"strconv"

	"github.com/kcoord/kcoord/internal/metrics"
	"github.com/kcoord/kcoord/log"
)

// maxPartitionSeries is up to how many partitions with records there are series of
// each; beyond it only the sums are given.
const maxPartitionSeries = 1000

// storeMetrics adds what the open store knows.
func (b *Broker) storeMetrics(t *metrics.Text) {
	select {
	case <-b.opened:
	default:
		return
	}
	space := b.store.JournalSpace()
	t.Gauge("kcoord_journal_used_bytes", "Journal that a start would replay.", float64(space.Used))
	t.Gauge("kcoord_journal_room_bytes", "Prepared journal space ahead.", float64(space.Room))
	t.Gauge("kcoord_journal_files", "Journal files.", float64(space.Files))
	if free := b.freeBytes(); free >= 0 {
		t.Gauge("kcoord_disk_free_bytes", "Free space of the data folder.", float64(free))
	}
	refusing := b.store.Refusing()
	for _, why := range []string{log.NoDisk, log.NoJournal} {
		t.Gauge("kcoord_writes_refused", "1 while writes are refused for want of space.", truth(refusing == why), "reason", why)
	}
	t.Counter("kcoord_writes_refused_total", "Writes of clients that were refused because the store took none.", b.metrics.writesRefused.Load())
	b.partitionMetrics(t)
}

// partitionMetrics adds sizes: sums, and those of each partition if there are not
// too many.
func (b *Broker) partitionMetrics(t *metrics.Text) {
	var all []*log.Partition
	bytes, segments, damaged := int64(0), 0, 0
	b.store.EachPartition(func(p *log.Partition) {
		if p.Damage() != nil {
			damaged++
		}
		if n := p.Segments(); n > 0 {
			all = append(all, p)
			bytes += p.Size()
			segments += n
		}
	})
	t.Gauge("kcoord_partitions_damaged", "Partitions in whose log a read met damage since the start.", float64(damaged))
	t.Gauge("kcoord_log_bytes", "Bytes of all partition logs.", float64(bytes))
	t.Gauge("kcoord_log_segments", "Segments of all partition logs.", float64(segments))
	if len(all) > maxPartitionSeries {
		return
	}
	each := func(name, help string, value func(p *log.Partition) (v float64, ok bool)) {
		for _, p := range all {
			if v, ok := value(p); ok {
				t.Gauge(name, help, v, "topic", p.Topic().Name, "partition", strconv.Itoa(int(p.Index())))
			}
		}
	}
	each("kcoord_partition_bytes", "Bytes of a partition's log.", func(p *log.Partition) (float64, bool) { return float64(p.Size()), true })
	each("kcoord_partition_segments", "Segments of a partition's log.", func(p *log.Partition) (float64, bool) { return float64(p.Segments()), true })
	each("kcoord_partition_dirty_ratio", "Share of a compacted log that no cleaning has covered.", func(p *log.Partition) (float64, bool) {
		size := p.Size()
		return float64(p.DirtyBytes()) / float64(max(size, 1)), p.Topic().Config.Compact
	})
	each("kcoord_partition_live_bytes", "Bytes of a partition of the offsets topic that are not superseded.", func(p *log.Partition) (float64, bool) {
		live := b.liveBytes(p)
		return float64(live.Bytes), live.Counted
	})
}
