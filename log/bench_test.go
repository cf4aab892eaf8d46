package log

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/kcoord/kcoord/log/vfs"
)

// runLoops runs a store's loops as the broker does, until the returned function
// is called.
func runLoops(t testing.TB, s *Store) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	for _, l := range s.Loops() {
		wg.Go(func() {
			timer := time.NewTimer(time.Hour)
			for {
				next, err := l.Step()
				if err != nil {
					t.Errorf("%s: %v", l.Name, err)
					return
				}
				if next == 0 {
					select {
					case <-done:
						return
					default:
						continue
					}
				}
				if next < 0 {
					next = time.Hour
				}
				timer.Reset(next)
				select {
				case <-l.Wake:
				case <-timer.C:
				case <-done:
					return
				}
			}
		})
	}
	return func() { close(done); wg.Wait() }
}

func diskOptions(dir string) Options {
	began := time.Now()
	return Options{
		FS: vfs.OS{}, Dir: dir, Metadata: &testMeta{},
		Now: time.Now, Mono: func() time.Duration { return time.Since(began) + time.Nanosecond },
		Random:  func(b []byte) { b[0]++ },
		Version: "bench", ClusterID: "cluster", NodeID: 1, OffsetsPartitions: 50,
		OnDurable: func(ws []Waiter) {
			for _, w := range ws {
				w.Conn.(chan struct{}) <- struct{}{}
			}
		},
	}
}

// BenchmarkSync is the ceiling: one write of a commit's size and one fdatasync
// per operation, into a file zeroed ahead.
func BenchmarkSync(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "f"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	const size = 16 << 20
	if _, err := f.Write(make([]byte, size)); err != nil {
		b.Fatal(err)
	}
	file, err := vfs.OS{}.Open(f.Name(), vfs.ReadWrite)
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	if err := file.Sync(); err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 168)
	var at int64
	for b.Loop() {
		if _, err := file.WriteAt(buf, at); err != nil {
			b.Fatal(err)
		}
		if err := file.Datasync(); err != nil {
			b.Fatal(err)
		}
		at = (at + int64(len(buf))) % (size - 4096)
	}
}

