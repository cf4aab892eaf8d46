package journal

import (
	"encoding/binary"
	"fmt"
	"path"

	"github.com/kcoord/kcoord/log/vfs"
)

// A FileEntry is an entry of a journal file as InspectFile shows it.
type FileEntry struct {
	At     Position
	Length int
	CRC    uint32
	Kind   EntryKind
	Synced bool // everything before it had been synced when it was written
	// Pieces are its items or parts of items; their data is valid during the call.
	Pieces []Piece
}

// Ending says what stands behind the last entry of a journal file.
type Ending uint8

const (
	// EndsFull: no entry fits any more.
	EndsFull Ending = iota
	// EndsInZeros: nothing was written there.
	EndsInZeros
	// EndsStale: an entry of an earlier life of the file.
	EndsStale
	// EndsTorn: bytes that are no entry, with nothing valid behind them. A start
	// puts them aside and overwrites them; nobody was answered for them.
	EndsTorn
)

func (e Ending) String() string {
	switch e {
	case EndsFull:
		return "full"
	case EndsInZeros:
		return "zeros"
	case EndsStale:
		return "older entries"
	case EndsTorn:
		return "a torn entry"
	}
	return fmt.Sprintf("ending %d", uint8(e))
}

// A FileSummary is what InspectFile found.
type FileSummary struct {
	Number  int64
	Size    int64
	Folder  FolderID
	Entries int64
	Next    Position // behind the last entry
	Ending  Ending
}

// InspectFile calls visit for every entry of one journal file, for tools that show
// it. With expect, the entry that continues what was read before, a file that does
// not begin with it has no entries in use. It changes nothing and the file may be
// in use: then its last entry may look torn. A *CorruptionError says where the file
// is damaged, after the entries before that were visited.
func InspectFile(fsys vfs.FS, name string, expect *Position, visit func(e *FileEntry) error) (FileSummary, error) {
	var sum FileSummary
	f, err := fsys.Open(name, vfs.ReadOnly)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	if sum.Size, err = f.Size(); err != nil {
		return sum, err
	}
	number, ok := ParseFileName(path.Base(name))
	if !ok {
		return sum, fmt.Errorf("journal: %s is no journal file's name", name)
	}
	sum.Number = number
	s, err := inspection(f, name, number, sum.Size)
	if err != nil {
		return sum, err
	}
	sum.Folder = s.j.o.Folder
	if expect != nil {
		s.at = Position{File: number, Offset: HeaderBytes, Sequence: expect.Sequence, Prev: expect.Prev}
	}
	err = s.inspect(expect != nil, visit)
	sum.Entries, sum.Next = s.tail.Entries, s.at
	if err == nil {
		sum.Ending, err = s.ending()
	}
	return sum, err
}

// inspection is a walk over one file whose header says to which folder it belongs.
func inspection(f vfs.File, name string, number, size int64) (*walk, error) {
	head := make([]byte, min(size, headerSealed))
	if _, err := f.ReadAt(head, 0); err != nil {
		return nil, fmt.Errorf("journal: reading %s: %w", name, err)
	}
	fl := &file{number: number, path: name, f: f}
	s := &walk{fl: fl, at: Position{File: number, Offset: HeaderBytes}}
	var folder FolderID
	if len(head) == headerSealed {
		folder = FolderID(head[16:32])
	}
	if fault := checkHeader(head, folder, number, size); fault != nil {
		return nil, &CorruptionError{
			Reason: fault.reason, Path: name, Found: fault.found,
			Expected: fmt.Sprintf("the header of file %d", number),
		}
	}
	o := Options{Folder: folder, FileBytes: size, MaxEntryBytes: MaxEntryBytes}
	s.j = &Journal{o: o, salt: saltOf(folder)}
	s.j.mu.files = []*file{fl}
	s.w = s.j.window(fl)
	return s, nil
}

// inspect visits the entries that follow each other from the file's beginning.
func (s *walk) inspect(expected bool, visit func(e *FileEntry) error) error {
	for {
		e, err := s.j.entryAt(s.w, s.at.Offset)
		if err != nil || e == nil {
			return err
		}
		switch {
		case !expected: // any sequence may be the first
			s.at.Sequence, s.at.Prev, expected = e.sequence, e.prev, true
		case e.sequence < s.at.Sequence:
			return nil
		case e.sequence > s.at.Sequence || e.prev != s.at.Prev:
			return s.corrupt(s.fl, s.at.Offset, fmt.Sprintf("entry %d after crc %08x", e.sequence, e.prev),
				fmt.Sprintf("entry %d after crc %08x", s.at.Sequence, s.at.Prev), nil)
		}
		count := int64(int32(binary.BigEndian.Uint32(e.raw[28:])))
		if err := s.checkItems(e, count); err != nil {
			return err
		}
		shown := &FileEntry{At: s.at, Length: len(e.raw), CRC: e.crc, Kind: e.kind, Synced: e.synced, Pieces: piecesOf(e.raw, int(count))}
		if err := visit(shown); err != nil {
			return err
		}
		s.tail.Entries++
		s.at.Offset += int64(len(e.raw))
		s.at.Sequence++
		s.at.Prev = e.crc
	}
}

// ending says what stands at s.at, where no entry of the chain does.
func (s *walk) ending() (Ending, error) {
	if s.at.Offset+minEntry > s.j.o.FileBytes {
		return EndsFull, nil
	}
	var here found
	behind, what, err := s.j.search(s.fl, s.at.Offset, max(s.at.Sequence, 1), &here)
	if err != nil {
		return 0, err
	}
	if behind != nil && s.tail.Entries+s.at.Sequence > 0 {
		return EndsTorn, s.corrupt(s.fl, s.at.Offset, what, fmt.Sprintf("entry %d", s.at.Sequence), behind)
	}
	torn, err := s.torn(s.fl, s.at.Offset, here.stale)
	if err != nil {
		return 0, err
	}
	switch {
	case torn != nil:
		return EndsTorn, nil
	case here.stale:
		return EndsStale, nil
	}
	return EndsInZeros, nil
}

// piecesOf splits the items of an entry that was checked.
func piecesOf(raw []byte, count int) []Piece {
	b := raw[entryHead:]
	pieces := make([]Piece, 0, count)
	for range count {
		n := int(binary.BigEndian.Uint32(b[4:]))
		pieces = append(pieces, pieceAt(b, n))
		b = b[itemHead+n:]
	}
	return pieces
}

// pieceAt is the piece that begins at b and has n bytes of data.
func pieceAt(b []byte, n int) Piece {
	return Piece{
		Kind: Kind(b[0]), Continued: b[1]&flagContinue != 0, GoesOn: b[1]&flagGoesOn != 0,
		Topic: TopicID(b[8:24]), Partition: int32(binary.BigEndian.Uint32(b[24:])),
		Data: b[itemHead : itemHead+n : itemHead+n],
	}
}
