package journal

import (
	"fmt"
	"slices"
	"time"

	"github.com/kcoord/kcoord/log/vfs"
)

const (
	// zeroPause is the time between two zero steps, and zeroPauseMax that while enough
	// is zeroed.
	zeroPause    = 2 * time.Millisecond
	zeroPauseMax = 25 * time.Millisecond
	// zeroAhead is how long what is zeroed should last at the present rate of writing.
	zeroAhead = time.Second / 2
	// retryPause is the time after which a failed step is tried again.
	retryPause = time.Second
	// ratePeriod is how long spares should last at the present rate of writing,
	// rateSample the shortest time over which a rate is taken.
	ratePeriod = 2 * time.Second
	rateSample = 100 * time.Millisecond
)

// rateWindow turns a running byte count into bytes per second.
type rateWindow struct {
	mono  time.Duration
	bytes int64
	rate  int64 // bytes per second
	begun bool
}

func (w *rateWindow) observe(mono time.Duration, bytes int64) int64 {
	elapsed := mono - w.mono
	switch {
	case !w.begun:
		*w = rateWindow{mono: mono, bytes: bytes, begun: true}
	case elapsed >= rateSample:
		w.rate = int64(float64(bytes-w.bytes) / elapsed.Seconds())
		w.mono, w.bytes = mono, bytes
	}
	return w.rate
}

// prepare makes file n, the next one: usable when it returns. prep is held.
func (j *Journal) prepare(n int64) error {
	fl, err := j.makeFile(n)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mu.prepareErr = err
	if err == nil {
		j.mu.files = append(j.mu.files, fl)
	}
	return err
}

func (j *Journal) makeFile(n int64) (*file, error) {
	fl := &file{number: n, path: j.path(n), zeroed: HeaderBytes}
	var err error
	if fl.f, err = j.o.FS.Open(fl.path, vfs.Truncate); err != nil {
		return nil, err
	}
	if err = fl.f.Preallocate(j.o.FileBytes); err == nil {
		err = j.writeHeader(fl)
	}
	if err == nil {
		err = j.dir.Sync()
	}
	if err != nil {
		j.discard(fl)
		return nil, err
	}
	return fl, nil
}

func (j *Journal) writeHeader(fl *file) error {
	if _, err := fl.f.WriteAt(appendHeader(nil, j.o.Folder, fl.number, j.o.FileBytes), 0); err != nil {
		return err
	}
	return fl.f.Datasync()
}

// discard drops a file that could not be prepared. What stays of it when that
// fails too is truncated by the next attempt or removed at the next start.
func (j *Journal) discard(fl *file) {
	_ = fl.f.Close()
	_ = j.o.FS.Remove(fl.path)
}

// recycle makes a freed file the next spare: a new header under the old name,
// then the new name. Its old entries stay and are told by their sequence. A crash
// in between leaves a file below where replay begins, which Open removes.
func (j *Journal) recycle(fl *file, n int64) error {
	old := fl.path
	fl.number = n
	err := j.writeHeader(fl)
	if err == nil {
		if err = j.o.FS.Rename(old, j.path(n)); err == nil {
			fl.path = j.path(n)
			err = j.dir.Sync()
		}
	}
	if err != nil {
		j.discard(fl)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mu.prepareErr = err
	if err != nil {
		return fmt.Errorf("recycle %s: %w", old, err)
	}
	fl.zeroed = j.o.FileBytes
	j.mu.files = append(j.mu.files, fl)
	return nil
}

// Recycle tells that a durable snapshot begins at at: the files below are free to
// be used again or removed. The caller has synced the folder after renaming the
// snapshot.
func (j *Journal) Recycle(at Position) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if at.File > j.mu.next.File || at.Sequence > j.mu.next.Sequence || at.Sequence < j.mu.replay.Sequence {
		panic(fmt.Sprintf("journal: Recycle(%v), replay from %v, next %v", at, j.mu.replay, j.mu.next))
	}
	j.mu.replay = at
	i := 0
	for j.mu.files[i].number < at.File {
		i++
	}
	j.mu.free = append(j.mu.free, j.mu.files[:i]...)
	j.mu.files = append([]*file(nil), j.mu.files[i:]...)
}

