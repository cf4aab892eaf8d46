package journal

import (
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"sync"

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

	// Parallel, if set, calls f for 0 to n-1, several at a time, and returns when
	// all calls have.
	Parallel func(n int, f func(i int))
	// MayMake, if set, is asked before the preparer makes a file: false keeps the space
	// for what has to be written, and counts as a failed attempt. What an Append needs
	// is made all the same.
	MayMake func() bool
	// OnWant, if set, is called by Append when the preparer has something to do.
	// It is called with no lock held and must not block.
	OnWant func()
}

// check fills in defaults and panics on sizes that cannot work.
func (o Options) check() Options {
	if o.FileBytes == 0 {
		o.FileBytes = DefaultFileBytes
	}
	if o.MaxEntryBytes == 0 {
		o.MaxEntryBytes = MaxEntryBytes
	}
	if o.ZeroStep == 0 {
		o.ZeroStep = DefaultZeroStep
	}
	if o.MaxSpares == 0 {
		o.MaxSpares = DefaultMaxSpares
	}
	if o.MaxJoinedBytes == 0 {
		o.MaxJoinedBytes = DefaultMaxJoinedBytes
	}
	if o.FileBytes%HeaderBytes != 0 || o.FileBytes < HeaderBytes+int64(o.MaxEntryBytes) {
		panic(fmt.Sprintf("journal: files of %d bytes, entries of %d", o.FileBytes, o.MaxEntryBytes))
	}
	return o
}

// file is an open journal file.
type file struct {
	number int64
	path   string
	f      vfs.File
	// zeroed is how far the file needs no zeroing any more.
	zeroed int64
}

// Journal is the open journal of one data folder.
//
// Lock order: prep or zero, then mu. prep is held while a file is made, recycled,
// removed, or synced behind the flusher's back; zero while a step is zeroed. mu is
// never held across I/O.
type Journal struct {
	o    Options
	salt uint32
	dir  vfs.File

	prep  sync.Mutex
	zero  sync.Mutex
	zeros []byte // what a zero step writes; guarded by zero

	mu struct {
		sync.Mutex
		// files are in use or spare. Invariant: numbers ascend without gaps, the
		// first is where replay begins or lower, next.File is among them.
		files []*file
		// free lie below where replay begins: to be recycled or removed.
		free   []*file
		next   Position // where the next entry goes; changed by the flusher only
		replay Position // where replay begins
		// syncedTo: every entry with a lower sequence is synced.
		syncedTo int64
		// dirtyFrom is the lowest file number that may hold unsynced entries.
		dirtyFrom int64
		// claimed is the end of what the flusher is about to write, or has
		// written, in file next.File. Nothing below is ever zeroed.
		claimed claim
		// zeroing is what a zero step is writing now; to 0: nothing.
		zeroing    zeroRange
		prepareErr error
		failed     error
		asleep     bool // the preparer waits for OnWant
	}

	// written counts entry bytes for the preparer's rate; guarded by mu.
	written int64
	rate    rateWindow // owner: the preparer

	below []int64 // files that Open found below where replay begins; for Tidy
	tail  Tail    // of Scan
	start *Round
}

type claim struct{ file, end int64 }

type zeroRange struct{ file, from, to int64 }

// Create makes the first file of a journal at (File, HeaderBytes): of a new
// folder (First), or of one that was stopped cleanly (its snapshot's position).
// No journal file may exist; see RemoveFiles. The file's name is durable when
// Create returns.
func Create(o Options, at Position) (*Journal, error) {
	if at.File < 1 || at.Offset != HeaderBytes || at.Sequence < 1 {
		return nil, fmt.Errorf("journal: cannot begin at %v", at)
	}
	j, numbers, err := newJournal(o, at)
	if err != nil {
		return nil, err
	}
	if len(numbers) > 0 {
		j.Close()
		return nil, fmt.Errorf("journal: %s holds %s already", o.Dir, FileName(numbers[0]))
	}
	j.prep.Lock()
	defer j.prep.Unlock()
	if err := j.prepare(at.File); err != nil {
		j.Close()
		return nil, err
	}
	return j, nil
}

