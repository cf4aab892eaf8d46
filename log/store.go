package log

import (
	"errors"
	"time"

	"github.com/kcoord/kcoord/log/record"
)

var errNotYet = errors.New("log: not built yet")

// A Store is an open data folder.
type Store struct{}

// Open locks the folder, recovers it if it was not stopped in order, and makes
// it ready for appends. It starts nothing: run Loops. It fails with ErrLocked,
// ErrForeign, ErrDamaged or ErrNewer, or with the storage error that stopped
// it; then nothing that was durable has been changed.
func Open(o Options) (*Store, error) { return nil, errNotYet }

// Folder tells what Open found.
func (s *Store) Folder() FolderInfo { return FolderInfo{} }

// Loops are what the caller has to run, each in a goroutine of its own, until
// Close: the flusher, the partition log writer, the checkpointer, the preparer
// of journal files, retention.
func (s *Store) Loops() []Loop { return nil }

// FlushStep makes the open round durable, if there is anything in it. An error
// must end the process: what was in flight may or may not survive, and nothing
// of it has been answered.
func (s *Store) FlushStep() (next time.Duration, err error) { return -1, errNotYet }

// Syncing is the monotonic time at which the round in flight was taken, 0 if none
// is.
func (s *Store) Syncing() time.Duration { return 0 }

// A Position stands for a round: what a waiter waits for. Positions of several
// partitions can be compared: the largest one implies the others. 0 is durable.
type Position uint64

// AwaitPosition reports whether pos is durable already; w is not kept then. Else
// w is attached to that round.
func (s *Store) AwaitPosition(pos Position, w Waiter) (durable bool) { return false }

// OpenPosition is the position of the round that is open now: waiting for it
// means waiting until there is room in a new one.
func (s *Store) OpenPosition() Position { return 0 }

// TakeWaiters removes the waiters with At below before from the round in flight
// and the open one and appends them to dst. What they wait for may still become
// durable.
func (s *Store) TakeWaiters(before int64, dst []Waiter) []Waiter { return dst }

// WriteStep writes batches that are due to one partition log and tells when
// to call again (0: at once; negative: when something was appended).
func (s *Store) WriteStep() (next time.Duration, err error) { return -1, errNotYet }

// PrepareStep prepares journal space ahead of need, one piece per call, and
// tells when to call again.
func (s *Store) PrepareStep() (next time.Duration, err error) { return -1, errNotYet }

// CheckpointStep makes a checkpoint if one is due and tells when to look again.
func (s *Store) CheckpointStep() (next time.Duration, err error) { return -1, errNotYet }

// RetentionStep applies retention to all partitions and removes files whose
// delay is over.
func (s *Store) RetentionStep() (next time.Duration, err error) { return -1, errNotYet }

// Checkpoint makes a checkpoint now.
func (s *Store) Checkpoint() error { return errNotYet }

// BeginStop makes Admit refuse everything new from now on.
func (s *Store) BeginStop() {}

// Close makes the clean stop, after the loops were stopped: the last round, all
// partition logs, a clean snapshot, Kafka's checkpoint files and marker. After
// an error the folder is as after a kill, which is safe.
func (s *Store) Close() error { return errNotYet }

// Admit is nil, or tells why writes are refused now. Ask before Step: an append
// after a nil Admit under the same lock is not refused. One atomic load when
// all is well.
func (s *Store) Admit() error { return errNotYet }

// AdmitProduce is Admit for a Produce of n bytes, which fills at most half a
// round: ErrRoundFull means wait (with the connection), not refuse.
func (s *Store) AdmitProduce(n int) error { return errNotYet }

// AppendMetadata puts metadata records into the open round; they are copied.
// Metadata.Apply is called for each, in order, when the round is durable, before
// w (if not nil) and the round's other waiters are released; the partitions of
// a new topic exist then. urgent records (those that free space) are taken even
// when Admit refuses for space.
func (s *Store) AppendMetadata(records [][]byte, w *Waiter, urgent bool) error { return errNotYet }

// Partition returns a partition, nil when it is unknown.
func (s *Store) Partition(id TopicID, n int32) *Partition { return nil }

// A Partition is one partition's log.
type Partition struct{}

// AppendRecords appends records of a coordinator to the open round's batch of
// this partition and returns the first one's offset; records are copied. The
// caller holds the owner's lock, has asked Admit under it, and calls nothing
// else that appends to this partition. It fails with ErrTooLarge if one record
// alone exceeds max.message.bytes, and then has appended none.
func (p *Partition) AppendRecords(wallMillis int64, recs []Record) (base int64, err error) {
	return -1, errNotYet
}

