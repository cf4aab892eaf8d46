package log

import (
	"errors"
	"fmt"
)

// Why writes are refused (Store.Admit); a caller answers a coordinator request
// with COORDINATOR_NOT_AVAILABLE and a Produce with KAFKA_STORAGE_ERROR.
var (
	// ErrStopping: the store is being closed.
	ErrStopping = errors.New("log: stopping")
	// ErrNoSpace: the disk is nearly full, or the journal has reached its limit.
	ErrNoSpace = errors.New("log: no space")
	// ErrRoundFull: the open round, or what waits for the partition logs, has
	// reached its limit. It passes within a sync.
	ErrRoundFull = errors.New("log: round full")
	// ErrFailed: the journal failed or its folder is gone; the process is ending.
	ErrFailed = errors.New("log: journal failed")
	// ErrFolderGone: somebody removed or moved the data folder while it was served.
	ErrFolderGone = errors.New("log: the data folder was removed or moved away; what was acknowledged since is lost")
)

// Errors of partitions.
var (
	// ErrOffsetOutOfRange: OFFSET_OUT_OF_RANGE.
	ErrOffsetOutOfRange = errors.New("log: offset out of range")
	// ErrStorage marks that a partition cannot be read or written now:
	// KAFKA_STORAGE_ERROR.
	ErrStorage = errors.New("log: storage error")
	// ErrDeleted: the partition's topic was deleted.
	ErrDeleted = errors.New("log: topic deleted")
	// ErrTooLarge: a record or batch exceeds max.message.bytes or segment.bytes.
	ErrTooLarge = errors.New("log: batch too large")
	// ErrPolicy: DeleteRecords on a topic without delete in cleanup.policy:
	// POLICY_VIOLATION.
	ErrPolicy = errors.New("log: cleanup.policy forbids it")
	// ErrInvalidProducerEpoch: INVALID_PRODUCER_EPOCH.
	ErrInvalidProducerEpoch = errors.New("log: producer epoch is older than the newest")
	// ErrOutOfOrderSequence: OUT_OF_ORDER_SEQUENCE_NUMBER.
	ErrOutOfOrderSequence = errors.New("log: sequence number does not follow")
)

// Errors of Open that an operator has to act on; the wrapping error names file
// and position.
var (
	// ErrForeign: the folder holds data but is not kcoord's.
	ErrForeign = errors.New("log: not a kcoord folder")
	// ErrDamaged: something that was durable is missing or unreadable.
	ErrDamaged = errors.New("log: damaged")
	// ErrOtherNode: the folder is that of another cluster or node: the wrong one was
	// mounted, or node.id changed.
	ErrOtherNode = errors.New("log: folder of another cluster or node")
	// ErrNewer: written by a newer kcoord.
	ErrNewer = errors.New("log: written by a newer kcoord")
	// ErrLocked: another process has the folder.
	ErrLocked = errors.New("log: folder is in use")
)

// A CorruptError says where something durable is damaged and what is at stake.
// It unwraps to ErrDamaged and to its cause.
type CorruptError struct {
	Path     string
	Position int64 // bytes; -1: the file as a whole
	Offset   int64 // first offset at stake; -1: not known
	End      int64 // exclusive end of the offsets at stake; -1: not known
	Reason   string
	Cause    error // may be nil
}

// Error says it in one line.
func (e *CorruptError) Error() string {
	s := fmt.Sprintf("%s: %s", e.Path, e.Reason)
	if e.Position >= 0 {
		s = fmt.Sprintf("%s at byte %d: %s", e.Path, e.Position, e.Reason)
	}
	if e.Offset >= 0 {
		s += fmt.Sprintf(" (offsets from %d", e.Offset)
		if e.End >= 0 {
			s += fmt.Sprintf(" to %d", e.End-1)
		}
		s += " at stake)"
	}
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

// Unwrap gives ErrDamaged and the cause.
func (e *CorruptError) Unwrap() []error {
	if e.Cause == nil {
		return []error{ErrDamaged}
	}
	return []error{ErrDamaged, e.Cause}
}
