package compaction

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kcoord/kcoord/log"
	"github.com/kcoord/kcoord/log/record"
	"github.com/kcoord/kcoord/log/vfs"
)

// cleanerRig is a rig with a cleaner and an owner that counts live bytes.
type cleanerRig struct {
	*rig
	c       *Cleaner
	counted bool
	live    int64
	results []Result
}

func newCleanerRig(t *testing.T, fs vfs.FS, o Options) *cleanerRig {
	r := &cleanerRig{rig: newRig(t, fs), counted: true}
	r.config.SegmentBytes = 100 << 20
	r.open()
	o.Partitions = func(f func(p *log.Partition) bool) { f(r.p) }
	o.Live = func(*log.Partition) Live { return Live{Counted: r.counted, Bytes: r.live} }
	o.Done = func(res Result) { r.results = append(r.results, res) }
	r.c = New(o)
	return r
}

// steps runs the cleaner (and checkpoints that it asked for) for a while.
func (r *cleanerRig) steps(d time.Duration) {
	r.t.Helper()
	for end := r.now + d; r.now < end; {
		next, err := r.c.Step(r.now, r.wall())
		must(r.t, err)
		if _, err := r.s.CheckpointStep(); err != nil {
			r.t.Fatal(err)
		}
		r.now += max(next, time.Millisecond)
	}
}

// write sets keys in turn, n bytes of records in all.
func (r *cleanerRig) write(n, keys int) {
	for i := 0; n > 0; i++ {
		var batch []kv
		for range 20 {
			batch = append(batch, kv{fmt.Sprint("key ", i%keys), strings.Repeat("v", 1000)})
			n -= 1000
			i++
		}
		if _, err := r.p.AppendRecords(r.wall(), toRecords(batch)); err != nil {
			r.t.Fatal(err)
		}
	}
	must(r.t, r.flush())
}

func toRecords(batch []kv) (out []log.Record) {
	for _, x := range batch {
		key, value := x.bytes()
		out = append(out, log.Record{Key: key, Value: value})
	}
	return out
}

// A busy partition is cleaned when dead bytes exceed live ones by a megabyte, a
// quiet one much earlier; the active segment is rolled for it.
func TestCountedRules(t *testing.T) {
	r := newCleanerRig(t, vfs.NewMem(), Options{})
	r.live = 20_000
	r.write(60_000, 20)
	r.steps(10 * time.Second)
	if len(r.results) != 0 {
		t.Fatalf("40 kB of garbage: %+v", r.results)
	}
	for range 10 { // never quiet for two seconds
		r.write(350_000, 20)
		r.steps(time.Second)
	}
	if len(r.results) != 0 {
		t.Fatalf("3.5 MB of garbage in a busy partition: %+v", r.results)
	}
	r.steps(4 * time.Second)
	if len(r.results) != 1 || r.results[0].Err != nil || r.results[0].BytesAfter > 40_000 {
		t.Fatalf("quiet: %+v", r.results)
	}
	r.steps(time.Minute)
	if len(r.results) != 1 {
		t.Fatalf("again without a reason: %+v", r.results[1:])
	}
	for range 9 {
		r.write(500_000, 20)
		r.steps(500 * time.Millisecond)
	}
	r.steps(900 * time.Millisecond)
	if len(r.results) != 2 {
		t.Fatalf("4.5 MB of garbage in a busy partition: %+v", r.results[1:])
	}
	r.check()
}

// What a round cannot remove does not start another one.
func TestNoUselessRounds(t *testing.T) {
	r := newCleanerRig(t, vfs.NewMem(), Options{})
	r.live = 0 // the owner knows of no live bytes, wrongly
	r.write(500_000, 500)
	r.steps(time.Minute)
	if len(r.results) != 1 {
		t.Fatalf("%d rounds", len(r.results))
	}
	r.steps(10 * time.Minute)
	r.write(20_000, 500)
	r.steps(10 * time.Minute)
	if len(r.results) != 1 {
		t.Errorf("%d rounds", len(r.results))
	}
	r.write(200_000, 500)
	r.steps(time.Minute)
	if len(r.results) != 2 {
		t.Errorf("%d rounds", len(r.results))
	}
}

