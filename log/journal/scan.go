package journal

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/kcoord/kcoord/log/vfs"
)

// Item is an item as Scan and Replay hand it out, pieces joined. Data is valid
// during the call only, unless Kept says that it stays.
type Item struct {
	Kind      Kind
	Topic     TopicID
	Partition int32
	Data      []byte
	Entry     Position  // of the entry that holds it (its last piece)
	EntryKind EntryKind // Start: the start record
	// Kept: Data lies in memory that is not used again.
	Kept bool
	// Joined: the item began in an earlier entry.
	Joined bool
}

// Visit is called for every item in order. An error ends the walk and is
// returned as it is.
type Visit func(it *Item) error

// Tail is where and how a journal ends.
type Tail struct {
	Next    Position // where the next entry goes
	Entries int64    // entries read
	Items   int64    // items read, joined ones counted once
	Synced  Position // the newest entry that says everything before it is synced; RewriteTail begins there
	// Torn are the bytes of a torn entry, found at TornAt, to be saved aside;
	// nil: none.
	Torn   []byte
	TornAt Place
	// Lost counts valid entries behind the end. They were written without a sync
	// (not PolicySync), nobody was promised them, and StartOver must be called.
	Lost    int64
	Highest int64 // highest sequence among them
}

// window reads a file through a buffer that holds whole entries.
type window struct {
	f    vfs.File
	size int64
	off  int64
	buf  []byte
	// ahead, if set, has chunks of the file fl that stay; kept says that buf is one.
	ahead *ahead
	fl    *file
	kept  bool
}

const windowBytes = 256 << 10

// fill reads at least n bytes at off, if the file has them, into a buffer.
func (w *window) fill(off int64, n int) error {
	buf, at, ok, err := w.ahead.bytes(w.fl, off, n)
	if ok || err != nil {
		w.buf, w.off, w.kept = buf, at, true
		return err
	}
	if w.kept {
		w.buf, w.kept = nil, false
	}
	want := int(min(int64(max(n, windowBytes)), max(0, w.size-off)))
	w.buf, w.off = slices.Grow(w.buf[:0], want)[:want], off
	got, err := w.f.ReadAt(w.buf, off)
	w.buf = w.buf[:got]
	if err == io.EOF {
		err = nil
	}
	return err
}

// bytes returns n bytes at off, fewer at the end of the file. The slice is valid
// until the next call.
func (w *window) bytes(off int64, n int) ([]byte, error) {
	n = int(min(int64(n), max(0, w.size-off)))
	if off >= w.off && off+int64(n) <= w.off+int64(len(w.buf)) {
		return w.buf[off-w.off : off-w.off+int64(n)], nil
	}
	if err := w.fill(off, n); err != nil {
		w.buf = nil
		return nil, err
	}
	from := min(off-w.off, int64(len(w.buf)))
	return w.buf[from:min(from+int64(n), int64(len(w.buf)))], nil
}

// rest returns what is buffered from off on, or reads more; nothing at the end
// of the file.
func (w *window) rest(off int64) ([]byte, error) {
	if off >= w.off && off < w.off+int64(len(w.buf)) {
		return w.buf[off-w.off:], nil
	}
	return w.bytes(off, windowBytes)
}

func (j *Journal) window(fl *file) *window {
	return &window{f: fl.f, fl: fl, size: j.o.FileBytes}
}

// entry is a valid entry in a window's buffer.
type entry struct {
	raw      []byte
	sequence int64
	prev     uint32
	crc      uint32
	kind     EntryKind
	synced   bool
}

// plausible reports the length of an entry whose first bytes are head and which
// has at most room bytes; it does not look at the checksum.
func (j *Journal) plausible(head []byte, room int64) (length int, ok bool) {
	if len(head) < entryHead || string(head[:4]) != entryMagic {
		return 0, false
	}
	n := int64(int32(binary.BigEndian.Uint32(head[4:])))
	if n < minEntry || n%8 != 0 || n > int64(j.o.MaxEntryBytes) || n > room {
		return 0, false
	}
	return int(n), true
}

