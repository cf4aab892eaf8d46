package log

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"strconv"

	"github.com/kcoord/kcoord/log/journal"
	"github.com/kcoord/kcoord/log/record"
)

// recover takes the journal path: the folder was not stopped in order. Beyond
// the recovery points nothing in the partition logs is trusted: it is cut off
// and written again from the journal. Until the next checkpoint snapshot and
// journal stay as they are, so that a crash anywhere repeats the same.
func (s *Store) recover(sn *snapshot) error {
	s.folder.Kind = FolderRecovered
	began := s.o.Mono()
	if err := s.loadMetadata(sn); err != nil {
		return err
	}
	if err := s.fs.Mkdir(s.path(guardName)); err != nil {
		return err
	}
	if err := removeIfThere(s.fs, s.path(markerName)); err != nil {
		return err
	}
	j, err := journal.Open(s.journalOptions(), sn.replay)
	if err != nil {
		return s.journalError(err)
	}
	s.j = j
	s.check.setReplay(sn.replay)
	var found replay
	tail, err := s.scanJournal(&found)
	if err != nil {
		return err
	}
	s.folder.TookJournal = s.o.Mono() - began
	began = s.o.Mono()
	// The journal's newest entries are written again so that they are durable before
	// anything of them is shown.
	if tail.Lost == 0 {
		if err := s.j.RewriteTail(); err != nil {
			return err
		}
	}
	if err := s.openPartitions(sn, false); err != nil {
		return err
	}
	if err := s.replayJournal(&found); err != nil {
		return err
	}
	s.folder.TookPartitions = s.o.Mono() - began
	s.check.rests = s.o.Mono() + recoveredRest
	if s.epoch < math.MaxInt32 {
		s.epoch++
	}
	if tail.Lost > 0 {
		return s.startOver(tail)
	}
	return s.writeStart()
}

// journalError makes the journal's refusals the store's.
func (s *Store) journalError(err error) error {
	var bad *journal.CorruptionError
	if !errors.As(err, &bad) {
		return err
	}
	if bad.Reason == journal.Newer {
		return fmt.Errorf("%w: %w", ErrNewer, err)
	}
	return fmt.Errorf("%w: %w; restore the folder from a copy, or start with an empty one", ErrDamaged, err)
}

// scanJournal reads the journal, applies its metadata, collects its batches, and
// decides where it ends.
func (s *Store) scanJournal(found *replay) (tail journal.Tail, err error) {
	s.deletedIDs = map[TopicID]bool{}
	var untidy error
	each(s.o.Parallel, 2, func(i int) {
		if i == 0 {
			untidy = s.j.Tidy()
		} else {
			tail, err = s.j.Scan(replayKept, func(it *journal.Item) error { return s.scanned(it, found) })
		}
	})
	if err == nil {
		err = untidy
	}
	if err != nil {
		return tail, s.journalError(err)
	}
	s.refresh()
	s.folder.Entries, s.folder.TornBytes = tail.Entries, int64(len(tail.Torn))
	if len(tail.Torn) > 0 {
		s.saveTorn(&tail)
	}
	return tail, nil
}

// scanned takes one item of the journal.
func (s *Store) scanned(it *journal.Item, found *replay) error {
	s.folder.ReplayedBytes += int64(len(it.Data))
	if it.Kind == journal.Metadata {
		return s.scannedMetadata(it)
	}
	if found.rest.Sequence > 0 {
		return nil
	}
	b := record.Batch(it.Data)
	if !it.Kept {
		if !it.Joined {
			found.rest = it.Entry
			return nil
		}
		b = append(record.Batch(nil), it.Data...)
	}
	if err := batchHeader(b, it.Entry); err != nil {
		return err
	}
	found.batches = append(found.batches, replayed{TopicID(it.Topic), it.Partition, b, it.Entry})
	return nil
}

// batchHeader checks what the entry's checksum does not vouch for.
func batchHeader(b record.Batch, at journal.Position) error {
	if err := b.ValidateHeader(); err != nil {
		return fmt.Errorf("%w: journal entry %s holds a batch that is none: %w", ErrDamaged, at, err)
	}
	return nil
}

func (s *Store) scannedMetadata(it *journal.Item) error {
	if id, ok := topicOf(it.Data); ok && it.Data[0] == kindTopicDeleted {
		s.deletedIDs[id] = true
	}
	if it.Data[0] == kindStart {
		r, err := parseStart(it.Data)
		if err != nil {
			return fmt.Errorf("%w: journal entry %s: %w", ErrDamaged, it.Entry, err)
		}
		s.epoch = max(s.epoch, r.epoch)
	}
	if err := s.applyMetadata(it.Data); err != nil {
		return fmt.Errorf("journal entry %s: %w", it.Entry, err)
	}
	return nil
}

