package journal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

const (
	// Version is the format version that this package writes and reads.
	Version = 1
	// HeaderBytes is the size of a file's header; the first entry stands there.
	HeaderBytes = 4096
	// DefaultFileBytes is the size of a journal file.
	DefaultFileBytes = 16 << 20
	// MaxEntryBytes is the largest entry. An entry is also the longest time for
	// which the flusher can hold up whoever comes next.
	MaxEntryBytes = 4 << 20
	// DefaultZeroStep is how much PrepareStep zeroes at a time: small steps,
	// each synced, disturb commits least.
	DefaultZeroStep = 256 << 10
	// DefaultMaxSpares is the largest number of prepared files kept waiting.
	DefaultMaxSpares = 8
	// DefaultMaxJoinedBytes bounds an item that is put together from the pieces
	// of several entries. It is above any socket.request.max.bytes in use.
	DefaultMaxJoinedBytes = 256 << 20

	entryHead    = 32 // bytes before the first item of an entry
	itemHead     = 28 // bytes before an item's data
	minEntry     = 40
	minBatch     = 61 // a batch's first piece holds at least its header
	entryMagic   = "KCJE"
	headerMagic  = "kcjournl"
	headerSealed = 64 // header bytes that carry meaning
	flagSynced   = 1  // entry: everything before had been synced
	flagContinue = 1  // item: continues the last item of the entry before
	flagGoesOn   = 2  // item: goes on in the next entry
	filePrefix   = "kcoord-journal-"
	fileSuffix   = ".wal"
)

// FolderID is the data folder's id, the salt of every entry.
type FolderID [16]byte

// TopicID is the id of the topic that a batch belongs to.
type TopicID [16]byte

// Kind says what an item is.
type Kind int8

const (
	// Batch is a Kafka record batch (magic 2), offset and leader epoch stamped.
	Batch Kind = 1
	// Metadata is one metadata record; its first byte is the record's kind.
	Metadata Kind = 2
)

// EntryKind says what an entry is.
type EntryKind int8

const (
	// Items is an ordinary entry.
	Items EntryKind = 1
	// Start is the first entry after each start of the broker; what was
	// unfinished before it is void.
	Start EntryKind = 2
)

// Policy is when an entry is synced (kcoord.durability).
type Policy uint8

const (
	// PolicySync: Append returns when the entry is on disk.
	PolicySync Policy = iota
	// PolicyInterval: Append returns when the entry is in the page cache; the
	// caller calls Sync from time to time.
	PolicyInterval
	// PolicyOS: as PolicyInterval, but the caller syncs at checkpoints only.
	PolicyOS
)

func (p Policy) String() string {
	switch p {
	case PolicySync:
		return "sync"
	case PolicyInterval:
		return "interval"
	case PolicyOS:
		return "os"
	}
	return "policy " + strconv.Itoa(int(p))
}

// Position is where an entry is expected: its place and what must stand there.
// A snapshot holds one (where replay begins).
type Position struct {
	File     int64  // number of the journal file, from 1
	Offset   int64  // byte offset in it
	Sequence int64  // sequence of the entry there, from 1
	Prev     uint32 // crc of the entry before it, 0 for sequence 1
}

// First is the position of a new folder's first entry.
func First() Position { return Position{File: 1, Offset: HeaderBytes, Sequence: 1} }

func (p Position) String() string {
	return fmt.Sprintf("sequence %d at %d of file %d", p.Sequence, p.Offset, p.File)
}

// castagnoli is the polynomial of every checksum of the journal.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// FileName is the name of journal file n.
func FileName(n int64) string { return fmt.Sprintf("%s%08d%s", filePrefix, n, fileSuffix) }

// ParseFileName returns the number in a journal file's name. Only the one
// spelling that FileName uses is taken, so that no two names mean one number.
func ParseFileName(name string) (n int64, ok bool) {
	s, ok := strings.CutPrefix(name, filePrefix)
	if !ok {
		return 0, false
	}
	if s, ok = strings.CutSuffix(s, fileSuffix); !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 || FileName(n) != name {
		return 0, false
	}
	return n, true
}

// appendHeader appends the header of file n, HeaderBytes long.
func appendHeader(dst []byte, folder FolderID, n, size int64) []byte {
	at := len(dst)
	dst = append(dst, headerMagic...)
	dst = binary.BigEndian.AppendUint32(dst, Version)
	dst = binary.BigEndian.AppendUint32(dst, 0)
	dst = append(dst, folder[:]...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(n))
	dst = binary.BigEndian.AppendUint64(dst, uint64(size))
	dst = append(dst, make([]byte, 12)...)
	dst = binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[at:], castagnoli))
	return append(dst, make([]byte, HeaderBytes-headerSealed)...)
}

// headerFault says what is wrong with a header; the zero value means nothing.
type headerFault struct {
	reason Reason
	found  string
}

// checkHeader compares the first headerSealed bytes of a file with what file n
// of the folder must have.
func checkHeader(b []byte, folder FolderID, n, size int64) *headerFault {
	if len(b) < headerSealed {
		return &headerFault{Damaged, fmt.Sprintf("a header of %d bytes", len(b))}
	}
	if string(b[:8]) != headerMagic {
		return &headerFault{Damaged, fmt.Sprintf("magic %x", b[:8])}
	}
	if v := int32(binary.BigEndian.Uint32(b[8:])); v > Version {
		return &headerFault{Newer, fmt.Sprintf("format version %d", v)}
	}
	if crc32.Checksum(b[:60], castagnoli) != binary.BigEndian.Uint32(b[60:]) {
		return &headerFault{Damaged, "a header whose checksum is wrong"}
	}
	if v := int32(binary.BigEndian.Uint32(b[8:])); v != Version {
		return &headerFault{Damaged, fmt.Sprintf("format version %d", v)}
	}
	if FolderID(b[16:32]) != folder {
		return &headerFault{Foreign, fmt.Sprintf("folder id %x", b[16:32])}
	}
	if got := int64(binary.BigEndian.Uint64(b[32:])); got != n {
		return &headerFault{Damaged, fmt.Sprintf("file number %d", got)}
	}
	if got := int64(binary.BigEndian.Uint64(b[40:])); got != size {
		return &headerFault{Damaged, fmt.Sprintf("file size %d", got)}
	}
	return nil
}

// align8 rounds up to the next multiple of 8.
func align8(n int) int { return (n + 7) &^ 7 }