// entryAt returns the entry at off, nil if none that is valid stands there.
func (j *Journal) entryAt(w *window, off int64) (*entry, error) {
	head, err := w.bytes(off, entryHead)
	if err != nil {
		return nil, err
	}
	n, ok := j.plausible(head, w.size-off)
	if !ok {
		return nil, nil
	}
	raw, err := w.bytes(off, n)
	if err != nil || len(raw) < n {
		return nil, err
	}
	crc := binary.BigEndian.Uint32(raw[20:])
	if entryCRC(j.salt, raw) != crc {
		return nil, nil
	}
	return &entry{
		raw: raw, crc: crc,
		sequence: int64(binary.BigEndian.Uint64(raw[8:])),
		prev:     binary.BigEndian.Uint32(raw[16:]),
		kind:     EntryKind(raw[24]),
		synced:   raw[25]&flagSynced != 0,
	}, nil
}

// walk is one pass over the chain of entries.
type walk struct {
	j    *Journal
	at   Position // the entry expected next
	fl   *file
	w    *window
	visi Visit
	join joiner
	tail Tail
}

func (j *Journal) newWalk(from Position, visit Visit) *walk {
	fl := j.byNumber(from.File)
	return &walk{j: j, at: from, fl: fl, w: j.window(fl), visi: visit, tail: Tail{Synced: from}}
}

// next returns the entry that continues the chain, here or at the beginning of
// the next file; nil: there is none.
func (s *walk) next() (*entry, error) {
	e, err := s.j.entryAt(s.w, s.at.Offset)
	if err != nil || e != nil && e.sequence == s.at.Sequence && e.prev == s.at.Prev {
		return e, err
	}
	fl := s.j.byNumber(s.at.File + 1)
	if fl == nil {
		return nil, nil
	}
	w := s.j.window(fl)
	w.ahead = s.w.ahead
	if e, err = s.j.entryAt(w, HeaderBytes); err != nil || e == nil || e.sequence != s.at.Sequence || e.prev != s.at.Prev {
		return nil, err
	}
	s.fl, s.w = fl, w
	s.at.File, s.at.Offset = fl.number, HeaderBytes
	return e, nil
}

// take hands out an entry's items and moves on.
func (s *walk) take(e *entry) error {
	if e.synced {
		s.tail.Synced = s.at
	}
	if err := s.items(e); err != nil {
		return err
	}
	s.tail.Entries++
	s.at.Offset += int64(len(e.raw))
	s.at.Sequence++
	s.at.Prev = e.crc
	return nil
}

// Scan reads all entries from the snapshot's position on, calls visit (which
// may be nil) for every item, and decides where the journal ends. An item that
// never ended is not visited. About the first keep bytes are read into memory
// that stays (Item.Kept), so that a second reading is not needed. Scan changes
// nothing.
func (j *Journal) Scan(keep int, visit Visit) (Tail, error) {
	s := j.newWalk(j.mu.replay, visit)
	a := j.newAhead(keep)
	s.w.ahead = a
	var err error
	each(j.o.Parallel, 1+helpers, func(i int) {
		if i < helpers && j.o.Parallel != nil {
			a.help()
		} else if i == helpers {
			err = s.all()
			a.stop.Store(true)
		}
	})
	if err != nil {
		return Tail{}, err
	}
	s.tail.Next = s.at
	s.w = nil // what was kept is the visitor's now
	if err := s.end(a); err != nil {
		return Tail{}, err
	}
	j.setNext(s.at)
	j.tail = s.tail
	return s.tail, nil
}

// helpers is how many read ahead of the walk.
const helpers = 2

func each(parallel func(int, func(int)), n int, f func(i int)) {
	if parallel != nil && n > 1 {
		parallel(n, f)
		return
	}
	for i := range n {
		f(i)
	}
}

