package log

import (
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/kcoord/kcoord/log/journal"
	"github.com/kcoord/kcoord/log/record"
	"github.com/kcoord/kcoord/log/vfs"
)

// The functions of this file read single files of a data folder for tools that
// show them. They take no lock and change nothing; the folder may be in use.

// A FileKind says what a file of a data folder is.
type FileKind uint8

const (
	// FileOther is none of the others: left alone by kcoord and Kafka alike.
	FileOther FileKind = iota
	FileSegment
	FileIndex
	FileTimeIndex
	FileJournal
	// FileMetadata is the metadata snapshot.
	FileMetadata
	// FileOffsets is a checkpoint file of a data folder: topic, partition, offset.
	FileOffsets
	// FileEpochs is a partition's leader epochs: epoch, first offset.
	FileEpochs
	// FileProperties has lines key=value or key: value.
	FileProperties
)

// KindOf tells a file's kind by its name. A segment that waits for its removal or
// its installation (.deleted, .cleaned, .swap) counts as one.
func KindOf(name string) FileKind {
	name = path.Base(name)
	if _, ok := journal.ParseFileName(name); ok {
		return FileJournal
	}
	switch name {
	case snapshotName:
		return FileMetadata
	case recoveryPointFile, highWatermarkFile, logStartFile, cleanerFile:
		return FileOffsets
	case epochFile:
		return FileEpochs
	case propertiesName, metaName, partitionMetadata, markerName, refusedName:
		return FileProperties
	}
	_, suffix, ok := parseSegmentName(name)
	if !ok {
		return FileOther
	}
	for _, s := range []string{suffixCleaned, suffixSwap, suffixDeleted} {
		suffix = strings.TrimSuffix(suffix, s)
	}
	switch suffix {
	case suffixLog:
		return FileSegment
	case suffixIndex:
		return FileIndex
	case suffixTimeIndex:
		return FileTimeIndex
	}
	return FileOther
}

// MetadataFile is the name of the metadata snapshot in a data folder.
const MetadataFile = snapshotName

// TopicOfFolder splits the name of a partition's folder, of a deleted one too.
func TopicOfFolder(name string) (topic string, partition int32, ok bool) {
	if isDeleteDir(name) {
		name = name[:strings.LastIndexByte(name, '.')]
	}
	return parsePartitionDir(name)
}

// inspectRetries bounds how often a segment that grows while it is read is looked
// at again.
const inspectRetries = 100

// ReadSegment calls f for every batch of a .log file, with its position, in order
// and with its checksum verified. Damage is a *CorruptError, after the batches
// before it.
func ReadSegment(fsys vfs.FS, name string, f func(b record.Batch, position int64) error) error {
	base, _, ok := parseSegmentName(path.Base(name))
	if !ok {
		return fmt.Errorf("log: %s is no segment's name", name)
	}
	file, err := fsys.Open(name, vfs.ReadOnly)
	if err != nil {
		return err
	}
	defer file.Close()
	pos, next, size := int64(0), base, int64(-1)
	for range inspectRetries {
		now, err := file.Size()
		if err != nil || now == size {
			return err
		}
		size = now
		pos, next, err = inspectBatches(file, pos, size, next, f)
		var bad *scanError
		if errors.As(err, &bad) {
			if now, serr := file.Size(); serr == nil && now > size {
				continue // a batch that is being written
			}
			return &CorruptError{Path: name, Position: bad.pos, Offset: next, End: -1, Reason: "damaged record batch", Cause: bad.err}
		}
		if err != nil {
			return fmt.Errorf("log: reading %s: %w", name, err)
		}
	}
	return nil
}

// inspectBatches gives f the batches from pos to size.
func inspectBatches(r io.ReaderAt, pos, size, next int64, f func(b record.Batch, position int64) error) (int64, int64, error) {
	sc := newScanner(r, pos, size, true, nil)
	for {
		at := sc.pos
		b, err := sc.next()
		if errors.Is(err, io.EOF) {
			return at, next, nil
		}
		if err == nil && b.BaseOffset() < next {
			err = &scanError{at, fmt.Errorf("base offset %d, expected %d or more", b.BaseOffset(), next)}
		}
		if err == nil {
			err = f(b, at)
		}
		if err != nil {
			return at, next, err
		}
		next = b.NextOffset()
	}
}

// damagedIndex is an index file that does not say what its log says.
func damagedIndex(name string, position int64, format string, args ...any) error {
	return &CorruptError{Path: name, Position: position, Offset: -1, End: -1, Reason: fmt.Sprintf(format, args...)}
}

// indexBytes reads an index file and its base offset. Whole entries only: the last
// one may be being written.
func indexBytes(fsys vfs.FS, name string) (b []byte, base int64, err error) {
	base, _, ok := parseSegmentName(path.Base(name))
	if !ok {
		return nil, 0, fmt.Errorf("log: %s is no index's name", name)
	}
	b, err = readFile(fsys, name, 1<<30)
	return b, base, err
}

