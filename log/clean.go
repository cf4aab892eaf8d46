package log

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/kcoord/kcoord/log/record"
	"github.com/kcoord/kcoord/log/vfs"
)

// ErrChanged: what was to be replaced is no longer there (deletion, retention);
// the outputs are to be thrown away.
var ErrChanged = errors.New("log: the segments have changed meanwhile")

// IsFinal reports whether an error must end the process: two states are possible
// on disk, and only a start finds out which.
func IsFinal(err error) bool {
	var final *commitError
	return errors.As(err, &final)
}

// A Cleaning is one compaction of one partition. Only one exists per partition
// at a time; one goroutine uses it. It never blocks appends or reads, but for
// the renames of Replace.
type Cleaning struct {
	p        *Partition
	segments []*CleanSegment
	ended    bool
}

// A CleanSegment is a closed segment that lies wholly below the recovery point,
// as it was when the cleaning began. It stays readable until the cleaning ends.
type CleanSegment struct {
	Base             int64
	NextOffset       int64 // behind its last batch; Base if it is empty
	Bytes            int64
	FirstTimestamp   int64 // max timestamp of its first batch, ms; -1: none
	LargestTimestamp int64 // ms; -1: none
	Modified         int64 // file time, ms

	p *Partition
	g *segment
}

// BeginCleaning hands the partition's closed segments below the recovery point
// to the caller until End. It returns nil if another cleaning has it, or if the
// partition is closed or deleted; and the error of a segment that cannot be read.
func (p *Partition) BeginCleaning() (*Cleaning, error) {
	p.disk.Lock()
	defer p.disk.Unlock()
	if p.disk.cleaning || p.disk.removed || p.failed.Load() != nil {
		return nil, nil
	}
	c := &Cleaning{p: p}
	list := p.list()
	for i, g := range list {
		if i+1 == len(list) || list[i+1].base > p.disk.rpBase {
			break
		}
		s, err := p.cleanSegment(g)
		if err != nil {
			c.release()
			return nil, err
		}
		c.segments = append(c.segments, s)
	}
	p.disk.cleaning = true
	return c, nil
}

// cleanSegment describes and references g. REQUIRES p.disk.
func (p *Partition) cleanSegment(g *segment) (*CleanSegment, error) {
	if err := p.loadSegment(g); err != nil {
		return nil, p.readFailed(g, err)
	}
	if !g.acquire() {
		panic(fmt.Sprintf("log: segment %d of %s is in the list and closed", g.base, p))
	}
	return &CleanSegment{
		Base: g.base, NextOffset: g.tail.next, Bytes: g.tail.size,
		FirstTimestamp: g.tail.firstTime, LargestTimestamp: g.tail.largest(), Modified: g.created, p: p, g: g,
	}, nil
}

// Segments are the segments, oldest first.
func (c *Cleaning) Segments() []*CleanSegment { return c.segments }

// End gives the partition back. Outputs that were not installed must have been
// discarded.
func (c *Cleaning) End() {
	if c.ended {
		return
	}
	c.ended = true
	c.release()
	c.p.disk.Lock()
	c.p.disk.cleaning = false
	c.p.disk.Unlock()
}

func (c *Cleaning) release() {
	for _, s := range c.segments {
		s.g.release()
	}
}

// Damaged is the error for a batch that is none, for err, at a byte, told of.
func (s *CleanSegment) Damaged(pos int64, err error) error {
	return s.p.readFailed(s.g, s.g.corrupt(&scanError{pos, err}, -1))
}

// ReadAt reads the segment's file.
func (s *CleanSegment) ReadAt(b []byte, off int64) (int, error) { return s.g.file.ReadAt(b, off) }

// An Output is a segment that a cleaning writes, under a name that a crash makes
// disappear, until Replace installs it.
type Output struct {
	c        *Cleaning
	g        *segment
	interval int64
	buf      []byte
	open     bool
}

// Create begins an output that replaces segments from the one named base on.
func (c *Cleaning) Create(base int64) (*Output, error) {
	p := c.p
	g := &segment{base: base, dir: p.disk.dir, created: p.s.o.Now().UnixMilli()}
	f, err := p.s.fs.Open(g.name(suffixLog+suffixCleaned), vfs.Truncate)
	if err != nil {
		return nil, err
	}
	g.file = f
	g.refs.Store(1)
	g.tail, g.known, g.mu.place = newTail(base), true, entriesInMemory
	return &Output{c: c, g: g, interval: p.topic.Load().Config.IndexIntervalBytes, open: true}, nil
}

// outputBuffer is how much an output gathers for one write.
const outputBuffer = 256 << 10

