package log

import (
	"fmt"
	"path"
	"testing"
	"time"

	"github.com/kcoord/kcoord/log/vfs"
)

// promised is what has been acknowledged of one partition.
type promised struct {
	end, start int64
}

// A world runs a scenario on a crashable file system and knows at any time what
// was acknowledged, so that whatever a crash leaves can be held against it.
type world struct {
	*rig
	crash    *vfs.Crashable
	promised map[string]promised // by topic id and partition
	doomed   map[byte]bool       // topics whose deletion was asked for
	ops      int                 // operations that mutate, so far
	// at is called before each of them, fail before every operation.
	at   func(op vfs.Op)
	fail func(op vfs.Op) *vfs.Failure
}

func key(p *Partition) string { return fmt.Sprintf("%x-%d", p.id[15], p.n) }

func newWorld(t testing.TB, fs *vfs.Crashable) *world {
	w := &world{crash: fs, promised: map[string]promised{}, doomed: map[byte]bool{}}
	hooked := &vfs.Hooked{FS: fs, Before: func(op vfs.Op) *vfs.Failure {
		if op.Mutates() {
			w.ops++
			if w.at != nil {
				w.at(op)
			}
		}
		if w.fail != nil {
			return w.fail(op)
		}
		return nil
	}}
	w.rig = newRig(t, hooked)
	w.rig.options = smallStore
	return w
}

// smallStore has small journal files, so that they are left, prepared and
// recycled within a few rounds.
func smallStore(o *Options) {
	o.JournalFileBytes = 64 << 10
	o.SegmentWriteDelay = -1
}

// flush makes everything durable and takes it for promised.
func (w *world) flush() {
	w.t.Helper()
	w.rig.flush()
	w.s.EachPartition(func(p *Partition) {
		w.promised[key(p)] = promised{p.DurableEnd(), p.LogStart()}
	})
}

func (w *world) meta(records ...[]byte) {
	w.t.Helper()
	for _, r := range records {
		if r[0] == kindTopicDeleted {
			w.doomed[r[16]] = true
		}
	}
	if err := w.s.AppendMetadata(records, nil, false); err != nil {
		w.fatal("%v", err)
	}
	w.flush()
	for id := range w.doomed {
		for k := range w.promised {
			if k[:len(fmt.Sprintf("%x-", id))] == fmt.Sprintf("%x-", id) {
				delete(w.promised, k)
			}
		}
	}
}

func (w *world) prepare() {
	w.t.Helper()
	for range 20 {
		w.now += 5 * time.Millisecond
		if _, err := w.s.PrepareStep(); err != nil {
			w.fatal("%v", err)
		}
	}
}

func (w *world) checkpoint() {
	w.t.Helper()
	if err := w.s.Checkpoint(); err != nil {
		w.fatal("%v", err)
	}
}

func (w *world) retain() {
	w.t.Helper()
	w.now += 6 * time.Minute
	for range 3 {
		if _, err := w.s.RetentionStep(); err != nil {
			w.fatal("%v", err)
		}
		w.flush()
		w.now += time.Second
	}
}

// judge opens what a crash left and checks it against the promises; then it
// goes on working with it, crashes again and checks once more.
func judge(t *testing.T, what string, image *vfs.Crashable, promises map[string]promised, now time.Duration) {
	t.Helper()
	wantGuard(t, what, image)
	for round := range 3 {
		w := newWorld(t, image)
		w.now = now
		if err := w.tryOpen(); err != nil {
			t.Fatalf("%s: start %d: %v", what, round, err)
		}
		found := map[string]bool{}
		w.s.EachPartition(func(p *Partition) {
			found[key(p)] = true
			if err := p.Err(); err != nil {
				t.Fatalf("%s: start %d: %v", what, round, err)
			}
			want := promises[key(p)]
			if p.DurableEnd() < want.end || p.LogStart() < want.start {
				t.Fatalf("%s: start %d: %s holds offsets %d to %d, promised were %d to %d", what, round, p, p.LogStart(), p.DurableEnd(), want.start, want.end)
			}
			checkLog(w.rig, p)
			if round < 2 {
				w.commit(p)
			}
		})
		for k, want := range promises {
			if !found[k] && want.end > 0 {
				t.Fatalf("%s: start %d: partition %s is gone", what, round, k)
			}
		}
		if round == 2 {
			if err := w.s.Close(); err != nil {
				t.Fatalf("%s: closing: %v", what, err)
			}
			return
		}
		w.flush()
		promises = w.promised
		if round == 0 {
			image.Kill() // the process ends, the machine goes on
		} else {
			image = image.Crash(vfs.KeepNone)
		}
	}
}

