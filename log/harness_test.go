package log

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kcoord/kcoord/log/record"
	"github.com/kcoord/kcoord/log/vfs"
)

// testMeta is a metadata state of topics only.
type testMeta struct {
	mu     sync.Mutex
	topics []TopicInfo
}

func defaultConfig() TopicConfig {
	return TopicConfig{
		SegmentBytes: 1 << 30, SegmentMillis: 604800000, SegmentIndexBytes: 10 << 20, IndexIntervalBytes: 4096,
		MaxMessageBytes: 8 << 20, RetentionMillis: 604800000, RetentionBytes: -1, DeleteRetention: 86400000,
		MaxCompactionLag: 1<<63 - 1, MinCleanableRatio: 0.5, FileDeleteDelay: 60000, Delete: true,
	}
}

// testConfigs are the configurations that a topic record can name by number.
var testConfigs = map[byte]func(*TopicConfig){
	0: func(*TopicConfig) {},
	1: func(c *TopicConfig) { c.SegmentBytes = 1000; c.IndexIntervalBytes = 150 },
	2: func(c *TopicConfig) { c.Compact, c.Delete = true, false },
	3: func(c *TopicConfig) { c.SegmentBytes = 1000; c.RetentionMillis = 60000; c.FileDeleteDelay = 0 },
	4: func(c *TopicConfig) {
		c.SegmentBytes = 1000
		c.RetentionBytes = 2000
		c.RetentionMillis = -1
		c.FileDeleteDelay = 0
	},
	5: func(c *TopicConfig) { c.SegmentIndexBytes = 64; c.IndexIntervalBytes = 100 },
	6: func(c *TopicConfig) { c.SegmentBytes = 1100; c.Compact, c.Delete = true, false },
	7: func(c *TopicConfig) { c.SegmentBytes = 1 << 20 },
}