// Append appends a batch, whose base offset must not lie below the end of the
// one before.
func (o *Output) Append(b record.Batch) error {
	g := o.g
	if b.BaseOffset() < g.tail.next || b.LastOffset()-g.base > 1<<31-1 || g.tail.size+b.Size() > 1<<31-1 {
		panic(fmt.Sprintf("log: output %d of %s ends at offset %d, byte %d: cannot take offsets %d to %d",
			g.base, o.c.p, g.tail.next, g.tail.size, b.BaseOffset(), b.LastOffset()))
	}
	e := g.tail.add(b, g.base, o.interval)
	if e.hasIndex {
		g.mu.index = append(g.mu.index, e.index)
	}
	if e.hasTime {
		g.mu.times = append(g.mu.times, e.time)
	}
	o.buf = append(o.buf, b...)
	if len(o.buf) >= outputBuffer {
		return o.flush()
	}
	return nil
}

func (o *Output) flush() error {
	if err := writeFull(o.g.file, o.buf, o.g.tail.size-int64(len(o.buf))); err != nil {
		return err
	}
	o.buf = o.buf[:0]
	return nil
}

// Bytes and NextOffset are where the output stands.
func (o *Output) Bytes() int64 { return o.g.tail.size }

// NextOffset is the offset behind the last batch.
func (o *Output) NextOffset() int64 { return o.g.tail.next }

// Discard throws the output away. After Replace it does nothing.
func (o *Output) Discard() {
	if !o.open {
		return
	}
	o.open = false
	o.g.release()
	for _, suffix := range []string{suffixLog, suffixIndex, suffixTimeIndex} {
		_ = removeIfThere(o.c.p.s.fs, o.g.name(suffix+suffixCleaned)) // removed at the next start otherwise
	}
}

// finish completes the files and makes them durable, under their .cleaned names.
func (o *Output) finish(modified int64) error {
	g, fsys := o.g, o.c.p.s.fs
	if err := o.flush(); err != nil {
		return err
	}
	g.size.Store(g.tail.size)
	if err := o.verify(); err != nil {
		return err
	}
	g.closeTimes()
	index, times, _ := g.entries()
	if err := writeFileSync(fsys, g.name(suffixIndex+suffixCleaned), appendIndex(nil, index)); err != nil {
		return err
	}
	if err := writeFileSync(fsys, g.name(suffixTimeIndex+suffixCleaned), appendTimeIndex(nil, times)); err != nil {
		return err
	}
	g.indexOut, g.timesOut, g.created = len(index), len(times), modified
	g.largest.Store(g.tail.maxTime)
	if err := fsys.SetModTime(g.name(suffixLog+suffixCleaned), modified); err != nil {
		return err
	}
	if err := g.file.Sync(); err != nil {
		return err
	}
	return syncDir(fsys, g.dir)
}

// verify reads the output back: what is installed must be readable.
func (o *Output) verify() error {
	sc := newScanner(o.g.file, 0, o.g.tail.size, true, o.buf)
	next := o.g.base
	for {
		b, err := sc.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return o.g.corrupt(err, next)
		}
		next = b.NextOffset()
	}
	if next != o.g.tail.next {
		return fmt.Errorf("log: output %d of %s ends at offset %d, expected %d", o.g.base, o.c.p, next, o.g.tail.next)
	}
	return nil
}

// Replace installs o in the place of old: neighbouring segments of this
// cleaning, the first of which gave o its base. o must end at the offset at
// which the last of them ends. The steps are Kafka's, with three more syncs of the
// folder, so that a crash leaves either the old segments or the new one.
// ErrChanged: old are no longer there. An error for which IsFinal holds must end
// the process; after any other one nothing has changed and o is discarded.
func (c *Cleaning) Replace(old []*CleanSegment, o *Output) error {
	if len(old) == 0 || old[0].Base != o.g.base || o.g.tail.next != old[len(old)-1].NextOffset {
		panic(fmt.Sprintf("log: output %d..%d of %s does not cover what it replaces", o.g.base, o.g.tail.next, c.p))
	}
	modified := int64(0)
	for _, s := range old {
		modified = max(modified, s.Modified)
	}
	if err := o.finish(modified); err != nil {
		o.Discard()
		return fmt.Errorf("cleaning %s: %w", c.p, err)
	}
	p := c.p
	p.disk.Lock()
	defer p.disk.Unlock()
	list := p.list()
	at := slices.Index(list, old[0].g)
	if p.disk.removed || at < 0 || at+len(old) >= len(list) || !sameSegments(list[at:], old) {
		o.Discard()
		return ErrChanged
	}
	if err := p.commitSwap(o.g); err != nil {
		if !IsFinal(err) {
			o.Discard()
		}
		return err
	}
	o.open = false
	replaced := slices.Clone(list[at : at+len(old)])
	next := slices.Concat(list[:at], []*segment{o.g}, list[at+len(old):])
	p.segments.Store(&next)
	p.disk.generation++
	p.sumSize()
	return p.finishReplace(o.g, replaced)
}

