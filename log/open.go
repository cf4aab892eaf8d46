package log

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/kcoord/kcoord/log/journal"
	"github.com/kcoord/kcoord/log/vfs"
)

// Names in the data folder.
const (
	lockName          = ".lock"
	markerName        = ".kafka_cleanshutdown"
	guardName         = "kcoord.unclean"
	propertiesName    = "kcoord.properties"
	metaName          = "meta.properties"
	formatVersion     = 1
	recoveryPointFile = "recovery-point-offset-checkpoint"
	highWatermarkFile = "replication-offset-checkpoint"
	logStartFile      = "log-start-offset-checkpoint"
	cleanerFile       = "cleaner-offset-checkpoint"
)

// withDefaults fills in what is not set.
func (o Options) withDefaults() Options {
	orDuration := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	orBytes := func(n *int64, v int64) {
		if *n == 0 {
			*n = v
		}
	}
	orDuration(&o.DurabilityInterval, time.Second)
	orDuration(&o.CheckpointInterval, 10*time.Second)
	orDuration(&o.SegmentWriteDelay, 5*time.Millisecond)
	orBytes(&o.CheckpointBytes, 32<<20)
	orBytes(&o.JournalMaxBytes, 256<<20)
	o.JournalMaxBytes = max(o.JournalMaxBytes, 64<<20)
	orBytes(&o.JournalFileBytes, journal.DefaultFileBytes)
	orBytes(&o.DiskReserveBytes, 64<<20)
	orBytes(&o.InflateMaxBytes, 64<<20)
	orDuration(&o.RetentionInterval, 5*time.Minute)
	orDuration(&o.RetentionDelay, 30*time.Second)
	orDuration(&o.ProducerCheck, producerCheck)
	if o.ProducerExpiration == nil {
		o.ProducerExpiration = func() time.Duration { return producerExpiration }
	}
	o.SegmentWriteDelay = max(o.SegmentWriteDelay, 0)
	return o
}

// Open locks the folder, recovers it if it was not stopped in order, and makes
// it ready for appends. It starts nothing: run Loops. It fails with ErrLocked,
// ErrForeign, ErrDamaged, ErrOtherNode or ErrNewer, or with the storage error that stopped
// it; then nothing that was durable has been changed.
func Open(o Options) (*Store, error) {
	o = o.withDefaults()
	s := &Store{
		o: o, fs: o.FS,
		writeWake: make(chan struct{}, 1), prepareWake: make(chan struct{}, 1),
		checkpointWake: make(chan struct{}, 1), retentionWake: make(chan struct{}, 1),
	}
	s.freeLeft.Store(math.MaxInt64)
	s.flush.wake = make(chan struct{}, 1)
	s.flush.entries = journal.NewRound(s.entryBytes())
	s.mu.open = &round{number: 1}
	s.topics.Store(&topicTable{byID: map[TopicID]*topic{}})
	began := o.Mono()
	if err := s.takeLock(); err != nil {
		return nil, err
	}
	if err := s.openFolder(); err != nil {
		s.abandon()
		return nil, err
	}
	s.folder.FolderID, s.folder.LeaderEpoch = s.id, s.epoch
	s.folder.Took = o.Mono() - began
	if s.j != nil {
		s.mu.cut = s.j.Next()
	}
	s.mu.queued.sleepsUntil = 0
	s.check.last = o.Mono()
	return s, nil
}

// takeLock makes the folder if need be and locks it, for kcoord and Kafka alike.
func (s *Store) takeLock() error {
	if err := s.makeDir(); err != nil {
		return err
	}
	lock, err := s.fs.Lock(s.path(lockName))
	if errors.Is(err, vfs.ErrLocked) {
		return fmt.Errorf("%w: %s: another process holds %s", ErrLocked, s.o.Dir, lockName)
	}
	s.lock = lock
	return err
}

// makeDir makes the data folder and what is missing above it, durably.
func (s *Store) makeDir() error {
	var missing []string // the data folder first
	for dir := path.Clean(s.o.Dir); ; dir = path.Dir(dir) {
		there, err := exists(s.fs, dir)
		if err != nil {
			return err
		}
		if there || dir == path.Dir(dir) {
			break
		}
		missing = append(missing, dir)
	}
	if len(missing) == 0 {
		return nil
	}
	if err := s.fs.Mkdir(s.o.Dir); err != nil {
		return err
	}
	for _, dir := range missing {
		if err := syncDir(s.fs, path.Dir(dir)); err != nil {
			return err
		}
	}
	return nil
}