// A Producer is the producer part of a transactional append.
type Producer struct {
	ID    int64
	Epoch int16
}

// AppendTransactional is AppendRecords for pending transactional commits: the
// batch has the producer's id and the transactional bit.
func (p *Partition) AppendTransactional(wallMillis int64, pr Producer, recs []Record) (base int64, err error) {
	return -1, errNotYet
}

// AppendMarker appends an end-transaction marker: a control batch of one record.
func (p *Partition) AppendMarker(wallMillis int64, pr Producer, commit bool, coordinatorEpoch int32) (offset int64, err error) {
	return -1, errNotYet
}

// AppendBatch appends a produce batch that record.CheckProduce accepted; it is
// copied, base offset and leader epoch are stamped in the copy. It returns the
// batch's base offset; for a duplicate of one of the producer's last five
// batches that batch's, with duplicate true. Errors: ErrInvalidProducerEpoch,
// ErrOutOfOrderSequence, ErrTooLarge, ErrStorage, ErrDeleted.
func (p *Partition) AppendBatch(batch []byte) (base int64, duplicate bool, err error) {
	return -1, false, errNotYet
}

// Await reports whether offset is durable already; w is not kept then. Else w
// is attached to the round that holds offset. An offset at or beyond the log's
// end is a programmer's error.
func (p *Partition) Await(offset int64, w Waiter) (durable bool) { return false }

// Position is the position at which offset is durable.
func (p *Partition) Position(offset int64) Position { return 0 }

// LogStart is the lowest offset a reader may ask for.
func (p *Partition) LogStart() int64 { return 0 }

// HighWatermark is the exclusive end of what is in the partition log.
func (p *Partition) HighWatermark() int64 { return 0 }

// DurableEnd is the exclusive end of what is durable.
func (p *Partition) DurableEnd() int64 { return 0 }

// LogEnd is the offset the next record gets.
func (p *Partition) LogEnd() int64 { return 0 }

// RecoveryPoint is the exclusive end of what the last checkpoint synced in the
// partition log.
func (p *Partition) RecoveryPoint() int64 { return 0 }

// Read appends whole batches, from the one that holds offset (or the next one)
// up to the high watermark, at most maxBytes, to dst; with minOne the first
// batch is given whatever its size. It has the partition log catch up first if
// offset or wanted bytes lie beyond the high watermark. ErrOffsetOutOfRange,
// ErrStorage.
func (p *Partition) Read(offset int64, maxBytes int, minOne bool, dst []byte) ([]byte, error) {
	return dst, errNotYet
}

// CatchUp writes what is durable to the partition log.
func (p *Partition) CatchUp() error { return errNotYet }

// Watch adds delta to the number of readers that wait for the partition; while
// it is over zero, durable batches are written to the partition log at once.
func (p *Partition) Watch(delta int32) {}

// OffsetForTimestamp returns the earliest offset whose timestamp is ts or
// later, that record's timestamp and its batch's leader epoch; -1, -1, -1 if
// there is none.
func (p *Partition) OffsetForTimestamp(ts int64) (offset, timestamp int64, epoch int32, err error) {
	return -1, -1, -1, errNotYet
}

// MaxTimestamp returns the earliest offset that has the largest timestamp
// (KIP-734); -1, -1, -1 if the log is empty.
func (p *Partition) MaxTimestamp() (offset, timestamp int64, epoch int32, err error) {
	return -1, -1, -1, errNotYet
}

// EndOffsetForEpoch answers OffsetForLeaderEpoch: the largest known epoch at or
// below epoch and its end offset; -1, -1 if there is none.
func (p *Partition) EndOffsetForEpoch(epoch int32) (int32, int64) { return -1, -1 }

// LeaderEpoch is the epoch that appends are stamped with.
func (p *Partition) LeaderEpoch() int32 { return 0 }

// Load calls f for every batch from log start to the end, each CRC checked. The
// batch is valid during the call. Every round through it advances or fails.
func (p *Partition) Load(f func(b record.Batch) error) error { return errNotYet }

// DeleteRecords raises the log start to offset (-1: to the end). If the item is
// not durable already, w is released when it is.
func (p *Partition) DeleteRecords(offset int64, w *Waiter) (low int64, durable bool, err error) {
	return -1, false, errNotYet
}

// Err tells why the partition is closed (by damage) or cannot be written now;
// nil when all is well.
func (p *Partition) Err() error { return nil }

// Size is the bytes of all segments.
func (p *Partition) Size() int64 { return 0 }

// Topic is the topic as the partition sees it now.
func (p *Partition) Topic() TopicInfo { return TopicInfo{} }

// Index is the partition's number.
func (p *Partition) Index() int32 { return 0 }