// keptTorn is how many files of torn bytes are kept.
const keptTorn = 5

// saveTorn puts the bytes of a torn entry aside, as well as it can.
func (s *Store) saveTorn(tail *journal.Tail) {
	const prefix = "kcoord-torn-"
	name := fmt.Sprintf("%s%020d-%d.bin", prefix, tail.Next.Sequence, s.o.Now().UnixMilli())
	err := writeFile(s.fs, s.path(name), tail.Torn)
	s.warn("journal-torn", fmt.Sprintf("the journal's last entry (%s) was torn by the crash: nobody was answered for it; its %d bytes are kept in %s (error: %v)",
		tail.Next, len(tail.Torn), name, err))
	names, err := s.fs.List(s.o.Dir)
	if err != nil {
		return
	}
	var torn []string
	for _, n := range names {
		if len(n) > len(prefix) && n[:len(prefix)] == prefix {
			torn = append(torn, n)
		}
	}
	for len(torn) > keptTorn {
		_ = s.fs.Remove(s.path(torn[0]))
		torn = torn[1:]
	}
}

// startOver goes on in a new journal file, because entries behind the end, of a
// policy that does not sync, must never be taken for new ones.
func (s *Store) startOver(tail journal.Tail) error {
	s.warn("journal-lost", fmt.Sprintf("%d journal entries behind %s were lost by the crash: they had not been synced", tail.Lost, tail.Next))
	if err := s.j.StartOver(); err != nil {
		return err
	}
	s.mu.cut = s.j.Next()
	if err := s.checkpoint(false); err != nil {
		return err
	}
	return s.writeStart()
}

// openPartitions opens the logs of all partitions that Metadata knows, each up
// to its recovery point, and puts the folders of deleted topics aside.
func (s *Store) openPartitions(sn *snapshot, clean bool) error {
	points := map[TopicID]map[int32]recoveryPointRecord{}
	for _, r := range sn.records {
		if r[0] != kindRecoveryPoint {
			continue
		}
		rp, err := parseRecoveryPoint(r)
		if err != nil {
			return fmt.Errorf("%s: %w: %w", s.path(snapshotName), ErrDamaged, err)
		}
		if points[rp.id] == nil {
			points[rp.id] = map[int32]recoveryPointRecord{}
		}
		points[rp.id][rp.partition] = rp
	}
	folders, err := s.findFolders()
	if err != nil {
		return err
	}
	err = s.inParallel(func(p *Partition) error {
		rp, known := points[p.id][p.n]
		if !known { // younger than the snapshot: all of it comes from the journal
			rp = recoveryPointRecord{id: p.id, partition: p.n}
		}
		return p.openLog(rp, clean, folders[p.disk.dir])
	})
	s.loadCleanerFile()
	return err
}

// A changeError is a change to a folder that failed while it was opened: nothing
// is wrong with what is there, so the start as a whole fails and is tried again.
type changeError struct{ err error }

func (e *changeError) Error() string { return e.err.Error() }
func (e *changeError) Unwrap() error { return e.err }

func changed(err error) error {
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return &changeError{err}
}

// findFolders looks through the data folder: folders of topics that are gone
// become -delete ones, unknown ones are named and left alone. It returns the
// partition folders that exist.
func (s *Store) findFolders() (map[string]bool, error) {
	names, err := s.fs.List(s.o.Dir)
	if err != nil {
		return nil, err
	}
	known := map[string]*Partition{}
	s.EachPartition(func(p *Partition) { known[p.disk.dir] = p })
	folders := map[string]bool{}
	for _, name := range names {
		full := s.path(name)
		p := known[full]
		switch {
		case p != nil && !s.replaced(full, p.id):
			folders[full] = true
		case isDeleteDir(name):
			s.removeLater(deletion{name: full, folder: true})
		case p != nil: // its successor of the same name must not meet it
			if err := s.putAside(name); err != nil {
				return nil, err
			}
		case mayBePartition(name):
			if err := s.putAside(name); err != nil {
				s.warn("delete-folder", err.Error())
			}
		}
	}
	return folders, nil
}

// mayBePartition says whether a name is one that a partition's folder has.
func mayBePartition(name string) bool {
	_, _, ok := parsePartitionDir(name)
	return ok
}

// replaced reports whether a folder is that of an earlier topic of the same
// name, deleted since.
func (s *Store) replaced(dir string, id TopicID) bool {
	if len(s.deletedIDs) == 0 { // spare a start a file per partition, read one after the other
		return false
	}
	have, err := readPartitionMetadata(s.fs, dir)
	return err == nil && have != id && s.deletedIDs[have]
}

