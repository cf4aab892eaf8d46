package compaction

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kcoord/kcoord/log"
	"github.com/kcoord/kcoord/log/record"
	"github.com/kcoord/kcoord/log/vfs"
)

const testDir = "/data/kc"

// topics is the metadata of a test: its records are kind (1 topic, 2 deleted),
// id, name.
type topics struct {
	config log.TopicConfig
	all    []log.TopicInfo
}

func topicID(n byte) log.TopicID { return log.TopicID{0: 0x70, 15: n} }

func topicRecord(kind byte, id log.TopicID, name string) []byte {
	return append(append([]byte{kind}, id[:]...), name...)
}

func (m *topics) Apply(records ...[]byte) error {
	for _, r := range records {
		if err := m.apply(r); err != nil {
			return err
		}
	}
	return nil
}

func (m *topics) apply(r []byte) error {
	switch r[0] {
	case 1:
		t := log.TopicInfo{ID: log.TopicID(r[1:17]), Name: string(r[17:]), Partitions: 1, Config: m.config}
		if !slices.ContainsFunc(m.all, func(o log.TopicInfo) bool { return o.ID == t.ID }) {
			m.all = append(m.all, t)
		}
	case 2:
		m.all = slices.DeleteFunc(m.all, func(o log.TopicInfo) bool { return o.ID == log.TopicID(r[1:17]) })
	default:
		return fmt.Errorf("kind %d", r[0])
	}
	return nil
}

func (m *topics) AppendRecords(dst [][]byte) [][]byte {
	for _, t := range m.all {
		dst = append(dst, topicRecord(1, t.ID, t.Name))
	}
	return dst
}

func (m *topics) Topics(f func(t log.TopicInfo) bool) {
	for _, t := range m.all {
		if !f(t) {
			return
		}
	}
}

func (m *topics) Topic(id log.TopicID) (log.TopicInfo, bool) {
	for _, t := range m.all {
		if t.ID == id {
			return t, true
		}
	}
	return log.TopicInfo{}, false
}

// rig is a store driven by hand, with one compacted topic of one partition.
type rig struct {
	t      testing.TB
	fs     vfs.FS
	config log.TopicConfig
	s      *log.Store
	p      *log.Partition
	now    time.Duration // both clocks
	tuning Tuning        // of tryRound
}

func newRig(t testing.TB, fs vfs.FS) *rig {
	must(t, fs.Mkdir("/data"))
	for _, name := range []string{"/", "/data"} {
		d, err := fs.OpenDir(name)
		must(t, err)
		must(t, d.Sync())
		must(t, d.Close())
	}
	r := &rig{t: t, fs: fs, config: log.TopicConfig{
		SegmentBytes: 8 << 10, SegmentMillis: 1 << 60, SegmentIndexBytes: 10 << 20, IndexIntervalBytes: 500,
		MaxMessageBytes: 8 << 20, RetentionMillis: -1, RetentionBytes: -1, DeleteRetention: retention,
		MaxCompactionLag: 1<<63 - 1, MinCleanableRatio: 0.5, FileDeleteDelay: 0, Compact: true,
	}}
	return r
}

// wall is the wall clock in ms.
func (r *rig) wall() int64 { return stamp + r.now.Milliseconds() }

// tryOpen opens the store and makes the topic in a new folder.
func (r *rig) tryOpen() error {
	seed := byte(1)
	s, err := log.Open(log.Options{
		FS: r.fs, Dir: testDir, Metadata: &topics{config: r.config},
		Now:     func() time.Time { return time.UnixMilli(r.wall()) },
		Mono:    func() time.Duration { return r.now },
		Random:  func(b []byte) { seed++; clear(b); b[0] = seed },
		Version: "test", ClusterID: "cluster", NodeID: 1, OffsetsPartitions: 1,
		SegmentWriteDelay: -1,
	})
	if err != nil {
		return err
	}
	r.s = s
	if r.p = s.Partition(topicID(1), 0); r.p == nil {
		if err := s.AppendMetadata([][]byte{topicRecord(1, topicID(1), "topic")}, nil, false); err != nil {
			return err
		}
		if err := r.flush(); err != nil {
			return err
		}
		r.p = s.Partition(topicID(1), 0)
	}
	return r.p.Err()
}

func (r *rig) open() {
	r.t.Helper()
	must(r.t, r.tryOpen())
}

// flush brings everything appended into the partition log.
func (r *rig) flush() error {
	for {
		next, err := r.s.FlushStep()
		if err != nil {
			return err
		}
		if next != 0 {
			break
		}
	}
	for {
		r.now += 10 * time.Millisecond
		next, err := r.s.WriteStep()
		if err != nil || next < 0 {
			return err
		}
		if r.p != nil && r.p.Err() != nil {
			return r.p.Err()
		}
	}
}