// PrepareStep does at most one piece of the preparer's work: prepare, recycle or
// remove a file, or zero one step ahead. next says when to call again: 0 at
// once, > 0 after that time, < 0 when OnWant was called or Recycle done. mono is
// the monotonic clock, from which the rate of writing is computed. An error is
// not final: it is kept in Space, and next says when to try again.
func (j *Journal) PrepareStep(mono time.Duration) (next time.Duration, err error) {
	did, err := j.spareStep(mono)
	if err != nil {
		return retryPause, err
	}
	if did {
		return 0, nil
	}
	if did, err = j.zeroStep(); err != nil {
		return retryPause, err
	}
	if did {
		return j.pace(), nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.written != j.rate.bytes {
		return retryPause, nil // entries are coming: look at the rate again
	}
	j.mu.asleep = true
	return -1, nil
}

// spareStep prepares, recycles or removes one file if the number of spares is not
// what it should be.
func (j *Journal) spareStep(mono time.Duration) (did bool, err error) {
	j.prep.Lock()
	defer j.prep.Unlock()
	j.mu.Lock()
	top, spares := j.top(), j.top()-j.mu.next.File
	rate := j.rate.observe(mono, j.written)
	want := min((rate*int64(ratePeriod/time.Second)+j.o.FileBytes-1)/j.o.FileBytes, int64(j.o.MaxSpares))
	if j.mu.next.Offset >= j.o.FileBytes/2 {
		want = max(want, 1)
	}
	keep := want
	if rate > 0 {
		// What a checkpoint frees will be needed before the next one. Making those files
		// anew would mean zeroing them while the flusher wants the disk.
		keep = min(2*want, int64(j.o.MaxSpares))
	}
	var free *file
	if len(j.mu.free) > 0 {
		free = j.mu.free[0]
		j.mu.free = append([]*file(nil), j.mu.free[1:]...)
		want = max(want, 1) // an idle folder keeps one
	}
	if j.mu.prepareErr != nil {
		want = max(want, 1) // until it succeeds again
	}
	j.mu.Unlock()

	switch {
	case spares < max(want, keep) && free != nil:
		return true, j.recycle(free, top+1)
	case free != nil:
		_ = free.f.Close()
		return true, j.o.FS.Remove(free.path)
	case spares < want && j.o.MayMake != nil && !j.o.MayMake():
		j.mu.Lock()
		defer j.mu.Unlock()
		j.mu.prepareErr = errReserved
		return false, errReserved
	case spares < want:
		return true, j.prepare(top + 1)
	}
	return false, nil
}

// zeroStep writes zeros over the next step ahead of the flusher, in the active
// file or a spare. Blocks that were written before make a sync cheaper than
// blocks that were only reserved.
func (j *Journal) zeroStep() (did bool, err error) {
	if j.o.ZeroStep < 0 {
		return false, nil
	}
	j.zero.Lock()
	defer j.zero.Unlock()
	fl, from, to := j.nextZero()
	if fl == nil {
		j.zeros = nil
		return false, nil
	}
	j.zeros = slices.Grow(j.zeros[:0], int(to-from))[:to-from]
	_, err = fl.f.WriteAt(j.zeros, from)
	if err == nil {
		err = fl.f.Datasync()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mu.zeroing = zeroRange{}
	if err == nil {
		fl.zeroed = to
	}
	return true, err
}

// pace is the time to the next zero step. While entries are written, zeroing takes the
// disk away from their syncs: it only hurries until enough is ahead for zeroAhead, and
// then goes on at one and a half times the rate of writing.
func (j *Journal) pace() time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	rate := j.rate.rate
	ahead := -j.mu.next.Offset
	for _, fl := range j.mu.files {
		if fl.number >= j.mu.next.File {
			ahead += fl.zeroed
		}
	}
	if rate <= 0 || ahead < rate*int64(zeroAhead)/int64(time.Second) {
		return zeroPause
	}
	pause := time.Duration(int64(j.o.ZeroStep) * int64(time.Second) / (rate + rate/2))
	return min(max(pause, zeroPause), zeroPauseMax)
}

// nextZero chooses and claims what the next zero step writes.
func (j *Journal) nextZero() (fl *file, from, to int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	step := int64(j.o.ZeroStep)
	for _, fl := range j.mu.files {
		if fl.number < j.mu.next.File || fl.number < j.mu.claimed.file {
			continue
		}
		from := fl.zeroed
		if c := j.mu.claimed; c.file == fl.number && c.end > from {
			from = c.end
			if fl.zeroed > HeaderBytes {
				from += step // overtaken: leave the flusher a start
			}
		}
		if from = (from + HeaderBytes - 1) &^ (HeaderBytes - 1); from < j.o.FileBytes {
			to := min(from+step, j.o.FileBytes)
			j.mu.zeroing = zeroRange{fl.number, from, to}
			return fl, from, to
		}
		fl.zeroed = j.o.FileBytes
	}
	return nil, 0, 0
}