// abandon closes everything as a kill would.
func (s *Store) abandon() {
	s.EachPartition(func(p *Partition) {
		for _, g := range p.list() {
			g.release()
		}
		p.segments.Store(nil)
	})
	if s.j != nil {
		_ = s.j.Close()
	}
	if s.lock != nil {
		_ = s.lock.Close()
	}
}

// openFolder decides what kind of folder this is and opens it.
func (s *Store) openFolder() error {
	b, err := readFile(s.fs, s.path(propertiesName), 1<<20)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s.openNew()
	case err != nil:
		return err
	}
	if err := s.readProperties(parseProperties(b)); err != nil {
		return fmt.Errorf("%s: %w", s.path(propertiesName), err)
	}
	if err := s.checkMetaProperties(); err != nil {
		return err
	}
	sn, err := readSnapshot(s.fs, s.o.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s is missing: nobody knows which records are durable; restore the folder from a copy, or start with an empty one", ErrDamaged, s.path(snapshotName))
	}
	if err != nil {
		return err
	}
	if sn.folder != s.id {
		return fmt.Errorf("%w: %s belongs to another folder; put back the one that was made with %s", ErrDamaged, s.path(snapshotName), propertiesName)
	}
	if sn.clean {
		return s.openClean(sn)
	}
	return s.recover(sn)
}

// readProperties takes over what kcoord.properties says.
func (s *Store) readProperties(p properties) error {
	version, err := strconv.Atoi(p["format.version"])
	if err != nil || version < 1 {
		return fmt.Errorf("%w: format.version is %q", ErrDamaged, p["format.version"])
	}
	if version > formatVersion {
		return fmt.Errorf("%w: format.version is %d, this program knows %d", ErrNewer, version, formatVersion)
	}
	id, err := hex.DecodeString(p["folder.id"])
	if err != nil || len(id) != len(s.id) {
		return fmt.Errorf("%w: folder.id is %q", ErrDamaged, p["folder.id"])
	}
	s.id = journal.FolderID(id)
	n, err := strconv.ParseInt(p["offsets.partitions"], 10, 32)
	if err != nil || n < 1 {
		return fmt.Errorf("%w: offsets.partitions is %q", ErrDamaged, p["offsets.partitions"])
	}
	s.folder.OffsetsPartitions = int32(n)
	s.folder.ClusterID = p["cluster.id"]
	return nil
}

// checkMetaProperties compares Kafka's file with what the folder is: another
// cluster or node means that the wrong folder was mounted. A missing or empty
// file (its rename was not synced) is written anew.
func (s *Store) checkMetaProperties() error {
	name := s.path(metaName)
	b, err := readFile(s.fs, name, 1<<20)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	p := parseProperties(b)
	if len(p) == 0 {
		return s.writeMetaProperties(false)
	}
	if id := p["cluster.id"]; id != "" && id != s.folder.ClusterID {
		return fmt.Errorf("%w: %s says cluster.id=%s, the folder was made for %s", ErrOtherNode, name, id, s.folder.ClusterID)
	}
	node := p["node.id"]
	if node == "" {
		node = p["broker.id"]
	}
	if node != "" && node != strconv.Itoa(int(s.o.NodeID)) {
		return fmt.Errorf("%w: %s says node.id=%s, this is node.id=%d", ErrOtherNode, name, node, s.o.NodeID)
	}
	return nil
}

// writeMetaProperties writes Kafka's meta.properties, version 1.
func (s *Store) writeMetaProperties(sync bool) error {
	dir := s.id // any id that is the folder's own will do; the salt itself stays secret
	for i := range dir {
		dir[i] = dir[i]*31 + byte(i)*7 + 0x5a
	}
	b := fmt.Appendf(nil, "#\nversion=1\ncluster.id=%s\nnode.id=%d\ndirectory.id=%s\n", s.folder.ClusterID, s.o.NodeID, uuidString(dir))
	return replaceFile(s.fs, s.path(metaName), b, sync)
}

// openNew makes a new folder, or finishes making one. What is not kcoord's is
// refused.
func (s *Store) openNew() error {
	names, err := s.fs.List(s.o.Dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := s.mayBeNew(name); err != nil {
			return err
		}
	}
	s.folder.Kind = FolderNew
	s.folder.ClusterID, s.folder.OffsetsPartitions = s.o.ClusterID, s.o.OffsetsPartitions
	if s.folder.OffsetsPartitions < 1 {
		return fmt.Errorf("log: a new folder needs a number of offsets partitions, not %d", s.folder.OffsetsPartitions)
	}
	if s.folder.ClusterID == "" {
		var id [16]byte
		s.o.Random(id[:])
		s.folder.ClusterID = uuidString(id)
	}
	s.o.Random(s.id[:])
	if err := s.writeMetaProperties(false); err != nil {
		return err
	}
	if err := s.fs.Mkdir(s.path(guardName)); err != nil {
		return err
	}
	if err := s.applyMetadata(s.o.First...); err != nil {
		return fmt.Errorf("log: the first metadata of a new folder: %w", err)
	}
	s.refresh()
	// Without kcoord.properties nothing of this counts, so one sync of the folder
	// makes all names durable, that of the journal's first file.
	if err := s.putSnapshot(s.snapshotNow(journal.First(), false)); err != nil {
		return err
	}
	if err := s.createJournal(journal.First()); err != nil {
		return err
	}
	if err := s.writeProperties(); err != nil {
		return err
	}
	return s.writeStart()
}