// BenchmarkCommit commits one record at a time from each of n committers, spread
// over the partitions, and waits until it is durable.
func BenchmarkCommit(b *testing.B) {
	for _, c := range []struct{ committers, partitions int }{{1, 1}, {1, 50}, {16, 1}, {16, 50}, {256, 50}} {
		b.Run(fmt.Sprintf("committers=%d/partitions=%d", c.committers, c.partitions), func(b *testing.B) {
			s, err := Open(diskOptions(filepath.Join(b.TempDir(), "kc")))
			if err != nil {
				b.Fatal(err)
			}
			if err := s.AppendMetadata([][]byte{topicRecord(1, "offsets", int32(c.partitions), 2)}, nil, false); err != nil {
				b.Fatal(err)
			}
			if _, err := s.FlushStep(); err != nil {
				b.Fatal(err)
			}
			stop := runLoops(b, s)
			time.Sleep(100 * time.Millisecond) // let the preparer zero ahead
			locks := make([]sync.Mutex, c.partitions)
			value := make([]byte, 24)
			var wg sync.WaitGroup
			b.ResetTimer()
			for i := range c.committers {
				wg.Go(func() {
					ch := make(chan struct{}, 1)
					recs := []Record{{Key: fmt.Appendf(nil, "group-%04d topic", i), Value: value}}
					for n := i; n < b.N; n += c.committers {
						k := n % c.partitions
						p := s.Partition(testTopic(1), int32(k))
						locks[k].Lock()
						off, err := p.AppendRecords(1700000000000, recs)
						if err != nil {
							b.Error(err)
						}
						durable := p.Await(off, Waiter{Conn: ch})
						locks[k].Unlock()
						if !durable {
							<-ch
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			stop()
			if err := s.Close(); err != nil {
				b.Error(err)
			}
		})
	}
}

// BenchmarkAppend is the cost of an append under the owner's lock, without any
// file.
func BenchmarkAppend(b *testing.B) {
	r := newRig(b, vfs.NewMem())
	r.open()
	r.meta(topicRecord(1, "offsets", 50, 2))
	ps := make([]*Partition, 50)
	for i := range ps {
		ps[i] = r.partition(1, int32(i))
	}
	recs := []Record{{Key: make([]byte, 30), Value: make([]byte, 24)}}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if _, err := ps[n%50].AppendRecords(testTime, recs); err != nil {
			b.Fatal(err)
		}
		if n++; n%500 == 0 {
			r.flush()
			r.write()
		}
	}
}

// BenchmarkOpenNew makes a new folder: what a first start waits for.
func BenchmarkOpenNew(b *testing.B) {
	root := b.TempDir()
	syncs := 0
	for i := 0; b.Loop(); i++ {
		o := diskOptions(filepath.Join(root, fmt.Sprint(i)))
		o.FS = &vfs.Hooked{FS: vfs.OS{}, Before: func(op vfs.Op) *vfs.Failure {
			if op.IsSync() {
				syncs++
			}
			return nil
		}}
		s, err := Open(o)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		s.abandon()
		b.StartTimer()
	}
	b.ReportMetric(float64(syncs)/float64(b.N), "syncs/op")
}

// BenchmarkRecover opens a folder whose journal holds nearly a checkpoint's worth
// of commits to 50 partitions.
func BenchmarkRecover(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "kc")
	s, err := Open(diskOptions(dir))
	if err != nil {
		b.Fatal(err)
	}
	fill := func(s *Store) {
		rec := []Record{{Key: make([]byte, 40), Value: make([]byte, 60)}}
		for bytes := 0; bytes < 28<<20; {
			for i := range 20000 {
				if _, err := s.Partition(testTopic(1), int32(i%50)).AppendRecords(1700000000000, rec); err != nil {
					b.Fatal(err)
				}
				bytes += 120
			}
			if _, err := s.FlushStep(); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := s.AppendMetadata([][]byte{topicRecord(1, "offsets", 50, 2)}, nil, false); err != nil {
		b.Fatal(err)
	}
	if _, err := s.FlushStep(); err != nil {
		b.Fatal(err)
	}
	fill(s)
	if err := s.Checkpoint(); err != nil {
		b.Fatal(err)
	}
	fill(s)
	s.abandon()
	for b.Loop() {
		s, err := Open(diskOptions(dir))
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		f := s.Folder()
		b.ReportMetric(float64(f.TookJournal.Microseconds()), "journal-µs")
		b.ReportMetric(float64(f.TookPartitions.Microseconds()), "partitions-µs")
		s.abandon()
		b.StartTimer()
	}
}

// BenchmarkReadClosed reads closed segments, a few batches or many at a time, as a
// consumer that goes through them or from place to place; and, to compare, the active
// one.
func BenchmarkReadClosed(b *testing.B) {
	s, err := Open(diskOptions(filepath.Join(b.TempDir(), "kc")))
	if err != nil {
		b.Fatal(err)
	}
	defer s.abandon()
	flush := func() {
		if _, err := s.FlushStep(); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.AppendMetadata([][]byte{topicRecord(2, "user", 1, 7)}, nil, false); err != nil {
		b.Fatal(err)
	}
	flush()
	p := s.Partition(testTopic(2), 0)
	batch := batchAt(0, 0, 900)
	for p.LogEnd() < 48<<10 {
		for range 4 << 10 {
			if _, _, err := p.AppendBatch(batch); err != nil {
				b.Fatal(err)
			}
		}
		flush()
		if err := p.CatchUp(); err != nil {
			b.Fatal(err)
		}
	}
	closed := p.active().base
	for _, size := range []int{2 << 10, 256 << 10} {
		for _, c := range []struct {
			name string
			step int64
		}{{"on", 0}, {"jumping", 7_919}, {"active", 0}} {
			b.Run(fmt.Sprintf("%s/bytes=%d", c.name, size), func(b *testing.B) {
				b.ReportAllocs()
				dst := make([]byte, 0, size)
				offset := int64(0)
				for b.Loop() {
					switch offset += c.step; {
					case c.name == "active":
						offset = closed + 3
					case offset > closed-300:
						offset %= closed - 300
					}
					got, err := p.Read(offset, size, true, dst)
					if err != nil || len(got) == 0 {
						b.Fatalf("%d bytes, %v", len(got), err)
					}
					if c.name == "on" {
						offset += int64(len(got) / len(batch))
					}
				}
			})
		}
	}
}
