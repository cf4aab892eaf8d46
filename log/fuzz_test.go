package log

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"path"
	"testing"

	"github.com/kcoord/kcoord/log/record"
	"github.com/kcoord/kcoord/log/vfs"
)

// fuzzed are the decoders of files that FuzzFiles feeds, by number. Each checks that
// what it accepts is encoded as it was.
var fuzzed = []func(t *testing.T, b []byte){
	func(t *testing.T, b []byte) { // a snapshot, its checksum made right
		if len(b) > 4 {
			b = bytes.Clone(b)
			binary.BigEndian.PutUint32(b[len(b)-4:], crc32.Checksum(b[:len(b)-4], castagnoli))
		}
		sn, err := parseSnapshot(b)
		if err != nil {
			return
		}
		again, err := parseSnapshot(sn.append(nil))
		if err != nil || again.replay != sn.replay || len(again.records) != len(sn.records) || again.clean != sn.clean {
			t.Errorf("%+v is read again as %+v, %v", sn, again, err)
		}
	},
	func(t *testing.T, b []byte) {
		if entries, err := parseIndex(b, 1<<31); err == nil && !bytes.Equal(appendIndex(nil, entries), b) {
			t.Errorf("index %x", b)
		}
	},
	func(t *testing.T, b []byte) {
		if entries, err := parseTimeIndex(b); err == nil && !bytes.Equal(appendTimeIndex(nil, entries), b) {
			t.Errorf("time index %x", b)
		}
	},
	func(t *testing.T, b []byte) {
		for fields := 2; fields <= 3; fields++ {
			lines, err := parseCheckpoint(b, fields)
			for _, l := range lines {
				if err != nil || len(l) != fields {
					t.Errorf("line %q, %v", l, err)
				}
			}
		}
	},
	func(t *testing.T, b []byte) {
		if r, err := parseStart(b); err == nil && !bytes.Equal(r.append(nil), b) {
			t.Errorf("start record %x", b)
		}
		if r, err := parseLogStart(b); err == nil && !bytes.Equal(r.append(nil), b) {
			t.Errorf("log start record %x", b)
		}
		if r, err := parseRecoveryPoint(b); err == nil && !bytes.Equal(r.append(nil), b) {
			t.Errorf("recovery point record %x", b)
		}
		_, _, _ = ParseStoreRecord(b)
	},
	func(_ *testing.T, b []byte) {
		parseProperties(b)
		isDeleteDir(string(b))
		mayBePartition(string(b))
		_, _, _ = parseSegmentName(string(b))
		_ = KindOf(string(b))
	},
	func(t *testing.T, b []byte) { // a segment of an open partition: opened or refused, read or an error
		r := newRig(t, vfs.NewMem())
		r.options = smallStore
		r.open()
		r.meta(topicRecord(2, "user", 1, 0))
		if err := r.s.Close(); err != nil {
			t.Fatal(err)
		}
		dir := path.Join(testDir, "user-0")
		if err := r.fs.Mkdir(dir); err != nil {
			t.Fatal(err)
		}
		put(t, r.fs, path.Join(dir, partitionMetadata), partitionMetadataBytes(testTopic(2)))
		put(t, r.fs, path.Join(dir, zeroLog), b)
		r.open()
		p := r.partition(2, 0)
		_ = p.Load(func(b record.Batch) error { return b.Each(func(record.Record) error { return nil }) })
		_, _ = p.Read(0, 1000, true, nil)
		_, _, _, _ = p.OffsetForTimestamp(testTime)
		r.s.abandon()
	},
}

// FuzzFiles gives arbitrary bytes to the decoder of each kind of file: an error or
// what they say, never a panic.
func FuzzFiles(f *testing.F) {
	sn := &snapshot{records: [][]byte{startRecord{3, 0, "v"}.append(nil)}}
	sn.replay.File, sn.replay.Sequence = 1, 1
	f.Add(uint8(0), sn.append(nil))
	f.Add(uint8(1), appendIndex(nil, []indexEntry{{1, 100}, {5, 900}}))
	f.Add(uint8(2), appendTimeIndex(nil, []timeEntry{{testTime, 3}, {testTime + 1, 9}}))
	f.Add(uint8(3), []byte("0\n1\nuser 0 5\n"))
	f.Add(uint8(4), recoveryPointRecord{offset: 9, base: 3, position: 100}.append(nil))
	f.Add(uint8(4), logStartRecord{offset: 9}.append(nil))
	f.Add(uint8(4), startRecord{3, 1, "v"}.append(nil))
	f.Add(uint8(5), []byte("user-0.00000000000000000000000000000000-delete"))
	f.Add(uint8(6), ten())
	f.Fuzz(func(t *testing.T, which uint8, b []byte) { fuzzed[int(which)%len(fuzzed)](t, b) })
}

// TestFloodOfProduce: Produce fills half a round and then waits; what coordinators
// append is admitted all the while.
func TestFloodOfProduce(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	s := r.open()
	defer s.Close()
	r.meta(topicRecord(1, "offsets", 1, 2), topicRecord(2, "user", 1, 0))
	user, offsets := r.partition(2, 0), r.partition(1, 0)
	large := batchAt(0, 0, 1<<20)
	for round := range 3 {
		waits := 0
		for range 40 {
			if err := s.AdmitProduce(len(large)); err != nil {
				waits++
			} else if _, _, err := user.AppendBatch(large); err != nil {
				t.Fatal(err)
			}
			if err := s.Admit(); err != nil {
				t.Fatalf("round %d: a commit is refused: %v", round, err)
			}
			r.commit(offsets)
		}
		if waits < 20 {
			t.Errorf("round %d: %d of 40 batches of a MiB had to wait", round, waits)
		}
		r.flush()
		r.write()
	}
}
