package compaction

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kcoord/kcoord/log"
	"github.com/kcoord/kcoord/log/record"
	"github.com/kcoord/kcoord/log/vfs"
)

func memRig(t testing.TB) *rig {
	r := newRig(t, vfs.NewMem())
	r.open()
	return r
}

func wantLog(t *testing.T, r *rig, what string, want ...string) {
	t.Helper()
	if got := r.batches(); !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
	r.check()
}

func TestRoundKeepsTheNewest(t *testing.T) {
	r := memRig(t)
	r.set(kv{"a", "0"})
	r.set(kv{"k", "1"})
	r.set(kv{"k", "2"}, kv{"b", "3"})
	must(t, r.roll())
	r.set(kv{"k", "4"})
	got := r.compact(false)
	if got.From != 0 || got.End != 5 || got.Replaced != 1 || got.SegmentsBefore != 2 || got.SegmentsAfter != 1 || got.RecordsBefore != 5 || got.RecordsAfter != 3 {
		t.Errorf("result %+v", got)
	}
	wantLog(t, r, "compacted", "0-0 [ 0:a=0 ]", "2-3 [ 3:b=3 ]", "4-4 [ 4:k=4 ]")
	if end := r.p.LogEnd(); end != 5 || r.p.LogStart() != 0 || r.p.CleanerCheckpoint() != 5 {
		t.Errorf("log %d-%d, checkpoint %d", r.p.LogStart(), end, r.p.CleanerCheckpoint())
	}
	b, err := r.p.Read(1, 1<<20, true, nil)
	if must(t, err); record.Batch(b).BaseOffset() != 2 {
		t.Errorf("a fetch at a removed offset begins at %d", record.Batch(b).BaseOffset())
	}
}

// What is in the active segment, or above the recovery point, supersedes nothing
// yet and is not touched.
func TestRoundStopsAtTheRecoveryPoint(t *testing.T) {
	r := memRig(t)
	r.set(kv{"k", "0"})
	must(t, r.roll())
	r.set(kv{"k", "1"})
	if _, err := r.p.RollActive(1); err != nil { // closed, not yet synced
		t.Fatal(err)
	}
	r.set(kv{"k", "2"})
	if _, err := r.tryRound(false); err != nil {
		t.Fatal(err)
	}
	wantLog(t, r, "above the recovery point", "0-0 [ 0:k=0 ]", "1-1 [ 1:k=1 ]", "2-2 [ 2:k=2 ]")
	must(t, r.s.Checkpoint())
	if _, err := r.tryRound(false); err != nil {
		t.Fatal(err)
	}
	wantLog(t, r, "below it", "1-1 [ 1:k=1 ]", "2-2 [ 2:k=2 ]")
}

func TestRoundTombstones(t *testing.T) {
	r := memRig(t)
	r.set(kv{"k", "0"})
	r.set(kv{"k", "-"})
	r.set(kv{"z", "2"})
	got := r.compact(false)
	horizon := r.wall() + retention
	tombstone := fmt.Sprintf("1-1 h%+d [ 1:k=- ]", horizon-stamp)
	wantLog(t, r, "first", tombstone, "2-2 [ 2:z=2 ]")
	if n, oldest := got.Tombstones.expired(horizon + minute); n == 0 || oldest < horizon || oldest > horizon+minute {
		t.Errorf("tombstones %v", got.Tombstones)
	}
	r.now += time.Duration(retention-1000) * time.Millisecond
	if got := r.compact(false); got.Replaced != 0 {
		t.Errorf("before the horizon something was written: %+v", got)
	}
	wantLog(t, r, "before the horizon", tombstone, "2-2 [ 2:z=2 ]")
	r.now += 2 * time.Second
	r.compact(false)
	wantLog(t, r, "after it", "2-2 [ 2:z=2 ]")
}

// Everything is dead: the log end stays, also after a restart.
func TestRoundRemovesEverything(t *testing.T) {
	r := memRig(t)
	r.set(kv{"k", "0"})
	r.set(kv{"k", "-"})
	r.compact(false)
	r.now += time.Duration(retention+1) * time.Millisecond
	r.compact(false)
	wantLog(t, r, "empty", "1-1 [ ]")
	must(t, r.s.Close())
	r.open()
	if r.p.LogEnd() != 2 || r.p.LogStart() != 0 {
		t.Errorf("log %d-%d", r.p.LogStart(), r.p.LogEnd())
	}
	r.set(kv{"k", "2"})
	r.compact(false)
	wantLog(t, r, "and on", "2-2 [ 2:k=2 ]")
}