// Tombstones go when their horizon has passed, also on an idle log, and also when
// the process was started anew meanwhile.
func TestExpiredTombstones(t *testing.T) {
	for _, restart := range []bool{false, true} {
		r := newCleanerRig(t, vfs.NewMem(), Options{})
		r.live = 5000
		r.write(300_000, 100)
		var deletes []kv
		for i := range 100 {
			deletes = append(deletes, kv{fmt.Sprint("key ", i), "-"})
		}
		r.set(deletes...)
		r.set(kv{"z", "z"})
		r.steps(time.Minute)
		if len(r.results) != 1 || r.results[0].Tombstones.Bytes() < 500 {
			t.Fatalf("first: %+v", r.results)
		}
		if restart {
			must(t, r.s.Close())
			r.p = nil
			r.open()
			r.c = New(r.c.o)
			r.steps(2 * time.Minute)
		}
		if len(r.results) != 1 {
			t.Fatalf("before the horizon: %+v", r.results[1:])
		}
		r.now += time.Duration(retention) * time.Millisecond
		r.live = 20
		r.steps(3 * time.Minute)
		if len(r.results) != 2 || r.results[1].RecordsAfter > 2 || r.results[1].Tombstones.Bytes() != 0 {
			t.Errorf("restart %v, after the horizon: %+v", restart, r.results[1:])
		}
		if got := r.table(); !maps.Equal(got, map[string]string{"z": "z"}) {
			t.Errorf("left: %v", got)
		}
		r.steps(48 * time.Hour)
		if len(r.results) != 2 {
			t.Errorf("more rounds: %+v", r.results[2:])
		}
	}
}

// Topics without an owner follow Kafka's dirty ratio and lags.
func TestDirtyRatio(t *testing.T) {
	r := newCleanerRig(t, vfs.NewMem(), Options{})
	r.counted = false
	r.c.o.Live = func(*log.Partition) Live { return Live{} }
	r.write(100_000, 100)
	r.steps(time.Minute)
	if len(r.results) != 0 {
		t.Fatalf("only the active segment is there: %+v", r.results)
	}
	must(t, r.roll())
	r.steps(30 * time.Second)
	if len(r.results) != 1 || r.results[0].End != r.p.LogEnd() {
		t.Fatalf("all dirty: %+v", r.results)
	}
	r.write(80_000, 1)
	must(t, r.roll())
	r.steps(time.Minute)
	if len(r.results) != 1 {
		t.Fatalf("44 %% dirty: %+v", r.results[1:])
	}
	r.write(80_000, 1)
	must(t, r.roll())
	r.steps(time.Minute)
	if len(r.results) != 2 {
		t.Fatalf("61 %% dirty: %+v", r.results)
	}
}

// As in Kafka, expired tombstones of a topic that nobody counts stay as long as nothing
// dirty comes, however long that is, and go with the next round.
func TestExpiredTombstonesOfAnIdleTopic(t *testing.T) {
	r := newCleanerRig(t, vfs.NewMem(), Options{})
	r.counted = false
	r.write(20_000, 10)
	r.set(kv{"key 1", "-"}, kv{"key 2", "-"})
	must(t, r.roll())
	r.steps(time.Minute)
	if len(r.results) != 1 || r.results[0].Tombstones.Bytes() == 0 {
		t.Fatalf("first: %+v", r.results)
	}
	size := r.p.Size()
	r.now += 3 * time.Duration(retention) * time.Millisecond
	r.steps(time.Hour)
	if len(r.results) != 1 || r.p.Size() != size {
		t.Fatalf("idle: %+v", r.results[1:])
	}
	r.write(20_000, 10)
	r.set(kv{"key 1", "-"})
	must(t, r.roll())
	r.steps(time.Minute)
	if len(r.results) != 2 || r.results[1].Tombstones.Bytes() == 0 || r.results[1].Tombstones.Bytes() >= r.results[0].Tombstones.Bytes() {
		t.Errorf("with something new: %+v, was %+v", r.results[1:], r.results[0])
	}
}

