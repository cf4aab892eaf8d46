package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/kcoord/kcoord/internal/meta"
	"github.com/kcoord/kcoord/log"
	"github.com/kcoord/kcoord/log/journal"
	"github.com/kcoord/kcoord/log/record"
	"github.com/kcoord/kcoord/log/vfs"
)

const dumpUsage = `kcoord dump [--json] [--batches] FILE|DIR...

Prints what is in segments, indexes, journal files, the metadata snapshot and
checkpoint files, and decodes the records of groups and offsets. Nothing is locked or
changed; a broker may be running on the folder. A damaged file is shown up to the
damage, and the exit code is 1.
`

// A dumper prints what is in the files of a data folder.
type dumper struct {
	fs      vfs.FS
	out     *bufio.Writer
	asJSON  bool
	batches bool // without their records

	file   string // that is being shown
	topics map[log.TopicID]string
	reader record.Reader
	failed bool
}

// dump prints files and folders; exit code 1 if any is damaged or cannot be read.
func dump(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("dump", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	d := dumper{fs: vfs.OS{}, out: bufio.NewWriter(stdout), topics: map[log.TopicID]string{}}
	flags.BoolVar(&d.asJSON, "json", false, "")
	flags.BoolVar(&d.batches, "batches", false, "")
	if err := flags.Parse(args); err != nil {
		return fail(stderr, exitUsage, "dump: %v", err)
	}
	if flags.NArg() == 0 {
		return fail(stderr, exitUsage, "dump takes files or folders")
	}
	for _, name := range flags.Args() {
		d.path(name)
	}
	if err := d.out.Flush(); err != nil {
		return fail(stderr, exitFailed, "%v", err)
	}
	if d.failed {
		return exitFailed
	}
	return exitOK
}

// path shows a file or folder that was asked for.
func (d *dumper) path(name string) {
	name = filepath.ToSlash(filepath.Clean(name))
	info, err := d.fs.Stat(name)
	switch {
	case err != nil:
		d.file = name
		d.damage(err)
	case info.IsDir:
		d.folder(name)
	default:
		d.learnTopics(filepath.Join(filepath.Dir(name), log.MetadataFile))
		d.oneFile(name, info.Size, nil)
	}
}

// learnTopics takes the names of topics from a metadata snapshot, if there is one.
func (d *dumper) learnTopics(name string) {
	s, err := log.ReadMetadata(d.fs, name)
	if err != nil {
		return
	}
	for _, r := range s.Records {
		d.learnTopic(r)
	}
}

func (d *dumper) learnTopic(metadata []byte) {
	if c, err := meta.Decode(metadata); err == nil && c.Kind == meta.KindTopic {
		d.topics[log.TopicID(c.Topic.ID)] = c.Topic.Name
	}
}

// folder shows a data folder or a partition's: its files first.
func (d *dumper) folder(dir string) {
	names, err := d.fs.List(dir)
	if err != nil {
		d.file = dir
		d.damage(err)
		return
	}
	d.learnTopics(filepath.Join(dir, log.MetadataFile))
	var folders []string
	var next *journal.Position
	for _, name := range names {
		full := filepath.ToSlash(filepath.Join(dir, name))
		info, err := d.fs.Stat(full)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a broker is running
		}
		if err == nil && info.IsDir {
			folders = append(folders, name)
			continue
		}
		if err != nil {
			d.file = full
			d.damage(err)
			continue
		}
		if end := d.oneFile(full, info.Size, next); end != nil {
			next = end
		}
	}
	for _, name := range folders {
		full := filepath.ToSlash(filepath.Join(dir, name))
		if _, _, ok := log.TopicOfFolder(name); ok {
			d.folder(full)
			continue
		}
		d.begin(full, "folder", 0)
	}
}

