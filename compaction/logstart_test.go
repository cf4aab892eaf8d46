package compaction

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/kcoord/kcoord/log"
	"github.com/kcoord/kcoord/log/record"
	"github.com/kcoord/kcoord/log/vfs"
)

// newestFrom is the last value of every key among the records from the log start on.
func (r *rig) newestFrom() map[string]string {
	r.t.Helper()
	m := map[string]string{}
	must(r.t, r.p.Load(func(b record.Batch) error {
		return b.Each(func(rec record.Record) error {
			if rec.Offset >= r.p.LogStart() {
				m[string(rec.Key)] = string(rec.Value)
			}
			return nil
		})
	}))
	return m
}

// DeleteRecords and retention take segments away in the middle of a round, after each
// of its steps in turn: what it has written for them is thrown away, records from the
// log start on stay, and nothing deleted comes back, not after a power cut either.
func TestLogStartRisesDuringARound(t *testing.T) {
	for _, to := range []int64{1, 30, 75, 120} {
		changed, installed := 0, 0
		for steps := 0; ; steps += 2 {
			crash := vfs.NewCrashable()
			r := newRig(t, crash)
			r.config.SegmentBytes, r.config.Delete = 2000, true
			r.open()
			for i := range 120 {
				r.set(kv{fmt.Sprint("key ", i%40), strings.Repeat("v", 60) + fmt.Sprint(i)})
			}
			must(t, r.roll())
			want := map[string]string{}
			for i := to; i < 120; i++ {
				want[fmt.Sprint("key ", i%40)] = strings.Repeat("v", 60) + fmt.Sprint(i)
			}
			c, err := r.p.BeginCleaning()
			must(t, err)
			round := newRound(r.p, c, c.Segments(), true, r.wall(), Tuning{MapBytes: 1 << 20}.withDefaults())
			done := false
			for range steps {
				if done, err = round.step(700); done {
					break
				}
				must(t, err)
			}
			_, _, err = r.p.DeleteRecords(to, nil)
			must(t, err)
			must(t, r.flush())
			_, err = r.s.RetentionStep()
			must(t, err)
			over := done
			for !done {
				if done, err = round.step(700); err != nil {
					break
				}
			}
			round.close()
			if err != nil && !errors.Is(err, log.ErrChanged) {
				t.Fatalf("to %d after %d steps: %v", to, steps, err)
			}
			if err != nil {
				changed++
			} else if round.result.Replaced > 0 {
				installed++
			}
			for range 2 {
				where := fmt.Sprintf("to %d after %d steps (%v)", to, steps, err)
				if r.p.LogStart() != to || r.p.LogEnd() != 120 {
					t.Fatalf("%s: the log goes from %d to %d", where, r.p.LogStart(), r.p.LogEnd())
				}
				if got := r.newestFrom(); !maps.Equal(got, want) {
					t.Fatalf("%s: got %v, want %v", where, got, want)
				}
				r.check()
				r.fs, r.p = crash.Crash(vfs.Seeded(uint64(steps))), nil
				r.open()
			}
			if over {
				break
			}
		}
		if installed == 0 || to > 20 && changed == 0 {
			t.Errorf("to %d: %d rounds gave up, %d installed something", to, changed, installed)
		}
	}
}

// A reader that holds a segment when a round replaces it reads it to its end, and goes
// on by offset in what took its place.
func TestReaderOfAReplacedSegment(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	r.config.SegmentBytes = 2000
	r.open()
	for i := range 60 {
		r.set(kv{fmt.Sprint("key ", i%7), fmt.Sprint("value ", i, strings.Repeat("x", 80))})
	}
	want := r.table()
	must(t, r.roll())
	// A second cleaning's segments are references such as a reader has.
	held, err := r.p.BeginCleaning()
	must(t, err)
	segments := held.Segments()
	offsets := func(s *log.CleanSegment) (all []int64) {
		var in reader
		in.open(s)
		for {
			b, err := in.next()
			if must(t, err); b == nil {
				return all
			}
			all = append(all, b.BaseOffset())
		}
	}
	before := fmt.Sprint(offsets(segments[1]))
	round := newRound(r.p, held, segments, true, r.wall(), Tuning{MapBytes: 1 << 20}.withDefaults())
	for done := false; !done; {
		done, err = round.step(1 << 20)
		must(t, err)
	}
	if round.result.Replaced < 2 {
		t.Fatalf("result %+v", round.result)
	}
	_, err = r.s.RetentionStep() // removes the old files
	must(t, err)
	if got := fmt.Sprint(offsets(segments[1])); got != before {
		t.Errorf("the replaced segment reads %s, was %s", got, before)
	}
	next := segments[1].NextOffset
	b, err := r.p.Read(next, 1, true, nil)
	must(t, err)
	if got := record.Batch(b); got.LastOffset() < next {
		t.Errorf("a read at %d gives %d to %d", next, got.BaseOffset(), got.LastOffset())
	}
	round.close()
	if got := r.table(); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
