package log

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/kcoord/kcoord/log/record"
	"github.com/kcoord/kcoord/log/vfs"
)

// openPlain opens a partition after a clean stop. Usually its newest file ends
// where the snapshot says, and nothing has to be read. Otherwise another program
// has written since, an Apache Kafka or a hand, and what it left is judged by
// its content. REQUIRES p.disk.
func (p *Partition) openPlain(rp recoveryPointRecord, files *segmentFiles) error {
	bases := files.bases()
	newest := int64(-1)
	if len(bases) > 0 {
		newest = bases[len(bases)-1]
	}
	if newest > rp.base || newest == rp.base && files.logs[newest] > rp.position {
		return p.adopt(rp, files, bases)
	}
	return p.openTo(rp, files)
}

// adopt takes over what another program has appended: valid batches are kept, a
// torn tail is cut off, anything else is refused. What is kept is synced, since
// nobody knows whether it was.
func (p *Partition) adopt(rp recoveryPointRecord, files *segmentFiles, bases []int64) error {
	s := p.s
	from := 0
	for i, base := range bases {
		if base <= rp.offset {
			from = i
		}
	}
	next := bases[from]
	for i, base := range bases[from:] {
		last := from+i == len(bases)-1
		if next > base {
			return &CorruptError{Path: path.Join(p.disk.dir, segmentName(base, suffixLog)), Position: -1, Offset: base, End: next,
				Reason: fmt.Sprintf("the segment before it ends at offset %d: they overlap", next)}
		}
		g, err := openSegment(s.fs, p.disk.dir, base, files.logs[base], files.modified[base], vfs.ReadWrite)
		if err != nil {
			return err
		}
		next, err = p.judge(g, max(next, base), rp.offset, last)
		if err == nil {
			err = changed(g.file.Sync())
		}
		files.logs[base] = g.size.Load()
		g.release()
		if err != nil {
			return err
		}
	}
	if next < rp.offset {
		return &CorruptError{Path: p.disk.dir, Position: -1, Offset: next, End: rp.offset, Reason: "the log ends before the recovery point"}
	}
	if err := changed(syncDir(s.fs, p.disk.dir)); err != nil {
		return err
	}
	newest := bases[len(bases)-1]
	s.warn("plain-adopted", fmt.Sprintf("%s was changed by another program since the clean stop: it ends at offset %d now, it did at %d", p, next, rp.offset))
	rp.offset, rp.base, rp.position = next, newest, files.logs[newest]
	p.setEnds(rp)
	p.disk.dirty = true
	s.opening.Lock()
	s.epoch = max(s.epoch, p.epochs.newest())
	s.opening.Unlock()
	return p.openTo(rp, files)
}

// epochJump is by how much the leader epochs of another program's batches may rise from
// one to the next, since no checksum covers them: Kafka's rise by one with each start
// or election.
const epochJump = 1 << 20

// judge reads a segment, with every checksum, from the offset next on. It cuts a
// torn tail off the last one, if it lies at or above vouched, the end of what
// was durable. It returns the offset behind the last batch.
func (p *Partition) judge(g *segment, next, vouched int64, last bool) (int64, error) {
	size := g.size.Load()
	sc := newScanner(g.file, 0, size, true, nil)
	// A batch that begins below next and at or above least belongs here: the one
	// before it, or a jump of the offsets further up, is wrong. Below least it is what
	// the disk held there earlier.
	least := int64(math.MaxInt64)
	for {
		pos := sc.pos
		b, err := sc.next()
		if errors.Is(err, io.EOF) {
			return next, nil
		}
		var bad *scanError
		switch {
		case err == nil && b.LastOffset()-g.base > math.MaxInt32:
			return next, g.corrupt(&scanError{pos, fmt.Errorf("offset %d is too far from the segment's base for an index", b.LastOffset())}, next)
		case err == nil && b.BaseOffset() >= next:
			if b.BaseOffset() > next && next >= vouched {
				p.s.warn("plain-gap", fmt.Sprintf("%s: offsets %d to %d are missing", g.name(suffixLog), next, b.BaseOffset()-1))
			}
			least, next = next, b.NextOffset()
			p.foundEpoch(g, b, epochJump)
			continue
		case err == nil:
			bad = &scanError{pos, fmt.Errorf("base offset %d, expected %d", b.BaseOffset(), next)}
			if b.BaseOffset() >= least {
				return next, g.corrupt(bad, least)
			}
		case !errors.As(err, &bad):
			return next, fmt.Errorf("log: reading %s: %w", g.name(suffixLog), err)
		}
		if !last || next < vouched {
			return next, g.corrupt(bad, next)
		}
		goesOn, err := continues(g.file, pos, size, next)
		if err != nil {
			return next, err
		}
		if goesOn {
			return next, g.corrupt(bad, next)
		}
		return next, p.cutTail(g, pos, bad)
	}
}

