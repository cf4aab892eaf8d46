package log

import (
	"errors"
	"fmt"
	"io"
	"path"
	"sort"

	"github.com/kcoord/kcoord/log/record"
)

// Read appends whole batches, from the one that holds offset (or the next one)
// up to the high watermark, at most maxBytes, to dst; with minOne the first
// batch is given whatever its size. It has the partition log catch up first if
// offset lies beyond the high watermark. ErrOffsetOutOfRange, ErrStorage.
func (p *Partition) Read(offset int64, maxBytes int, minOne bool, dst []byte) ([]byte, error) {
	if err := p.readable(offset); err != nil {
		return dst, err
	}
	for {
		g, more, err := p.segmentAt(offset)
		if err != nil || g == nil {
			return dst, err
		}
		out, err := p.readSegment(g, offset, maxBytes, minOne, dst)
		if err != nil {
			err = p.readFailed(g, err)
		}
		next := g.base + 1
		g.release()
		if err != nil {
			return dst, err
		}
		if len(out) > len(dst) || !more {
			return out, nil
		}
		// Nothing at or behind offset in this segment: compaction took it.
		base := p.baseAfter(next - 1)
		if err := p.missing(offset, base); err != nil {
			return dst, p.readFailed(nil, err)
		}
		offset = max(offset, base)
	}
}

// missing is an error if the segment that holds offset is not there: where nothing
// is compacted, each begins where the one before it ends.
func (p *Partition) missing(offset, base int64) error {
	if offset >= base || p.topic.Load().Config.Compact {
		return nil
	}
	return &CorruptError{Path: path.Join(p.disk.dir, segmentName(base, suffixLog)), Position: -1,
		Offset: offset, End: base, Reason: "the segment before it is missing"}
}

// readable checks offset against the log's range and has the partition log
// catch up if it lies beyond what is written there.
func (p *Partition) readable(offset int64) error {
	if f := p.failed.Load(); f != nil && f.permanent {
		return f.err
	}
	if offset < p.logStart.Load() || offset > p.logEnd.Load() {
		return ErrOffsetOutOfRange
	}
	if offset >= p.hw.Load() && p.hw.Load() < p.durable.Load() {
		if err := p.CatchUp(); err != nil {
			return err
		}
	}
	return nil
}

// segmentAt returns the segment with the greatest base at or below offset (or
// the first), with a reference, and whether others follow it.
func (p *Partition) segmentAt(offset int64) (g *segment, more bool, err error) {
	for range 1000 {
		list := p.list()
		if len(list) == 0 {
			return nil, false, nil
		}
		i := sort.Search(len(list), func(i int) bool { return list[i].base > offset })
		if i > 0 {
			i--
		}
		if list[i].acquire() {
			return list[i], i+1 < len(list), nil
		}
	}
	return nil, false, fmt.Errorf("%w: %s: segments come and go", ErrStorage, p)
}

// baseAfter is the base of the segment behind the one with this base.
func (p *Partition) baseAfter(base int64) int64 {
	list := p.list()
	i := sort.Search(len(list), func(i int) bool { return list[i].base > base })
	if i == len(list) {
		return p.logEnd.Load()
	}
	return list[i].base
}

// readSegment appends the batches of g from the first one whose last offset is
// at least offset.
func (p *Partition) readSegment(g *segment, offset int64, maxBytes int, minOne bool, dst []byte) ([]byte, error) {
	end := g.size.Load()
	pos, first, place, err := p.find(g, offset, end)
	if err != nil || pos == end {
		return dst, err
	}
	n := min(int64(maxBytes), end-pos)
	if n < first {
		if !minOne {
			return dst, nil
		}
		n = first
	}
	at := len(dst)
	dst = extend(dst, int(n))
	if err := readFull(g.file, dst[at:], pos); err != nil {
		return dst[:at], fmt.Errorf("reading %s at %d: %w", g.name(suffixLog), pos, err)
	}
	whole := wholeBatches(dst[at:])
	if int64(whole) < first {
		return dst[:at], fmt.Errorf("reading %s at %d: the batch there has changed", g.name(suffixLog), pos)
	}
	sound, next, err := soundBatches(dst[at : at+whole])
	if sound == 0 && err != nil {
		return dst[:at], g.corrupt(&scanError{pos, err}, offset)
	}
	if place == entriesInFiles {
		g.readTo(offset, readEnd{next, pos + int64(sound)})
	}
	return dst[:at+sound], nil // what is damaged behind it is told of when it is asked for
}

