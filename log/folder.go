package log

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/kcoord/kcoord/log/record"
	"github.com/kcoord/kcoord/log/vfs"
)

// segmentFiles is what a partition's folder holds, by base offset.
type segmentFiles struct {
	logs     map[int64]int64 // base -> size of the .log
	modified map[int64]int64 // base -> modification time, Unix ms
	// names are all files with a segment's name, as (base, suffix).
	names []segmentFile
}

type segmentFile struct {
	base   int64
	suffix string
}

func (f segmentFile) name() string { return segmentName(f.base, f.suffix) }

// listSegments looks through a partition's folder. Files that are no segment's
// are left alone.
func listSegments(fsys vfs.FS, dir string) (*segmentFiles, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	files := &segmentFiles{logs: map[int64]int64{}, modified: map[int64]int64{}}
	for _, name := range names {
		base, suffix, ok := parseSegmentName(name)
		if !ok {
			continue
		}
		files.names = append(files.names, segmentFile{base, suffix})
		if suffix != suffixLog {
			continue
		}
		info, err := fsys.Stat(path.Join(dir, name))
		if err != nil {
			return nil, err
		}
		files.logs[base], files.modified[base] = info.Size, info.ModTime
	}
	return files, nil
}

// lacksIndex reports whether one of a segment's index files is missing.
func (f *segmentFiles) lacksIndex(base int64) bool {
	return !slices.Contains(f.names, segmentFile{base, suffixIndex}) || !slices.Contains(f.names, segmentFile{base, suffixTimeIndex})
}

// bases are the bases of all .log files, ascending.
func (f *segmentFiles) bases() []int64 {
	out := make([]int64, 0, len(f.logs))
	for base := range f.logs {
		out = append(out, base)
	}
	slices.Sort(out)
	return out
}

// above are the files of live segments with a base above base, the .log first,
// so that no index is ever taken for one without log, and producer snapshots of a
// log that ended behind end.
func (f *segmentFiles) above(base, end int64) []string {
	var out []string
	for _, live := range []string{suffixLog, suffixIndex, suffixTimeIndex, suffixTxnIndex, suffixSnapshot} {
		from := base
		if live == suffixSnapshot {
			from = end
		}
		for _, n := range f.names {
			if n.base > from && n.suffix == live {
				out = append(out, n.name())
			}
		}
	}
	for b := range f.logs {
		if b > base {
			delete(f.logs, b)
		}
	}
	return out
}

// with are the files that have a suffix in the end (".swap"), by base.
func (f *segmentFiles) with(suffix string) []segmentFile {
	var out []segmentFile
	for _, n := range f.names {
		if strings.HasSuffix(n.suffix, suffix) && n.suffix != suffix {
			out = append(out, n)
		}
	}
	return out
}

// openFlag: the active segment is written.
func openFlag(active bool) vfs.OpenFlag {
	if active {
		return vfs.ReadWrite
	}
	return vfs.ReadOnly
}

