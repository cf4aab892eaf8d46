package log

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/kcoord/kcoord/log/vfs"
)

// readFile reads a whole file of at most limit bytes.
func readFile(fsys vfs.FS, name string, limit int64) ([]byte, error) {
	f, err := fsys.Open(name, vfs.ReadOnly)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, fmt.Errorf("%s has %d bytes, at most %d are expected", name, size, limit)
	}
	b := make([]byte, size)
	if err := readFull(f, b, 0); err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return b, nil
}

// readFull reads exactly len(b) bytes at off; less is io.ErrUnexpectedEOF.
func readFull(r io.ReaderAt, b []byte, off int64) error {
	n, err := r.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// writeFull writes all of b at off; a short write without error goes on.
func writeFull(w io.WriterAt, b []byte, off int64) error {
	for len(b) > 0 {
		n, err := w.WriteAt(b, off)
		if err != nil && !errors.Is(err, io.ErrShortWrite) {
			return err
		}
		if n <= 0 {
			return io.ErrShortWrite
		}
		b, off = b[n:], off+int64(n)
	}
	return nil
}

// writeFile makes name hold exactly b, without any sync.
func writeFile(fsys vfs.FS, name string, b []byte) error { return putFile(fsys, name, b, false) }

// writeFileSync is writeFile followed by a sync of the file.
func writeFileSync(fsys vfs.FS, name string, b []byte) error { return putFile(fsys, name, b, true) }

func putFile(fsys vfs.FS, name string, b []byte, sync bool) error {
	f, err := fsys.Open(name, vfs.Truncate)
	if err != nil {
		return err
	}
	err = writeFull(f, b, 0)
	if err == nil && sync {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// replaceFile makes name hold b by way of a temporary file and a rename. With
// sync the content is durable before the rename; the folder's sync is the
// caller's.
func replaceFile(fsys vfs.FS, name string, b []byte, sync bool) error {
	tmp := name + ".tmp"
	if err := putFile(fsys, tmp, b, sync); err != nil {
		return err
	}
	return fsys.Rename(tmp, name)
}

// syncDir makes a folder's entries durable.
func syncDir(fsys vfs.FS, dir string) error {
	d, err := fsys.OpenDir(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

// exists reports whether there is anything by that name.
func exists(fsys vfs.FS, name string) (bool, error) {
	_, err := fsys.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// removeIfThere removes a file that may be missing.
func removeIfThere(fsys vfs.FS, name string) error {
	if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// properties are the lines key=value of a Java properties file, as far as Kafka
// and kcoord use it: no escapes, no continuation.
type properties map[string]string

func parseProperties(b []byte) properties {
	p := properties{}
	for line := range strings.SplitSeq(string(b), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		key, value, _ := strings.Cut(line, "=")
		p[strings.TrimSpace(key)] = strings.ReplaceAll(strings.TrimSpace(value), `\`, "")
	}
	return p
}

// checkpointFile is the text format of Kafka's checkpoint files: a version line,
// a count, and as many lines.
type checkpointFile struct {
	lines []string
}

func (c *checkpointFile) add(fields ...any) {
	c.lines = append(c.lines, strings.TrimSuffix(fmt.Sprintln(fields...), "\n"))
}

func (c *checkpointFile) bytes() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "0\n%d\n", len(c.lines))
	for _, l := range c.lines {
		b.WriteString(l)
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// parseCheckpoint reads a checkpoint file whose lines have the given number of
// fields. An empty file has no entries; anything else that is off makes the
// whole file unusable.
func parseCheckpoint(b []byte, fields int) ([][]string, error) {
	if len(b) == 0 {
		return nil, nil
	}
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	if len(lines) < 2 || lines[0] != "0" {
		return nil, fmt.Errorf("checkpoint file begins with %q", lines[0])
	}
	n, err := strconv.Atoi(lines[1])
	if err != nil || n != len(lines)-2 {
		return nil, fmt.Errorf("checkpoint file announces %q entries and has %d", lines[1], len(lines)-2)
	}
	out := make([][]string, 0, n)
	for _, l := range lines[2:] {
		f := strings.Fields(l)
		if len(f) != fields {
			return nil, fmt.Errorf("checkpoint line %q", l)
		}
		out = append(out, f)
	}
	return out, nil
}

// uuidString is Kafka's form of a 16-byte id: 22 characters of base64url
// without padding.
func uuidString(id [16]byte) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// parseUUID reads what uuidString wrote.
func parseUUID(s string) (id [16]byte, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) != len(id) {
		return id, false
	}
	return [16]byte(b), true
}

// partitionDir is the name of a partition's folder.
func partitionDir(topic string, n int32) string { return topic + "-" + strconv.Itoa(int(n)) }

// parsePartitionDir splits a folder name at the last dash. ok is false for
// names that are none of a live partition.
func parsePartitionDir(name string) (topic string, n int32, ok bool) {
	i := strings.LastIndexByte(name, '-')
	if i < 1 {
		return "", 0, false
	}
	v, err := strconv.ParseInt(name[i+1:], 10, 32)
	if err != nil || v < 0 || strconv.FormatInt(v, 10) != name[i+1:] {
		return "", 0, false
	}
	return name[:i], int32(v), true
}

const (
	suffixLog       = ".log"
	suffixIndex     = ".index"
	suffixTimeIndex = ".timeindex"
	suffixTxnIndex  = ".txnindex"
	suffixSnapshot  = ".snapshot"
	suffixCleaned   = ".cleaned"
	suffixSwap      = ".swap"
	suffixDeleted   = ".deleted"
	suffixDeleteDir = "-delete"
	suffixStrayDir  = "-stray"
)

// segmentName is the file name of a segment: 20 digits and a suffix.
func segmentName(base int64, suffix string) string {
	s := strconv.FormatInt(base, 10)
	return "00000000000000000000"[:20-len(s)] + s + suffix
}

// parseSegmentName splits a file name of a segment into base offset and suffix
// (".log", ".index.deleted"). Only 20 digits count.
func parseSegmentName(name string) (base int64, suffix string, ok bool) {
	if len(name) < 21 || name[20] != '.' {
		return 0, "", false
	}
	for i := range 20 {
		if name[i] < '0' || name[i] > '9' {
			return 0, "", false
		}
	}
	base, err := strconv.ParseInt(name[:20], 10, 64)
	return base, name[20:], err == nil
}

func (s *Store) path(elem ...string) string {
	return path.Join(append([]string{s.o.Dir}, elem...)...)
}