// oneFile shows a file by its kind. Of a journal file it returns where the next
// one goes on; after is where this one is expected to.
func (d *dumper) oneFile(name string, size int64, after *journal.Position) (next *journal.Position) {
	var err error
	switch log.KindOf(name) {
	case log.FileSegment:
		d.begin(name, "segment", size)
		err = d.segment(name)
	case log.FileIndex:
		d.begin(name, "index", size)
		err = d.index(name)
	case log.FileTimeIndex:
		d.begin(name, "timeindex", size)
		err = d.timeIndex(name)
	case log.FileJournal:
		d.begin(name, "journal", size)
		next, err = d.journal(name, after)
	case log.FileMetadata:
		d.begin(name, "metadata", size)
		err = d.metadata(name)
	case log.FileOffsets, log.FileEpochs:
		d.begin(name, "checkpoint", size)
		err = d.lines(name)
	case log.FileProperties:
		d.begin(name, "properties", size)
		err = d.properties(name, size)
	default:
		d.begin(name, "other", size)
	}
	if errors.Is(err, fs.ErrNotExist) {
		d.line("gone") // a broker is running
		return next
	}
	if err != nil {
		d.damage(err)
	}
	return next
}

// segment shows the batches of a .log file and their records.
func (d *dumper) segment(name string) error {
	topic, _, _ := log.TopicOfFolder(filepath.Base(filepath.Dir(absolute(name))))
	return log.ReadSegment(d.fs, name, func(b record.Batch, position int64) error {
		d.batch(topic, b, field{"position", position})
		return nil
	})
}

func absolute(name string) string {
	if abs, err := filepath.Abs(name); err == nil {
		return abs
	}
	return name
}

// index shows an .index file and compares it with its log.
func (d *dumper) index(name string) error {
	f, err := d.openLog(name)
	if err != nil {
		return err
	}
	if f != nil {
		defer f.Close()
	}
	return log.ReadIndex(d.fs, name, func(offset, position int64) error {
		d.line("entry", field{"offset", offset}, field{"position", position})
		var head [record.HeaderSize]byte
		if f == nil {
			return nil
		}
		if n, err := f.ReadAt(head[:], position); n < len(head) {
			return fmt.Errorf("%s: entry (offset %d, position %d): no batch begins there: %w", name, offset, position, err)
		}
		if b := record.Batch(head[:]); b.Magic() != record.Magic || b.LastOffset() != offset {
			return fmt.Errorf("%s: entry (offset %d, position %d): the batch there ends with offset %d", name, offset, position, b.LastOffset())
		}
		return nil
	})
}

// openLog opens the segment of an index; nil: it is not there.
func (d *dumper) openLog(index string) (vfs.File, error) {
	f, err := d.fs.Open(logOf(index), vfs.ReadOnly)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return f, err
}

// logOf is the name of the .log file that belongs to an index file.
func logOf(index string) string {
	dir, name := filepath.Split(index)
	for _, kind := range []string{".timeindex", ".index"} {
		if len(name) > 20 && len(name) >= 20+len(kind) && name[20:20+len(kind)] == kind {
			name = name[:20] + ".log" + name[20+len(kind):]
		}
	}
	return dir + name
}

// timeIndex shows a .timeindex file and compares it with its log.
func (d *dumper) timeIndex(name string) error {
	entries := map[int64]int64{} // offset -> timestamp
	err := log.ReadTimeIndex(d.fs, name, func(timestamp, offset int64) error {
		d.line("entry", field{"timestamp", millis(timestamp)}, field{"offset", offset})
		entries[offset] = timestamp
		return nil
	})
	if err != nil || len(entries) == 0 {
		return err
	}
	err = log.ReadSegment(d.fs, logOf(name), func(b record.Batch, _ int64) error {
		t, ok := entries[b.LastOffset()]
		delete(entries, b.LastOffset())
		if ok && t != b.MaxTimestamp() {
			return fmt.Errorf("%s: entry (timestamp %d, offset %d): the batch's largest timestamp is %d", name, t, b.LastOffset(), b.MaxTimestamp())
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, log.ErrDamaged) {
		return nil // the log is missing, or its damage is told of where it is shown
	}
	for offset := range entries {
		if err == nil {
			err = fmt.Errorf("%s: no batch of the log ends with offset %d", name, offset)
		}
	}
	return err
}

// lines shows one of Kafka's checkpoint files.
func (d *dumper) lines(name string) error {
	lines, err := log.ReadLines(d.fs, name)
	for _, l := range lines {
		if len(l) == 2 {
			d.line("entry", field{"epoch", word(l[0])}, field{"offset", word(l[1])})
		} else {
			d.line("entry", field{"topic", l[0]}, field{"partition", word(l[1])}, field{"offset", word(l[2])})
		}
	}
	return err
}
