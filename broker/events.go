package broker

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kcoord/kcoord/compaction"
	"github.com/kcoord/kcoord/coordinator"
	"github.com/kcoord/kcoord/log"
	"github.com/kcoord/kcoord/netloop"
)

// This file turns what the parts report into log lines and metrics. Nothing
// that decides anything depends on it.

// tellStarted is the start-up line.
func (b *Broker) tellStarted(begun time.Duration, folder log.FolderInfo) {
	now, _ := b.options.Clock.Now()
	kind := map[log.FolderKind]string{log.FolderNew: "new", log.FolderClean: "clean", log.FolderRecovered: "recovered"}[folder.Kind]
	b.metrics.startTook.Store(int64(now - begun))
	groups := 0
	for _, sh := range b.allShards() {
		sh.inPieces(nil, func(core *coordinator.Shard) bool {
			groups += core.Stats().Groups
			return true
		})
	}
	b.logger.Info().Str("address", b.Addr()).Str("folder", b.options.DataDir).Str("state", kind).
		Str("durability", b.Durability()).Int64("journal_entries", folder.Entries).
		Int("groups", groups).Int64("records", b.metrics.recordsLoaded.Load()).Int32("leader_epoch", folder.LeaderEpoch).
		Stringer("journal_took", folder.TookJournal.Round(10*time.Microsecond)).
		Stringer("partitions_took", folder.TookPartitions.Round(10*time.Microsecond)).
		Stringer("groups_took", (now-begun-folder.Took).Round(10*time.Microsecond)).
		Stringer("took", (now - begun).Round(10*time.Microsecond)).Msg("ready")
}

// tellTransition notes a group's change of state, or of a member beside one. Fields
// that say nothing are left out.
func (b *Broker) tellTransition(t *coordinator.Transition) {
	e := b.logger.Info().Str("group", t.Group)
	if t.From == t.To {
		e = e.Str("state", t.From)
	} else {
		b.metrics.transitions.Add(1)
		e = e.Str("from", t.From).Str("to", t.To)
	}
	e = e.Int32("generation", t.Generation).Int("members", t.Members)
	e = nonEmpty(e, "member", t.Member, "client", t.ClientID, "host", t.ClientHost, "leader", t.Leader)
	if t.WaitedForCount > 0 {
		e = e.Strs("waited_for", t.WaitedFor).Int("waited_for_count", t.WaitedForCount)
	}
	if t.From != t.To {
		if t.From == "PreparingRebalance" {
			e = e.Stringer("join_took", t.JoinTook.Round(10*time.Microsecond))
		}
		now, _ := b.time.now()
		if took, ended := b.rebalances.moved(t, now); ended {
			b.metrics.rebalances.Observe(took)
			e = e.Stringer("rebalance_took", took.Round(10*time.Microsecond))
		}
	}
	e.Msg(t.Reason)
}

// nonEmpty adds those fields, name and value after each other, that have a value.
func nonEmpty(e *zerolog.Event, fields ...string) *zerolog.Event {
	for i := 0; i < len(fields); i += 2 {
		if fields[i+1] != "" {
			e = e.Str(fields[i], fields[i+1])
		}
	}
	return e
}

// tellRefusal warns of a JoinGroup that will not get better, once per group and minute.
func (b *Broker) tellRefusal(r *coordinator.Refusal) {
	if e := b.rarely("join refused", r.Group, b.logger.Warn); e != nil {
		nonEmpty(e.Str("group", r.Group).Str("error", kerr.ErrorForCode(r.Code).(*kerr.Error).Message).Str("client", r.ClientID).Str("host", r.ClientHost),
			"member", r.Member, "instance", r.Instance).Str("reason", r.Reason).Msg("a client may not join its group")
	}
}

// tellReplacement tells of a static member that another took the place of. Where that
// starts a rebalance, the rebalance is told of as well.
func (b *Broker) tellReplacement(r *coordinator.Replacement) {
	b.logger.Info().Str("group", r.Group).Str("instance", r.Instance).Str("before", r.Before).Str("member", r.Member).
		Str("client", r.ClientID).Str("host", r.ClientHost).Msg("static member replaced by another with its instance id")
}

