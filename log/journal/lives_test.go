package journal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kcoord/kcoord/log/vfs"
)

// life is a random life of a journal with crashes. It plays the store: the
// snapshot is a variable, what was replayed or acknowledged since it is kept.
type life struct {
	t    *testing.T
	seed uint64
	r    *rand.Rand
	fs   *vfs.Crashable
	hook *vfs.Hooked
	o    Options
	j    *Journal

	snapshot Position
	since    []string // items acknowledged since the snapshot
	unsure   []string // items of the round that a crash interrupted
	synced   int      // how many of since are certainly on disk
	cached   int      // how many the next start must see if the system survives
	unknown  bool     // since a power cut nobody has looked at what is left
	next     int
	mono     time.Duration

	crashes, kills, rounds, snapshots, lost, cut int
}

func newLife(t *testing.T, seed uint64, policy Policy) *life {
	l := &life{t: t, seed: seed, r: rand.New(rand.NewPCG(seed, uint64(policy))), fs: newTestFS(t), snapshot: First()}
	l.hook = &vfs.Hooked{FS: l.fs}
	l.o = testOptions(l.hook)
	l.o.Policy = policy
	if l.r.IntN(3) == 0 {
		l.o.ZeroStep = -1
	}
	j, err := Create(l.o, First())
	must(t, err)
	l.j = j
	must(t, j.AppendStart([]byte{7}))
	l.since, l.synced = []string{"start"}, 1
	return l
}

func (l *life) fail(format string, args ...any) {
	l.t.Helper()
	l.t.Fatalf("policy %v, seed %d, round %d: %s", l.o.Policy, l.seed, l.rounds, fmt.Sprintf(format, args...))
}

// round appends one to four items of random size.
func (l *life) round() error {
	r := NewRound(testEntryBytes)
	var items []string
	for range 1 + l.r.IntN(4) {
		size := 61 + l.r.IntN(600)
		switch l.r.IntN(40) {
		case 0:
			size = testEntryBytes + l.r.IntN(2*testEntryBytes)
			l.cut++
		case 1:
			size = r.MaxItemBytes() - l.r.IntN(3) + 1
		}
		b := fakeBatch(l.next, size)
		l.next++
		r.Append(Batch, testTopic(), int32(l.next%7), b)
		items = append(items, itemText(Batch, Items, b))
	}
	l.rounds++
	l.unsure = items
	if err := l.j.Append(r); err != nil {
		return err
	}
	l.since, l.unsure = append(l.since, items...), nil
	if l.o.Policy == PolicySync {
		l.synced = len(l.since)
	}
	return nil
}

// step does one random thing; an error is a crash.
func (l *life) step() error {
	switch k := l.r.IntN(100); {
	case k < 70:
		return l.round()
	case k < 85:
		l.mono += time.Duration(l.r.IntN(300)) * time.Millisecond
		_, err := l.j.PrepareStep(l.mono)
		return err
	case k < 92:
		if l.o.Policy == PolicySync {
			return nil
		}
		if err := l.j.Sync(); err != nil {
			return err
		}
		l.synced = len(l.since)
	default:
		// A checkpoint makes what the journal holds durable elsewhere.
		l.snapshot, l.since, l.synced, l.cached = l.j.Next(), nil, 0, 0
		l.j.Recycle(l.snapshot)
		l.snapshots++
	}
	return nil
}

var errCrash = errors.New("crash")

// crash loses what is not synced (or nothing, when only the process dies).
func (l *life) crash() {
	l.hook.Before = nil
	if l.r.IntN(4) == 0 {
		l.fs.Kill()
		l.kills++
		if !l.unknown {
			l.cached = len(l.since)
		}
		return
	}
	l.cached, l.unknown = 0, true
	l.fs = l.fs.Crash(vfs.Seeded(l.r.Uint64()))
	l.hook.FS = l.fs
	l.crashes++
}

// recover starts again until it is not interrupted by another crash.
func (l *life) recover() {
	for attempt := 0; ; attempt++ {
		if attempt < 3 && l.r.IntN(2) == 0 {
			l.hook.Before = vfs.FailNth(1+l.r.IntN(12), errCrash, true, nil)
		}
		err := l.tryRecover()
		l.hook.Before = nil
		if err == nil {
			return
		}
		if !errors.Is(err, errCrash) {
			l.fail("recovery: %v", err)
		}
		l.crash()
	}
}

