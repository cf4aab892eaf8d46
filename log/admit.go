package log

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"
)

// Reasons for refusing writes, bits of Store.refusals. They are set and cleared
// where the figure behind them changes; Admit only loads the word.
const (
	refuseRound    uint32 = 1 << iota // the open round is full
	refuseBehind                      // too much waits for the partition logs
	refuseSpace                       // no prepared journal space, or the journal is at its limit
	refuseDisk                        // free space below the reserve, or a partition log found none
	refuseStopping                    // BeginStop was called
	refuseFailed                      // the journal failed
)

func (s *Store) refuse(bit uint32) {
	for {
		old := s.refusals.Load()
		if old&bit == bit {
			return
		}
		if s.refusals.CompareAndSwap(old, old|bit) {
			s.refusalChanged(bit)
			return
		}
	}
}

func (s *Store) admit(bit uint32) {
	for {
		old := s.refusals.Load()
		if old&bit == 0 {
			return
		}
		if s.refusals.CompareAndSwap(old, old&^bit) {
			s.refusalChanged(bit)
			return
		}
	}
}

// refusalChanged has the preparer tell of what an operator has to know.
func (s *Store) refusalChanged(bit uint32) {
	if bit&(refuseSpace|refuseDisk) != 0 {
		s.wakePreparer()
	}
}

// Why writes are refused until there is space.
const (
	// NoDisk: the disk has less than the reserve, or none for a partition log.
	NoDisk = "disk"
	// NoJournal: the journal is at its limit, or has no room prepared.
	NoJournal = "journal"
)

// Refusing is NoDisk or NoJournal while Admit refuses for want of space, else the
// empty string: a full round passes within a sync.
func (s *Store) Refusing() string {
	switch bits := s.refusals.Load(); {
	case bits&refuseDisk != 0:
		return NoDisk
	case bits&refuseSpace != 0:
		return NoJournal
	}
	return ""
}

func (s *Store) refused(bit uint32) bool { return s.refusals.Load()&bit != 0 }

// Admit is nil, or tells why writes are refused now. Ask before Step: an append
// after a nil Admit under the same lock is not refused. One atomic load when
// all is well.
func (s *Store) Admit() error {
	bits := s.refusals.Load()
	if bits == 0 {
		return nil
	}
	return refusal(bits)
}

func refusal(bits uint32) error {
	switch {
	case bits&refuseFailed != 0:
		return ErrFailed
	case bits&refuseStopping != 0:
		return ErrStopping
	case bits&(refuseSpace|refuseDisk) != 0:
		return ErrNoSpace
	default:
		return ErrRoundFull
	}
}

// urgent reports whether records that free space may be written although Admit
// refuses.
func (s *Store) urgent() bool {
	return s.refusals.Load()&(refuseStopping|refuseFailed|refuseRound) == 0 && !s.waiting.Load()
}

// AdmitProduce is Admit for a Produce of n bytes, which fills at most half a
// round, or is alone in it if it is larger: ErrRoundFull means wait (for
// OpenPosition), not refuse.
func (s *Store) AdmitProduce(n int) error {
	if err := s.Admit(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.mu.open
	if r.produce > 0 && r.produce+n > maxRoundBytes/2 {
		return ErrRoundFull
	}
	return nil
}

// BeginStop makes Admit refuse everything new from now on.
func (s *Store) BeginStop() { s.refuse(refuseStopping) }

// checkSpace compares the journal's figures with what may still come. The
// flusher calls it after each round, the preparer after each step.
func (s *Store) checkSpace() {
	sp := s.j.Space()
	full := sp.Used >= s.o.JournalMaxBytes
	short := sp.PrepareErr != nil && sp.Room < int64(s.entryBytes())
	if full || short {
		s.refuse(refuseSpace)
	} else {
		s.admit(refuseSpace)
	}
}

// freeCheckInterval is how often the folder and the free space of its disk are
// looked at.
const freeCheckInterval = time.Second

// PrepareStep prepares journal space ahead of need, one piece per call, looks at
// the folder and the free space of its disk once a second, and tells when to call
// again. What it fails at is tried again and shows in Admit; an error must end the
// process (ErrFolderGone).
func (s *Store) PrepareStep() (next time.Duration, err error) {
	step := s.prepare
	if s.waiting.Load() {
		step = s.beginLate
	}
	if next, err = step(); err != nil {
		s.refuse(refuseFailed)
		return -1, err
	}
	if f := s.o.Events.Writes; f != nil {
		f(s.Refusing())
	}
	return next, nil
}

// prepare is the preparer's step once there is a journal.
func (s *Store) prepare() (next time.Duration, err error) {
	now := s.o.Mono()
	if now >= s.nextFreeCheck || s.freeLeft.Load() < 0 {
		if err := s.checkFolder(); err != nil {
			return -1, err
		}
		s.checkFree()
		s.nextFreeCheck = now + freeCheckInterval
	}
	room := s.j.Space().Room
	next, perr := s.j.PrepareStep(now)
	if grown := s.j.Space().Room - room; grown > 0 {
		s.useFree(int(grown)) // unless a file is used again, which the next look finds
	}
	s.checkSpace()
	if perr != nil {
		s.warn("journal-prepare", perr.Error())
	}
	if left := s.nextFreeCheck - now; next < 0 || next > left {
		next = left
	}
	return next, nil
}

// checkFolder is an error if the folder was removed or moved away. Nothing else
// would notice for long: writes and syncs of open files succeed whose names are
// gone, and so is what they hold when the process ends.
func (s *Store) checkFolder() error {
	if _, err := s.fs.Stat(s.path(propertiesName)); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", ErrFolderGone, err)
	}
	return nil
}

// checkFree refuses writes while the disk has less than the reserve, so that
// what is in the journal still finds room in the partition logs. A partition
// log that found no space is tried again by the writer and admits by itself.
func (s *Store) checkFree() {
	s.freeLeft.Store(math.MaxInt64)
	if s.o.DiskReserveBytes < 0 {
		return
	}
	free, err := s.fs.Free(s.o.Dir)
	if err != nil || free < 0 {
		return
	}
	s.mu.Lock()
	left := free - int64(s.mu.behind) - s.o.DiskReserveBytes
	s.mu.Unlock()
	// While writes are refused nothing is used up, and the next look comes in time.
	s.freeLeft.Store(max(left, 0))
	if left < 0 {
		s.refuse(refuseDisk)
	} else if s.outOfSpace.Load() == 0 {
		s.admit(refuseDisk)
	}
}

// useFree accounts for n bytes that will be written to the partition logs.
func (s *Store) useFree(n int) {
	if s.freeLeft.Add(-int64(n)) < 0 {
		s.refuse(refuseDisk)
		s.wakePreparer()
	}
}

func (s *Store) wakePreparer() {
	select {
	case s.prepareWake <- struct{}{}:
	default:
	}
}

func (s *Store) warn(kind, text string) {
	if f := s.o.Events.Warn; f != nil {
		f(kind, text)
	}
}