// openLog opens the partition's log up to its recovery point. What is wrong with
// it closes this partition only; an error is a *changeError.
func (p *Partition) openLog(rp recoveryPointRecord, clean, there bool) error {
	p.disk.Lock()
	defer p.disk.Unlock()
	p.setEnds(rp)
	err := p.openFiles(rp, clean, there)
	var failed *changeError
	if errors.As(err, &failed) {
		return fmt.Errorf("log: opening %s: %w", p, err)
	}
	if err != nil {
		p.closeDamaged(err)
	}
	return nil
}

// closeDamaged makes the partition refuse everything but batches that are
// durable already: those go into a new segment named after the recovery point,
// so that checkpoints can go on and nothing acknowledged is lost.
func (p *Partition) closeDamaged(err error) {
	s := p.s
	releaseAll(p.list())
	p.segments.Store(nil)
	if p.disk.excess {
		p.disk.excess = false
		_ = truncateFile(s.fs, path.Join(p.disk.dir, segmentName(p.disk.rpBase, suffixLog)), p.disk.rpPosition)
	}
	err = fmt.Errorf("%w: %s is closed: %w", ErrStorage, p, err)
	p.failed.Store(&failure{err: err, permanent: true})
	s.opening.Lock()
	s.folder.RefusedPartitions++
	s.opening.Unlock()
	if f := s.o.Events.Refused; f != nil {
		f(p.topic.Load().Name, p.n, err)
	}
	name := path.Join(p.disk.dir, refusedName)
	if there, _ := exists(s.fs, name); there || p.makeFolder() != nil {
		return
	}
	if err := writeFileSync(s.fs, name, []byte(err.Error()+"\n")); err == nil {
		p.disk.dirUnsynced, p.disk.dirty = true, true
	}
}

// refusedName is a file in the folder of a partition that was found damaged: it
// stays closed, although later segments may look sound, until it is repaired.
const refusedName = "refused.kcoord"

// openFiles brings the folder to the state of the recovery point and opens it.
func (p *Partition) openFiles(rp recoveryPointRecord, clean, there bool) error {
	s, dir := p.s, p.disk.dir
	if there && rp.offset == 0 { // nothing of it is known to be there
		moved, err := p.makeRoom(false)
		if err != nil {
			return changed(err)
		}
		there = !moved
	}
	if !there {
		if rp.offset > p.logStart.Load() {
			return &CorruptError{Path: dir, Position: -1, Offset: p.logStart.Load(), End: rp.offset, Reason: "the folder is missing"}
		}
		p.setEnds(emptyAt(rp))
		return nil
	}
	p.disk.made, p.disk.foreign = true, true
	if err := p.checkFolder(); err != nil {
		return err
	}
	p.disk.foreign = false
	if err := p.refusedBefore(); err != nil {
		return err
	}
	files, err := listSegments(s.fs, dir)
	if err != nil {
		return err
	}
	if err := p.finishSwap(files); err != nil {
		return err
	}
	if clean {
		return p.openPlain(rp, files)
	}
	return p.openTo(rp, files)
}

// emptyAt is the recovery point of a log that holds nothing any more and goes on where
// rp is.
func emptyAt(rp recoveryPointRecord) recoveryPointRecord {
	rp.base, rp.position = rp.offset, 0
	return rp
}

// openTo opens the log up to a recovery point, behind which everything is cut off.
func (p *Partition) openTo(rp recoveryPointRecord, files *segmentFiles) error {
	if len(files.logs) == 0 && rp.offset <= p.logStart.Load() { // all of it was deleted
		rp = emptyAt(rp)
		p.setEnds(rp)
	}
	if err := p.cut(rp, files); err != nil {
		return err
	}
	return p.openSegments(rp, files)
}