func (l *life) tryRecover() error {
	j, tail, got, err := scan(l.o, l.snapshot)
	if err != nil {
		return err
	}
	all := append(slices.Clone(l.since), l.unsure...)
	// A start entry that a crashed recovery wrote may be there or not.
	if n := len(got); n > 0 && got[n-1] == "start" && (n > len(all) || all[n-1] != "start") {
		all = append(all[:n-1:n-1], "start")
	}
	if len(got) > len(all) || !slices.Equal(got, all[:len(got)]) {
		l.fail("got %v\nof %v", got, all)
	}
	if want := max(l.synced, l.cached); len(got) < want {
		l.fail("%d items of %d that were synced", len(got), want)
	}
	if tail.Lost > 0 && l.o.Policy == PolicySync {
		l.fail("lost entries: %+v", tail)
	}
	// What is seen now must stay: if only the process dies, and after the tail is
	// written again in any case.
	l.since, l.unsure, l.cached, l.unknown = got, nil, len(got), false
	if err := j.RewriteTail(); err != nil {
		return err
	}
	l.synced = len(got)
	if tail.Lost > 0 {
		if err := j.StartOver(); err != nil {
			return err
		}
		l.lost++
		l.snapshot, l.since, l.synced, l.cached = j.Next(), nil, 0, 0
		j.Recycle(l.snapshot)
	}
	l.unsure = []string{"start"}
	if err := j.AppendStart([]byte{7}); err != nil {
		return err
	}
	l.since, l.unsure = append(l.since, "start"), nil
	l.synced, l.j = len(l.since), j
	return nil
}

// TestLives runs random lives with crashes at random operations. Everything that
// was synced is found again, in order, and nothing that was not written; a
// recovery that crashes can be repeated.
func TestLives(t *testing.T) {
	lives := uint64(50)
	if testing.Short() {
		lives = 25
	}
	for _, policy := range []Policy{PolicySync, PolicyInterval} {
		var sum life
		for seed := range lives {
			l := newLife(t, seed, policy)
			for range 4 {
				l.hook.Before = vfs.FailNth(1+l.r.IntN(150), errCrash, true, nil)
				for range 100 {
					if l.step() != nil {
						break
					}
				}
				l.crash()
				l.recover()
			}
			sum.crashes, sum.kills, sum.rounds = sum.crashes+l.crashes, sum.kills+l.kills, sum.rounds+l.rounds
			sum.snapshots, sum.lost, sum.cut = sum.snapshots+l.snapshots, sum.lost+l.lost, sum.cut+l.cut
		}
		if sum.crashes == 0 || sum.kills == 0 || sum.snapshots == 0 || sum.cut == 0 || (sum.lost > 0) != (policy != PolicySync) {
			t.Errorf("policy %v did not meet everything: %+v", policy, sum)
		}
	}
}

// The flusher and the preparer at the same time: zeroing never touches an entry.
func TestFlusherBesidePreparer(t *testing.T) {
	fs := vfs.NewMem()
	must(t, fs.Mkdir(testDir))
	o := testOptions(fs)
	j := create(t, o)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for mono := time.Duration(0); ; mono += 10 * time.Millisecond {
			if _, err := j.PrepareStep(mono); err != nil {
				t.Error(err)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	snapshot, since := First(), []string(nil)
	r := NewRound(testEntryBytes)
	for i := range 3000 {
		r.Reset()
		b := fakeBatch(i, 61+i%1500)
		r.Append(Batch, testTopic(), 1, b)
		must(t, j.Append(r))
		since = append(since, itemText(Batch, Items, b))
		if i%300 == 299 {
			if i%600 == 599 { // a copy, since a second journal must not share the folder
				snapshot, since = j.Next(), nil
				j.Recycle(snapshot)
			}
		}
	}
	close(stop)
	wg.Wait()
	must(t, j.Close())
	for n := snapshot.File - 1; n > 0; n-- { // what was not recycled yet
		_ = fs.Remove(testDir + "/" + FileName(n))
	}
	_, tail, got, err := scan(o, snapshot)
	if err != nil || !slices.Equal(got, since) || tail.Lost != 0 {
		t.Errorf("%d items of %d, %v", len(got), len(since), err)
	}
}