// cutTail puts the bytes behind pos aside and cuts them off.
func (p *Partition) cutTail(g *segment, pos int64, why error) error {
	const prefix, most = "torn-", 16 << 20
	size := g.size.Load()
	tail := make([]byte, min(size-pos, most))
	if err := readFull(g.file, tail, pos); err != nil {
		return err
	}
	if len(strings.Trim(string(tail), "\x00")) > 0 {
		name := fmt.Sprintf("%s%020d-%d-%d.bin", prefix, g.base, pos, p.s.o.Now().UnixMilli())
		_ = writeFile(p.s.fs, path.Join(p.disk.dir, name), tail)
		p.keepNewest(prefix)
	}
	p.s.warn("plain-torn", fmt.Sprintf("%s: %d bytes behind byte %d are no record batches and are cut off: %v", g.name(suffixLog), size-pos, pos, why))
	if err := changed(g.file.Truncate(pos)); err != nil {
		return err
	}
	g.size.Store(pos)
	return nil
}

// keepNewest removes all but the newest files of saved bytes.
func (p *Partition) keepNewest(prefix string) {
	names, err := p.s.fs.List(p.disk.dir)
	if err != nil {
		return
	}
	names = slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, prefix) })
	for len(names) > keptTorn {
		_ = p.s.fs.Remove(path.Join(p.disk.dir, names[0]))
		names = names[1:]
	}
}

// continues reports whether valid batches follow somewhere behind the bad bytes
// at pos: damage in the middle and not a torn tail. Only a chain that runs
// exactly to the end of the file counts, or to a last batch that is itself cut
// short there: an image of a batch that a client chose as record content is
// always followed by bytes of its record.
func continues(r io.ReaderAt, pos, end, expected int64) (bool, error) {
	const window = 1 << 20
	buf := make([]byte, min(window, end-pos))
	for at := pos + 1; at+record.HeaderSize <= end; {
		n := min(int64(len(buf)), end-at)
		if err := readFull(r, buf[:n], at); err != nil {
			return false, err
		}
		usable := n - record.HeaderSize + 1
		for i := int64(0); i < usable; i++ {
			b := record.Batch(buf[i:n])
			if b[16] != record.Magic || !plausible(b, expected) {
				continue
			}
			ok, err := chain(r, at+i, end)
			if ok || err != nil {
				return ok, err
			}
		}
		at += usable
	}
	return false, nil
}

// plausible looks at the header of a batch that may follow expected.
func plausible(b record.Batch, expected int64) bool {
	ahead := b.BaseOffset() - expected
	return b.Size() >= record.HeaderSize && b.Size() <= batchCap && ahead > 0 && ahead < 1<<31 && b.LastOffsetDelta() >= 0
}

// chain reports whether valid batches run from pos to the end.
func chain(r io.ReaderAt, pos, end int64) (bool, error) {
	sc := newScanner(r, pos, end, true, nil)
	valid, next := 0, int64(0)
	for {
		b, err := sc.next()
		if errors.Is(err, io.EOF) {
			return valid > 0, nil
		}
		var bad *scanError
		if errors.As(err, &bad) {
			return valid > 0 && errors.Is(err, record.ErrShort) && cutShort(r, sc.pos, end, next), nil
		}
		if err != nil {
			return false, err
		}
		if valid > 0 && b.BaseOffset() < next {
			return false, nil
		}
		valid, next = valid+1, b.NextOffset()
	}
}

// cutShort reports whether a batch with the expected base offset begins at pos
// and does not fit before the end.
func cutShort(r io.ReaderAt, pos, end, next int64) bool {
	var head [record.HeaderSize]byte
	if end-pos < int64(len(head)) || readFull(r, head[:], pos) != nil {
		return false
	}
	b := record.Batch(head[:])
	return b.Magic() == record.Magic && b.BaseOffset() == next && b.Size() <= batchCap && pos+b.Size() > end
}

// setEnds makes all ends the given recovery point.
func (p *Partition) setEnds(rp recoveryPointRecord) {
	p.end, p.inflightEnd = rp.offset, rp.offset
	p.logEnd.Store(rp.offset)
	p.durable.Store(rp.offset)
	p.hw.Store(rp.offset)
	p.rp.Store(rp.offset)
	p.disk.rpBase, p.disk.rpPosition = rp.base, rp.position
}