// A second round without writes changes nothing, not even a file.
func TestRoundIsIdempotent(t *testing.T) {
	for _, merge := range []bool{false, true} {
		r := memRig(t)
		for i := range 600 {
			r.set(kv{fmt.Sprint("key ", i*7%90), fmt.Sprint("value ", i)}, kv{fmt.Sprint("other ", i%40), "-"})
		}
		first := r.compact(merge)
		if first.Replaced == 0 || first.BytesAfter >= first.BytesBefore/2 {
			t.Errorf("first round %+v", first)
		}
		second := r.compact(merge)
		names := r.files()
		var before [][]byte
		for _, name := range names {
			before = append(before, readAll(t, r.fs, r.p.Folder()+"/"+name))
		}
		third := r.compact(merge)
		if third.Replaced != 0 || !slices.Equal(r.files(), names) {
			t.Errorf("third round %+v after %+v", third, second)
		}
		for i, name := range names {
			if !bytes.Equal(before[i], readAll(t, r.fs, r.p.Folder()+"/"+name)) {
				t.Errorf("%s has changed", name)
			}
		}
		r.check()
	}
}

// Small batches of the offsets log become few; every record keeps offset and
// timestamp, and a fetch at each old offset finds the right next record.
func TestRoundMerges(t *testing.T) {
	r := memRig(t)
	type rec struct {
		offset, timestamp int64
		key               string
	}
	load := func() (recs []rec, batches int) {
		must(t, r.p.Load(func(b record.Batch) error {
			batches++
			return b.Each(func(x record.Record) error {
				recs = append(recs, rec{x.Offset, x.Timestamp, string(x.Key)})
				return nil
			})
		}))
		return recs, batches
	}
	for i := range 400 {
		r.set(kv{fmt.Sprint("key ", i), strings.Repeat("v", i%100)})
		r.now += 3 * time.Second
	}
	r.set(kv{"last", "-"})
	before, many := load()
	size := r.p.Size()
	got := r.compact(true)
	after, few := load()
	if !slices.Equal(before, after) || many != 401 || few > 12 {
		t.Errorf("%d batches with %d records became %d with %d", many, len(before), few, len(after))
	}
	if r.p.Size() > size*2/3 || got.BytesAfter != r.p.Size() {
		t.Errorf("%d bytes became %d, result %+v", size, r.p.Size(), got)
	}
	for off := range r.p.LogEnd() {
		b, err := r.p.Read(off, 1, true, nil)
		must(t, err)
		if batch := record.Batch(b); batch.BaseOffset() > off || batch.LastOffset() < off {
			t.Errorf("a fetch at %d gives %d-%d", off, batch.BaseOffset(), batch.LastOffset())
		}
	}
	r.check()
}