func sameSegments(list []*segment, old []*CleanSegment) bool {
	for i, s := range old {
		if list[i] != s.g {
			return false
		}
	}
	return true
}

// dataSuffixes are the files of a segment in the order in which they are
// renamed.
var dataSuffixes = [...]string{suffixLog, suffixIndex, suffixTimeIndex}

// commitSwap gives the output its .swap names. Once the folder is synced a start
// completes the swap; before, it undoes it. REQUIRES p.disk.
func (p *Partition) commitSwap(g *segment) error {
	fsys := p.s.fs
	for i, suffix := range dataSuffixes {
		err := fsys.Rename(g.name(suffix+suffixCleaned), g.name(suffix+suffixSwap))
		if err == nil {
			continue
		}
		for _, done := range dataSuffixes[:i] { // undo, so that no start completes it
			if uerr := fsys.Remove(g.name(done + suffixSwap)); uerr != nil {
				return &commitError{errors.Join(err, uerr)}
			}
		}
		return err
	}
	if err := syncDir(fsys, p.disk.dir); err != nil {
		return &commitError{err}
	}
	return nil
}

// finishReplace renames the old files away and the new ones to their names.
// REQUIRES p.disk.
func (p *Partition) finishReplace(g *segment, replaced []*segment) error {
	fsys := p.s.fs
	for _, o := range replaced {
		if err := p.markDeleted(o); err != nil {
			return &commitError{err}
		}
	}
	// The old names must be gone for good before the .swap ones are: of unsynced
	// renames any may survive, and without .swap nothing tells that a segment that
	// came back is replaced.
	if err := syncDir(fsys, p.disk.dir); err != nil {
		return &commitError{err}
	}
	for _, suffix := range dataSuffixes {
		if err := fsys.Rename(g.name(suffix+suffixSwap), g.name(suffix)); err != nil {
			return &commitError{err}
		}
	}
	if err := syncDir(fsys, p.disk.dir); err != nil {
		return &commitError{err}
	}
	g.shed()
	p.s.wakeRetention()
	return nil
}

// CleanerCheckpoint is the first offset that no cleaning has covered; below the
// log start or beyond the end it means nothing and is the log start. It is a
// hint: after a crash it may be lower.
func (p *Partition) CleanerCheckpoint() int64 {
	at := p.firstDirty.Load()
	if at < p.logStart.Load() || at > p.hw.Load() {
		return p.logStart.Load()
	}
	return at
}

// SetCleanerCheckpoint moves it.
func (p *Partition) SetCleanerCheckpoint(offset int64) {
	p.firstDirty.Store(offset)
}

// RollActive closes the active segment if it holds at least minBytes, and asks
// for a checkpoint, so that it can be cleaned once the recovery point has passed
// it. It reports whether it rolled.
func (p *Partition) RollActive(minBytes int64) (bool, error) {
	if p.s.waiting.Load() {
		return false, nil
	}
	p.disk.Lock()
	defer p.disk.Unlock()
	if err := p.writeLocked(); err != nil {
		return false, err
	}
	g := p.active()
	if g == nil || p.disk.removed || g.tail.size == 0 || g.tail.size < minBytes {
		return false, nil
	}
	if err := p.roll(p.hw.Load()); err != nil {
		return false, fmt.Errorf("%w: %s: %w", ErrStorage, p, err)
	}
	p.s.RequestCheckpoint()
	return true, nil
}

// RollBefore closes the active segment if its first batch is older than millis
// (Unix ms), and asks for a checkpoint, as RollActive does.
func (p *Partition) RollBefore(millis int64) (bool, error) {
	g := p.active()
	if g == nil || g.size.Load() == 0 {
		return false, nil
	}
	p.disk.Lock()
	g = p.active()
	old := g != nil && g.known && g.tail.size > 0 && g.firstSeen() < millis
	p.disk.Unlock()
	if !old {
		return false, nil
	}
	return p.RollActive(1)
}

// ActiveSize is the bytes of the active segment, 0 if there is none.
func (p *Partition) ActiveSize() int64 {
	if g := p.active(); g != nil {
		return g.size.Load()
	}
	return 0
}

// Folder is the path of the partition's folder.
func (p *Partition) Folder() string { return p.disk.dir }
