package log

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// A topic is what the store keeps of one. Its partitions are there as long as
// the topic is.
type topic struct {
	info       *atomic.Pointer[TopicInfo] // shared by all partitions; replaced under Store.infos
	partitions []*Partition               // by number; the slice is replaced, with the table
}

// A topicTable is immutable: the flusher (and Open) replaces it as a whole.
type topicTable struct {
	byID map[TopicID]*topic
	ids  []TopicID // by name
}

// A Partition is one partition's log.
type Partition struct {
	s     *Store
	id    TopicID
	n     int32
	topic *atomic.Pointer[TopicInfo] // the topic's own

	// Owner of the following fields: the journal lock (Store.mu).

	end         int64  // offset of the next record
	inflightEnd int64  // exclusive end of what the round in flight holds, or earlier
	openBatch   *batch // the open round's batch that takes further records; nil: none
	queue       []*batch
	queueBytes  int
	slot        writeSlot
	deleted     bool

	// Copies for readers without lock. Invariant: logStart <= hw, rp <= hw <=
	// durable <= logEnd. Written by: logStart the flusher and retention; hw and rp
	// under the log lock; durable the flusher; logEnd under the journal lock.

	logStart atomic.Int64
	hw       atomic.Int64
	rp       atomic.Int64
	durable  atomic.Int64
	logEnd   atomic.Int64
	watchers atomic.Int32
	// firstDirty is the cleaner's checkpoint.
	firstDirty atomic.Int64
	// segments is the list of all segments by base, the active one last; nil until
	// the first write made the folder. The slice is never changed, only replaced,
	// under the log lock.
	segments atomic.Pointer[[]*segment]
	bytes    atomic.Int64 // of all segments; under the log lock
	// failed is why the partition log cannot be written or read; nil: all is well.
	failed atomic.Pointer[failure]
	// damage is what a read met last.
	damage atomic.Pointer[CorruptError]
	epochs epochCache
	// producers is what is known of idempotent producers.
	producers producers

	// disk is the partition log's lock: it is held across I/O by whoever writes the
	// log, checkpoints it or changes its list of segments. It comes before the
	// journal lock. Two partitions' log locks are never held together.
	disk diskState
}

// A failure is why a partition is closed. Permanent ones need an operator;
// others heal when a write succeeds.
type failure struct {
	err       error
	permanent bool
}

type diskState struct {
	sync.Mutex
	dir     string // of the partition, below the data folder
	made    bool   // the folder exists
	pending []*batch
	dirty   bool // something was written that no checkpoint has synced
	// dirUnsynced: names came or went since the folder was synced.
	dirUnsynced bool
	// rpBase and rpPosition are where the recovery point lies: position in the
	// segment named base.
	rpBase     int64
	rpPosition int64
	// syncFailed: a sync of this partition failed once and was repaired by writing
	// from the journal; the next failure ends the process.
	syncFailed bool
	// foreign: the folder is not this partition's and must not be touched.
	foreign bool
	// excess: the active segment's file may go on behind its tail, with what a crash
	// left there and nobody reads. Cut off before the log counts as written.
	excess bool
	// metaUnsynced: partition.metadata was written and not synced.
	metaUnsynced bool
	noSpace      bool // counted in Store.outOfSpace
	retries      int  // failed writes in a row
	removed      bool // the topic is gone, files are -delete
	generation   int64
	cleaning     bool
}

// Topic is the topic as the partition sees it now.
func (p *Partition) Topic() TopicInfo { return *p.topic.Load() }

// Index is the partition's number.
func (p *Partition) Index() int32 { return p.n }

// LogStart is the lowest offset a reader may ask for.
func (p *Partition) LogStart() int64 { return p.logStart.Load() }

// HighWatermark is the exclusive end of what is in the partition log.
func (p *Partition) HighWatermark() int64 { return p.hw.Load() }

// DurableEnd is the exclusive end of what is durable.
func (p *Partition) DurableEnd() int64 { return p.durable.Load() }

// LogEnd is the offset the next record gets.
func (p *Partition) LogEnd() int64 { return p.logEnd.Load() }

// RecoveryPoint is the exclusive end of what the last checkpoint synced in the
// partition log.
func (p *Partition) RecoveryPoint() int64 { return p.rp.Load() }

// LeaderEpoch is the epoch that appends are stamped with.
func (p *Partition) LeaderEpoch() int32 { return p.s.epoch }

// Err tells why the partition is closed (by damage) or cannot be written now;
// nil when all is well.
func (p *Partition) Err() error {
	if f := p.failed.Load(); f != nil {
		return f.err
	}
	return nil
}

// Size is the bytes of all segments.
func (p *Partition) Size() int64 { return p.bytes.Load() }

// Segments is the number of segments, 0 before the first write.
func (p *Partition) Segments() int { return len(p.list()) }

// DirtyBytes is the bytes of segments that no cleaning has covered, or not wholly.
func (p *Partition) DirtyBytes() (n int64) {
	from, list := p.CleanerCheckpoint(), p.list()
	for i, g := range list {
		if i+1 == len(list) || list[i+1].base > from {
			n += g.size.Load()
		}
	}
	return n
}

// EndOffsetForEpoch answers OffsetForLeaderEpoch: the largest known epoch at or
// below epoch and its end offset; -1, -1 if there is none.
func (p *Partition) EndOffsetForEpoch(epoch int32) (int32, int64) {
	return p.epochs.endOffset(epoch, p.durable.Load())
}

// list is the present list of segments.
func (p *Partition) list() []*segment {
	if l := p.segments.Load(); l != nil {
		return *l
	}
	return nil
}

// active is the newest segment, nil if there is none.
func (p *Partition) active() *segment {
	l := p.list()
	if len(l) == 0 {
		return nil
	}
	return l[len(l)-1]
}

func (p *Partition) String() string { return partitionDir(p.topic.Load().Name, p.n) }

func badOffset(doing string, p *Partition, offset int64) string {
	return fmt.Sprintf("log: %s offset %d of %s, whose log ends at %d", doing, offset, p, p.logEnd.Load())
}

func badPosition(pos, open Position) string {
	return fmt.Sprintf("log: position %d is neither durable, in flight nor that of the open round %d", pos, open)
}