// set appends one batch of records.
func (r *rig) trySet(records ...kv) error {
	var rs []log.Record
	for _, kv := range records {
		key, value := kv.bytes()
		rs = append(rs, log.Record{Key: key, Value: value})
	}
	if _, err := r.p.AppendRecords(r.wall(), rs); err != nil {
		return err
	}
	return r.flush()
}

func (r *rig) set(records ...kv) {
	r.t.Helper()
	must(r.t, r.trySet(records...))
}

// batch appends a batch as a client sent it.
func (r *rig) batch(b record.Batch) {
	r.t.Helper()
	_, _, err := r.p.AppendBatch(b)
	must(r.t, err)
	must(r.t, r.flush())
}

// close the active segment and move the recovery point behind it.
func (r *rig) roll() error {
	if _, err := r.p.RollActive(1); err != nil {
		return err
	}
	return r.s.Checkpoint()
}

// tryCompact runs one round over all closed segments; the active one is closed
// before.
func (r *rig) tryCompact(merge bool) (Result, error) {
	if err := r.roll(); err != nil {
		return Result{}, err
	}
	return r.tryRound(merge)
}

func (r *rig) tryRound(merge bool) (Result, error) {
	c, err := r.p.BeginCleaning()
	if err != nil {
		return Result{}, err
	}
	round := newRound(r.p, c, cleanable(r.p, c.Segments(), r.wall()), merge, r.wall(), r.tuning.withDefaults())
	defer round.close()
	for steps := 0; ; steps++ {
		if done, err := round.step(int64(1 + (r.tuning.IOBufferBytes+1000)%5000)); done || err != nil {
			return round.result, err
		}
		if steps > 1_000_000 {
			r.t.Fatal("a round without end")
		}
	}
}

func (r *rig) compact(merge bool) Result {
	r.t.Helper()
	result, err := r.tryCompact(merge)
	must(r.t, err)
	return result
}

// batches is the log as text, one line per batch.
func (r *rig) batches() (out []string) {
	r.t.Helper()
	must(r.t, r.p.Load(func(b record.Batch) error {
		out = append(out, text(b))
		return nil
	}))
	return out
}

// table is what a full scan finds: the last value of every key.
func (r *rig) table() map[string]string {
	r.t.Helper()
	m := map[string]string{}
	must(r.t, r.p.Load(func(b record.Batch) error {
		return b.Each(func(rec record.Record) error {
			if rec.Value == nil {
				delete(m, string(rec.Key))
			} else {
				m[string(rec.Key)] = string(rec.Value)
			}
			return nil
		})
	}))
	return m
}

// files lists the partition's folder.
func (r *rig) files() []string {
	r.t.Helper()
	names, err := r.fs.List(r.p.Folder())
	must(r.t, err)
	return names
}

// check verifies what must hold for the files of every log.
func (r *rig) check() {
	r.t.Helper()
	if r.p.LogEnd() == 0 {
		return // the folder comes with the first write
	}
	logs := 0
	next := int64(-1)
	for _, name := range r.files() {
		if strings.HasSuffix(name, ".cleaned") || strings.HasSuffix(name, ".swap") {
			r.t.Errorf("left over: %s", name)
		}
		if !strings.HasSuffix(name, ".log") {
			continue
		}
		logs++
		var base int64
		_, err := fmt.Sscanf(name, "%d.log", &base)
		must(r.t, err)
		if base < next {
			r.t.Errorf("%s overlaps with what ends at %d", name, next)
		}
		next = max(next, base)
		b := readAll(r.t, r.fs, r.p.Folder()+"/"+name)
		for len(b) > 0 {
			batch, rest, err := record.Next(b, maxBatch)
			if err != nil {
				r.t.Fatalf("%s: %v", name, err)
			}
			if batch.BaseOffset() < next {
				r.t.Errorf("%s: batch %d after %d", name, batch.BaseOffset(), next)
			}
			next, b = batch.NextOffset(), rest
		}
	}
	if logs == 0 || next > r.p.LogEnd() {
		r.t.Errorf("%d segments up to %d, log end %d", logs, next, r.p.LogEnd())
	}
}

func readAll(t testing.TB, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open(name, vfs.ReadOnly)
	must(t, err)
	defer f.Close()
	size, err := f.Size()
	must(t, err)
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); int64(n) != size {
		t.Fatal(errors.Join(err, fmt.Errorf("%d bytes of %d", n, size)))
	}
	return b
}
