package log

import (
	"errors"
	"fmt"
	"time"

	"github.com/kcoord/kcoord/log/journal"
)

// A folder that was stopped in order can be opened although its disk is full: what is
// in it is served, nothing in it changes but what frees space, and writes are refused.
// Once there is room for a journal file the preparer does what the start could not.

// lateMargin is the room wanted beside the journal file: for the snapshot above all.
const lateMargin = 1 << 20

// begin makes a folder that was stopped in order one that is written to: the marker
// goes, the guard comes, the journal begins with a start entry. Until the open
// snapshot has its name it is the former, whatever has been done.
func (s *Store) begin(at journal.Position) error {
	if err := removeIfThere(s.fs, s.path(markerName)); err != nil {
		return err
	}
	if err := s.fs.Mkdir(s.path(guardName)); err != nil {
		return err
	}
	if err := s.createJournal(at); err != nil {
		return err
	}
	if err := s.writeSnapshot(s.snapshotNow(at, false)); err != nil {
		return err
	}
	if err := s.writeStart(); err != nil {
		return &commitError{err} // the snapshot is open
	}
	return nil
}

// beginOrWait is begin, or if there is no space for it, leaves it for later.
func (s *Store) beginOrWait(at journal.Position) error {
	err := s.begin(at)
	if err == nil || !s.noRoom(err) {
		return err
	}
	s.lateAt = at
	s.waiting.Store(true)
	s.refuse(refuseSpace)
	return nil
}

// noRoom reports whether begin failed for want of space; then it can be tried again.
func (s *Store) noRoom(err error) bool {
	if IsFinal(err) || !outOfSpace(err) {
		return false
	}
	if s.j != nil {
		_ = s.j.Close() // nothing was written to it
		s.j = nil
	}
	s.warn("journal-prepare", err.Error())
	return true
}

// beginLate is the preparer's step while the store waits for space.
func (s *Store) beginLate() (next time.Duration, err error) {
	if err := s.checkFolder(); err != nil {
		return -1, err
	}
	if free, err := s.fs.Free(s.o.Dir); err == nil && free >= 0 && free < s.o.JournalFileBytes+lateMargin {
		return freeCheckInterval, nil
	}
	s.check.Lock()
	defer s.check.Unlock()
	if err := s.begin(s.lateAt); err != nil {
		if s.noRoom(err) {
			return freeCheckInterval, nil
		}
		return -1, fmt.Errorf("log: beginning the journal: %w", err)
	}
	s.mu.Lock()
	s.mu.cut = s.j.Next()
	s.mu.Unlock()
	s.waiting.Store(false)
	s.admit(refuseSpace)
	s.wakeFlusher()
	return 0, nil
}

// stopWaiting leaves the folder as it was found: stopped in order.
func (s *Store) stopWaiting() error {
	if err := s.anyFailed(); err != nil {
		return errors.Join(err, removeIfThere(s.fs, s.path(markerName)))
	}
	return s.leaveClean()
}

// leaveClean is the end of a clean stop, when the snapshot says that all is in the
// partition logs.
func (s *Store) leaveClean() error {
	if err := journal.RemoveFiles(s.fs, s.o.Dir); err != nil {
		return err
	}
	if err := removeIfThere(s.fs, s.path(guardName)); err != nil {
		return err
	}
	if err := writeFileSync(s.fs, s.path(markerName), []byte(`{"version":0,"brokerEpoch":-1}`)); err != nil {
		return err
	}
	return syncDir(s.fs, s.o.Dir)
}
