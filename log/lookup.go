package log

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"syscall"

	"github.com/kcoord/kcoord/log/vfs"
)

// look makes sure that it is known where a segment's index entries are.
func (p *Partition) look(g *segment) error {
	if _, _, place := g.entries(); place != entriesUnknown {
		return nil
	}
	p.disk.Lock()
	defer p.disk.Unlock()
	return p.loadSegment(g)
}

// load works out a segment's tail and entries. REQUIRES p.disk.
func (p *Partition) load(g *segment, closed bool) error {
	buf := p.s.getBuf()
	defer p.s.putBuf(buf)
	return g.load(p.s.fs, buf, p.topic.Load().Config.IndexIntervalBytes, false, closed)
}

// loadSegment works out the tail of a closed segment, and its entries if the index
// files do not hold just them: then the next checkpoint writes them. REQUIRES p.disk.
func (p *Partition) loadSegment(g *segment) error {
	if _, _, place := g.entries(); place != entriesUnknown {
		return nil
	}
	if err := p.load(g, g != p.active()); err != nil {
		return err
	}
	p.keepEntries(g)
	return nil
}

// keepEntries leaves the entries of a loaded segment to its files, or notes that these
// have to be written. REQUIRES p.disk.
func (p *Partition) keepEntries(g *segment) {
	switch {
	case g == p.active():
	case !g.stale:
		g.shed()
	case p.holds(g) && !p.disk.removed:
		p.disk.dirty = true // the next checkpoint writes them
	}
}

// holds reports whether g is in the list.
func (p *Partition) holds(g *segment) bool { return slices.Contains(p.list(), g) }

// reindex makes the entries of a segment anew from its log, every checksum looked at,
// because one of them was wrong or could not be read: a damaged sector, a hand, or an
// older Kafka, which made one entry for the batches of a whole append. If the log is
// damaged too, whoever reads is told where.
func (p *Partition) reindex(g *segment, why error) {
	if errors.Is(why, syscall.EMFILE) || errors.Is(why, syscall.ENFILE) {
		return // nothing is wrong with the index
	}
	p.disk.Lock()
	defer p.disk.Unlock()
	if g.reindexed || !p.holds(g) || p.disk.removed {
		return // a segment that was replaced: its index files are another's by now
	}
	g.reindexed = true
	p.s.warn("index-wrong", fmt.Sprintf("%s: %v: made anew from the log", g.name(suffixIndex), why))
	buf := p.s.getBuf()
	defer p.s.putBuf(buf)
	if g.load(p.s.fs, buf, p.topic.Load().Config.IndexIntervalBytes, true, g != p.active()) == nil {
		p.keepEntries(g)
	}
}

// floorInFile is floorEntry of a segment whose entries are in its files.
func (p *Partition) floorInFile(g *segment, relative int64) (e indexEntry, ok bool, err error) {
	ok, err = p.searchFile(g.name(suffixIndex), indexEntrySize, g.filed(suffixIndex), func(b []byte) bool {
		found := indexEntryAt(b)
		if int64(found.relative) > relative {
			return false
		}
		e = found
		return true
	})
	return e, ok, err
}

// olderThan returns the last time index entry below ts: up to its batch all of a
// segment's records are older. ok is false if there is none, or if the file cannot be
// read. REQUIRES look.
func (p *Partition) olderThan(g *segment, ts int64) (e timeEntry, ok bool) {
	_, times, place := g.entries()
	if place == entriesInMemory {
		i := sort.Search(len(times), func(i int) bool { return times[i].timestamp >= ts })
		if i == 0 {
			return e, false
		}
		return times[i-1], true
	}
	ok, err := p.searchFile(g.name(suffixTimeIndex), timeEntrySize, g.filed(suffixTimeIndex), func(b []byte) bool {
		found := timeEntryAt(b)
		if found.timestamp >= ts {
			return false
		}
		e = found
		return true
	})
	if err != nil {
		p.reindex(g, err)
		return e, false
	}
	return e, ok
}

// searchBlock is up to how many entries are read at once: fewer are not worth another
// read.
const searchBlock = 512

// searchFile finds in an index file of n entries of some size the last one that low
// accepts: it accepts the first ones, up to some entry, and no others. The last call of
// low that returned true was about that entry; ok is false if there was none.
func (p *Partition) searchFile(name string, size, n int, low func(b []byte) bool) (ok bool, err error) {
	if n == 0 {
		return false, nil
	}
	f, err := p.s.fs.Open(name, vfs.ReadOnly)
	if err != nil {
		return false, err
	}
	defer f.Close()
	buf := p.s.getBuf()
	defer func() { p.s.putBuf(buf) }()
	buf = slices.Grow(buf[:0], searchBlock*size)
	from, to := 0, n // entries below from are accepted, those from to on are not
	for to-from > searchBlock {
		mid := from + (to-from)/2
		if err := readFull(f, buf[:size], int64(mid*size)); err != nil {
			return false, fmt.Errorf("reading %s: %w", name, err)
		}
		if low(buf[:size]) {
			from, ok = mid+1, true
		} else {
			to = mid
		}
	}
	first := from
	buf = buf[:(to-first)*size]
	if err := readFull(f, buf, int64(first*size)); err != nil {
		return false, fmt.Errorf("reading %s: %w", name, err)
	}
	for from < to {
		mid := from + (to-from)/2
		if low(buf[(mid-first)*size:][:size]) {
			from, ok = mid+1, true
		} else {
			to = mid
		}
	}
	return ok, nil
}