// checkFolder compares partition.metadata with the topic's id.
func (p *Partition) checkFolder() error {
	s, dir := p.s, p.disk.dir
	info, err := s.fs.Stat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir {
		return fmt.Errorf("%s is a file where the partition's folder should be", dir)
	}
	id, err := readPartitionMetadata(s.fs, dir)
	if errors.Is(err, fs.ErrNotExist) {
		p.disk.dirUnsynced, p.disk.metaUnsynced, p.disk.dirty = true, true, true
		if err := replaceFile(s.fs, path.Join(dir, partitionMetadata), partitionMetadataBytes(p.id), false); err != nil && !outOfSpace(err) {
			return changed(err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if id != p.id {
		return fmt.Errorf("%s belongs to topic id %s, not %s", dir, uuidString(id), uuidString(p.id))
	}
	return nil
}

// refusedBefore gives the reason for which the partition was closed at an earlier
// start and has not been repaired since.
func (p *Partition) refusedBefore() error {
	b, err := readFile(p.s.fs, path.Join(p.disk.dir, refusedName), 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("found damaged before (%s says so): %s", refusedName, b)
}

// cut removes everything beyond the recovery point: it is a copy of what the
// journal holds, and is written again from there.
func (p *Partition) cut(rp recoveryPointRecord, files *segmentFiles) error {
	s, dir := p.s, p.disk.dir
	have, ok := files.logs[rp.base]
	if len(files.logs) == 0 && rp.offset > p.logStart.Load() {
		return &CorruptError{Path: dir, Position: -1, Offset: p.logStart.Load(), End: rp.offset, Reason: "all segments are missing"}
	}
	if !ok && rp.position > 0 {
		return &CorruptError{Path: path.Join(dir, segmentName(rp.base, suffixLog)), Position: -1,
			Offset: rp.base, End: rp.offset, Reason: "the segment of the recovery point is missing"}
	}
	if have < rp.position {
		return &CorruptError{Path: path.Join(dir, segmentName(rp.base, suffixLog)), Position: have,
			Offset: -1, End: rp.offset, Reason: "the segment ends before byte " + strconv.FormatInt(rp.position, 10) + ", where the recovery point lies"}
	}
	for _, name := range files.above(rp.base, rp.offset) {
		full := path.Join(dir, name)
		remove := s.fs.Remove
		if path.Ext(name) == suffixLog { // large
			remove = func(string) error { return s.fs.Rename(full, full+suffixDeleted) }
			s.removeSoon(full + suffixDeleted)
		}
		if err := changed(remove(full)); err != nil {
			return err
		}
		p.disk.dirUnsynced, p.disk.dirty = true, true
	}
	if ok && have > rp.position {
		// The bytes beyond are written again in place, usually the same ones; to free
		// the blocks now and take new ones costs a start many milliseconds.
		files.logs[rp.base] = rp.position
		p.disk.dirty, p.disk.excess = true, true
	}
	return nil
}

// openSegments opens all segments up to the recovery point's, checks that a
// batch ends there with the offset before it, and loads the epochs.
func (p *Partition) openSegments(rp recoveryPointRecord, files *segmentFiles) error {
	s := p.s
	var list []*segment
	for _, base := range files.bases() {
		if base > rp.base {
			break
		}
		size := files.logs[base]
		g, err := openSegment(s.fs, p.disk.dir, base, size, files.modified[base], openFlag(base == rp.base))
		if err != nil {
			releaseAll(list)
			return err
		}
		list = append(list, g)
		if base != rp.base && files.lacksIndex(base) && p.load(g, true) == nil { // damage shows when it is read
			p.restoreIndexes(g)
			g.shed()
		}
	}
	if n := len(list); n > 0 {
		g := list[n-1]
		if err := p.load(g, g.base < rp.base); err != nil {
			releaseAll(list)
			return err
		}
		if g.tail.next != rp.offset {
			err := &CorruptError{Path: g.name(suffixLog), Position: g.tail.size, Offset: min(g.tail.next, rp.offset), End: rp.offset,
				Reason: fmt.Sprintf("the last batch ends before offset %d, the recovery point is %d", g.tail.next, rp.offset)}
			releaseAll(list)
			return err
		}
		p.disk.dirty = p.disk.dirty || g.stale
		if files.lacksIndex(g.base) {
			p.restoreIndexes(g)
		}
	}
	if len(list) > 0 {
		p.segments.Store(&list)
		if start := p.logStart.Load(); start < list[0].base {
			p.s.warn("log-start", fmt.Sprintf("%s begins at offset %d: those from %d on are gone", p, list[0].base, start))
			p.logStart.Store(list[0].base)
		}
	}
	p.sumSize()
	return p.loadEpochs(rp.offset)
}

// restoreIndexes makes the index files of a loaded segment anew. It may fail: they
// are worked out from the log when they are needed.
func (p *Partition) restoreIndexes(g *segment) {
	p.disk.dirty, p.disk.dirUnsynced = true, true
	if err := g.writeIndexes(p.s.fs); err != nil {
		p.s.warn("index-write", err.Error())
	}
}

func releaseAll(list []*segment) {
	for _, g := range list {
		g.release()
	}
}

// loadEpochs reads the leader epochs, or finds them in the batches if the file
// is not usable.
func (p *Partition) loadEpochs(end int64) error {
	err := p.epochs.load(p.s.fs, p.disk.dir)
	if (err != nil || p.epochs.newest() < 0) && len(p.list()) > 0 {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			p.s.warn("epochs", fmt.Sprintf("%s: %s is rebuilt: %v", p, epochFile, err))
		}
		for _, g := range p.list() {
			if err := p.epochsOf(g); err != nil {
				return err
			}
		}
		p.disk.dirty = true
	}
	p.epochs.trim(p.logStart.Load(), end)
	return nil
}
