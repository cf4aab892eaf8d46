package log

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kcoord/kcoord/log/record"
	"github.com/kcoord/kcoord/log/vfs"
)

// produced is a batch of n records of a producer.
func produced(id int64, epoch int16, sequence int32, n int) []byte {
	var b record.Builder
	t := record.Plain(0, -1)
	t.ProducerID, t.ProducerEpoch, t.BaseSequence = id, epoch, sequence
	b.Reset(nil, t)
	for i := range n {
		b.Append(testTime, nil, fmt.Append(nil, i))
	}
	return b.Close()
}

// send appends a batch and says what came of it.
func send(p *Partition, id int64, epoch int16, sequence int32, n int) string {
	base, duplicate, err := p.AppendBatch(produced(id, epoch, sequence, n))
	switch {
	case errors.Is(err, ErrInvalidProducerEpoch):
		return "old epoch"
	case errors.Is(err, ErrOutOfOrderSequence):
		return "out of order"
	case err != nil:
		return err.Error()
	case duplicate:
		return fmt.Sprintf("again %d", base)
	}
	return fmt.Sprint(base)
}

func TestIdempotence(t *testing.T) {
	for _, restart := range []string{"no", "clean", "crash", "crash after a checkpoint"} {
		t.Run(restart, func(t *testing.T) { idempotence(t, restart) })
	}
}

// idempotence goes through a story in whose middle the store is opened again.
func idempotence(t *testing.T, restart string) {
	fs := vfs.NewCrashable()
	r := newRig(t, fs)
	r.open()
	r.meta(topicRecord(1, "t", 1, 0))
	p := r.partition(1, 0)
	want := func(got, want, what string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	want(send(p, 7, 0, 0, 2), "0", "the first")
	want(send(p, 7, 0, 0, 2), "again 0", "the same at once")
	for i := range int32(6) {
		want(send(p, 7, 0, 2+i, 1), fmt.Sprint(2+i), "single ones")
	}
	want(send(p, 8, 3, 57, 3), "8", "an unknown producer may begin anywhere")
	r.produce(p, 1)
	r.flush()
	switch restart {
	case "clean":
		r.write()
		if err := r.s.Close(); err != nil {
			t.Fatal(err)
		}
	case "crash after a checkpoint":
		if err := r.s.Checkpoint(); err != nil {
			t.Fatal(err)
		}
	}
	if restart != "no" {
		r.kill()
		r.fs = fs.Crash(vfs.KeepNone)
		r.open()
		p = r.partition(1, 0)
	}
	want(send(p, 7, 0, 7, 1), "again 7", "the newest")
	want(send(p, 7, 0, 3, 1), "again 3", "the fifth but last")
	want(send(p, 7, 0, 2, 1), "out of order", "one before")
	want(send(p, 7, 0, 7, 2), "out of order", "an overlapping one")
	want(send(p, 7, 0, 9, 1), "out of order", "a gap")
	want(send(p, 8, 3, 57, 3), "again 8", "another producer's")
	want(send(p, 8, 2, 60, 1), "old epoch", "an older epoch")
	want(send(p, 8, 4, 60, 1), "out of order", "a new epoch in the middle")
	want(send(p, 8, 4, 0, 1), "12", "a new epoch from the beginning")
	want(send(p, 8, 3, 60, 1), "old epoch", "the epoch before")
	want(send(p, 8, 4, 1, 1), "13", "and on")
	want(send(p, 7, 0, 8, 1), "14", "the other one goes on")
	want(send(p, 9, 0, math.MaxInt32, 1), "15", "the largest sequence number")
	want(send(p, 9, 0, 0, 1), "16", "after it comes 0")
	want(send(p, 10, 0, math.MaxInt32, 2), "17", "one batch across the end")
	want(send(p, 10, 0, 1, 1), "19", "and on")
	r.flush()
	if end := p.DurableEnd(); end != 20 {
		t.Errorf("the log ends at %d, want 20", end)
	}
}

func TestIdleProducersAreForgotten(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	r.open()
	r.meta(topicRecord(1, "t", 1, 0))
	p := r.partition(1, 0)
	for id := range int64(50) {
		send(p, id, 0, 0, 1)
	}
	r.now += producerExpiration + time.Second
	send(p, 99_999, 0, 0, 1)
	if n := len(p.producers.mu.known); n != 1 {
		t.Errorf("%d producers are known, want 1", n)
	}
	if got := send(p, 5, 0, 17, 1); got != "51" {
		t.Errorf("a forgotten producer goes on: %s", got)
	}
}

func BenchmarkIdempotentAppend(b *testing.B) {
	r := newRig(b, vfs.NewMem())
	r.open()
	r.meta(topicRecord(1, "t", 1, 0))
	p := r.partition(1, 0)
	batch := record.Batch(produced(1, 0, 0, 1))
	plain := record.Batch(produced(-1, -1, -1, 1))
	for name, next := range map[string]func(i int) []byte{
		"plain": func(int) []byte { return plain },
		"idempotent": func(i int) []byte {
			batch = append(batch[:0], produced(int64(i), 0, 0, 1)...)
			return batch
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				if _, _, err := p.AppendBatch(next(i)); err != nil {
					b.Fatal(err)
				}
				if i%1000 == 999 {
					b.StopTimer()
					r.flush()
					r.write()
					b.StartTimer()
				}
			}
		})
	}
}

// A clean stop leaves what is known of producers for Kafka, named after the log's end;
// the two newest such files stay.
func TestProducerSnapshot(t *testing.T) {
	if got := hex.EncodeToString(appendProducerSnapshot(nil, nil)); got != "000148674bc700000000" {
		t.Errorf("without producers: %s", got)
	}
	r := newRig(t, vfs.NewMem())
	for stop := range 4 {
		r.open()
		if stop == 0 {
			r.meta(topicRecord(1, "t", 2, 0))
		}
		p := r.partition(1, 0)
		send(p, 7, 2, int32(5*stop), 5)
		r.commit(r.partition(1, 1))
		r.flush()
		if err := r.s.Close(); err != nil {
			t.Fatal(err)
		}
		want := []string{segmentName(int64(5*stop+5), suffixSnapshot)}
		if stop > 0 {
			want = append([]string{segmentName(int64(5*stop), suffixSnapshot)}, want...)
		}
		var got []string
		for _, name := range filesBelow(t, r.fs, testDir) {
			if strings.HasSuffix(name, suffixSnapshot) {
				got = append(got, path.Base(name))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("stop %d: %v, want %v", stop, got, want)
		}
		b, err := readFile(r.fs, path.Join(testDir, "t-0", want[len(want)-1]), 1000)
		if err != nil || len(b) != 10+46 {
			t.Fatalf("stop %d: %d bytes, %v", stop, len(b), err)
		}
		entry := fmt.Sprintf("%016x%04x%08x%016x%08x%016x%08x%016x", 7, 2, 5*stop+4, 5*stop+4, 4, testTime+r.now.Milliseconds(), uint32(1<<32-1), uint64(1<<64-1))
		if got := hex.EncodeToString(b[10:]); len(entry) != len(got) || got[:60] != entry[:60] || got[92-16:] != entry[92-16:] {
			t.Errorf("stop %d: %s, want %s", stop, got, entry)
		}
	}
}
