package log

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path"

	"github.com/kcoord/kcoord/log/journal"
	"github.com/kcoord/kcoord/log/vfs"
)

// The snapshot file (integers big-endian): "kcsnapsh", version i32 = 1, state i8
// (0 open, 1 clean), 3 zero bytes, folder id 16; where replay begins: file i64,
// position i64, expected sequence i64, prev u32; count i32, then count times
// (length i32, metadata record); CRC-32C u32 of all before. It is replaced as a
// whole, by rename: metadata, recovery points and the place where replay begins
// change together.
const (
	// Not *.snapshot: that is what Kafka calls files of producers' state, which may
	// be deleted at any time.
	snapshotName    = "kcoord.metadata"
	snapshotTmp     = snapshotName + ".tmp"
	snapshotMagic   = "kcsnapsh"
	snapshotVersion = 1
	snapshotHeader  = 8 + 4 + 1 + 3 + 16 + 8 + 8 + 8 + 4 + 4
	// maxSnapshotBytes bounds what is read: 5,000 partitions take 320 KB.
	maxSnapshotBytes = 1 << 30
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A snapshot is the content of the snapshot file.
type snapshot struct {
	clean   bool
	folder  [16]byte
	replay  journal.Position
	records [][]byte
}

func (s *snapshot) append(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, snapshotMagic...)
	dst = binary.BigEndian.AppendUint32(dst, snapshotVersion)
	state := byte(0)
	if s.clean {
		state = 1
	}
	dst = append(dst, state, 0, 0, 0)
	dst = append(dst, s.folder[:]...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(s.replay.File))
	dst = binary.BigEndian.AppendUint64(dst, uint64(s.replay.Offset))
	dst = binary.BigEndian.AppendUint64(dst, uint64(s.replay.Sequence))
	dst = binary.BigEndian.AppendUint32(dst, s.replay.Prev)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(s.records)))
	for _, r := range s.records {
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(r)))
		dst = append(dst, r...)
	}
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

// parseSnapshot reads a whole file. Records alias b. The error does not name the
// file.
func parseSnapshot(b []byte) (*snapshot, error) {
	if len(b) < snapshotHeader+4 || string(b[:8]) != snapshotMagic {
		return nil, fmt.Errorf("%w: not a snapshot (%d bytes)", ErrDamaged, len(b))
	}
	sum := binary.BigEndian.Uint32(b[len(b)-4:])
	if v := int32(binary.BigEndian.Uint32(b[8:])); v > snapshotVersion {
		return nil, fmt.Errorf("%w: snapshot version %d", ErrNewer, v)
	}
	if got := crc32.Checksum(b[:len(b)-4], castagnoli); got != sum {
		return nil, fmt.Errorf("%w: checksum %08x, computed %08x", ErrDamaged, sum, got)
	}
	s := &snapshot{folder: [16]byte(b[16:32])}
	switch b[12] {
	case 0:
	case 1:
		s.clean = true
	default:
		return nil, fmt.Errorf("%w: snapshot state %d", ErrNewer, b[12])
	}
	s.replay = journal.Position{
		File:     int64(binary.BigEndian.Uint64(b[32:])),
		Offset:   int64(binary.BigEndian.Uint64(b[40:])),
		Sequence: int64(binary.BigEndian.Uint64(b[48:])),
		Prev:     binary.BigEndian.Uint32(b[56:]),
	}
	if s.replay.File < 1 || s.replay.Offset < 0 || s.replay.Sequence < 1 {
		return nil, fmt.Errorf("%w: replay begins at %s", ErrDamaged, s.replay)
	}
	count := int(int32(binary.BigEndian.Uint32(b[60:])))
	rest := b[snapshotHeader : len(b)-4]
	if count < 0 || count > len(rest)/4 {
		return nil, fmt.Errorf("%w: %d records in %d bytes", ErrDamaged, count, len(rest))
	}
	s.records = make([][]byte, 0, count)
	for i := range count {
		if len(rest) < 4 {
			return nil, fmt.Errorf("%w: record %d of %d is cut short", ErrDamaged, i, count)
		}
		n := int64(int32(binary.BigEndian.Uint32(rest)))
		if n < 1 || n > int64(len(rest)-4) {
			return nil, fmt.Errorf("%w: record %d has %d bytes", ErrDamaged, i, n)
		}
		s.records = append(s.records, rest[4:4+n:4+n])
		rest = rest[4+n:]
	}
	if len(rest) != 0 {
		return nil, fmt.Errorf("%w: %d bytes behind the records", ErrDamaged, len(rest))
	}
	return s, nil
}

// readSnapshot reads the snapshot file of dir. The error satisfies
// fs.ErrNotExist, ErrDamaged or ErrNewer, or is the storage error.
func readSnapshot(fsys vfs.FS, dir string) (*snapshot, error) {
	name := path.Join(dir, snapshotName)
	b, err := readFile(fsys, name, maxSnapshotBytes)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		return nil, fmt.Errorf("log: reading the snapshot: %w", err)
	}
	s, err := parseSnapshot(b)
	if err != nil {
		return nil, fmt.Errorf("log: %s: %w", name, err)
	}
	return s, nil
}

// A commitError marks that a rename or the folder's sync behind it failed:
// nobody knows which of two states a crash would show, so the process must end.
type commitError struct{ err error }

func (e *commitError) Error() string { return e.err.Error() }
func (e *commitError) Unwrap() error { return e.err }

// writeSnapshot replaces the snapshot file durably. A *commitError must end the
// process; after any other error the old snapshot holds.
func (s *Store) writeSnapshot(sn *snapshot) error {
	if err := s.putSnapshot(sn); err != nil {
		return err
	}
	if err := syncDir(s.fs, s.o.Dir); err != nil {
		return &commitError{err}
	}
	return nil
}

// putSnapshot is writeSnapshot without the sync of the folder.
func (s *Store) putSnapshot(sn *snapshot) error {
	s.scratch = sn.append(s.scratch[:0])
	tmp := path.Join(s.o.Dir, snapshotTmp)
	if err := writeFileSync(s.fs, tmp, s.scratch); err != nil {
		return err
	}
	if err := s.fs.Rename(tmp, path.Join(s.o.Dir, snapshotName)); err != nil {
		return &commitError{err}
	}
	return nil
}