// newJournal returns a journal without files, and the numbers of those that are
// in the folder, ascending.
func newJournal(o Options, at Position) (*Journal, []int64, error) {
	o = o.check()
	j := &Journal{o: o, salt: saltOf(o.Folder), start: NewRound(o.MaxEntryBytes)}
	j.start.start = true
	j.mu.next, j.mu.replay = at, at
	j.mu.syncedTo, j.mu.dirtyFrom = at.Sequence, at.File
	j.mu.claimed = claim{at.File, at.Offset}
	numbers, err := fileNumbers(o.FS, o.Dir)
	if err != nil {
		return nil, nil, err
	}
	if j.dir, err = o.FS.OpenDir(o.Dir); err != nil {
		return nil, nil, err
	}
	return j, numbers, nil
}

// fileNumbers lists the journal files of a folder, ascending.
func fileNumbers(fs vfs.FS, dir string) ([]int64, error) {
	names, err := fs.List(dir)
	if err != nil {
		return nil, err
	}
	var numbers []int64
	for _, name := range names {
		if n, ok := ParseFileName(name); ok {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers) // names of more than eight digits sort otherwise
	return numbers, nil
}

// Open opens the journal of a folder whose snapshot says that replay begins at
// at. It removes a file that is half prepared, and checks that all other files are
// there and belong to the folder (*CorruptionError). Scan and Tidy must be called
// next, before anything else; they may run side by side.
func Open(o Options, at Position) (*Journal, error) {
	j, numbers, err := newJournal(o, at)
	if err != nil {
		return nil, err
	}
	if err := j.open(numbers, at); err != nil {
		j.Close()
		return nil, err
	}
	return j, nil
}

func (j *Journal) open(numbers []int64, at Position) error {
	if at.File < 1 || at.Offset < HeaderBytes || at.Offset > j.o.FileBytes || at.Offset%8 != 0 || at.Sequence < 1 {
		return fmt.Errorf("journal: replay cannot begin at %v", at)
	}
	want := at.File
	for _, n := range numbers {
		if n < at.File {
			j.below = append(j.below, n)
			continue
		}
		if n != want {
			return j.missing(want, fmt.Sprintf("file %d exists", n))
		}
		want++
		if err := j.openFile(n, n > at.File && n == numbers[len(numbers)-1]); err != nil {
			return err
		}
	}
	if want == at.File {
		return j.missing(want, "the snapshot begins there")
	}
	return nil
}

// Tidy makes the folder's names durable, that of the snapshot above all, and then
// removes the files below it.
func (j *Journal) Tidy() error {
	if err := j.dir.Sync(); err != nil {
		return err
	}
	for _, n := range j.below {
		if err := j.o.FS.Remove(j.path(n)); err != nil {
			return err
		}
	}
	j.below = nil
	return nil
}

func (j *Journal) missing(n int64, why string) error {
	return &CorruptionError{
		Reason: Missing, Path: j.path(n), Found: "no such file", Expected: "a journal file: " + why,
		Sequence: j.mu.replay.Sequence,
	}
}

// openFile opens file n and checks its header. The newest file may be what a
// crash left of preparing it: without a valid header and entry it is removed.
func (j *Journal) openFile(n int64, newest bool) error {
	f, err := j.o.FS.Open(j.path(n), vfs.ReadWrite)
	if err != nil {
		return err
	}
	fl := &file{number: n, path: j.path(n), f: f, zeroed: HeaderBytes}
	fault, err := j.headerFault(fl)
	if err == nil && fault != nil {
		err = &CorruptionError{
			Reason: fault.reason, Path: fl.path, Found: fault.found,
			Expected: fmt.Sprintf("the header of file %d", n), Sequence: j.mu.replay.Sequence,
		}
		if newest && fault.reason == Damaged {
			var behind *Place
			if behind, _, err = j.search(fl, HeaderBytes, j.mu.replay.Sequence, nil); err == nil && behind == nil {
				f.Close()
				return j.o.FS.Remove(fl.path)
			} else if err == nil {
				err = &CorruptionError{
					Reason: Damaged, Path: fl.path, Found: fault.found, Behind: behind,
					Expected: fmt.Sprintf("the header of file %d", n), Sequence: behind.Sequence,
				}
			}
		}
	}
	if err != nil {
		f.Close()
		return err
	}
	j.mu.files = append(j.mu.files, fl)
	return nil
}

func (j *Journal) headerFault(fl *file) (*headerFault, error) {
	size, err := fl.f.Size()
	if err != nil {
		return nil, err
	}
	var head [headerSealed]byte
	n, err := fl.f.ReadAt(head[:], 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	fault := checkHeader(head[:n], j.o.Folder, fl.number, j.o.FileBytes)
	if fault == nil && size != j.o.FileBytes {
		fault = &headerFault{Damaged, fmt.Sprintf("a file of %d bytes", size)}
	}
	return fault, nil
}

func (j *Journal) path(n int64) string { return path.Join(j.o.Dir, FileName(n)) }

// RemoveFiles unlinks every journal file in a folder: what a clean stop leaves.
// The caller makes that durable.
func RemoveFiles(fs vfs.FS, dir string) error {
	numbers, err := fileNumbers(fs, dir)
	if err != nil {
		return err
	}
	for _, n := range numbers {
		if err := fs.Remove(path.Join(dir, FileName(n))); err != nil {
			return err
		}
	}
	return nil
}

// byNumber returns an open file; mu is held.
func (j *Journal) byNumber(n int64) *file {
	if len(j.mu.files) == 0 {
		return nil
	}
	if i := n - j.mu.files[0].number; i >= 0 && i < int64(len(j.mu.files)) {
		return j.mu.files[i]
	}
	return nil
}

// top is the highest file number; mu is held.
func (j *Journal) top() int64 { return j.mu.files[len(j.mu.files)-1].number }

// Next is where the next entry goes: taken between two rounds, where replay
// begins for a snapshot that covers everything so far.
func (j *Journal) Next() Position {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.mu.next
}

// AfterClean is the position for the snapshot of a clean stop: all files are
// to be removed and the next start calls Create with it.
func (j *Journal) AfterClean() Position {
	j.mu.Lock()
	defer j.mu.Unlock()
	return Position{File: j.top() + 1, Offset: HeaderBytes, Sequence: j.mu.next.Sequence, Prev: j.mu.next.Prev}
}

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
func (j *Journal) Space() Space {
	j.mu.Lock()
	defer j.mu.Unlock()
	spares := j.top() - j.mu.next.File
	// An entry that does not fit leaves less than its own size at a file's end.
	usable := func(n int64) int64 { return max(0, n-int64(j.o.MaxEntryBytes)) }
	return Space{
		Room:       usable(j.o.FileBytes-j.mu.next.Offset) + spares*usable(j.o.FileBytes-HeaderBytes),
		Used:       (j.mu.next.File-j.mu.replay.File)*j.o.FileBytes + j.mu.next.Offset - j.mu.replay.Offset,
		PrepareErr: j.mu.prepareErr,
		Spares:     int(spares),
		Files:      len(j.mu.files) + len(j.mu.free),
	}
}

// Close closes the files without any sync. No step may be running.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	var errs []error
	for _, fl := range slices.Concat(j.mu.files, j.mu.free) {
		errs = append(errs, fl.f.Close())
	}
	j.mu.files, j.mu.free = nil, nil
	if j.dir != nil {
		errs = append(errs, j.dir.Close())
		j.dir = nil
	}
	return errors.Join(errs...)
}