func TestMergeOnlyWhatMayBe(t *testing.T) {
	with := func(b record.Batch, change func(b record.Batch)) record.Batch {
		change(b)
		b.SetCRC()
		return b
	}
	one := func(base int64) record.Batch { return plain(base, kv{fmt.Sprint(base), "v"}) }
	var w record.Rewriter
	var rd record.Reader
	gzip, err := w.Recompress(nil, &rd, one(1), record.CodecGzip)
	must(t, err)
	for _, c := range []struct {
		name string
		b    record.Batch
		want bool
	}{
		{"plain", one(1), true},
		{"far away", one(1 << 31), false},
		{"other epoch", with(one(1), func(b record.Batch) { b.SetLeaderEpoch(9) }), false},
		{"producer", build(producer(1, 5, false), kv{"1", "v"}), false},
		{"compressed", gzip, false},
		{"append time", with(one(1), func(b record.Batch) { b[22] |= record.BitLogAppendTime }), false},
		{"horizon", with(one(1), func(b record.Batch) { b[22] |= record.BitDeleteHorizon }), false},
		{"control", with(one(1), func(b record.Batch) { b[22] |= record.BitControl }), false},
		{"empty", record.AppendEmpty(nil, one(1)), true},
		{"too large", plain(1, kv{"k", strings.Repeat("v", 2000)}), false},
	} {
		s := sink{mergeBytes: 1000, held: one(0), holds: true}
		if got := s.joins(c.b); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// max.message.bytes may have been lowered since: batches are copied all the same.
func TestRoundCopiesLargeBatches(t *testing.T) {
	r := memRig(t)
	big := strings.Repeat("v", 300_000)
	r.set(kv{"big", big})
	r.set(kv{"k", "1"})
	r.set(kv{"k", "2"})
	r.compact(true)
	if got := r.table(); got["big"] != big || got["k"] != "2" {
		t.Errorf("%d keys", len(got))
	}
	r.check()
}

// With a map that is too small for all keys a round ends earlier, and the next
// one goes on there.
func TestRoundWithAFullMap(t *testing.T) {
	r := memRig(t)
	for i := range 300 {
		var batch []kv
		for k := range 10 {
			batch = append(batch, kv{fmt.Sprint("key ", (i*10+k)%1500), fmt.Sprint(i)})
		}
		r.set(batch...)
	}
	want := r.table()
	must(t, r.roll())
	rounds := 0
	for end := int64(0); end < r.p.LogEnd(); rounds++ {
		c, err := r.p.BeginCleaning()
		must(t, err)
		round := newRound(r.p, c, c.Segments(), true, r.wall(), Tuning{MapBytes: 1}.withDefaults()) // the smallest map
		for done := false; !done; {
			done, err = round.step(1 << 20)
			must(t, err)
		}
		round.close()
		if round.result.End <= end {
			t.Fatalf("round %d ends at %d after %d", rounds, round.result.End, end)
		}
		if end = round.result.End; !maps.Equal(r.table(), want) {
			t.Fatalf("after round %d the table differs", rounds)
		}
		r.check()
	}
	if rounds < 3 {
		t.Errorf("%d rounds", rounds)
	}
}

// The partition is deleted, or its end of the log is cut off by retention, while
// it is being cleaned.
func TestRoundOfADeletedTopic(t *testing.T) {
	r := memRig(t)
	for i := range 100 {
		r.set(kv{"k", fmt.Sprint(i)})
	}
	must(t, r.roll())
	c, err := r.p.BeginCleaning()
	must(t, err)
	if again, err := r.p.BeginCleaning(); again != nil || err != nil {
		t.Errorf("a second cleaning: %v, %v", again, err)
	}
	round := newRound(r.p, c, c.Segments(), true, r.wall(), Tuning{MapBytes: 1 << 20}.withDefaults())
	must(t, r.s.AppendMetadata([][]byte{topicRecord(2, topicID(1), "")}, nil, true))
	must(t, r.flush())
	_, err = r.s.RetentionStep() // renames the folder
	must(t, err)
	for done := false; !done && err == nil; {
		done, err = round.step(1 << 20)
	}
	round.close()
	if !isGone(err) {
		t.Errorf("error %v", err)
	}
	folders, _ := r.fs.List(testDir)
	for _, f := range folders {
		if strings.HasPrefix(f, "topic-0") && !strings.HasSuffix(f, "-delete") {
			t.Errorf("folder %s", f)
		}
	}
}

// A stop in the middle of a round leaves nothing behind that counts.
func TestRoundGivenUp(t *testing.T) {
	r := memRig(t)
	for i := range 200 {
		r.set(kv{fmt.Sprint("k", i%50), fmt.Sprint(i)})
	}
	must(t, r.roll())
	want := r.table()
	for budget := int64(1); budget < 40_000; budget += 1500 {
		c, err := r.p.BeginCleaning()
		must(t, err)
		round := newRound(r.p, c, c.Segments(), true, r.wall(), Tuning{MapBytes: 1 << 20}.withDefaults())
		done, err := round.step(budget)
		must(t, err)
		round.close()
		if !maps.Equal(r.table(), want) {
			t.Fatalf("given up after %d bytes: the table differs", budget)
		}
		r.check()
		if done {
			return
		}
	}
}

func TestGroups(t *testing.T) {
	seg := func(base, next, bytes int64) *log.CleanSegment {
		return &log.CleanSegment{Base: base, NextOffset: next, Bytes: bytes}
	}
	config := log.TopicConfig{SegmentBytes: 100, SegmentIndexBytes: 1 << 20, IndexIntervalBytes: 1}
	for _, c := range []struct {
		name string
		segs []*log.CleanSegment
		end  int64
		want string
	}{
		{"by size", []*log.CleanSegment{seg(0, 5, 50), seg(5, 9, 50), seg(9, 12, 1), seg(12, 13, 200), seg(13, 14, 3)}, 99, "[0 5] [9] [12] [13]"},
		{"only below the end", []*log.CleanSegment{seg(0, 5, 10), seg(5, 9, 10), seg(9, 12, 10)}, 6, "[0 5]"},
		{"by offsets", []*log.CleanSegment{seg(0, 5, 10), seg(5, 1<<31+5, 10), seg(1<<31+5, 1<<31+9, 10)}, 1 << 40, "[0] [5] [2147483653]"},
		{"empty ones", []*log.CleanSegment{seg(0, 5, 10), seg(7, 7, 0), seg(9, 12, 10), seg(12, 12, 0), seg(14, 14, 0)}, 99, "[0 7 9]"},
		{"only empty ones", []*log.CleanSegment{seg(0, 0, 0), seg(7, 7, 0)}, 99, ""},
		{"an empty one first", []*log.CleanSegment{seg(0, 0, 0), seg(7, 9, 10)}, 99, "[0 7]"},
	} {
		var got []string
		for _, g := range groups(c.segs, c.end, config) {
			var bases []int64
			for _, s := range g {
				bases = append(bases, s.Base)
			}
			got = append(got, fmt.Sprint(bases))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: %s, want %s", c.name, s, c.want)
		}
	}
	config = log.TopicConfig{SegmentBytes: 1000, SegmentIndexBytes: 24, IndexIntervalBytes: 100}
	if got := groups([]*log.CleanSegment{seg(0, 5, 150), seg(5, 9, 100), seg(9, 12, 100)}, 99, config); len(got) != 2 {
		t.Errorf("by index size: %d groups", len(got))
	}
}

// tryAppend appends records as the coordinator does, or as a client.
func (r *rig) tryAppend(records []kv, rnd *rand.Rand) error {
	if rnd.IntN(2) == 0 {
		return r.trySet(records...)
	}
	if _, _, err := r.p.AppendBatch(compressed(r.t, rnd, records)); err != nil {
		return err
	}
	return r.flush()
}

// vary draws the options that a life runs with.
func vary(r *rig, rnd *rand.Rand) {
	r.config.SegmentBytes = []int64{700, 2000, 9000, 1 << 20}[rnd.IntN(4)]
	r.config.IndexIntervalBytes = []int64{0, 300, 4096}[rnd.IntN(3)]
	r.config.DeleteRetention = []int64{0, 60_000, 86_400_000}[rnd.IntN(3)]
	r.config.MinCompactionLag = []int64{0, 0, 30_000}[rnd.IntN(3)]
	r.config.MaxMessageBytes = []int64{600, 8 << 20}[rnd.IntN(2)] // below what is there already
	r.tuning = Tuning{
		MapBytes:      []int{1, 1 << 12, 1 << 20}[rnd.IntN(3)],
		LoadFactor:    []float64{0.01, 0.5, 0.9, 1}[rnd.IntN(4)],
		IOBufferBytes: []int{1, 9000, 512 << 10}[rnd.IntN(3)],
	}
}

// compressed is a batch as a client sends it, with a codec of its choice.
func compressed(t testing.TB, rnd *rand.Rand, records []kv) record.Batch {
	t.Helper()
	var w record.Rewriter
	b := plain(0, records...)
	w.Begin(b, record.Codec(rnd.IntN(5)), record.NoHorizon)
	must(t, b.Each(func(r record.Record) error { w.Add(r); return nil }))
	out, err := w.Append(nil, b.LastOffset())
	must(t, err)
	return out
}

// Random sets, deletes, rounds, restarts and crashes at random file operations,
// under options that change from life to life: the table is always what was
// acknowledged, perhaps with the batch that the crash interrupted.
func TestRandomLives(t *testing.T) {
	seeds := uint64(25)
	if testing.Short() {
		seeds = 12
	}
	crashes, rounds, replaced := 0, 0, 0
	for seed := range seeds {
		fs := vfs.NewCrashable()
		hook := &vfs.Hooked{FS: fs}
		r := newRig(t, hook)
		rnd := rand.New(rand.NewPCG(seed, 7))
		vary(r, rnd)
		r.open()
		sure, maybe := map[string]string{}, map[string]string{}
		crash := errors.New("crash")
		work := func() error {
			for range 60 {
				switch k := rnd.IntN(10); {
				case k < 7:
					maps.Copy(maybe, sure)
					var batch []kv
					for range 1 + rnd.IntN(5) {
						x := kv{fmt.Sprint("key ", rnd.IntN(20)), fmt.Sprint("value ", rnd.IntN(1000), strings.Repeat("x", rnd.IntN(100)))}
						if rnd.IntN(3) == 0 {
							x.value = "-"
							delete(maybe, x.key)
						} else {
							maybe[x.key] = x.value
						}
						batch = append(batch, x)
					}
					if err := r.tryAppend(batch, rnd); err != nil {
						return err
					}
					sure = maps.Clone(maybe)
				case k < 8:
					r.now += time.Duration(rnd.IntN(40)) * time.Second
				default:
					got, err := r.tryCompact(rnd.IntN(2) == 0)
					if err != nil {
						return err
					}
					rounds, replaced = rounds+1, replaced+got.Replaced
				}
			}
			return nil
		}
		for range 4 {
			clear(maybe)
			maps.Copy(maybe, sure)
			hook.Before = vfs.FailNth(1+rnd.IntN(400), crash, true, nil)
			_ = work()
			hook.Before = nil
			if rnd.IntN(3) == 0 {
				fs.Kill()
			} else {
				fs = fs.Crash(vfs.Seeded(rnd.Uint64()))
				hook.FS = fs
			}
			crashes++
			vary(r, rnd)
			if err := r.tryOpen(); err != nil {
				t.Fatalf("seed %d: open: %v", seed, err)
			}
			got := r.table()
			if !maps.Equal(got, sure) && !maps.Equal(got, maybe) {
				t.Fatalf("seed %d: got %v\nwant %v\nor %v", seed, got, sure, maybe)
			}
			sure = got
			must(t, r.flush())
			r.check()
		}
	}
	if crashes == 0 || rounds < 30 || replaced < 10 {
		t.Errorf("%d crashes, %d rounds, %d outputs", crashes, rounds, replaced)
	}
}

// A reader that was at work before a round goes on after it, by offsets: it finds the
// last value of every key, none of its offsets is out of range, and it never goes back.
func TestReadersAcrossARound(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	r.config.SegmentBytes = 1500
	r.open()
	for i := range 60 {
		r.set(kv{fmt.Sprint("key ", i%7), fmt.Sprint("value ", i, strings.Repeat("x", 80))})
	}
	want := r.table()
	must(t, r.roll())
	for stop := int64(1); stop < 60; stop += 3 {
		seen, next := map[string]string{}, int64(0)
		read := func(to int64) {
			for next < to {
				b, err := r.p.Read(next, 300, true, nil)
				must(t, err)
				if len(b) == 0 {
					return
				}
				for len(b) > 0 {
					batch, rest, err := record.Next(b, maxBatch)
					must(t, err)
					if batch.LastOffset() < next {
						t.Fatalf("batch %d after offset %d", batch.BaseOffset(), next)
					}
					must(t, batch.Each(func(rec record.Record) error {
						seen[string(rec.Key)] = string(rec.Value)
						return nil
					}))
					next, b = batch.NextOffset(), rest
				}
			}
		}
		read(stop)
		r.set(kv{"key 0", fmt.Sprint("newest ", stop)})
		want["key 0"] = fmt.Sprint("newest ", stop)
		r.compact(stop%2 == 0)
		read(r.p.LogEnd())
		if !maps.Equal(seen, want) {
			t.Fatalf("a reader that stopped at %d: %v, want %v", stop, seen, want)
		}
	}
}