func truncateFile(fsys vfs.FS, name string, size int64) error {
	f, err := fsys.Open(name, vfs.ReadWrite)
	if err != nil {
		return err
	}
	err = f.Truncate(size)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// readPartitionMetadata reads the topic id from partition.metadata.
func readPartitionMetadata(fsys vfs.FS, dir string) (TopicID, error) {
	name := path.Join(dir, partitionMetadata)
	b, err := readFile(fsys, name, 1<<16)
	if err != nil {
		return TopicID{}, err
	}
	// Written without a sync: after a power cut the name and the length may be
	// there without the content, which is as good as no file.
	if len(bytes.Trim(b, "\x00")) == 0 {
		return TopicID{}, fmt.Errorf("%s is empty: %w", name, fs.ErrNotExist)
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		key, value, _ := strings.Cut(line, ":")
		if key != "topic_id" {
			continue
		}
		if id, ok := parseUUID(strings.TrimSpace(value)); ok {
			return id, nil
		}
	}
	return TopicID{}, fmt.Errorf("%s has no topic id", name)
}

// deleteDirName is the name under which a deleted partition's folder waits for
// its removal.
func deleteDirName(topic string, n int32, id [16]byte) string {
	return asideName(topic, n, id, suffixDeleteDir)
}

// asideName is Kafka's name for a folder that is none of a partition's any more, cut
// to 255 bytes.
func asideName(topic string, n int32, id [16]byte, suffix string) string {
	tail := fmt.Sprintf("-%d.%x%s", n, id[:], suffix)
	return topic[:min(len(topic), 255-len(tail))] + tail
}

// isDeleteDir reports whether a folder is one that waits for its removal.
func isDeleteDir(name string) bool {
	rest, ok := strings.CutSuffix(name, suffixDeleteDir)
	if !ok {
		return false
	}
	i := strings.LastIndexByte(rest, '.')
	if i < 0 || len(rest)-i-1 != 32 || strings.Trim(rest[i+1:], "0123456789abcdef") != "" {
		return false
	}
	_, _, ok = parsePartitionDir(rest[:i])
	return ok
}

// putAside gives the folder of a deleted topic its -delete name. Any other folder
// is named and left alone.
func (s *Store) putAside(name string) error {
	topic, n, ok := parsePartitionDir(name)
	if !ok {
		return nil
	}
	id, err := readPartitionMetadata(s.fs, s.path(name))
	if err != nil || !s.deletedIDs[id] {
		s.warn("unknown-folder", fmt.Sprintf("%s belongs to no topic of this data folder: left alone", s.path(name)))
		return nil
	}
	to := s.path(deleteDirName(topic, n, id))
	if err := s.fs.Rename(s.path(name), to); err != nil {
		return err
	}
	s.foldersChanged.Store(true)
	s.removeLater(deletion{name: to, folder: true})
	return nil
}

// makeRoom puts a folder aside that has the partition's name and is another topic's,
// or, with orphans, nobody's: it gets the name that Kafka gives to such folders, and
// loses nothing. REQUIRES p.disk, and that nothing of the partition's own is in it.
func (p *Partition) makeRoom(orphans bool) (moved bool, err error) {
	s, dir := p.s, p.disk.dir
	names, err := s.fs.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	id, err := readPartitionMetadata(s.fs, dir)
	if err == nil && id == p.id || err != nil && (!orphans || ownLeftovers(names)) {
		return false, nil
	}
	var unique [16]byte
	s.o.Random(unique[:])
	to := s.path(asideName(p.topic.Load().Name, p.n, unique, suffixStrayDir))
	if err := s.fs.Rename(dir, to); err != nil {
		return false, err
	}
	s.warn("stray-folder", fmt.Sprintf("%s belongs to no topic of this data folder: it is %s now", dir, path.Base(to)))
	// For good, before another folder has the name.
	return true, syncDir(s.fs, s.o.Dir)
}

// ownLeftovers reports whether all that is in a folder is what a first try to make a
// partition's folder leaves.
func ownLeftovers(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return name != partitionMetadata && name != partitionMetadata+".tmp" })
}

// epochsOf adds a segment's leader epochs.
func (p *Partition) epochsOf(g *segment) error {
	sc := newScanner(g.file, 0, g.size.Load(), false, nil)
	for {
		b, err := sc.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return g.corrupt(err, -1)
		}
		p.foundEpoch(g, b, 0)
	}
}

// foundEpoch notes the leader epoch of a batch that a start found. No checksum covers
// it: one that falls, or is higher than any that was given out and more than some
// above it, is ignored and told of.
func (p *Partition) foundEpoch(g *segment, b record.Batch, more int32) {
	p.s.opening.Lock()
	highest := p.s.epoch
	p.s.opening.Unlock()
	epoch := b.LeaderEpoch()
	newest := p.epochs.newest()
	switch {
	case epoch >= 0 && epoch < newest || int64(epoch) > int64(max(highest, newest))+int64(more):
		p.s.warn("leader-epoch", fmt.Sprintf("%s: the leader epoch %d of the batch at offset %d is ignored: the newest before it is %d", g.name(suffixLog), epoch, b.BaseOffset(), newest))
	default:
		p.epochs.add(epoch, b.BaseOffset())
	}
}

// sumSize takes the partition's size anew.
func (p *Partition) sumSize() {
	var n int64
	for _, g := range p.list() {
		n += g.size.Load()
	}
	p.bytes.Store(n)
}
