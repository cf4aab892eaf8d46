package journal

import (
	"errors"
	"fmt"
)

// ErrNoSpace is returned by Append, before anything is written, when no prepared
// space is left and none could be prepared. The append may be tried again.
var ErrNoSpace = errors.New("journal: no prepared space left")

// errReserved is why no file was made ahead.
var errReserved = errors.New("journal: no file is made ahead: what is free on the disk is reserved")

// ErrFailed is returned by everything that writes entries after a write or sync
// of an entry has failed. It is final: a repeated sync can report success for
// data that is gone, so only a restart, which reads what is there, may go on.
var ErrFailed = errors.New("journal: a write or sync failed before")

// Reason says why a journal is refused.
type Reason uint8

const (
	// Damaged: bytes that were acknowledged are not what was written.
	Damaged Reason = iota + 1
	// Missing: a file that must exist does not.
	Missing
	// Foreign: the file belongs to another data folder.
	Foreign
	// Newer: written by a later version of kcoord.
	Newer
)

func (r Reason) String() string {
	switch r {
	case Damaged:
		return "damaged"
	case Missing:
		return "missing"
	case Foreign:
		return "of another folder"
	case Newer:
		return "written by a newer kcoord"
	}
	return fmt.Sprintf("reason %d", uint8(r))
}

// CorruptionError refuses a journal. Nothing was changed.
type CorruptionError struct {
	Reason   Reason
	Path     string // the file
	Position int64  // byte offset in it
	Found    string // what stands there
	Expected string // what should
	// Sequence is the first entry that cannot be read: everything from there on
	// is at stake.
	Sequence int64
	// Behind names the valid entry that was found after the damage, if that is
	// how it was noticed.
	Behind *Place
}

// A Place is where an entry was found.
type Place struct {
	Path     string
	Position int64
	Sequence int64
}

func (e *CorruptionError) Error() string {
	s := fmt.Sprintf("journal %s is %s: at %d found %s, expected %s", e.Path, e.Reason, e.Position, e.Found, e.Expected)
	if e.Behind != nil {
		s += fmt.Sprintf("; entry %d stands behind it at %d of %s", e.Behind.Sequence, e.Behind.Position, e.Behind.Path)
	}
	return s + fmt.Sprintf("; at stake: all entries from %d on", e.Sequence)
}
