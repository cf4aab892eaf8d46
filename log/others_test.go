package log

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kcoord/kcoord/log/record"
	"github.com/kcoord/kcoord/log/vfs"
)

// abortedEntry is an entry of a transaction index as Kafka writes it.
func abortedEntry(producer, first, last, stable int64) []byte {
	b := binary.BigEndian.AppendUint16(nil, 0)
	for _, v := range []int64{producer, first, last, stable} {
		b = binary.BigEndian.AppendUint64(b, uint64(v))
	}
	return b
}

// TestTransactionIndex: kcoord writes and reads no transaction index. One that a Kafka
// left beside a segment, whatever is in it, disturbs nothing, is left alone as long as
// the segment is there, and goes with it.
func TestTransactionIndex(t *testing.T) {
	for what, content := range map[string][]byte{
		"two aborted transactions": append(abortedEntry(7, 1, 4, 5), abortedEntry(8, 6, 9, 10)...),
		"cut":                      abortedEntry(7, 1, 4, 5)[:33],
		"empty":                    {},
		"garbage":                  bytes.Repeat([]byte{0xa5}, 100),
	} {
		mem := vfs.NewMem()
		r := newRig(t, mem)
		r.options = smallStore
		r.open()
		r.meta(topicRecord(4, "small", 1, 4))
		p := r.partition(4, 0)
		r.fill(p, 20, 3)
		var bases []int64
		for _, g := range p.list() {
			bases = append(bases, g.base)
		}
		if len(bases) < 4 {
			t.Fatalf("%d segments", len(bases))
		}
		if err := r.s.Close(); err != nil {
			t.Fatal(err)
		}
		left := func() (n int) {
			for _, name := range filesBelow(t, mem, path.Join(testDir, "small-0")) {
				if !strings.Contains(name, suffixTxnIndex) {
					continue
				}
				n++
				if b, err := readFile(mem, name, 1000); err != nil || !bytes.Equal(b, content) {
					t.Errorf("%s: %s has changed: %x, %v", what, name, b, err)
				}
			}
			return n
		}
		for _, base := range bases {
			put(t, mem, path.Join(testDir, "small-0", segmentName(base, suffixTxnIndex)), content)
		}
		for start := range 3 {
			r.open()
			if p = r.partition(4, 0); p.Err() != nil {
				t.Fatalf("%s: start %d: %v", what, start, p.Err())
			}
			checkLog(r, p)
			if n := left(); n != len(bases) {
				t.Errorf("%s: start %d: %d of %d are left", what, start, n, len(bases))
			}
			switch start {
			case 0: // a kill
				mem.Kill()
			case 1:
				if err := r.s.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
		for range 3 { // retention leaves less than 3000 bytes
			r.now += 6 * time.Minute
			if _, err := r.s.RetentionStep(); err != nil {
				t.Fatal(err)
			}
			r.flush()
		}
		kept := len(p.list())
		if n := left(); n != kept || kept >= len(bases) {
			t.Errorf("%s: %d transaction indexes beside %d segments of %d", what, n, kept, len(bases))
		}
		r.meta(deletedRecord(4))
		for range 3 {
			r.now += 6 * time.Minute
			if _, err := r.s.RetentionStep(); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range filesBelow(t, mem, testDir) {
			if strings.Contains(name, suffixTxnIndex) {
				t.Errorf("%s: %s outlives its topic", what, name)
			}
		}
	}
}

// TestProducerSnapshotsOfOthers: kcoord knows producers from the log, whatever the
// files say that a Kafka left. One of a log that ended further on goes, since a Kafka
// would believe it once the log has grown.
func TestProducerSnapshotsOfOthers(t *testing.T) {
	good := appendProducerSnapshot(nil, map[int64]*producer{7: {epoch: 9, batches: []producedBatch{{first: 40, last: 44, base: 1}}}})
	version2, badSum := bytes.Clone(good), bytes.Clone(good)
	version2[1], badSum[20] = 2, badSum[20]^1
	for what, content := range map[string][]byte{
		"of another state": good, "a wrong checksum": badSum, "version 2": version2, "cut": good[:25], "empty": {}, "a count too high": append(good[:6:6], 0x7f, 0xff, 0xff, 0xff),
	} {
		for _, clean := range []bool{true, false} {
			mem := vfs.NewMem()
			r := newRig(t, mem)
			r.options = smallStore
			r.open()
			r.meta(topicRecord(1, "t", 1, 0))
			p := r.partition(1, 0)
			send(p, 7, 2, 0, 5)
			r.flush()
			r.write()
			if err := r.s.Close(); err != nil {
				t.Fatal(err)
			}
			names := map[int64]bool{3: true, 5: true, 6: false, 5000: false} // whether it stays
			for end := range names {
				put(t, mem, path.Join(testDir, "t-0", segmentName(end, suffixSnapshot)), content)
			}
			if !clean {
				r.open()
				mem.Kill()
				for end := range names {
					put(t, mem, path.Join(testDir, "t-0", segmentName(end, suffixSnapshot)), content)
				}
			}
			r.open()
			p = r.partition(1, 0)
			where := fmt.Sprintf("%s, clean %t", what, clean)
			if p.Err() != nil || p.LogEnd() != 5 {
				t.Errorf("%s: %v, the log ends at %d", where, p.Err(), p.LogEnd())
			}
			for end, stays := range names {
				if there, _ := exists(mem, path.Join(testDir, "t-0", segmentName(end, suffixSnapshot))); there != stays {
					t.Errorf("%s: the snapshot at %d is there: %t", where, end, there)
				}
			}
			if got := send(p, 7, 2, 0, 5); got != "again 0" {
				t.Errorf("%s: a repeated batch: %s", where, got)
			}
			if got := send(p, 7, 2, 5, 1); got != "5" {
				t.Errorf("%s: the next batch: %s", where, got)
			}
			r.flush()
			if err := r.s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestLogStartBeyondTheLog: when records behind the log start are lost that is told of,
// not taken for deleted records; what lies below it may be missing.
func TestLogStartBeyondTheLog(t *testing.T) {
	dir := path.Join(testDir, "user-0")
	build := func(start int64) *rig {
		r := segmentedBy(t, vfs.NewMem(), 7)
		r.open()
		if _, _, err := r.partition(2, 0).DeleteRecords(start, nil); err != nil {
			t.Fatal(err)
		}
		r.flush()
		if err := r.s.Close(); err != nil {
			t.Fatal(err)
		}
		return r
	}
	for what, damage := range map[string]func(r *rig) error{
		"the log ends before it": func(r *rig) error { return truncateFile(r.fs, path.Join(dir, zeroLog), 10*tenthSize) },
		"the segment is missing": func(r *rig) error { return r.fs.Remove(path.Join(dir, zeroLog)) },
		"the folder is missing":  func(r *rig) error { return r.fs.RemoveAll(dir) },
	} {
		r := build(15)
		if err := damage(r); err != nil {
			t.Fatal(err)
		}
		for start := range 2 {
			r.open()
			if err := r.partition(2, 0).Err(); !errors.Is(err, ErrStorage) || !errors.Is(err, ErrDamaged) && start == 0 {
				t.Errorf("%s, start %d: %v", what, start, err)
			}
			r.s.abandon()
		}
	}
	// Kafka's own file says nothing about a folder of kcoord's: neither that it is
	// missing nor what is in it.
	for what, content := range map[string]string{"missing": "", "lower": "0\n1\nuser 0 2\n", "higher": "0\n1\nuser 0 40\n"} {
		r := build(5)
		name := path.Join(testDir, logStartFile)
		if put(t, r.fs, name, []byte(content)); what == "missing" {
			if err := r.fs.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
		for start := range 3 {
			r.open()
			p := r.partition(2, 0)
			if p.Err() != nil || p.LogStart() != 5 || p.LogEnd() != 25 || !slices.Equal(loaded(r, p), upTo(5, 24)) {
				t.Errorf("%s, start %d: %v, log %d to %d", what, start, p.Err(), p.LogStart(), p.LogEnd())
			}
			if start == 0 {
				r.s.abandon()
			} else if err := r.s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	// All records deleted, and no file left to tell where the log ends.
	r := build(25)
	r.open()
	for range 3 {
		r.now += 6 * time.Minute
		if _, err := r.s.RetentionStep(); err != nil {
			t.Fatal(err)
		}
		r.flush()
		if err := r.s.Checkpoint(); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.fs.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	r.open()
	if p := r.partition(2, 0); p.Err() != nil || p.LogStart() != 25 || r.produce(p, 1) != 25 {
		t.Errorf("%v, log %d to %d", p.Err(), p.LogStart(), p.LogEnd())
	}
}

// TestLeaderEpochOutOfOrder: the checksum leaves a batch's leader epoch out. One that is
// wrong is told of, changes no record, leaves the epochs in order, and however high it
// is the folder can be opened again and again.
func TestLeaderEpochOutOfOrder(t *testing.T) {
	for what, epochs := range map[string][]int32{
		"one too high": {0, 0, 1, 1, 9, 2, 2, 3, 3, 3}, "one too low": {0, 0, 1, 1, 0, 2, 2, 3, 3, 3}, "none": {0, 0, 1, 1, -1, 2, 2, 3, 3, 3},
		"the highest": {0, 0, 1, 1, math.MaxInt32, 2, 2, 3, 3, 3}, "the last one the highest": {0, 0, 1, 1, 1, 2, 2, 3, 3, math.MaxInt32},
	} {
		for _, vouched := range []bool{true, false} {
			content := ten()
			for i, e := range epochs {
				record.Batch(content[i*tenthSize:]).SetLeaderEpoch(e)
			}
			files := map[string][]byte{zeroLog: content}
			r := touched(t, vouched, files)
			if vouched { // the file that vouches for the epochs is gone, too
				if err := r.fs.Remove(path.Join(testDir, "user-0", epochFile)); err != nil {
					t.Fatal(err)
				}
			}
			for start := range 5 {
				where := fmt.Sprintf("%s, vouched %t, start %d", what, vouched, start)
				if err := r.tryOpen(); err != nil {
					t.Fatalf("%s: %v", where, err)
				}
				p := r.partition(2, 0)
				if p.Err() != nil || p.LogEnd() != 10+int64(start) || !bytes.HasPrefix(readAll(r, p), content) {
					t.Fatalf("%s: %v, the log ends at %d", where, p.Err(), p.LogEnd())
				}
				if start == 0 && what != "none" && !strings.Contains(strings.Join(r.warnings, "\n"), "leader epoch") {
					t.Errorf("%s: warnings %q", where, r.warnings)
				}
				last := epochEntry{-1, -1}
				for _, e := range p.epochs.mu.entries {
					if e.epoch <= last.epoch || e.start <= last.start {
						t.Errorf("%s: epochs %+v", where, p.epochs.mu.entries)
					}
					last = e
				}
				if epoch := r.s.Folder().LeaderEpoch; epoch < 0 || epoch < last.epoch {
					t.Errorf("%s: leader epoch %d after %d", where, epoch, last.epoch)
				}
				r.produce(p, 1)
				r.flush()
				if start%2 == 0 {
					r.s.abandon()
				} else if err := r.s.Close(); err != nil {
					t.Fatalf("%s: %v", where, err)
				}
			}
		}
	}
}

// TestBatchThatCannotBeDecoded: a batch with a right checksum whose records make no
// sense is kept as it is. Who decodes it is told where it lies; nobody else minds.
func TestBatchThatCannotBeDecoded(t *testing.T) {
	poison := func(f func(b record.Batch)) []byte {
		b := record.Batch(bytes.Clone(tenth(10)))
		f(b)
		b.SetCRC()
		return b
	}
	const at = record.HeaderSize // the record: its length, attributes, two deltas, the key's length
	for what, bad := range map[string][]byte{
		"a record longer than the batch": poison(func(b record.Batch) { b[at] = 0x7e }),
		"a record of negative length":    poison(func(b record.Batch) { b[at] = 0x01 }),
		"a varint without end":           poison(func(b record.Batch) { copy(b[at:], bytes.Repeat([]byte{0xff}, 11)) }),
		"a key beyond the record":        poison(func(b record.Batch) { b[at+4] = 0x7e }),
		"2^31-1 headers":                 poison(func(b record.Batch) { copy(b[len(b)-5:], []byte{0xfe, 0xff, 0xff, 0xff, 0x0f}) }),
		"no gzip":                        poison(func(b record.Batch) { b[22] |= 1 }),
		"no snappy":                      poison(func(b record.Batch) { b[22] |= 2 }),
		"no lz4":                         poison(func(b record.Batch) { b[22] |= 3 }),
		"no zstd":                        poison(func(b record.Batch) { b[22] |= 4 }),
	} {
		r := touched(t, false, map[string][]byte{zeroLog: append(append(ten(), bad...), tenth(11)...)})
		for start := range 2 {
			r.open()
			p := r.partition(2, 0)
			if p.Err() != nil || p.LogEnd() != 12 {
				t.Fatalf("%s: start %d: %v, the log ends at %d", what, start, p.Err(), p.LogEnd())
			}
			if b, err := p.Read(10, 1, true, nil); err != nil || !bytes.Equal(b, bad) {
				t.Errorf("%s: read: %d bytes, %v", what, len(b), err)
			}
			var reader record.Reader
			reader.InflateMax = 1 << 20
			seen := int64(0)
			err := p.Load(func(b record.Batch) error {
				return reader.Each(b, func(rec record.Record) error { seen = rec.Offset; return nil })
			})
			if err == nil || seen != 9 || !strings.Contains(err.Error(), zeroLog+" at byte 1060") || !strings.Contains(err.Error(), "offsets 10 to 10") {
				t.Errorf("%s: loaded up to %d: %v", what, seen, err)
			}
			if at, _, _, err := p.OffsetForTimestamp(testTime + 3); at != 3 || err != nil {
				t.Errorf("%s: by time: %d, %v", what, at, err)
			}
			if _, _, _, err := p.OffsetForTimestamp(testTime + 10); !errors.Is(err, ErrStorage) {
				t.Errorf("%s: by its time: %v", what, err)
			}
			if err := r.s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestFileShrinksWhileServed: a log that has become shorter than what was written fails
// who reads it, without data and without end.
func TestFileShrinksWhileServed(t *testing.T) {
	r := touched(t, true, nil)
	r.open()
	p := r.partition(2, 0)
	for _, size := range []int64{10*tenthSize - 1, 5*tenthSize + 30, 3} {
		if err := truncateFile(r.fs, path.Join(testDir, "user-0", zeroLog), size); err != nil {
			t.Fatal(err)
		}
		if err := p.Load(func(record.Batch) error { return nil }); err == nil || !strings.Contains(err.Error(), zeroLog) {
			t.Errorf("%d bytes: loading: %v", size, err)
		}
		if b, err := p.Read(9, 1<<20, true, nil); !errors.Is(err, ErrStorage) || len(b) > 0 {
			t.Errorf("%d bytes: reading: %d bytes, %v", size, len(b), err)
		}
	}
}

// TestFolderIsALink: a partition's folder that is a link to nowhere, or a socket's or
// other file, closes the partition; a link to a folder is as good as the folder.
func TestFolderIsALink(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kc")
	open := func() *Store {
		s, err := Open(diskOptions(dir))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	if err := s.AppendMetadata([][]byte{topicRecord(2, "user", 2, 0)}, nil, false); err != nil {
		t.Fatal(err)
	}
	flush := func() {
		if _, err := s.FlushStep(); err != nil {
			t.Fatal(err)
		}
	}
	flush()
	for n := range int32(2) {
		if _, _, err := s.Partition(testTopic(2), n).AppendBatch(tenth(0)); err != nil {
			t.Fatal(err)
		}
	}
	flush()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	there, away := filepath.Join(dir, "user-0"), filepath.Join(filepath.Dir(dir), "away")
	if err := errors.Join(os.Rename(there, away), os.Symlink(away, there)); err != nil {
		t.Fatal(err)
	}
	s = open()
	if p := s.Partition(testTopic(2), 0); p.Err() != nil || p.LogEnd() != 1 {
		t.Errorf("a link to the folder: %v, the log ends at %d", p.Err(), p.LogEnd())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(there), os.Symlink(filepath.Join(dir, "nowhere"), there)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s = open()
		if p := s.Partition(testTopic(2), 0); !errors.Is(p.Err(), ErrStorage) {
			t.Errorf("a link to nowhere: %v", p.Err())
		}
		if p := s.Partition(testTopic(2), 1); p.Err() != nil || p.LogEnd() != 1 {
			t.Errorf("the other partition: %v, the log ends at %d", p.Err(), p.LogEnd())
		}
		s.abandon()
	}
	if to, err := os.Readlink(there); err != nil || to != filepath.Join(dir, "nowhere") {
		t.Errorf("the link has changed: %s, %v", to, err)
	}
}

// TestOldestSegmentMissing: a log whose oldest segment somebody took away begins with
// the next one, which is told of; what is there is served.
func TestOldestSegmentMissing(t *testing.T) {
	for _, clean := range []bool{true, false} {
		mem := vfs.NewMem()
		r := newRig(t, mem)
		r.open()
		r.meta(topicRecord(2, "user", 1, 1))
		p := r.partition(2, 0)
		r.fill(p, 30, 2)
		if err := r.s.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		next := p.list()[1].base
		if !clean {
			mem.Kill()
		} else if err := r.s.Close(); err != nil {
			t.Fatal(err)
		}
		removeSegment(t, mem, "user-0", 0)
		for start := range 2 {
			r.open()
			p = r.partition(2, 0)
			if told := strings.Contains(strings.Join(r.warnings, "\n"), fmt.Sprintf("begins at offset %d", next)); p.Err() != nil || p.LogStart() != next || told != (start == 0) {
				t.Fatalf("clean %t, start %d: %v, log start %d, want %d, warnings %q", clean, start, p.Err(), p.LogStart(), next, r.warnings)
			}
			if _, err := p.Read(0, 1000, true, nil); !errors.Is(err, ErrOffsetOutOfRange) {
				t.Errorf("clean %t, start %d: read of what is gone: %v", clean, start, err)
			}
			checkLog(r, p)
			if err := r.s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