func TestCompactionLags(t *testing.T) {
	r := newCleanerRig(t, vfs.NewMem(), Options{})
	must(t, r.s.Close())
	r.p = nil
	r.config.MinCompactionLag, r.config.MaxCompactionLag = 3_600_000, 7_200_000
	r.config.MinCleanableRatio = 0.9
	r.open()
	r.c.o.Live = func(*log.Partition) Live { return Live{} }
	for range 2 {
		r.write(100_000, 100)
		must(t, r.roll())
	}
	r.steps(30 * time.Minute)
	if len(r.results) != 0 {
		t.Fatalf("too young: %+v", r.results)
	}
	r.steps(45 * time.Minute)
	if len(r.results) != 1 {
		t.Fatalf("old enough: %+v", r.results)
	}
	r.write(20_000, 1)
	must(t, r.roll())
	r.steps(100 * time.Minute)
	if len(r.results) != 1 {
		t.Fatalf("too little: %+v", r.results[1:])
	}
	r.steps(30 * time.Minute)
	if len(r.results) != 2 {
		t.Errorf("older than max.compaction.lag.ms: %+v", r.results[1:])
	}
}

// An error costs a pause, which doubles, and never the partition.
func TestBackOff(t *testing.T) {
	hook := &vfs.Hooked{FS: vfs.NewMem()}
	r := newCleanerRig(t, hook, Options{})
	r.live = 10_000
	r.write(300_000, 10)
	hook.Before = func(op vfs.Op) *vfs.Failure {
		if op.Kind == vfs.OpWrite && strings.HasSuffix(op.Path, ".cleaned") {
			return &vfs.Failure{Err: syscall.ENOSPC}
		}
		return nil
	}
	r.steps(time.Hour)
	n := len(r.results)
	if n < 8 || n > 14 { // 15 s, 30 s ... 10 min
		t.Errorf("%d tries in an hour", n)
	}
	for _, res := range r.results {
		if !errors.Is(res.Err, syscall.ENOSPC) {
			t.Errorf("result %+v", res)
		}
	}
	r.check()
	hook.Before = nil
	r.steps(11 * time.Minute)
	if len(r.results) != n+1 || r.results[n].Err != nil {
		t.Errorf("healed: %+v", r.results[n:])
	}
}

// A damaged batch stops the round of its partition and changes nothing.
func TestDamagedSegment(t *testing.T) {
	r := newCleanerRig(t, vfs.NewMem(), Options{})
	r.live = 10_000
	r.write(300_000, 10)
	must(t, r.roll())
	name := r.p.Folder() + "/00000000000000000000.log"
	f, err := r.fs.Open(name, vfs.ReadWrite)
	must(t, err)
	_, err = f.WriteAt([]byte{1, 2, 3, 4}, 100_000)
	must(t, err)
	before := readAll(t, r.fs, name)
	r.steps(time.Minute)
	if len(r.results) == 0 || !errors.Is(r.results[0].Err, record.ErrCRC) || !strings.Contains(r.results[0].Err.Error(), name) {
		t.Errorf("results %+v", r.results)
	}
	if string(before) != string(readAll(t, r.fs, name)) {
		t.Error("the segment has changed")
	}
}

// The throttle bounds bytes read and written per second.
func TestThrottle(t *testing.T) {
	r := newCleanerRig(t, vfs.NewMem(), Options{Tuning: Tuning{BytesPerSecond: 100_000}})
	r.live = 10_000
	r.write(300_000, 10)
	r.steps(10 * time.Minute)
	if len(r.results) != 1 || r.results[0].Err != nil {
		t.Fatalf("results %+v", r.results)
	}
	if took := r.results[0].Took; took < 5*time.Second || took > 8*time.Second {
		t.Errorf("600 kB took %v", took)
	}
}

