package log

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/kcoord/kcoord/log/vfs"
)

// A segment is one .log file with its indexes. A partition's newest one is
// active: its tail grows. All others are closed and never change.
type segment struct {
	base int64
	dir  string
	file vfs.File
	// size is the published size: readers take it for the end of the file.
	// Invariant: it is the end of a whole batch, and only grows.
	size atomic.Int64
	// refs counts who uses file: 1 for being in the partition's list, 1 per
	// reader. At 0 the file is closed, for good.
	refs atomic.Int32
	// created is the wall clock when the file was made or found, ms: the age of a
	// segment without timestamps.
	created int64
	jitter  int64 // ms by which the segment rolls early
	// largest is the largest timestamp of records so far, -1 if none or not known yet.
	largest atomic.Int64

	// Owner of the following fields: the partition's log lock.

	tail     tail // meaningful when known
	known    bool // tail has been worked out
	indexOut int  // entries of index that the file holds
	timesOut int
	// stale says that the index files may hold something else than the entries in
	// memory: they are written anew as a whole.
	stale bool
	// unsynced says that file has data that no checkpoint has synced.
	unsynced bool
	// indexUnsynced says the same of the index files of a closed segment.
	indexUnsynced bool
	// reindexed: a reader found an entry wrong, and they were made anew if the log
	// allowed it. It is not tried again.
	reindexed bool

	mu struct {
		sync.Mutex // leaf: held for looking up and appending entries, never across I/O
		// index and times are all entries if they are in memory. They only grow; a slice
		// taken under the lock stays valid.
		index []indexEntry
		times []timeEntry
		place entriesPlace
		// indexed and timed are how many entries the files have, if they are there.
		indexed, timed int
		// ends are where the latest reads ended. Who reads on needs no index then.
		ends     [keptEnds]readEnd
		endsNext int
	}
}

// keptEnds is how many readers may go through a closed segment side by side without
// its index.
const keptEnds = 4

// A readEnd says that all batches before position end below offset.
type readEnd struct{ offset, position int64 }

// entriesPlace says where a segment's index entries are.
type entriesPlace uint8

const (
	// entriesUnknown: nobody has looked at the index files yet.
	entriesUnknown entriesPlace = iota
	// entriesInMemory: the segment is active, or its files do not hold just them yet.
	entriesInMemory
	// entriesInFiles: the segment is closed and its files hold just them. However many
	// segments are read, their entries take no memory.
	entriesInFiles
)

// acquire takes a reference. It fails when the segment has been closed: take
// the partition's list again.
func (g *segment) acquire() bool {
	for {
		n := g.refs.Load()
		if n <= 0 {
			return false
		}
		if g.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// release gives a reference back; the last one closes the file.
func (g *segment) release() {
	switch n := g.refs.Add(-1); {
	case n == 0:
		_ = g.file.Close() // only read from since: nothing can be lost
	case n < 0:
		panic(fmt.Sprintf("log: segment %d of %s released too often", g.base, g.dir))
	}
}

// firstSeen is the largest timestamp of the first batch, or when the file was made.
// REQUIRES the partition's log lock and that the tail is known.
func (g *segment) firstSeen() int64 {
	if g.tail.firstTime >= 0 {
		return g.tail.firstTime
	}
	return g.created
}

func (g *segment) name(suffix string) string {
	return path.Join(g.dir, segmentName(g.base, suffix))
}

// openSegment opens the file of a segment whose whole batches end at size.
func openSegment(fsys vfs.FS, dir string, base, size, now int64, flag vfs.OpenFlag) (*segment, error) {
	g := &segment{base: base, dir: dir, created: now}
	f, err := fsys.Open(g.name(suffixLog), flag)
	if err != nil {
		return nil, err
	}
	g.file = f
	g.size.Store(size)
	g.refs.Store(1)
	g.largest.Store(-1)
	return g, nil
}

// newSegment makes an empty active segment; a leftover file of that name lies
// above the recovery point and loses its content.
func newSegment(fsys vfs.FS, dir string, base, now int64) (*segment, error) {
	g, err := openSegment(fsys, dir, base, 0, now, vfs.Truncate)
	if err != nil {
		return nil, err
	}
	g.tail, g.known, g.unsynced = newTail(base), true, true
	g.mu.place = entriesInMemory
	for _, suffix := range []string{suffixIndex, suffixTimeIndex} {
		// A .log is never without its indexes: who copies or looks at the folder
		// expects all three. Without them nothing is lost: the next checkpoint tries
		// again.
		if writeFile(fsys, g.name(suffix), nil) != nil {
			g.stale = true
		}
	}
	return g, nil
}

// entries returns where the index entries are, and them if they are in memory.
func (g *segment) entries() (index []indexEntry, times []timeEntry, place entriesPlace) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.index, g.mu.times, g.mu.place
}

func (g *segment) setEntries(index []indexEntry, times []timeEntry) {
	g.mu.Lock()
	g.mu.index, g.mu.times, g.mu.place = index, times, entriesInMemory
	clear(g.mu.ends[:])
	g.mu.Unlock()
}

// readOn returns the position at which a read ended before offset, 0 if none is known.
func (g *segment) readOn(offset int64) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, e := range g.mu.ends {
		if e.offset == offset {
			return e.position
		}
	}
	return 0
}

