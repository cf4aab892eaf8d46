package log

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
)

// finishSwap completes or undoes what a cleaning was doing when the program
// ended, and has files removed that were to be deleted. .cleaned files mean that
// the replacement was not complete: it goes. Only .swap files: it was, and what
// it replaces goes. REQUIRES p.disk.
func (p *Partition) finishSwap(files *segmentFiles) error {
	cleaned, swaps, deleted := files.with(suffixCleaned), files.with(suffixSwap), files.with(suffixDeleted)
	if len(cleaned)+len(swaps)+len(deleted) == 0 {
		return nil
	}
	if len(cleaned)+len(swaps) == 0 {
		for _, f := range deleted {
			p.s.removeSoon(path.Join(p.disk.dir, f.name()))
		}
		return nil
	}
	p.disk.dirUnsynced, p.disk.dirty = true, true
	if len(cleaned) > 0 {
		lowest := slices.MinFunc(cleaned, func(a, b segmentFile) int { return cmp.Compare(a.base, b.base) }).base
		swaps = slices.DeleteFunc(swaps, func(f segmentFile) bool {
			// Of the same replacement as the .cleaned ones, or what it replaces is there.
			_, live := files.logs[f.base]
			if live || f.base >= lowest {
				cleaned = append(cleaned, f)
			}
			return live || f.base >= lowest
		})
		var err error
		if deleted, err = p.restoreDeleted(files, deleted, lowest); err != nil {
			return err
		}
		if err := p.removeFiles(cleaned); err != nil {
			return err
		}
	}
	if err := p.completeSwaps(files, swaps); err != nil {
		return err
	}
	if err := p.removeFiles(deleted); err != nil {
		return err
	}
	again, err := listSegments(p.s.fs, p.disk.dir)
	if err == nil {
		*files = *again
	}
	return err
}

// removeFiles unlinks files; the .log of a set comes last, as long as it is
// there the set is known for what it is.
func (p *Partition) removeFiles(fs []segmentFile) error {
	slices.SortStableFunc(fs, func(a, b segmentFile) int {
		return boolInt(isLog(a.suffix)) - boolInt(isLog(b.suffix))
	})
	for _, f := range fs {
		if err := changed(removeIfThere(p.s.fs, path.Join(p.disk.dir, f.name()))); err != nil {
			return err
		}
	}
	return nil
}

func isLog(suffix string) bool {
	return len(suffix) >= len(suffixLog) && suffix[:len(suffixLog)] == suffixLog
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// restoreDeleted gives files back their names if an unfinished swap has taken
// them away and nothing else covers their offsets (renames of a program that
// does not sync the folder, persisted out of order). It returns the others.
func (p *Partition) restoreDeleted(files *segmentFiles, deleted []segmentFile, lowest int64) ([]segmentFile, error) {
	bases := files.bases()
	var rest []segmentFile
	for _, f := range deleted {
		covered := f.base < lowest || len(bases) > 0 && bases[0] <= f.base
		if covered {
			rest = append(rest, f)
			continue
		}
		from := path.Join(p.disk.dir, f.name())
		if err := changed(p.s.fs.Rename(from, from[:len(from)-len(suffixDeleted)])); err != nil {
			return nil, err
		}
		p.s.warn("swap-restored", fmt.Sprintf("%s: %s is restored: nothing else holds its records", p, f.name()))
	}
	return rest, nil
}

// completeSwaps removes what the complete replacements replace and gives them
// their names.
func (p *Partition) completeSwaps(files *segmentFiles, swaps []segmentFile) error {
	slices.SortFunc(swaps, func(a, b segmentFile) int { return cmp.Compare(a.base, b.base) })
	removed := false
	for _, f := range swaps {
		if f.suffix != suffixLog+suffixSwap {
			continue
		}
		next, err := p.endOf(f.name())
		if err != nil {
			return err
		}
		if err := p.checkBefore(files, f.base); err != nil {
			return err
		}
		var covered []segmentFile
		for _, o := range files.names {
			live := slices.Contains([]string{suffixLog, suffixIndex, suffixTimeIndex, suffixTxnIndex, suffixSnapshot}, o.suffix)
			if live && o.base >= f.base && o.base < next {
				covered = append(covered, o)
				delete(files.logs, o.base)
			}
		}
		if err := p.removeFiles(covered); err != nil {
			return err
		}
		removed = removed || len(covered) > 0
	}
	if removed { // for good, before the .swap names that tell of it go
		if err := syncDir(p.s.fs, p.disk.dir); err != nil {
			return err
		}
	}
	// The log's rename comes last: until then a start finds the set for what it is.
	slices.SortStableFunc(swaps, func(a, b segmentFile) int {
		return boolInt(isLog(a.suffix)) - boolInt(isLog(b.suffix))
	})
	for _, f := range swaps {
		from := path.Join(p.disk.dir, f.name())
		if err := changed(p.s.fs.Rename(from, from[:len(from)-len(suffixSwap)])); err != nil {
			return err
		}
	}
	return nil
}

// endOf is the offset behind the last batch of a file; every checksum is checked,
// since what it replaces is about to go.
func (p *Partition) endOf(name string) (int64, error) {
	base, _, _ := parseSegmentName(name)
	g, err := p.openNamed(name, base)
	if err != nil {
		return 0, err
	}
	defer g.release()
	next := base
	sc := newScanner(g.file, 0, g.size.Load(), true, nil)
	for {
		b, err := sc.next()
		if errors.Is(err, io.EOF) {
			return next, nil
		}
		if err != nil {
			return 0, &CorruptError{Path: path.Join(p.disk.dir, name), Position: sc.pos, Offset: next, End: -1, Reason: "a complete replacement is damaged", Cause: err}
		}
		next = b.NextOffset()
	}
}

// openNamed opens a file of the folder to read its batches.
func (p *Partition) openNamed(name string, base int64) (*segment, error) {
	full := path.Join(p.disk.dir, name)
	f, err := p.s.fs.Open(full, openFlag(false))
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	g := &segment{base: base, dir: p.disk.dir, file: f}
	g.refs.Store(1)
	g.size.Store(size)
	return g, nil
}

// checkBefore refuses a replacement that begins inside a live segment: nothing
// says what it replaces.
func (p *Partition) checkBefore(files *segmentFiles, base int64) error {
	before := int64(-1)
	for b := range files.logs {
		if b < base && b > before {
			before = b
		}
	}
	if before < 0 {
		return nil
	}
	next, err := p.endOf(segmentName(before, suffixLog))
	if err != nil {
		return err
	}
	if next > base {
		return &CorruptError{Path: path.Join(p.disk.dir, segmentName(base, suffixLog+suffixSwap)), Position: -1, Offset: base, End: next,
			Reason: fmt.Sprintf("it overlaps segment %d, which ends at offset %d", before, next)}
	}
	return nil
}