// Close in the middle of a round leaves the partition usable for another one.
func TestCloseInTheMiddle(t *testing.T) {
	r := newCleanerRig(t, vfs.NewMem(), Options{Tuning: Tuning{BytesPerSecond: 50_000}})
	r.live = 10_000
	r.write(300_000, 10)
	r.steps(8 * time.Second)
	if r.c.round == nil {
		t.Fatal("no round is under way")
	}
	want := r.table()
	r.c.Close()
	r.check()
	r.c.o.BytesPerSecond = 0
	r.steps(time.Minute)
	if len(r.results) != 1 || !maps.Equal(r.table(), want) {
		t.Errorf("results %+v", r.results)
	}
}

// The partition with most dead bytes comes first, one that is being loaded not
// at all.
func TestMostDeadFirst(t *testing.T) {
	r := newCleanerRig(t, vfs.NewMem(), Options{})
	must(t, r.s.AppendMetadata([][]byte{topicRecord(1, topicID(2), "second"), topicRecord(1, topicID(3), "third")}, nil, false))
	must(t, r.flush())
	third := r.s.Partition(topicID(3), 0)
	all := []*log.Partition{r.p, r.s.Partition(topicID(2), 0), third}
	rnd := rand.New(rand.NewPCG(1, 1))
	for i, p := range all {
		for range 10 * (i + 1) {
			_, err := p.AppendRecords(r.wall(), []log.Record{{Key: []byte("k"), Value: make([]byte, 20_000+rnd.IntN(100))}})
			must(t, err)
		}
	}
	must(t, r.flush())
	r.c.o.Partitions = func(f func(p *log.Partition) bool) {
		for _, p := range all {
			f(p)
		}
	}
	r.c.o.Live = func(p *log.Partition) Live { return Live{Counted: true, Bytes: 20_000, NotReady: p == third} }
	r.steps(time.Minute)
	if len(r.results) != 2 || r.results[0].Partition != all[1] || r.results[1].Partition != all[0] {
		t.Errorf("results %+v", r.results)
	}
	if _, known := r.c.states[all[0]]; !known {
		t.Error("no state")
	}
	all = all[1:2]
	r.steps(20 * time.Second)
	if len(r.c.states) != 1 {
		t.Errorf("%d states: those of deleted partitions must go", len(r.c.states))
	}
}

// A log that gets no more records is compacted by the time that
// max.compaction.lag.ms gives, its active segment too.
func TestIdleLogIsCompactedInTime(t *testing.T) {
	r := newCleanerRig(t, vfs.NewMem(), Options{})
	must(t, r.s.Close())
	r.p = nil
	r.config.MaxCompactionLag, r.config.MinCleanableRatio = 3_600_000, 1
	r.open()
	r.c.o.Live = func(*log.Partition) Live { return Live{} }
	r.write(5_000, 10)
	want := r.table()
	r.steps(50 * time.Minute)
	if len(r.results) != 0 || r.p.ActiveSize() == 0 {
		t.Fatalf("too early: %+v", r.results)
	}
	r.steps(15 * time.Minute)
	if len(r.results) != 1 || r.results[0].End != r.p.LogEnd() {
		t.Fatalf("%d rounds, %d bytes in the active segment", len(r.results), r.p.ActiveSize())
	}
	if got := r.table(); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	r.steps(3 * time.Hour)
	if len(r.results) != 1 {
		t.Errorf("more rounds without a record: %+v", r.results[1:])
	}
}

// With cleanup.policy=compact,delete a log is compacted, and its old segments go.
func TestCompactAndDelete(t *testing.T) {
	r := newCleanerRig(t, vfs.NewMem(), Options{})
	must(t, r.s.Close())
	r.p = nil
	r.config.Delete, r.config.RetentionMillis = true, 3_600_000
	r.open()
	r.c.o.Live = func(*log.Partition) Live { return Live{} }
	r.write(50_000, 10)
	must(t, r.roll())
	r.steps(time.Minute)
	if len(r.results) != 1 || r.results[0].Replaced == 0 || len(r.table()) == 0 {
		t.Fatalf("not compacted: %+v", r.results)
	}
	end := r.p.LogEnd()
	for range 30 {
		r.now += 6 * time.Minute
		_, err := r.s.RetentionStep()
		must(t, err)
		must(t, r.flush())
		must(t, r.s.Checkpoint())
		r.steps(time.Second)
	}
	if r.p.LogStart() != end || r.p.LogEnd() != end || len(r.table()) != 0 {
		t.Errorf("log start %d, end %d of %d, %d keys", r.p.LogStart(), r.p.LogEnd(), end, len(r.table()))
	}
	r.write(1000, 10)
	must(t, r.roll())
	r.steps(time.Minute)
	r.check()
	for _, result := range r.results {
		must(t, result.Err)
	}
}