// readTo notes where a read of offset ended.
func (g *segment) readTo(offset int64, end readEnd) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.place != entriesInFiles {
		return
	}
	for i := range g.mu.ends {
		if g.mu.ends[i].offset == offset { // the same reader
			g.mu.ends[i] = end
			return
		}
	}
	g.mu.ends[g.mu.endsNext] = end
	g.mu.endsNext = (g.mu.endsNext + 1) % keptEnds
}

// shed forgets the entries of a closed segment if its files hold them. REQUIRES the
// partition's log lock, and that nothing will be appended to the segment.
func (g *segment) shed() {
	if g.indexesBehind() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.place == entriesInMemory {
		g.mu.index, g.mu.times, g.mu.place = nil, nil, entriesInFiles
		g.mu.indexed, g.mu.timed = g.indexOut, g.timesOut
	}
}

// filed is how many entries an index file holds, if they are there.
func (g *segment) filed(suffix string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if suffix == suffixIndex {
		return g.mu.indexed
	}
	return g.mu.timed
}

// load works out the segment's tail, and its index entries from the index files
// as far as they can be trusted and from the log where not. Only header bytes
// are read unless whole asks for every checksum. closed adds the closing time
// entry. Index files that do not say just that are marked stale.
func (g *segment) load(fsys vfs.FS, buf []byte, interval int64, whole, closed bool) error {
	size := g.size.Load()
	fileIndex, fileTimes, err := g.readIndexFiles(fsys, size)
	t, index, times := newTail(g.base), []indexEntry(nil), []timeEntry(nil)
	if err == nil && !whole {
		if t1, i1, t2, ok := g.trustIndex(fileIndex, fileTimes, size, buf); ok {
			t, index, times = t1, i1, t2
		}
	}
	s := newScanner(g.file, t.size, size, whole, buf)
	for {
		b, err := s.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return g.corrupt(err, t.next)
		}
		if b.BaseOffset() < t.next {
			return g.corrupt(&scanError{s.pos - b.Size(), fmt.Errorf("base offset %d, expected %d or more", b.BaseOffset(), t.next)}, t.next)
		}
		e := t.add(b, g.base, interval)
		if e.hasIndex {
			index = append(index, e.index)
		}
		if e.hasTime {
			times = append(times, e.time)
		}
	}
	if closed {
		if e, ok := t.closing(g.base); ok {
			times = append(times, e)
		}
	}
	g.tail, g.known = t, true
	g.indexOut, g.timesOut = len(index), len(times)
	g.stale = err != nil || !slices.Equal(index, fileIndex) || !slices.Equal(times, fileTimes)
	g.largest.Store(t.maxTime)
	g.setEntries(index, times)
	return nil
}

// corrupt names the file in an error of the scanner.
func (g *segment) corrupt(err error, from int64) error {
	var bad *scanError
	if errors.As(err, &bad) {
		return &CorruptError{Path: g.name(suffixLog), Position: bad.pos, Offset: from, End: -1, Reason: "damaged record batch", Cause: bad.err}
	}
	return fmt.Errorf("log: reading %s: %w", g.name(suffixLog), err)
}