// soundBatches is how many bytes of b, whole batches, come before one whose
// checksum is wrong, and the offset behind them.
func soundBatches(b []byte) (n int, next int64, err error) {
	for n < len(b) {
		batch := record.Batch(b[n:])
		batch = batch[:batch.Size()]
		if err := batch.Validate(); err != nil {
			return n, next, err
		}
		n, next = n+len(batch), batch.NextOffset()
	}
	return n, next, nil
}

// find returns the position and size of the first batch whose last offset is at
// least offset, position end if there is none; and where the segment's index entries
// are.
func (p *Partition) find(g *segment, offset, end int64) (pos, size int64, place entriesPlace, err error) {
	index, _, place := g.entries()
	if place == entriesUnknown {
		if err := p.look(g); err != nil {
			return 0, 0, place, err
		}
		index, _, place = g.entries()
	}
	var e indexEntry
	var ok bool
	if place == entriesInMemory {
		e, ok = floorEntry(index, offset-g.base)
	} else {
		if pos := g.readOn(offset); pos > 0 {
			pos, size, err = p.findFrom(g, indexEntry{relative: -1}, pos, offset, end)
			return pos, size, place, err
		}
		e, ok, err = p.floorInFile(g, offset-g.base)
	}
	if err == nil && ok {
		if pos, size, err = p.findFrom(g, e, int64(e.position), offset, end); err == nil {
			return pos, size, place, nil
		}
		if !errors.Is(err, errWrongEntry) {
			return 0, 0, place, err
		}
	}
	if err != nil { // without the index all is found
		p.reindex(g, err)
	}
	pos, size, err = p.findFrom(g, indexEntry{relative: -1}, 0, offset, end)
	return pos, size, place, err
}

// errWrongEntry marks that an index entry does not say what is in the log.
var errWrongEntry = errors.New("a wrong entry")

// findFrom is find beginning at a position: that of an index entry, which must say
// what is there (errWrongEntry), if its relative offset is not below 0.
func (p *Partition) findFrom(g *segment, from indexEntry, at, offset, end int64) (pos, size int64, err error) {
	buf := p.s.getBuf()
	defer p.s.putBuf(buf)
	if from.relative >= 0 && (at < 0 || at >= end) {
		return 0, 0, fmt.Errorf("%w: byte %d of %d", errWrongEntry, at, end)
	}
	s := newScanner(g.file, at, end, false, buf)
	next := offset // at the damage, for who read up to there
	if at == 0 {
		next = g.base
	}
	for {
		b, err := s.next()
		if errors.Is(err, io.EOF) {
			return end, 0, nil
		}
		var bad *scanError
		if from.relative >= 0 && errors.As(err, &bad) {
			return 0, 0, fmt.Errorf("%w: no batch begins at byte %d: %w", errWrongEntry, at, err)
		}
		if err != nil {
			return 0, 0, g.corrupt(err, next)
		}
		if from.relative >= 0 && b.LastOffset() != g.base+int64(from.relative) {
			return 0, 0, fmt.Errorf("%w: the batch at byte %d ends with offset %d, not %d", errWrongEntry, at, b.LastOffset(), g.base+int64(from.relative))
		}
		from.relative = -1 // only of the first one
		if b.LastOffset() >= offset {
			return s.pos - b.Size(), b.Size(), nil
		}
		next = b.NextOffset()
	}
}