// mayBeNew refuses what cannot be there in a folder that is new or was left
// unfinished by a crash.
func (s *Store) mayBeNew(name string) error {
	full := s.path(name)
	foreign := func(what string) error {
		return fmt.Errorf("%w: %s has no %s but %s %s; choose another folder: those of Kafka or of other programs are not taken over",
			ErrForeign, s.o.Dir, propertiesName, what, name)
	}
	if _, ok := journal.ParseFileName(name); ok {
		b, err := readFile(s.fs, full, 1<<30)
		if err != nil {
			return err
		}
		if len(b) > journal.HeaderBytes && strings.HasPrefix(string(b[journal.HeaderBytes:]), "KCJE") {
			return foreign("a journal with entries,")
		}
		return nil
	}
	info, err := s.fs.Stat(full)
	if err != nil {
		return err
	}
	if _, _, ok := parsePartitionDir(name); ok && info.IsDir {
		return foreign("a partition folder,")
	}
	return nil
}

// writeProperties writes kcoord.properties durably: the folder is kcoord's from
// then on.
func (s *Store) writeProperties() error {
	b := fmt.Appendf(nil, "format.version=%d\ncreator=kcoord %s\nfolder.id=%x\ncluster.id=%s\noffsets.partitions=%d\n",
		formatVersion, s.o.Version, s.id[:], s.folder.ClusterID, s.folder.OffsetsPartitions)
	if err := replaceFile(s.fs, s.path(propertiesName), b, true); err != nil {
		return err
	}
	return syncDir(s.fs, s.o.Dir)
}

func (s *Store) journalOptions() journal.Options {
	return journal.Options{
		FS: s.fs, Dir: s.o.Dir, Folder: s.id,
		Policy: journal.Policy(s.o.Durability), OnWant: s.wakePreparer,
		MayMake:   func() bool { return s.freeLeft.Load() >= s.o.JournalFileBytes },
		FileBytes: s.o.JournalFileBytes, MaxEntryBytes: s.entryBytes(), Parallel: s.o.Parallel,
	}
}

// entryBytes is the largest journal entry: small files have smaller ones.
func (s *Store) entryBytes() int {
	return int(min(journal.MaxEntryBytes, s.o.JournalFileBytes/4&^7))
}

// createJournal removes leftovers and makes the first file; names that came or
// went in the folder before it are durable then.
func (s *Store) createJournal(at journal.Position) (err error) {
	if err := journal.RemoveFiles(s.fs, s.o.Dir); err != nil {
		return err
	}
	s.j, err = journal.Create(s.journalOptions(), at)
	return err
}

// writeStart writes the start entry: from then on what was unfinished before it
// is void.
func (s *Store) writeStart() error {
	return s.j.AppendStart(startRecord{s.epoch, s.o.Durability, s.o.Version}.append(nil))
}

// openClean takes the plain path: the folder was stopped in order, the journal
// is empty. Everything is looked at before anything is changed.
func (s *Store) openClean(sn *snapshot) error {
	s.folder.Kind = FolderClean
	if err := s.loadMetadata(sn); err != nil {
		return err
	}
	began := s.o.Mono()
	if err := s.openPartitions(sn, true); err != nil {
		return err
	}
	s.folder.TookPartitions = s.o.Mono() - began
	return s.beginOrWait(sn.replay)
}

// loadMetadata applies the snapshot's records.
func (s *Store) loadMetadata(sn *snapshot) error {
	for _, r := range sn.records {
		if r[0] == kindStart {
			start, err := parseStart(r)
			if err != nil {
				return fmt.Errorf("%s: %w: %w", s.path(snapshotName), ErrDamaged, err)
			}
			s.epoch = max(s.epoch, start.epoch)
		}
	}
	if err := s.applyMetadata(sn.records...); err != nil {
		return fmt.Errorf("%s: %w", s.path(snapshotName), err)
	}
	s.refresh()
	return nil
}