// tellExpiry notes offsets that the coordinator removed on its own.
func (b *Broker) tellExpiry(e *coordinator.Expiry) {
	b.metrics.expired.Add(uint64(e.Partitions))
	b.logger.Info().Str("group", e.Group).Str("topic", e.Topic).Int("partitions", e.Partitions).
		Str("reason", e.Reason).Msg("committed offsets removed")
}

// tellCleaned notes a round of the cleaner.
func (b *Broker) tellCleaned(r *compaction.Result) {
	topic := r.Partition.Topic().Name
	if r.Err != nil {
		b.metrics.cleanFailures.Add(1)
		if e := b.warn("cleaning"); e != nil {
			e.Str("topic", topic).Int32("partition", r.Partition.Index()).Err(r.Err).Msg("cleaning given up, tried again later")
		}
		return
	}
	_, wall := b.options.Clock.Now()
	b.metrics.lastClean.Store(wall)
	b.metrics.cleanings.Observe(r.Took)
	b.metrics.cleanedBytes.Add(uint64(max(0, r.BytesBefore-r.BytesAfter)))
	b.logger.Debug().Str("topic", topic).Int32("partition", r.Partition.Index()).Int64("before", r.BytesBefore).
		Int64("after", r.BytesAfter).Stringer("took", r.Took.Round(10*time.Microsecond)).Msg("cleaned")
}

// warnInterval is how often one cause may be warned of.
const warnInterval = time.Minute

// warnings remembers what was warned of.
type warnings struct {
	mu   sync.Mutex
	last map[string]warning
}

type warning struct {
	at      time.Duration
	skipped int
}

// warn begins a warning, once per cause and minute; nil if it is not time yet.
// Causes are constants.
func (b *Broker) warn(cause string) *zerolog.Event {
	return b.rarely(cause, "", b.logger.Warn)
}

// maxWarnings bounds what warnings are remembered of names that clients choose.
const maxWarnings = 1000

// rarely begins a line, as warn does, of whatever level. A name tells apart many things
// that the cause is true of; if there are too many within a minute the others count as
// one.
func (b *Broker) rarely(cause, name string, begin func() *zerolog.Event) *zerolog.Event {
	now, _ := b.options.Clock.Now()
	w := &b.warnings
	w.mu.Lock()
	defer w.mu.Unlock()
	key := cause
	if name != "" {
		key = cause + "\x00" + name
	}
	before, known := w.last[key]
	if !known && name != "" && len(w.last) >= maxWarnings {
		maps.DeleteFunc(w.last, func(_ string, old warning) bool { return now-old.at >= warnInterval })
		if len(w.last) >= maxWarnings {
			key = cause
			before, known = w.last[key]
		}
	}
	if known && now-before.at < warnInterval {
		before.skipped++
		w.last[key] = before
		return nil
	}
	if w.last == nil {
		w.last = make(map[string]warning)
	}
	w.last[key] = warning{at: now}
	e := begin().Str("cause", cause)
	if before.skipped > 0 {
		e = e.Int("not_shown", before.skipped)
	}
	return e
}

// writesTold is the newest line about refused writes. The store's preparer owns it.
type writesTold struct {
	why string        // empty: they are accepted
	at  time.Duration // of the newest line that said they were refused
}

// tellWrites notes that writes are refused for want of space, or accepted again. A
// state that comes and goes is told of once a minute, one that stays always.
func (b *Broker) tellWrites(refusing string) {
	told := &b.writesTold
	if (refusing == "") == (told.why == "") {
		return
	}
	now, _ := b.options.Clock.Now()
	if refusing == "" {
		told.why = ""
		b.logger.Info().Int64("free_bytes", b.freeBytes()).Msg("writes are accepted again")
		return
	}
	if told.at != 0 && now-told.at < warnInterval {
		return // the next call looks again
	}
	told.why, told.at = refusing, max(now, 1)
	e := b.logger.Error().Str("reason", refusing).Str("folder", b.options.DataDir).Int64("free_bytes", b.freeBytes())
	if refusing == log.NoJournal {
		e = e.Int64("limit_bytes", b.values().JournalMaxBytes).Str("property", "kcoord.journal.max.bytes")
	} else {
		e = e.Int64("reserve_bytes", b.values().DiskReserveBytes).Str("property", "kcoord.disk.reserve.bytes")
	}
	e.Msg("no space: writes are refused until there is some, reads are served")
}