// wholeBatches is how many bytes of b are whole batches.
func wholeBatches(b []byte) int {
	n := 0
	for {
		size, err := record.Peek(b[n:], batchCap)
		if err != nil || size > int64(len(b)-n) {
			return n
		}
		n += int(size)
	}
}

// extend makes b n bytes longer; their content is undefined.
func extend(b []byte, n int) []byte {
	if len(b)+n <= cap(b) {
		return b[:len(b)+n]
	}
	out := make([]byte, len(b)+n)
	copy(out, b)
	return out
}

// Load calls f for every batch from log start to the durable end, each CRC
// checked, also those that found no space in the partition log yet. The batch is
// valid during the call. Every turn advances or fails.
func (p *Partition) Load(f func(b record.Batch) error) error {
	if f := p.failed.Load(); f != nil && f.permanent {
		return f.err
	}
	parts, pending, err := p.loadView()
	defer func() {
		for _, part := range parts {
			part.g.release()
		}
	}()
	if err != nil {
		return err
	}
	start, next, done := p.logStart.Load(), int64(0), int64(0)
	total := p.Size()
	buf := p.s.getBuf()
	defer p.s.putBuf(buf)
	for _, part := range parts {
		if next > 0 {
			if err := p.missing(max(next, start), part.g.base); err != nil {
				p.noteDamage(nil, err)
				return fmt.Errorf("%w: %s: %w", ErrStorage, p, err)
			}
		}
		n, err := p.loadBatches(part, start, next, buf, f)
		if err != nil {
			p.noteDamage(part.g, err)
			return err
		}
		next = max(n, part.g.base)
		done += part.size
		if f := p.s.o.Events.Progress; f != nil {
			f(p.topic.Load().Name, p.n, done, total)
		}
	}
	for i, b := range pending {
		if b.NextOffset() > start {
			if err := f(b); err != nil {
				return err
			}
		}
		pending[i] = nil
	}
	return nil
}

// A loadPart is a segment, with a reference, and its size when loading began.
type loadPart struct {
	g    *segment
	size int64
}

// loadView is one look at a partition: its segments, and copies of what is durable
// but not in them. Taken one after the other, a batch that the writer moves from
// here to there in between would be in neither.
func (p *Partition) loadView() (parts []loadPart, pending []record.Batch, err error) {
	p.disk.Lock()
	defer p.disk.Unlock()
	p.s.mu.Lock()
	due := p.s.o.Mono()
	if p.slot.place != 0 {
		due = p.slot.due
	}
	p.takeQueueLocked()
	if len(p.disk.pending) > 0 {
		p.s.mu.queued.add(p, due)
	}
	p.s.mu.Unlock()
	for _, b := range p.disk.pending {
		data := record.Batch(b.data)
		if !b.kept {
			data = append(record.Batch(nil), data...)
		}
		pending = append(pending, data)
	}
	for _, g := range p.list() {
		if !g.acquire() {
			return parts, nil, fmt.Errorf("%w: %s: segment %d was removed while loading", ErrStorage, p, g.base)
		}
		parts = append(parts, loadPart{g, g.size.Load()})
	}
	return parts, pending, nil
}

// loadBatches gives f the batches of one segment.
func (p *Partition) loadBatches(part loadPart, start, next int64, buf []byte, f func(b record.Batch) error) (int64, error) {
	g := part.g
	s := newScanner(g.file, 0, part.size, true, buf)
	for {
		b, err := s.next()
		if errors.Is(err, io.EOF) {
			return next, nil
		}
		if err != nil {
			return next, g.corrupt(err, next)
		}
		if b.BaseOffset() < next {
			return next, g.corrupt(&scanError{s.pos - b.Size(), fmt.Errorf("base offset %d, expected %d or more", b.BaseOffset(), next)}, next)
		}
		next = b.NextOffset()
		if next <= start {
			continue
		}
		if err := f(b); err != nil {
			return next, fmt.Errorf("log: %s at byte %d, offsets %d to %d: %w", g.name(suffixLog), s.pos-b.Size(), b.BaseOffset(), b.LastOffset(), err)
		}
	}
}
