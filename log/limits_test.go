package log

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kcoord/kcoord/log/record"
	"github.com/kcoord/kcoord/log/vfs"
)

// TestRoundAndBehindAreBounded: writes are refused when the open round, or what waits
// for the partition logs, has reached its limit, and taken when it has not.
func TestRoundAndBehindAreBounded(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	s := r.open()
	r.meta(topicRecord(2, "user", 1, 0))
	p := r.partition(2, 0)
	r.produce(p, 1) // the first batch of a partition is written at once
	r.flush()
	mega := batchAt(0, 0, 1<<20)
	add := func() {
		if _, _, err := p.AppendBatch(mega); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 16 {
		if err := s.Admit(); err != nil {
			t.Fatalf("%d MiB in the round: %v", i, err)
		}
		add()
	}
	if err := s.Admit(); !errors.Is(err, ErrRoundFull) {
		t.Fatalf("16 MiB in the round: %v", err)
	}
	r.flush()
	for i := 16; i < 63; i++ {
		if err := s.Admit(); err != nil {
			t.Fatalf("%d MiB behind: %v", i, err)
		}
		add()
		r.flush()
	}
	add()
	r.flush()
	if err := s.Admit(); !errors.Is(err, ErrRoundFull) {
		t.Fatalf("64 MiB behind: %v", err)
	}
	if err := p.CatchUp(); err != nil {
		t.Fatal(err)
	}
	if err := s.Admit(); err != nil {
		t.Errorf("when all is written: %v", err)
	}
}

// TestLargeJournalIsReplayed: of a journal larger than what a start keeps in memory the
// rest is read again, in pieces; nothing is missing, whatever else it holds, and although
// the disk may have no room for it yet.
func TestLargeJournalIsReplayed(t *testing.T) {
	for _, full := range []bool{false, true} {
		mem := vfs.NewMem()
		r := newRig(t, mem)
		r.open()
		r.meta(topicRecord(1, "offsets", 2, 2), topicRecord(2, "user", 2, 0), topicRecord(3, "gone", 1, 0))
		for i := range 7 { // larger than an entry, each in three
			if _, _, err := r.partition(2, int32(i%2)).AppendBatch(batchAt(0, 0, 8<<20-200)); err != nil {
				t.Fatal(err)
			}
			r.produce(r.partition(3, 0), 1)
			r.commit(r.partition(1, int32(i%2)))
			r.flush()
			r.write()
			if i == 0 {
				if err := r.s.Checkpoint(); err != nil {
					t.Fatal(err)
				}
			}
		}
		for i := range 400 {
			r.commit(r.partition(1, int32(i%2)))
			r.produce(r.partition(2, 0), 1+i%3)
			if i%100 == 50 { // written without a copy
				if _, _, err := r.partition(2, 1).AppendBatch(batchAt(0, 0, replayDirect)); err != nil {
					t.Fatal(err)
				}
			}
			r.produce(r.partition(3, 0), 1)
			if i%3 == 0 {
				r.flush()
			}
		}
		r.flush()
		r.meta(deletedRecord(3))
		want := map[string][]byte{}
		r.s.EachPartition(func(p *Partition) { want[p.String()] = readAll(r, p) })
		mem.Kill()

		hook := &vfs.Hooked{FS: mem}
		r.fs = hook
		if full {
			hook.Before = func(op vfs.Op) *vfs.Failure {
				if op.Kind == vfs.OpWrite && strings.HasSuffix(op.Path, suffixLog) {
					return &vfs.Failure{Err: syscall.ENOSPC, Short: 100}
				}
				return nil
			}
		}
		for start := range 2 {
			r.open()
			if got := r.s.Folder().ReplayedBytes; got < replayKept {
				t.Fatalf("%d bytes replayed", got)
			}
			check := func(what string) {
				r.s.EachPartition(func(p *Partition) {
					if got := readAll(r, p); !bytes.Equal(got, want[p.String()]) {
						t.Errorf("full %t, start %d, %s: %s: %d bytes, want %d", full, start, what, p, len(got), len(want[p.String()]))
					}
				})
			}
			check("at once")
			if full {
				if err := r.s.Admit(); !errors.Is(err, ErrNoSpace) {
					t.Errorf("start %d: admit: %v", start, err)
				}
			}
			if start == 1 {
				hook.Before = nil
				r.now += 2 * time.Second
				r.write()
				check("written")
				if err := r.s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			mem.Kill()
		}
	}
}

// TestRoundFindsNoSpace: a round for which the journal has no room waits, in its order
// and unanswered, until there is some; a stop meanwhile is not in order.
func TestRoundFindsNoSpace(t *testing.T) {
	for _, stop := range []bool{false, true} {
		w := newWorld(t, vfs.NewCrashable())
		w.open()
		w.meta(topicRecord(1, "offsets", 1, 2))
		p := w.partition(1, 0)
		full := true
		w.fail = func(op vfs.Op) *vfs.Failure {
			if full && op.Kind == vfs.OpPreallocate {
				return &vfs.Failure{Err: syscall.ENOSPC}
			}
			return nil
		}
		promises := map[string]promised{}
		next := time.Duration(0)
		for i := 0; next != retryAppend && i < 1000; i++ {
			for range 10 {
				w.commit(p)
			}
			promises[key(p)] = promised{end: p.DurableEnd()}
			p.Await(p.LogEnd()-1, Waiter{Slot: uint32(i)})
			for next = 0; next == 0; {
				var err error
				if next, err = w.s.FlushStep(); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := w.s.PrepareStep(); err != nil {
				t.Fatal(err)
			}
		}
		answered := len(w.released)
		if next != retryAppend || p.DurableEnd() != p.LogEnd()-10 || !errors.Is(w.s.Admit(), ErrNoSpace) {
			t.Fatalf("the next step in %v, durable %d of %d, admit %v", next, p.DurableEnd(), p.LogEnd(), w.s.Admit())
		}
		w.commit(p)
		if stop {
			if err := w.s.Close(); err == nil {
				t.Error("a stop that could not write a round counts as clean")
			}
			if there, _ := exists(w.fs, path.Join(testDir, markerName)); there {
				t.Error("a marker of a clean stop")
			}
			w.crash.Kill()
			w.fail = nil
			judge(t, "stopped", w.crash, promises, w.now)
			continue
		}
		full = false
		w.flush()
		if len(w.released) != answered+1 || p.DurableEnd() != p.LogEnd() {
			t.Errorf("answered %d after %d, durable %d of %d", len(w.released), answered, p.DurableEnd(), p.LogEnd())
		}
		w.write()
		checkLog(w.rig, p)
		judge(t, "healed", w.crash.Crash(vfs.KeepNone), w.promised, w.now)
	}
}

// TestSyncFailsAgainBeforeASnapshot: a log was written again after a failed sync, but no
// snapshot has said so yet: the next failure ends the process.
func TestSyncFailsAgainBeforeASnapshot(t *testing.T) {
	w := newWorld(t, vfs.NewCrashable())
	w.open()
	w.meta(topicRecord(2, "user", 1, 1))
	p := w.partition(2, 0)
	step := func(syncs int, snapshot bool) error {
		w.produce(p, 2)
		w.flush()
		w.write()
		w.fail = func(op vfs.Op) *vfs.Failure {
			switch {
			case syncs > 0 && op.Kind == vfs.OpDatasync && strings.Contains(op.Path, "user-0/"):
				syncs--
				return &vfs.Failure{Err: syscall.EIO, Lose: true, Revert: true}
			case !snapshot && op.Kind == vfs.OpWrite && strings.Contains(op.Path, snapshotTmp):
				return &vfs.Failure{Err: syscall.ENOSPC}
			}
			return nil
		}
		return w.s.Checkpoint()
	}
	if err := step(1, false); err == nil || IsFinal(err) || p.RecoveryPoint() != 0 {
		t.Fatalf("the snapshot: %v, recovery point %d", err, p.RecoveryPoint())
	}
	if err := step(1, true); !IsFinal(err) {
		t.Fatalf("the second failure: %v", err)
	}
	w.fail = nil
	judge(t, "after it", w.crash.Crash(vfs.KeepNone), w.promised, w.now)
}

// TestRollByTime: a segment ends when a batch is so much younger than its first one, by
// their timestamps, or without them by the clock; never an empty one.
func TestRollByTime(t *testing.T) {
	const hour = 3600_000
	r := newRig(t, vfs.NewMem())
	r.open()
	batch := func(timestamp int64) record.Batch {
		var b record.Builder
		b.Reset(nil, record.Plain(0, 0))
		b.Append(timestamp, nil, []byte("v"))
		return b.Close()
	}
	for _, c := range []struct {
		name                   string
		first, created, next   int64 // timestamps, -1: none; ms from testTime
		jitter                 int64
		compact                bool
		lag                    int64
		empty, want            bool
		segmentMillis, passing int64
	}{
		{name: "at the limit", next: hour, segmentMillis: hour},
		{name: "one past it", next: hour + 1, segmentMillis: hour, want: true},
		{name: "an older batch", next: -5 * hour, segmentMillis: hour},
		{name: "an empty segment", next: 9 * hour, segmentMillis: hour, empty: true},
		{name: "with jitter", next: hour - 9, jitter: 10, segmentMillis: hour, want: true},
		{name: "with less jitter", next: hour - 10, jitter: 10, segmentMillis: hour},
		{name: "compacted in time", next: hour/2 + 1, compact: true, lag: hour / 2, segmentMillis: hour, want: true},
		{name: "not compacted", next: hour/2 + 1, lag: hour / 2, segmentMillis: hour},
		{name: "no timestamp, young", first: -1, next: -1, passing: hour, segmentMillis: hour},
		{name: "no timestamp, old", first: -1, next: -1, passing: hour + 1, segmentMillis: hour, want: true},
		{name: "only the next has one", first: -1, next: 0, passing: hour + 1, segmentMillis: hour, want: true},
	} {
		cfg := defaultConfig()
		cfg.SegmentMillis, cfg.Compact, cfg.MaxCompactionLag = c.segmentMillis, c.compact, max(c.lag, 1)
		if !c.compact && c.lag == 0 {
			cfg.MaxCompactionLag = 1<<63 - 1
		}
		stamp := func(ms int64) int64 {
			if ms == -1 {
				return -1
			}
			return testTime + ms
		}
		g := &segment{created: testTime + r.now.Milliseconds() - c.passing, jitter: c.jitter}
		tl := newTail(0)
		if !c.empty {
			tl.add(batch(stamp(c.first)), 0, 4096)
		}
		p := &Partition{s: r.s}
		if got := p.shouldRoll(g, &tl, batch(stamp(c.next)), &cfg); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

// TestSavedBytesAreFew: of the bytes that starts have cut off the newest five files stay.
func TestSavedBytesAreFew(t *testing.T) {
	r := touched(t, false, map[string][]byte{zeroLog: ten()})
	for i := range 8 {
		r.now += time.Second
		name := path.Join(testDir, "user-0", zeroLog)
		b, err := readFile(r.fs, name, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		put(t, r.fs, name, append(b, byte('a'+i), 1, 2))
		r.open()
		if p := r.partition(2, 0); p.Err() != nil || p.LogEnd() != 10 {
			t.Fatalf("%v, log end %d", p.Err(), p.LogEnd())
		}
		if err := r.s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var saved []string
	for _, name := range filesBelow(t, r.fs, path.Join(testDir, "user-0")) {
		if strings.HasPrefix(path.Base(name), "torn-") {
			b, err := readFile(r.fs, name, 100)
			if err != nil {
				t.Fatal(err)
			}
			saved = append(saved, string(b[:1]))
		}
	}
	if got := strings.Join(saved, ""); got != "defgh" {
		t.Errorf("saved %s", got)
	}
}

// TestDeleteRecordsTo: where the log start may go, and what is answered.
func TestDeleteRecordsTo(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	r.open()
	r.meta(topicRecord(2, "user", 1, 1))
	p := r.partition(2, 0)
	r.produce(p, 10)
	r.flush()
	for _, c := range []struct {
		to, low int64
		at      bool // durable at once
		err     error
	}{
		{4, 4, false, nil}, {4, 4, true, nil}, {2, 4, true, nil}, {0, 4, true, nil}, {-2, 0, false, ErrOffsetOutOfRange}, {11, 0, false, ErrOffsetOutOfRange},
		{-1, 10, false, nil}, {10, 10, true, nil}, {-1, 10, true, nil},
	} {
		low, at, err := p.DeleteRecords(c.to, nil)
		if !errors.Is(err, c.err) || err == nil && (low != c.low || at != c.at) {
			t.Errorf("to %d: %d, at once %t, %v", c.to, low, at, err)
		}
		r.flush()
	}
	if got := fmt.Sprint(p.LogStart(), p.LogEnd()); got != "10 10" {
		t.Errorf("the log is %s", got)
	}
}

// TestRetentionOfOthersGoesOn: a partition whose segments cannot be read or removed
// keeps no other one's; a damaged segment goes when its file is old.
func TestRetentionOfOthersGoesOn(t *testing.T) {
	for what, c := range map[string]struct {
		damaged bool
		fail    func(op vfs.Op) bool
		want    bool // the damaged partition's segments go too
	}{
		"a segment is damaged":         {damaged: true, want: true},
		"a segment cannot be read":     {damaged: true, fail: func(op vfs.Op) bool { return op.Kind == vfs.OpRead && strings.Contains(op.Path, "/aaa-0/") }},
		"a segment cannot be renamed":  {fail: func(op vfs.Op) bool { return op.Kind == vfs.OpRename && strings.Contains(op.Path, "/aaa-0/") }, want: true},
		"an active one cannot be made": {fail: func(op vfs.Op) bool { return op.Kind == vfs.OpOpenTrunc && strings.Contains(op.Path, "/aaa-0/") }},
	} {
		mem := vfs.NewMem()
		hook := &vfs.Hooked{FS: mem}
		r := newRig(t, hook)
		mem.SetClock(func() int64 { return testTime + r.now.Milliseconds() })
		r.open()
		r.meta(topicRecord(3, "aaa", 1, 3), topicRecord(4, "bbb", 1, 3))
		for range 20 {
			r.produce(r.partition(3, 0), 3)
			r.produce(r.partition(4, 0), 3)
			r.flush()
		}
		r.write()
		if len(r.partition(3, 0).list()) < 3 {
			t.Fatal("too few segments")
		}
		if err := r.s.Close(); err != nil {
			t.Fatal(err)
		}
		if c.damaged {
			dir := path.Join(testDir, "aaa-0")
			put(t, mem, path.Join(dir, zeroLog), make([]byte, 900))
			for _, suffix := range []string{suffixIndex, suffixTimeIndex} {
				put(t, mem, path.Join(dir, segmentName(0, suffix)), nil)
			}
		}
		r.open()
		if err := r.partition(3, 0).Err(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		hook.Before = func(op vfs.Op) *vfs.Failure {
			if c.fail != nil && c.fail(op) {
				return &vfs.Failure{Err: syscall.EIO}
			}
			return nil
		}
		for range 4 {
			r.now += 10 * time.Minute
			if _, err := r.s.RetentionStep(); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			r.flush()
			if err := r.s.Checkpoint(); err != nil && c.fail == nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		a, b := r.partition(3, 0), r.partition(4, 0)
		if b.LogStart() == 0 || b.list()[0].base == 0 {
			t.Errorf("%s: the other partition goes from %d on, warnings %q", what, b.LogStart(), r.warnings)
		}
		if (a.LogStart() > 0) != c.want {
			t.Errorf("%s: it goes from %d on, warnings %q", what, a.LogStart(), r.warnings)
		}
	}
}