// freeBytes is the free space of the data folder, -1 if nobody knows.
func (b *Broker) freeBytes() int64 {
	if free, err := b.options.FS.Free(b.options.DataDir); err == nil {
		return max(free, -1)
	}
	return -1
}

// countRefused counts a request that a shard could not take because it may write.
func (b *Broker) countRefused(code int16) {
	if code == codeCoordinatorNotAvailable {
		b.metrics.writesRefused.Add(1)
	}
}

// admitWrite is the store's Admit, counted.
func (b *Broker) admitWrite() error {
	err := b.store.Admit()
	if err != nil {
		b.metrics.writesRefused.Add(1)
	}
	return err
}

func (b *Broker) storeEvents() log.Events {
	return log.Events{
		Writes: b.tellWrites,
		Warn: func(kind, text string) {
			if e := b.warn(kind); e != nil {
				e.Msg(text)
			}
		},
		Round: func(bytes, items int, took time.Duration) {
			b.metrics.rounds.Observe(took)
			b.metrics.roundBytes.Add(uint64(bytes))
			b.metrics.roundItems.Add(uint64(items))
			b.metrics.roundSizes.ObserveSize(items)
		},
		Checkpoint: func(_ int, took time.Duration) {
			_, wall := b.options.Clock.Now()
			b.metrics.lastCheckpoint.Store(wall)
			b.metrics.checkpoints.Observe(took)
		},
		Refused: func(topic string, partition int32, err error) {
			if err == nil {
				b.metrics.refusedPartitions.Add(-1)
				b.logger.Info().Str("topic", topic).Int32("partition", partition).Msg("partition serves again")
				return
			}
			b.metrics.refusedPartitions.Add(1)
			b.logger.Error().Str("topic", topic).Int32("partition", partition).Err(err).Msg("partition closed")
		},
		Damaged: b.tellDamaged,
	}
}

// tellDamaged notes, once per partition and minute, that a read met damage.
func (b *Broker) tellDamaged(topic string, partition int32, damage *log.CorruptError) {
	e := b.rarely("damage", fmt.Sprintf("%s-%d", topic, partition), b.logger.Error)
	if e == nil {
		return
	}
	e.Str("topic", topic).Int32("partition", partition).Str("file", damage.Path).Int64("byte", damage.Position).
		Int64("offset", damage.Offset).Int64("next_offset", damage.End).Err(damage).
		Msg("a partition's log is damaged: records from offset up to next_offset may be unreadable, other segments and partitions are served; " +
			"stop and restore the folder from a backup, or let consumers go on at next_offset (kcoord dump shows the file)")
}

func (b *Broker) transportEvents() netloop.Events {
	return netloop.Events{
		Accepted: func(netloop.Conn) { b.metrics.accepted.Add(1) },
		Closed: func(c netloop.Conn, err error) {
			b.metrics.closed.Add(1)
			if refused := (*netloop.FrameError)(nil); err != nil && errors.As(err, &refused) {
				b.refusedFrame(c, refused)
			}
		},
		Moved: func(_ netloop.Conn, why netloop.MoveReason) { b.metrics.moved[why].Add(1) },
		Refused: func(listener string, remote net.Addr, err error) {
			b.metrics.refused.Add(1)
			if e := b.warn("connection refused"); e != nil {
				e.Str("listener", listener).Stringer("peer", remote).Err(err).Msg("connection refused")
			}
		},
		AcceptFailed: func(listener string, err error, failures int) {
			if e := b.warn("accept"); e != nil {
				e.Str("listener", listener).Int("failures", failures).Err(err).Msg("cannot accept connections")
			}
		},
		Panicked: func(c netloop.Conn, value any, stack []byte) {
			b.metrics.panics.Add(1)
			e := b.logger.Error().Interface("panic", value).Bytes("stack", stack)
			if c != nil {
				e = e.Stringer("peer", c.RemoteAddr())
			}
			e.Msg("a request panicked, its connection is closed")
		},
		Library: func(severity, message string) {
			if e := b.warn("network library"); e != nil {
				e.Str("severity", severity).Msg(message)
			}
		},
	}
}