func topicRecord(id byte, name string, partitions int32, config byte) []byte {
	b := []byte{kindTopic}
	tid := testTopic(id)
	b = append(b, tid[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(partitions))
	b = append(b, config)
	return append(b, name...)
}

func deletedRecord(id byte) []byte {
	tid := testTopic(id)
	return append([]byte{kindTopicDeleted}, tid[:]...)
}

func testTopic(id byte) TopicID { return TopicID{0: 0x70, 15: id} }

func (m *testMeta) Apply(records ...[]byte) error {
	for _, r := range records {
		if err := m.apply(r); err != nil {
			return err
		}
	}
	return nil
}

func (m *testMeta) apply(r []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch r[0] {
	case kindTopic:
		t := TopicInfo{ID: TopicID(r[1:17]), Partitions: int32(binary.BigEndian.Uint32(r[17:])), Name: string(r[22:]), Config: defaultConfig()}
		testConfigs[r[21]](&t.Config)
		for i := range m.topics {
			if m.topics[i].ID == t.ID {
				m.topics[i] = t
				return nil
			}
		}
		m.topics = append(m.topics, t)
	case kindTopicDeleted:
		for i := range m.topics {
			if m.topics[i].ID == TopicID(r[1:17]) {
				m.topics = append(m.topics[:i:i], m.topics[i+1:]...)
				break
			}
		}
	default:
		return fmt.Errorf("kind %d is unknown: %w", r[0], ErrNewer)
	}
	return nil
}

func (m *testMeta) AppendRecords(dst [][]byte) [][]byte {
	m.Topics(func(t TopicInfo) bool {
		n := byte(0)
		for i, f := range testConfigs {
			c := defaultConfig()
			f(&c)
			if c == t.Config {
				n = i
			}
		}
		dst = append(dst, topicRecord(t.ID[15], t.Name, t.Partitions, n))
		return true
	})
	return dst
}

func (m *testMeta) Topics(f func(TopicInfo) bool) {
	m.mu.Lock()
	ts := append([]TopicInfo(nil), m.topics...)
	m.mu.Unlock()
	for _, t := range ts {
		if !f(t) {
			return
		}
	}
}

func (m *testMeta) Topic(id TopicID) (t TopicInfo, ok bool) {
	m.Topics(func(have TopicInfo) bool {
		if have.ID == id {
			t, ok = have, true
		}
		return !ok
	})
	return t, ok
}

const (
	testDir  = "/data/kc"
	testTime = int64(1700000000000)
)

// rig is a store on a file system of the test's, driven by hand.
type rig struct {
	t        testing.TB
	fs       vfs.FS
	s        *Store
	now      time.Duration // the monotonic clock; the wall clock is testTime beside it
	released []Waiter
	warnings []string
	options  func(*Options)
	// fatal ends the test, or whatever a test of failures makes of it.
	fatal func(format string, args ...any)
}

func newRig(t testing.TB, fs vfs.FS) *rig {
	if err := fs.Mkdir(path.Dir(testDir)); err != nil {
		t.Fatal(err)
	}
	if err := syncDir(fs, "/"); err != nil {
		t.Fatal(err)
	}
	return &rig{t: t, fs: fs, fatal: t.Fatalf}
}

func (r *rig) opts() Options {
	seed := byte(1)
	o := Options{
		FS: r.fs, Dir: testDir, Metadata: &testMeta{},
		Now:     func() time.Time { return time.UnixMilli(testTime).Add(r.now) },
		Mono:    func() time.Duration { return r.now },
		Random:  func(b []byte) { seed++; clear(b); b[0] = seed },
		Version: "test", ClusterID: "cluster", NodeID: 1, OffsetsPartitions: 50,
		OnDurable: func(ws []Waiter) { r.released = append(r.released, ws...) },
		Events: Events{Warn: func(kind, text string) {
			r.warnings = append(r.warnings, kind+": "+text)
		}},
	}
	if r.options != nil {
		r.options(&o)
	}
	return o
}

func (r *rig) tryOpen() (err error) {
	r.warnings = nil
	r.s, err = Open(r.opts())
	return err
}

func (r *rig) open() *Store {
	r.t.Helper()
	if err := r.tryOpen(); err != nil {
		r.fatal("open: %v", err)
	}
	return r.s
}

func (r *rig) flush() {
	r.t.Helper()
	for {
		next, err := r.s.FlushStep()
		if err != nil {
			r.fatal("flush: %v", err)
		}
		if next != 0 {
			return
		}
	}
}

func (r *rig) write() {
	r.t.Helper()
	for range 2000 {
		r.now += 10 * time.Millisecond
		next, err := r.s.WriteStep()
		if err != nil {
			r.fatal("write: %v", err)
		}
		if next < 0 {
			return
		}
	}
	r.s.EachPartition(func(p *Partition) {
		if err := p.Err(); err != nil {
			r.fatal("writing does not end: %v", err)
		}
	})
	r.fatal("writing does not end")
}

func (r *rig) meta(records ...[]byte) {
	r.t.Helper()
	if err := r.s.AppendMetadata(records, nil, false); err != nil {
		r.fatal("%v", err)
	}
	r.flush()
}

func (r *rig) partition(id byte, n int32) *Partition {
	r.t.Helper()
	p := r.s.Partition(testTopic(id), n)
	if p == nil {
		r.fatal("no partition %d of topic %d", n, id)
	}
	return p
}

// commit appends one record whose key and value tell its offset.
func (r *rig) commit(p *Partition) int64 {
	r.t.Helper()
	off, err := p.AppendRecords(testTime+r.now.Milliseconds(), []Record{recordOf(p.LogEnd())})
	if err != nil {
		r.fatal("%v", err)
	}
	return off
}

func recordOf(off int64) Record {
	return Record{Key: fmt.Appendf(nil, "key-%d", off%7), Value: fmt.Appendf(nil, "value of offset %d %s", off, strings.Repeat("x", int(off%50)))}
}

// produce appends a batch of n records as a client would send it.
func (r *rig) produce(p *Partition, n int) int64 {
	r.t.Helper()
	var b record.Builder
	b.Reset(nil, record.Plain(0, -1))
	for i := range n {
		rec := recordOf(p.LogEnd() + int64(i))
		b.Append(testTime+r.now.Milliseconds()+int64(i), rec.Key, rec.Value)
	}
	off, _, err := p.AppendBatch(b.Close())
	if err != nil {
		r.fatal("%v", err)
	}
	return off
}

// fill appends batches of some records each, every one in a round of its own, and
// writes them to the partition log.
func (r *rig) fill(p *Partition, batches, records int) {
	r.t.Helper()
	for range batches {
		r.produce(p, records)
		r.flush()
	}
	r.write()
}

// contents reads the whole log as Load gives it and checks each record against
// recordOf; it returns the end.
func (r *rig) contents(p *Partition) int64 {
	r.t.Helper()
	next := p.LogStart()
	err := p.Load(func(b record.Batch) error {
		return b.Each(func(rec record.Record) error {
			want := recordOf(rec.Offset)
			if rec.Offset >= next && (string(rec.Key) != string(want.Key) || string(rec.Value) != string(want.Value)) {
				return fmt.Errorf("offset %d holds %q = %q", rec.Offset, rec.Key, rec.Value)
			}
			next = max(next, rec.Offset+1)
			return nil
		})
	})
	if err != nil {
		r.fatal("%s: %v", p, err)
	}
	return next
}

// fetch reads everything from offset on, maxBytes at a time, and returns the
// first and the next offset.
func (r *rig) fetch(p *Partition, offset int64, maxBytes int) (first, next int64) {
	r.t.Helper()
	first = -1
	for next = offset; ; {
		b, err := p.Read(next, maxBytes, true, nil)
		if err != nil {
			r.fatal("%s: read at %d: %v", p, next, err)
		}
		if len(b) == 0 {
			return first, next
		}
		for len(b) > 0 {
			batch, rest, err := record.Next(b, 1<<30)
			if err != nil {
				r.fatal("%s: read at %d: %v", p, next, err)
			}
			if first < 0 {
				first = batch.BaseOffset()
			}
			next, b = batch.NextOffset(), rest
		}
	}
}

// run makes a small history: two topics, commits and batches.
func (r *rig) history() {
	r.meta(topicRecord(1, "offsets", 3, 2), topicRecord(2, "user", 2, 1))
	for i := range 40 {
		r.commit(r.partition(1, int32(i%3)))
		if i%4 == 0 {
			r.produce(r.partition(2, int32(i/4%2)), 1+i%3)
		}
		if i%5 == 0 {
			r.flush()
		}
		if i%7 == 0 {
			r.write()
		}
	}
	r.flush()
}

func (r *rig) ends() (ends []int64) {
	r.s.EachPartition(func(p *Partition) { ends = append(ends, p.DurableEnd()) })
	return ends
}

func (r *rig) kill() {
	if m, ok := r.fs.(interface{ Kill() }); ok {
		m.Kill()
	}
}

func TestAppendReadRecover(t *testing.T) {
	for _, checkpoint := range []bool{false, true} {
		fs := vfs.NewCrashable()
		r := newRig(t, fs)
		r.open()
		if k := r.s.Folder().Kind; k != FolderNew {
			t.Fatalf("kind %d", k)
		}
		r.history()
		ends := r.ends()
		if checkpoint {
			if err := r.s.Checkpoint(); err != nil {
				t.Fatal(err)
			}
			r.commit(r.partition(1, 0))
			r.flush()
			ends[0]++
		}
		check := func() {
			t.Helper()
			i := 0
			r.s.EachPartition(func(p *Partition) {
				if p.LogEnd() != ends[i] || p.DurableEnd() != ends[i] {
					t.Errorf("%s ends at %d (durable %d), want %d", p, p.LogEnd(), p.DurableEnd(), ends[i])
				}
				if end := r.contents(p); end != ends[i] {
					t.Errorf("%s: loaded up to %d, want %d", p, end, ends[i])
				}
				for off := int64(0); off < ends[i]; off++ {
					if first, next := r.fetch(p, off, 300); first > off || next != ends[i] {
						t.Errorf("%s: fetch at %d gives %d to %d, want up to %d", p, off, first, next, ends[i])
					}
				}
				i++
			})
		}
		check()
		for range 3 {
			r.kill()
			r.open()
			if k := r.s.Folder().Kind; k != FolderRecovered {
				t.Fatalf("kind %d", k)
			}
			check()
		}
		epoch := r.s.Folder().LeaderEpoch
		if epoch != 3 {
			t.Errorf("epoch %d after three unclean starts", epoch)
		}
		if err := r.s.Close(); err != nil {
			t.Fatal(err)
		}
		r.open()
		if f := r.s.Folder(); f.Kind != FolderClean || f.LeaderEpoch != epoch {
			t.Errorf("folder %+v", f)
		}
		check()
		if err := r.s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAwait(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	r.open()
	r.meta(topicRecord(1, "offsets", 2, 2))
	p := r.partition(1, 0)
	off := r.commit(p)
	if p.Await(off, Waiter{Slot: 1}) {
		t.Fatal("durable before the flush")
	}
	other := r.partition(1, 1)
	o2 := r.commit(other)
	if pos := max(p.Position(off), other.Position(o2)); r.s.AwaitPosition(pos, Waiter{Slot: 2, At: 5}) {
		t.Fatal("durable before the flush")
	}
	if got := r.s.TakeWaiters(6, nil); len(got) != 2 {
		t.Fatalf("took %d waiters", len(got))
	}
	p.Await(off, Waiter{Slot: 3})
	r.flush()
	if len(r.released) != 1 || r.released[0].Slot != 3 {
		t.Fatalf("released %+v", r.released)
	}
	if !p.Await(off, Waiter{}) || p.Position(off) != 0 {
		t.Fatal("not durable after the flush")
	}
	if err := r.s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.s.Admit(); !errors.Is(err, ErrStopping) {
		t.Fatalf("admit after the stop: %v", err)
	}
}