// wantGuard: as long as the journal may hold what the partition logs do not, a Kafka
// that is started on the folder finds the guard and no marker that vouches for them.
func wantGuard(t *testing.T, what string, fs vfs.FS) {
	t.Helper()
	there := func(name string) bool {
		ok, err := exists(fs, path.Join(testDir, name))
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	if !there(propertiesName) {
		return
	}
	sn, err := readSnapshot(fs, testDir)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if guard, marker := there(guardName), there(markerName); !sn.clean && (!guard || marker) {
		t.Fatalf("%s: the snapshot is open, the guard is there: %t, the marker: %t", what, guard, marker)
	}
}

// checkLog reads a log in every way and compares its indexes with ones made
// from scratch.
func checkLog(r *rig, p *Partition) {
	r.t.Helper()
	if rp, hw, durable, end := p.RecoveryPoint(), p.HighWatermark(), p.DurableEnd(), p.LogEnd(); rp > hw || hw > durable || durable > end || p.CleanerCheckpoint() < p.LogStart() || p.LogStart() > end {
		r.fatal("%s: log start %d, recovery point %d, high watermark %d, durable end %d, end %d, cleaned up to %d", p, p.LogStart(), rp, hw, durable, end, p.CleanerCheckpoint())
	}
	if end := r.contents(p); end != p.DurableEnd() {
		r.fatal("%s: loaded up to offset %d, want %d", p, end, p.DurableEnd())
	}
	if p.LogStart() < p.DurableEnd() {
		if first, next := r.fetch(p, p.LogStart(), 500); first > p.LogStart() || next != p.DurableEnd() {
			var bases []int64
			for _, g := range p.list() {
				bases = append(bases, g.base)
			}
			r.fatal("%s: fetch from %d gives %d to %d, want %d; segments %v", p, p.LogStart(), first, next, p.DurableEnd(), bases)
		}
	}
	next := int64(0)
	for _, g := range p.list() {
		index, times := allEntries(r, p, g)
		if g.base < next {
			r.fatal("%s: segment %d begins below %d", p, g.base, next)
		}
		again := &segment{base: g.base, dir: g.dir, file: g.file}
		again.size.Store(g.size.Load())
		if err := again.load(vfs.NewMem(), nil, p.Topic().Config.IndexIntervalBytes, true, g != p.active()); err != nil {
			r.fatal("%s: %v", p, err)
		}
		i2, t2, _ := again.entries()
		if fmt.Sprint(index) != fmt.Sprint(i2) || fmt.Sprint(times) != fmt.Sprint(t2) {
			r.fatal("%s: segment %d has indexes %v %v, from scratch they are %v %v", p, g.base, index, times, i2, t2)
		}
		if got, want := g.tail, again.tail; got.size != want.size || got.next != want.next || got.maxTime != want.maxTime ||
			got.firstTime != want.firstTime || got.sinceIndex != want.sinceIndex || got.indexed != want.indexed {
			r.fatal("%s: segment %d has tail %+v, from scratch it is %+v", p, g.base, got, want)
		}
		next = g.tail.next
	}
}

// allEntries are a segment's index entries, wherever they are.
func allEntries(r *rig, p *Partition, g *segment) ([]indexEntry, []timeEntry) {
	r.t.Helper()
	if err := p.look(g); err != nil {
		r.fatal("%v", err)
	}
	index, times, place := g.entries()
	if place == entriesInMemory {
		return index, times
	}
	index, times, err := g.readIndexFiles(r.fs, g.size.Load())
	if err != nil {
		r.fatal("%v", err)
	}
	if len(index) != g.filed(suffixIndex) || len(times) != g.filed(suffixTimeIndex) {
		r.fatal("%s has %d and %d entries, known are %d and %d", g.name(suffixIndex), len(index), len(times), g.filed(suffixIndex), g.filed(suffixTimeIndex))
	}
	return index, times
}

// scenarios are short lives of a store; each begins with an empty folder.
var scenarios = map[string]func(w *world){
	"append and checkpoint": func(w *world) {
		w.open()
		w.meta(topicRecord(1, "offsets", 2, 2), topicRecord(2, "user", 1, 1))
		for i := range 12 {
			w.commit(w.partition(1, int32(i%2)))
			w.produce(w.partition(2, 0), 1+i%3)
			if i%3 == 0 {
				w.flush()
			}
			if i%4 == 0 {
				w.write()
			}
			if i == 5 {
				w.checkpoint()
			}
		}
		w.flush()
		w.checkpoint()
		w.commit(w.partition(1, 0))
		w.flush()
	},
	"recycle": func(w *world) {
		w.open()
		w.meta(topicRecord(1, "offsets", 1, 2))
		for i := range 16 {
			for range 100 {
				w.commit(w.partition(1, 0))
			}
			w.flush()
			w.prepare()
			if i%4 == 3 {
				w.write()
				w.checkpoint()
			}
		}
	},
	"clean stop and start": func(w *world) {
		w.open()
		w.meta(topicRecord(1, "offsets", 2, 2), topicRecord(2, "user", 1, 1))
		w.commit(w.partition(1, 0))
		w.flush()
		if err := w.s.Close(); err != nil {
			w.fatal("%v", err)
		}
		w.open()
		w.commit(w.partition(1, 1))
		w.produce(w.partition(2, 0), 2)
		w.flush()
		if err := w.s.Close(); err != nil {
			w.fatal("%v", err)
		}
		w.open()
		w.produce(w.partition(2, 0), 2)
		w.flush()
	},
	"unclean starts": func(w *world) {
		for range 3 {
			w.open()
			w.meta(topicRecord(1, "offsets", 2, 2), topicRecord(2, "user", 1, 1))
			w.commit(w.partition(1, 0))
			w.produce(w.partition(2, 0), 5)
			w.flush()
			w.write()
			w.crash.Kill()
		}
	},
	"topics come and go": func(w *world) {
		w.open()
		w.meta(topicRecord(1, "offsets", 1, 2), topicRecord(2, "user", 2, 1))
		w.produce(w.partition(2, 0), 5)
		w.flush()
		w.write()
		w.checkpoint()
		w.produce(w.partition(2, 1), 5)
		w.flush()
		w.meta(deletedRecord(2))
		w.meta(topicRecord(3, "user", 1, 1))
		w.produce(w.partition(3, 0), 3)
		w.flush()
		w.write()
		w.retain()
		w.checkpoint()
		w.produce(w.partition(3, 0), 1)
		w.flush()
	},
	"retention": func(w *world) {
		w.open()
		w.meta(topicRecord(3, "short", 1, 3), topicRecord(4, "small", 1, 4))
		for range 2 {
			for range 14 {
				w.produce(w.partition(3, 0), 2)
				w.produce(w.partition(4, 0), 3)
			}
			w.flush()
			w.write()
			w.checkpoint()
			w.retain()
			if _, _, err := w.partition(4, 0).DeleteRecords(w.partition(4, 0).DurableEnd()-1, nil); err != nil {
				w.fatal("%v", err)
			}
			w.flush()
		}
		w.checkpoint()
		w.retain()
	},
}

// TestCrash crashes each scenario before each of its operations, with nothing,
// all and random parts of what was not synced left.
func TestCrash(t *testing.T) {
	for name, scenario := range scenarios {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, vfs.NewCrashable())
			images := 0
			w.at = func(op vfs.Op) {
				promises := map[string]promised{}
				for k, v := range w.promised {
					if !w.doomed[k[0]-'0'] {
						promises[k] = v
					}
				}
				picks := []vfs.Pick{vfs.KeepNone, vfs.KeepAll, vfs.Seeded(uint64(w.ops))}
				if sweep() > 1 {
					picks = picks[w.ops%3:][:1]
				}
				if w.ops%max(sweep()/4, 1) != 0 {
					return
				}
				for i, pick := range picks {
					images++
					judge(t, fmt.Sprintf("before operation %d (%s), image %d", w.ops, op, i), w.crash.Crash(pick), promises, w.now)
				}
			}
			scenario(w)
			t.Logf("%d operations, %d images", w.ops, images)
		})
	}
}
