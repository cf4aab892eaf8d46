package log

import (
	"errors"
	"fmt"
)

// Damage is what a read met last in a batch or a missing segment, nil if nothing or if
// it lies below the log start by now. Offset and End are known. The partition is not
// closed for it: the rest is served (of a segment whose index does not help, nothing)
// and appends go on, but for those that have to read it: of idempotent producers.
func (p *Partition) Damage() *CorruptError {
	e, start := p.damage.Load(), p.logStart.Load()
	if e == nil || e.End <= start {
		return nil
	}
	return e
}

// readFailed is the error of a read of g, told of.
func (p *Partition) readFailed(g *segment, err error) error {
	if e := p.noteDamage(g, err); e == nil {
		p.s.warn("segment-read", fmt.Sprintf("%s: %v", p, err))
	} else if f := p.s.o.Events.Damaged; f != nil {
		f(p.topic.Load().Name, p.n, e)
	}
	return fmt.Errorf("%w: %s: %w", ErrStorage, p, err)
}

// noteDamage keeps what err says is damaged, with an end of what is at stake; nil if
// err says no such thing. g is nil if err tells the end. It takes no lock.
func (p *Partition) noteDamage(g *segment, err error) *CorruptError {
	var met *CorruptError
	if !errors.As(err, &met) {
		return nil
	}
	if known := p.Damage(); known != nil && known.Path == met.Path && known.Position == met.Position {
		return known
	}
	e := *met
	if g != nil && e.Offset < 0 {
		e.Offset = max(p.logStart.Load(), g.base)
	}
	if g != nil && e.End < 0 {
		e.End = p.behind(g, e.Position, e.Offset)
	}
	p.damage.Store(&e)
	return &e
}

// behind is where what is at stake at pos ends: at the base offset of the next batch if
// the damaged one's length leads there, else with the segment.
func (p *Partition) behind(g *segment, pos, offset int64) int64 {
	last := p.baseAfter(g.base)
	s := newScanner(g.file, pos, g.size.Load(), false, nil)
	if _, err := s.next(); err != nil {
		return last
	}
	if b, err := s.next(); err == nil && b.BaseOffset() > offset && b.BaseOffset() < last {
		return b.BaseOffset()
	}
	return last
}
