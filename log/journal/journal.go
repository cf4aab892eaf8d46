package journal

import (
	"errors"
	"sync"
	"time"

	"github.com/kcoord/kcoord/log/vfs"
)

// Options are what a journal needs to know. FS, Dir and Folder are required.
type Options struct {
	FS     vfs.FS
	Dir    string // the data folder
	Folder FolderID
	Policy Policy

	FileBytes      int64 // size of a file; 0: DefaultFileBytes
	MaxEntryBytes  int   // largest entry; 0: the package's MaxEntryBytes
	ZeroStep       int   // bytes zeroed per step; 0: DefaultZeroStep, < 0: never
	MaxSpares      int   // prepared files kept at most; 0: DefaultMaxSpares
	MaxJoinedBytes int   // largest item joined from pieces; 0: DefaultMaxJoinedBytes

	// OnWant, if set, is called by Append when the preparer has something to do.
	// It is called with no lock held and must not block.
	OnWant func()
}

// Journal is the open journal of one data folder.
type Journal struct {
	o  Options
	mu sync.Mutex
}

// Create makes the first file of a journal at (File, HeaderBytes): of a new
// folder (First), or of one that was stopped cleanly (its snapshot's position).
// No journal file may exist; see RemoveFiles. The file's name is durable when
// Create returns.
func Create(o Options, at Position) (*Journal, error) { return nil, errors.ErrUnsupported }

// Open opens the journal of a folder whose snapshot says that replay begins at
// at. It makes the folder's names durable, removes what is below the snapshot or
// half prepared, and checks that all other files are there and belong to the
// folder (*CorruptionError). Scan must be called next.
func Open(o Options, at Position) (*Journal, error) { return nil, errors.ErrUnsupported }

// RemoveFiles unlinks every journal file in a folder: what a clean stop leaves.
// The caller makes that durable.
func RemoveFiles(fs vfs.FS, dir string) error { return errors.ErrUnsupported }

// Item is an item as Scan and Replay hand it out, pieces joined. Data is valid
// during the call only.
type Item struct {
	Kind      Kind
	Topic     TopicID
	Partition int32
	Data      []byte
	Entry     Position  // of the entry that holds it (its last piece)
	EntryKind EntryKind // Start: the start record
}

// Visit is called for every item in order. An error ends the walk and is
// returned as it is.
type Visit func(it *Item) error

// Tail is where and how a journal ends.
type Tail struct {
	Next    Position // where the next entry goes
	Entries int64    // entries read
	Items   int64    // items read, joined ones counted once
	Synced  Position // the newest entry with the flag "everything before is synced"; where RewriteTail begins
	Torn    []byte   // bytes of a torn entry at Next, to be saved aside; nil: none
	Lost    int64    // valid entries behind the end, never acknowledged as durable (not PolicySync); then StartOver must be called
	Highest int64    // highest sequence among them
}

// Scan reads all entries from the snapshot's position on, calls visit (which
// may be nil) for every item, and decides where the journal ends. An item that
// never ended is not visited.
func (j *Journal) Scan(visit Visit) (Tail, error) { return Tail{}, errors.ErrUnsupported }

// Replay walks again over exactly the entries that Scan accepted.
func (j *Journal) Replay(visit Visit) error { return errors.ErrUnsupported }

// RewriteTail writes the entries that may be in the page cache only once more
// in place, the same bytes, and syncs them. Nothing that Scan read may be
// acted upon visibly before.
func (j *Journal) RewriteTail() error { return errors.ErrUnsupported }

// StartOver goes on in a new file with a sequence above all that were lost
// (Tail.Lost). The caller writes a snapshot with Next before it appends.
func (j *Journal) StartOver() error { return errors.ErrUnsupported }

// AppendStart writes and syncs a start entry that holds one metadata record.
func (j *Journal) AppendStart(record []byte) error { return errors.ErrUnsupported }

// Append writes the round's entries, each with one write, and with PolicySync
// one fdatasync. ErrNoSpace: nothing was written, and it may be tried again. Any
// other error is final (ErrFailed). An empty round writes nothing. The round
// stays as it is.
func (j *Journal) Append(r *Round) error { return errors.ErrUnsupported }

// Sync makes everything appended durable (PolicyInterval, PolicyOS; with
// PolicySync there is nothing to do). An error is final.
func (j *Journal) Sync() error { return errors.ErrUnsupported }

// Next is where the next entry goes: taken between two rounds, where replay
// begins for a snapshot that covers everything so far.
func (j *Journal) Next() Position { return Position{} }

// AfterClean is the position for the snapshot of a clean stop: all files are
// to be removed and the next start calls Create with it.
func (j *Journal) AfterClean() Position { return Position{} }

// Space is what admission looks at.
type Space struct {
	// Room is how many bytes of rounds (Round.Bytes) certainly fit into prepared
	// files, however they are cut into entries.
	Room int64
	// Used is how many bytes of files lie between where replay begins and where
	// the next entry goes.
	Used int64
	// PrepareErr is why the last attempt to prepare a file failed; nil when it
	// succeeded.
	PrepareErr error
	// Spares is the number of prepared files behind the active one; Files the
	// number of all files.
	Spares, Files int
}

// Space returns the present figures.
func (j *Journal) Space() Space { return Space{} }

// Recycle tells that a durable snapshot begins at at: the files below are free to
// be used again or removed. The caller has synced the folder after renaming the
// snapshot.
func (j *Journal) Recycle(at Position) {}

// PrepareStep does at most one piece of the preparer's work: prepare, recycle or
// remove a file, or zero one step ahead. next says when to call again: 0 at
// once, > 0 after that time, < 0 when OnWant was called or Recycle done. mono is
// the monotonic clock, from which the rate of writing is computed. An error is
// not final: it is kept in Space, and next says when to try again.
func (j *Journal) PrepareStep(mono time.Duration) (next time.Duration, err error) {
	return -1, errors.ErrUnsupported
}

// Close closes the files without any sync.
func (j *Journal) Close() error { return errors.ErrUnsupported }
