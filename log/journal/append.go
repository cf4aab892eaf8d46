package journal

import "fmt"

// Append writes the round's entries, each with one write, and with PolicySync
// one fdatasync. ErrNoSpace: nothing was written, and it may be tried again. Any
// other error is final (ErrFailed). An empty round writes nothing. The round
// stays as it is.
func (j *Journal) Append(r *Round) error {
	if r.max > j.o.MaxEntryBytes {
		panic(fmt.Sprintf("journal: a round with entries of %d bytes, largest %d", r.max, j.o.MaxEntryBytes))
	}
	if err := j.ensure(r); err != nil {
		return err
	}
	for i := range r.used {
		if err := j.write(r, i, j.o.Policy == PolicySync); err != nil {
			return err
		}
	}
	return nil
}

// AppendStart writes and syncs a start entry that holds one metadata record.
func (j *Journal) AppendStart(record []byte) error {
	r := j.start
	r.Reset()
	r.start = true
	r.Append(Metadata, TopicID{}, 0, record)
	if r.used != 1 {
		panic(fmt.Sprintf("journal: a start record of %d bytes", len(record)))
	}
	if err := j.ensure(r); err != nil {
		return err
	}
	return j.write(r, 0, true)
}

// ensure makes sure that prepared files take the whole round, preparing them here
// if the preparer is behind.
func (j *Journal) ensure(r *Round) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.mu.failed != nil {
		return fmt.Errorf("%w: %w", ErrFailed, j.mu.failed)
	}
	last, offset := j.mu.next.File, j.mu.next.Offset
	for i := range r.used {
		n := int64(align8(len(r.entries[i].buf)))
		if offset+n > j.o.FileBytes {
			last, offset = last+1, HeaderBytes
		}
		offset += n
	}
	for last > j.top() {
		j.mu.Unlock()
		err := j.prepareSpare(last)
		j.mu.Lock()
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNoSpace, err)
		}
	}
	return nil
}

// prepareSpare makes the next file unless there are enough up to number last.
func (j *Journal) prepareSpare(last int64) error {
	j.prep.Lock()
	defer j.prep.Unlock()
	j.mu.Lock()
	top := j.top()
	j.mu.Unlock()
	if top >= last {
		return nil // the preparer was quicker
	}
	return j.prepare(top + 1)
}

// write writes entry i of a round, and syncs it if asked to.
func (j *Journal) write(r *Round, i int, sync bool) error {
	j.mu.Lock()
	at := j.mu.next
	n := int64(align8(len(r.entries[i].buf)))
	crossed := at.Offset+n > j.o.FileBytes
	if crossed {
		at.File, at.Offset = at.File+1, HeaderBytes
	}
	fl := j.byNumber(at.File)
	synced := j.mu.syncedTo == at.Sequence
	j.mu.claimed = claim{at.File, at.Offset + n}
	z := j.mu.zeroing
	j.mu.Unlock()

	if z.to > 0 && z.file == at.File && z.from < at.Offset+n {
		// The zero step under way must not overwrite this entry. The next one
		// begins above the claim.
		j.zero.Lock()
		//lint:ignore SA2001 waiting is all that is wanted
		j.zero.Unlock()
	}
	entry, crc := r.seal(i, j.salt, at.Sequence, at.Prev, synced)
	_, err := fl.f.WriteAt(entry, at.Offset)
	if err == nil && sync {
		err = fl.f.Datasync()
	}

	j.mu.Lock()
	if err != nil {
		j.mu.failed = fmt.Errorf("entry %d, %d bytes at %d of %s: %w", at.Sequence, n, at.Offset, fl.path, err)
		defer j.mu.Unlock()
		return fmt.Errorf("%w: %w", ErrFailed, j.mu.failed)
	}
	half := j.o.FileBytes / 2
	want := crossed || (at.Offset < half && at.Offset+n >= half) || j.mu.asleep
	j.mu.next = Position{File: at.File, Offset: at.Offset + n, Sequence: at.Sequence + 1, Prev: crc}
	if sync && synced {
		j.mu.syncedTo, j.mu.dirtyFrom = at.Sequence+1, at.File
	}
	j.written += n
	j.mu.asleep = false
	j.mu.Unlock()
	if want && j.o.OnWant != nil {
		j.o.OnWant()
	}
	return nil
}

// Sync makes everything appended so far durable (PolicyInterval, PolicyOS; with
// PolicySync there is nothing to do). An error is final. Called by the flusher,
// the next entry says that everything before it is synced.
func (j *Journal) Sync() error {
	j.prep.Lock()
	defer j.prep.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.mu.failed != nil {
		return fmt.Errorf("%w: %w", ErrFailed, j.mu.failed)
	}
	to := j.mu.next
	if j.mu.syncedTo == to.Sequence {
		return nil
	}
	for n := max(j.mu.dirtyFrom, j.mu.files[0].number); n <= to.File; n++ {
		fl := j.byNumber(n)
		j.mu.Unlock()
		err := fl.f.Datasync()
		j.mu.Lock()
		if err != nil {
			j.mu.failed = err
			return fmt.Errorf("%w: %w", ErrFailed, err)
		}
	}
	j.mu.syncedTo, j.mu.dirtyFrom = to.Sequence, to.File
	return nil
}
