package journal

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/kcoord/kcoord/log/vfs"
)

// Salvaged is what Salvage found.
type Salvaged struct {
	Entries, Items int64
	// Gaps are ranges of sequences, both inclusive, of which no valid entry was
	// found although a later one was.
	Gaps []Gap
	// Broken counts items that could not be handed out because a part of them is
	// lost, or because they make no sense.
	Broken int64
	// Last is the highest sequence found, 0 if none.
	Last int64
	// Files are the journal files that were read, by number.
	Files []int64
}

// A Gap is a range of lost sequences, both inclusive.
type Gap struct{ From, To int64 }

func (g Gap) String() string {
	if g.From == g.To {
		return fmt.Sprintf("entry %d", g.From)
	}
	return fmt.Sprintf("entries %d to %d", g.From, g.To)
}

// Salvage reads what is left of a damaged journal, for an operator who has
// decided to accept the loss: every valid entry with a sequence of at least
// at.Sequence, wherever it stands in whichever journal file of the folder, in the
// order of sequences. It neither needs all files nor their headers, and changes
// nothing.
func Salvage(o Options, at Position, visit Visit) (Salvaged, error) {
	j, numbers, err := newJournal(o, at)
	if err != nil {
		return Salvaged{}, err
	}
	defer j.Close()
	sum := Salvaged{Files: numbers}
	var all []salvagedEntry
	for _, n := range numbers {
		f, err := o.FS.Open(j.path(n), vfs.ReadOnly)
		if err != nil {
			return sum, err
		}
		fl := &file{number: n, path: j.path(n), f: f}
		j.mu.files = append(j.mu.files, fl) // for Close only
		found, err := j.salvageFile(fl, at.Sequence)
		if err != nil {
			return sum, err
		}
		all = append(all, found...)
	}
	slices.SortStableFunc(all, func(a, b salvagedEntry) int { return int(min(max(a.sequence-b.sequence, -1), 1)) })
	// A sequence found twice is an entry and its lost predecessor of another life;
	// the newer file has the later one.
	s := &walk{j: j, visi: visit}
	for i, e := range all {
		if i+1 < len(all) && all[i+1].sequence == e.sequence {
			continue
		}
		if err := s.salvage(e, at.Sequence, &sum); err != nil {
			return sum, err
		}
	}
	sum.Items = s.tail.Items
	return sum, nil
}

type salvagedEntry struct {
	fl       *file
	off      int64
	sequence int64
}

func (j *Journal) salvageFile(fl *file, from int64) (found []salvagedEntry, err error) {
	w := j.window(fl)
	if w.size, err = fl.f.Size(); err != nil && err != io.EOF {
		return nil, err
	}
	w.size &^= 7
	for at := int64(0); ; at += 8 {
		var n int
		if at, n, err = j.candidate(w, at, from, nil); err != nil || n == 0 {
			return found, err
		}
		e, err := j.entryAt(w, at)
		if err != nil {
			return nil, err
		}
		if e != nil {
			found = append(found, salvagedEntry{fl, at, e.sequence})
			at += int64(n) - 8
		}
	}
}

// salvage hands out the items of one entry.
func (s *walk) salvage(at salvagedEntry, from int64, sum *Salvaged) error {
	want := max(sum.Last+1, from)
	if at.sequence > want {
		sum.Gaps = append(sum.Gaps, Gap{want, at.sequence - 1})
	}
	w := s.j.window(at.fl)
	e, err := s.j.entryAt(w, at.off)
	if err != nil || e == nil {
		return err
	}
	if at.sequence != want {
		if s.join.pending {
			sum.Broken++
		}
		s.join = joiner{}
		if e.raw[entryHead+1]&flagContinue != 0 {
			sum.Broken++
			s.join.loose, s.join.broken = true, true
		}
	}
	sum.Last = at.sequence
	s.fl, s.w, s.at = at.fl, w, Position{File: at.fl.number, Offset: at.off, Sequence: at.sequence, Prev: e.prev}
	sum.Entries++
	if err = s.items(e); err == nil {
		return nil
	}
	var damage *CorruptionError
	if errors.As(err, &damage) && damage.Reason == Damaged {
		sum.Broken++
		s.join = joiner{}
		return nil
	}
	return err
}