// all walks to the end of the chain.
func (s *walk) all() error {
	for {
		e, err := s.next()
		if err != nil || e == nil {
			return err
		}
		if err := s.take(e); err != nil {
			return err
		}
	}
}

func (j *Journal) setNext(at Position) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mu.next = at
	j.mu.claimed = claim{at.File, at.Offset}
	j.mu.syncedTo, j.mu.dirtyFrom = at.Sequence, at.File
}

// Replay walks again over the entries that Scan accepted, from the entry at from
// on. An item that began before it is not visited.
func (j *Journal) Replay(from Position, visit Visit) error {
	s := j.newWalk(from, visit)
	s.join.loose = true
	for s.at.Sequence < j.tail.Next.Sequence {
		e, err := s.next()
		if err == nil && e == nil {
			err = s.corrupt(s.fl, s.at.Offset, "something else than before", fmt.Sprintf("entry %d", s.at.Sequence), nil)
		}
		if err == nil {
			err = s.take(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Read walks over the durable entries from one position to another while the
// journal is in use: a partition log whose sync failed is written again from
// them. Nothing between the two may be recycled meanwhile. Files are not
// prepared while it runs.
func (j *Journal) Read(from, to Position, visit Visit) error {
	j.prep.Lock()
	defer j.prep.Unlock()
	s := j.newWalk(from, visit)
	for s.at.Sequence < to.Sequence {
		e, err := s.next()
		if err == nil && e == nil {
			err = s.corrupt(s.fl, s.at.Offset, "something else than was written", fmt.Sprintf("entry %d", s.at.Sequence), nil)
		}
		if err == nil {
			err = s.take(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// RewriteTail writes the entries that may be in the page cache only once more
// in place, the same bytes, and syncs them. Nothing that Scan read may be
// acted upon visibly before. An error is final.
func (j *Journal) RewriteTail() error {
	err := j.rewriteTail()
	if err != nil {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.mu.failed = err
		return fmt.Errorf("%w: %w", ErrFailed, err)
	}
	return nil
}

func (j *Journal) rewriteTail() error {
	s := j.newWalk(j.tail.Synced, nil)
	s.join.loose = true // it may begin within an item
	for s.at.Sequence < j.tail.Next.Sequence {
		last := s.fl
		e, err := s.next()
		if err == nil && e == nil {
			err = s.corrupt(s.fl, s.at.Offset, "something else than before", fmt.Sprintf("entry %d", s.at.Sequence), nil)
		}
		if err == nil && last != s.fl && s.tail.Entries > 0 {
			err = last.f.Datasync()
		}
		if err == nil {
			_, err = s.fl.f.WriteAt(e.raw, s.at.Offset)
		}
		if err == nil {
			err = s.take(e)
		}
		if err != nil {
			return err
		}
	}
	if s.tail.Entries > 0 {
		if err := s.fl.f.Datasync(); err != nil {
			return err
		}
	}
	// The newest file's header may be in the page cache only as well: a process
	// that was killed while it prepared the file has not synced it.
	return j.writeHeader(j.mu.files[len(j.mu.files)-1])
}

// StartOver goes on in a new file with a sequence above all that were lost
// (Tail.Lost), so that they can never be taken for new entries. The caller
// writes a snapshot with Next before it appends, and calls Recycle with it.
func (j *Journal) StartOver() error {
	j.prep.Lock()
	defer j.prep.Unlock()
	j.mu.Lock()
	n := j.top() + 1
	j.mu.Unlock()
	if err := j.prepare(n); err != nil {
		return err
	}
	j.setNext(Position{
		File: n, Offset: HeaderBytes,
		Sequence: max(j.tail.Highest+1, j.tail.Next.Sequence), Prev: j.tail.Next.Prev,
	})
	return nil
}

func (s *walk) corrupt(fl *file, at int64, found, expected string, behind *Place) error {
	return &CorruptionError{
		Reason: Damaged, Path: fl.path, Position: at, Found: found, Expected: expected,
		Sequence: s.at.Sequence, Behind: behind,
	}
}