// ReadIndex calls f for every entry of an .index file: the batch at position ends
// with offset. Entries that do not rise are damage, a *CorruptError.
func ReadIndex(fsys vfs.FS, name string, f func(offset, position int64) error) error {
	b, base, err := indexBytes(fsys, name)
	if err != nil {
		return err
	}
	last := indexEntry{relative: -1}
	for at := 0; at+indexEntrySize <= len(b); at += indexEntrySize {
		e := indexEntryAt(b[at:])
		if e.relative <= last.relative || e.position <= last.position {
			return damagedIndex(name, int64(at), "entry (offset %d, position %d) follows (%d, %d)", base+int64(e.relative), e.position, base+int64(last.relative), last.position)
		}
		if err := f(base+int64(e.relative), int64(e.position)); err != nil {
			return err
		}
		last = e
	}
	if n := len(b) % indexEntrySize; n != 0 {
		return damagedIndex(name, int64(len(b)-n), "%d bytes behind the last entry", n)
	}
	return nil
}

// ReadTimeIndex calls f for every entry of a .timeindex file: timestamp is the
// largest so far, of the batch that ends with offset. Entries that do not rise are
// damage, a *CorruptError.
func ReadTimeIndex(fsys vfs.FS, name string, f func(timestamp, offset int64) error) error {
	b, base, err := indexBytes(fsys, name)
	if err != nil {
		return err
	}
	last := timeEntry{timestamp: -1}
	for at := 0; at+timeEntrySize <= len(b); at += timeEntrySize {
		e := timeEntryAt(b[at:])
		if e.timestamp <= last.timestamp || e.relative < last.relative {
			return damagedIndex(name, int64(at), "entry (timestamp %d, offset %d) follows (%d, %d)", e.timestamp, base+int64(e.relative), last.timestamp, base+int64(last.relative))
		}
		if err := f(e.timestamp, base+int64(e.relative)); err != nil {
			return err
		}
		last = e
	}
	if n := len(b) % timeEntrySize; n != 0 {
		return damagedIndex(name, int64(len(b)-n), "%d bytes behind the last entry", n)
	}
	return nil
}

// ReadLines returns the entries of one of Kafka's checkpoint files, split into
// fields.
func ReadLines(fsys vfs.FS, name string) ([][]string, error) {
	fields := 3
	if KindOf(name) == FileEpochs {
		fields = 2
	}
	b, err := readFile(fsys, name, 16<<20)
	if err != nil {
		return nil, err
	}
	lines, err := parseCheckpoint(b, fields)
	if err != nil {
		return nil, &CorruptError{Path: name, Position: -1, Offset: -1, End: -1, Reason: err.Error()}
	}
	return lines, nil
}

// A MetadataSnapshot is the content of the metadata snapshot file.
type MetadataSnapshot struct {
	Clean   bool // the folder was stopped in order
	Folder  [16]byte
	Replay  journal.Position // where replay begins
	Records [][]byte
}

// ReadMetadata reads the metadata snapshot of a data folder; ErrDamaged, ErrNewer.
func ReadMetadata(fsys vfs.FS, name string) (MetadataSnapshot, error) {
	s, err := readSnapshot(fsys, path.Dir(name))
	if err != nil {
		return MetadataSnapshot{}, err
	}
	return MetadataSnapshot{Clean: s.clean, Folder: s.folder, Replay: s.replay, Records: s.records}, nil
}

// A StoreRecord is a metadata record of the store's own kinds.
type StoreRecord struct {
	Kind       string // "log start", "start", "recovery point"
	Topic      TopicID
	Partition  int32
	Offset     int64 // log start, recovery point
	Base       int64 // recovery point: of the segment that holds it
	Position   int64 // recovery point: in that segment
	Epoch      int32 // start: leader epoch
	Durability Durability
	Version    string // start: of the program
}

// ParseStoreRecord decodes a metadata record of the store's own kinds. own is
// false for the kinds that Metadata keeps.
func ParseStoreRecord(b []byte) (r StoreRecord, own bool, err error) {
	if len(b) == 0 {
		return r, false, nil
	}
	switch b[0] {
	case kindLogStart:
		v, err := parseLogStart(b)
		return StoreRecord{Kind: "log start", Topic: v.id, Partition: v.partition, Offset: v.offset}, true, err
	case kindStart:
		v, err := parseStart(b)
		return StoreRecord{Kind: "start", Epoch: v.epoch, Durability: v.durability, Version: v.version}, true, err
	case kindRecoveryPoint:
		v, err := parseRecoveryPoint(b)
		return StoreRecord{Kind: "recovery point", Topic: v.id, Partition: v.partition, Offset: v.offset, Base: v.base, Position: v.position}, true, err
	}
	return r, false, nil
}

func (d Durability) String() string { return journal.Policy(d).String() }