// trustIndex says how far the entries of the index files can be trusted: up to
// the one with which the last time index entry was made, if one look at its
// batch agrees. What follows it may be newer than the other file, whose tail a
// power cut can take. Then t is the state behind the batches before that one,
// and its entries are taken away: a scan from t.size adds them anew, by the
// ordinary rule.
func (g *segment) trustIndex(index []indexEntry, times []timeEntry, size int64, buf []byte) (tail, []indexEntry, []timeEntry, bool) {
	t := newTail(g.base)
	if len(index) == 0 || len(times) == 0 {
		return t, nil, nil, false
	}
	newest := times[len(times)-1].relative
	at := sort.Search(len(index), func(i int) bool { return index[i].relative >= newest })
	index = index[:min(at+1, len(index))]
	last := index[len(index)-1]
	s := newScanner(g.file, int64(last.position), size, false, buf)
	b, err := s.next()
	if err != nil || b.LastOffset() != g.base+int64(last.relative) {
		return t, nil, nil, false
	}
	index = slices.Clip(index[:len(index)-1])
	t.size, t.next = int64(last.position), b.BaseOffset()
	t.indexed = len(index)
	t.sinceIndex = 1<<62 - t.size // the entry that was taken away is due
	// Time entries for batches from the last indexed one on come again.
	for len(times) > 0 && int64(times[len(times)-1].relative)+g.base >= b.BaseOffset() {
		times = times[:len(times)-1]
	}
	times = slices.Clip(times)
	t.timed = len(times)
	switch n := len(times); {
	case n == 0 && len(index) > 0: // each offset index entry had its chance of one
		return newTail(g.base), nil, nil, false
	case n > 0:
		at, _ := floorEntry(index, int64(times[n-1].relative))
		if !g.holdsTime(times[n-1], int64(at.position), size, buf) {
			return newTail(g.base), nil, nil, false
		}
		t.maxTime, t.maxTimeEnd = times[n-1].timestamp, g.base+int64(times[n-1].relative)
		t.lastTimed = t.maxTime
	}
	first := newScanner(g.file, 0, size, false, buf)
	b, err = first.next()
	if err != nil {
		return t, nil, nil, false
	}
	t.firstTime = b.MaxTimestamp()
	return t, index, times, true
}

// holdsTime reports whether a batch with records from pos on ends where a time index
// entry says and has its timestamp: the file may be another segment's, and the time of
// a batch without records, which stands in an index too, is none that a reader finds.
func (g *segment) holdsTime(e timeEntry, pos, size int64, buf []byte) bool {
	s := newScanner(g.file, pos, size, false, buf)
	for {
		b, err := s.next()
		if err != nil {
			return false
		}
		if end := b.LastOffset() - g.base; end >= int64(e.relative) {
			return end == int64(e.relative) && b.MaxTimestamp() == e.timestamp && b.Count() > 0
		}
	}
}

// readIndexFiles decodes both files of a log that has size bytes.
func (g *segment) readIndexFiles(fsys vfs.FS, size int64) ([]indexEntry, []timeEntry, error) {
	const limit = 1 << 30
	ib, err := readFile(fsys, g.name(suffixIndex), limit)
	if err != nil {
		return nil, nil, err
	}
	tb, err := readFile(fsys, g.name(suffixTimeIndex), limit)
	if err != nil {
		return nil, nil, err
	}
	index, err := parseIndex(ib, size)
	if err != nil {
		return nil, nil, err
	}
	times, err := parseTimeIndex(tb)
	if err != nil {
		return nil, nil, err
	}
	return index, times, nil
}

// closeTimes adds the closing time entry.
func (g *segment) closeTimes() {
	if e, ok := g.tail.closing(g.base); ok {
		g.mu.Lock()
		g.mu.times = append(g.mu.times, e)
		g.mu.Unlock()
	}
}

// writeIndexes brings both index files up to the entries in memory and to
// exactly their length. A failure makes the files stale; data is not concerned.
func (g *segment) writeIndexes(fsys vfs.FS) error {
	index, times, _ := g.entries()
	if g.stale {
		g.indexOut, g.timesOut = 0, 0
	}
	g.stale = true
	if err := writeTail(fsys, g.name(suffixIndex), appendIndex(nil, index[g.indexOut:]), int64(g.indexOut)*indexEntrySize); err != nil {
		return err
	}
	if err := writeTail(fsys, g.name(suffixTimeIndex), appendTimeIndex(nil, times[g.timesOut:]), int64(g.timesOut)*timeEntrySize); err != nil {
		return err
	}
	g.indexOut, g.timesOut, g.stale = len(index), len(times), false
	g.indexUnsynced = true
	return nil
}

// indexesBehind reports whether the files lack entries.
func (g *segment) indexesBehind() bool {
	index, times, place := g.entries()
	return g.stale || place == entriesInMemory && (g.indexOut != len(index) || g.timesOut != len(times))
}

// writeTail writes b at off of a file, made if missing, and ends it there.
func writeTail(fsys vfs.FS, name string, b []byte, off int64) error {
	f, err := fsys.Open(name, vfs.Create)
	if err != nil {
		return err
	}
	err = writeFull(f, b, off)
	if err == nil {
		var size int64
		if size, err = f.Size(); err == nil && size != off+int64(len(b)) {
			err = f.Truncate(off + int64(len(b)))
		}
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// syncFile syncs a file by name; a missing one is no error if optional.
func syncFile(fsys vfs.FS, name string, optional bool) error {
	f, err := fsys.Open(name, vfs.ReadWrite)
	if err != nil {
		if optional && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	err = f.Datasync()
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