// Settings that change while the cleaner works take effect.
func TestTune(t *testing.T) {
	r := newCleanerRig(t, vfs.NewMem(), Options{})
	r.write(5_000_000, 10)
	r.c.Tune(Tuning{BytesPerSecond: 1000, MapBytes: 1 << 16, LoadFactor: 0.1, IOBufferBytes: 1})
	for range 200 {
		next, err := r.c.Step(r.now, r.wall())
		must(t, err)
		if r.now += next; r.c.round != nil {
			break
		}
		must(t, r.s.Checkpoint())
	}
	if r.c.round == nil || r.c.round.m.newest.limit != 204 || r.c.round.r.chunk != 1 {
		t.Fatalf("round %+v", r.c.round)
	}
	next, err := r.c.Step(r.now, r.wall())
	must(t, err)
	if next < 100*time.Millisecond {
		t.Errorf("the next step after %v", next)
	}
	r.c.Tune(Tuning{})
	if next, err = r.c.Step(r.now, r.wall()); next != 0 || err != nil {
		t.Errorf("without a limit the next step after %v, %v", next, err)
	}
}

// A partition whose segments cannot be read is left alone for a while, each time for
// longer, and never for good; others are cleaned meanwhile.
func TestUnreadableSegments(t *testing.T) {
	for _, counted := range []bool{true, false} {
		hook := &vfs.Hooked{FS: vfs.NewMem()}
		r := newCleanerRig(t, hook, Options{})
		must(t, r.s.AppendMetadata([][]byte{topicRecord(1, topicID(2), "second")}, nil, false))
		must(t, r.flush())
		both := []*log.Partition{r.p, r.s.Partition(topicID(2), 0)}
		for _, p := range both {
			for range 2 {
				for i := range 400 {
					_, err := p.AppendRecords(r.wall(), []log.Record{{Key: []byte{byte(i % 7)}, Value: make([]byte, 1000)}})
					must(t, err)
				}
				must(t, r.flush())
				_, err := p.RollActive(1)
				must(t, err)
			}
		}
		must(t, r.s.Close())
		for _, suffix := range []string{"index", "timeindex"} { // it has to be read from the log
			must(t, hook.Remove("/data/kc/topic-0/00000000000000000000."+suffix))
		}
		bad := true
		hook.Before = func(op vfs.Op) *vfs.Failure {
			if bad && op.Kind == vfs.OpRead && strings.HasSuffix(op.Path, "topic-0/00000000000000000000.log") {
				return &vfs.Failure{Err: syscall.EIO}
			}
			return nil
		}
		r.p = nil
		r.open()
		both = []*log.Partition{r.p, r.s.Partition(topicID(2), 0)}
		r.c = New(r.c.o)
		r.c.o.Partitions = func(f func(p *log.Partition) bool) {
			for _, p := range both {
				f(p)
			}
		}
		r.live, r.counted = 8000, counted
		r.steps(time.Hour)
		tries, cleaned := 0, 0
		for _, res := range r.results {
			switch {
			case res.Partition == both[1] && res.Err == nil:
				cleaned++
			case res.Partition == both[0] && errors.Is(res.Err, syscall.EIO):
				tries++
			default:
				t.Errorf("counted %t: %+v", counted, res)
			}
		}
		if tries < 5 || tries > 14 || cleaned == 0 {
			t.Errorf("counted %t: %d tries, %d rounds of the other partition", counted, tries, cleaned)
		}
		bad, r.results = false, nil
		r.steps(11 * time.Minute)
		if len(r.results) == 0 || r.results[0].Partition != both[0] || r.results[0].Err != nil {
			t.Errorf("counted %t: readable again: %+v", counted, r.results)
		}
	}
}
