package broker_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// soak is how long TestKillsUnderLoad kills; without it one kill is enough.
var soak = flag.Duration("soak", 0, "how long TestKillsUnderLoad goes on")

const (
	soakWorkers    = 12
	soakPartitions = 4
)

// A soaker writes records of its own topic and commits for its own group, and
// knows what was acknowledged.
type soaker struct {
	id        int
	committed int64
	ends      [soakPartitions]int64            // behind the last acknowledged record
	records   [soakPartitions]map[int64][]byte // acknowledged since the last check, by offset
}

func (s *soaker) topic() string { return fmt.Sprint("soak-", s.id) }
func (s *soaker) group() string { return fmt.Sprint("soakers-", s.id) }

// work writes until the broker is gone.
func (s *soaker) work(ctx context.Context, cl *kgo.Client, round int) {
	adm := kadm.NewClient(cl)
	for i := 0; ; i++ {
		partition := int32(i % soakPartitions)
		var records []*kgo.Record
		for n := range 1 + i%7 {
			value := bytes.Repeat(fmt.Appendf(nil, "%d/%d/%d/%d ", s.id, round, i, n), 1+i%30)
			records = append(records, &kgo.Record{Topic: s.topic(), Partition: partition, Value: value})
		}
		for _, r := range cl.ProduceSync(ctx, records...) {
			if r.Err == nil {
				s.records[partition][r.Record.Offset] = r.Record.Value
				s.ends[partition] = max(s.ends[partition], r.Record.Offset+1)
			}
		}
		var offsets kadm.Offsets
		offsets.AddOffset(s.topic(), 0, s.committed+1, -1)
		committed, err := adm.CommitOffsets(ctx, s.group(), offsets)
		if err == nil && committed.Error() == nil {
			s.committed++
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// check looks for everything that was acknowledged.
func (s *soaker) check(t *testing.T, addr string) {
	ctx := within(t)
	adm := kadm.NewClient(client(t, addr))
	committed, err := adm.FetchOffsets(ctx, s.group())
	if err != nil {
		t.Fatal(err)
	}
	if o, _ := committed.Lookup(s.topic(), 0); o.At < s.committed {
		t.Fatalf("%s: committed %d, acknowledged were %d", s.group(), o.At, s.committed)
	} else {
		s.committed = o.At // the one under way may have got through
	}
	for n := range s.records {
		if len(s.records[n]) > 0 {
			s.checkPartition(ctx, t, addr, int32(n))
		}
	}
}

func (s *soaker) checkPartition(ctx context.Context, t *testing.T, addr string, n int32) {
	want := s.records[n]
	first := s.ends[n]
	for offset := range want {
		first = min(first, offset)
	}
	c := client(t, addr, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{s.topic(): {n: kgo.NewOffset().At(first)}}))
	for next := first; next < s.ends[n]; {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("%s-%d at %d of %d: %v", s.topic(), n, next, s.ends[n], err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset != next {
				t.Errorf("%s-%d: offset %d after %d", s.topic(), n, r.Offset, next-1)
			}
			if value, ok := want[r.Offset]; ok && !bytes.Equal(value, r.Value) {
				t.Errorf("%s-%d: offset %d holds %.40q, acknowledged was %.40q", s.topic(), n, r.Offset, r.Value, value)
			}
			next = r.Offset + 1
		})
		if t.Failed() {
			t.FailNow()
		}
	}
	c.Close()
	s.records[n] = map[int64][]byte{}
}

// TestKillsUnderLoad kills the broker again and again while many groups commit and
// many partitions are produced to, under each policy of durability: what was
// acknowledged is there after each start. make soak does so for ten minutes.
func TestKillsUnderLoad(t *testing.T) {
	for _, policy := range []string{"sync", "interval", "os"} {
		t.Run(policy, func(t *testing.T) {
			t.Setenv(childProperty, "kcoord.durability="+policy)
			dir, rnd := t.TempDir(), rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
			soakers := make([]*soaker, soakWorkers)
			for i := range soakers {
				soakers[i] = &soaker{id: i}
				for n := range soakers[i].records {
					soakers[i].records[n] = map[int64][]byte{}
				}
			}
			begun, records, commits := time.Now(), int64(0), int64(0)
			round := 0
			for ; round < 1 || time.Since(begun) < *soak/3; round++ {
				c := startChild(t, dir)
				if round == 0 {
					for _, s := range soakers {
						createTopic(t, c.addr, s.topic(), soakPartitions)
					}
				}
				for _, s := range soakers {
					s.check(t, c.addr)
				}
				ctx, cancel := context.WithCancel(context.Background())
				var all sync.WaitGroup
				for _, s := range soakers {
					cl := client(t, c.addr, kgo.DisableIdempotentWrite(), kgo.RecordRetries(0))
					all.Go(func() {
						defer cl.Close()
						s.work(ctx, cl, round)
					})
				}
				time.Sleep(time.Duration(200+rnd.IntN(800)) * time.Millisecond)
				c.kill()
				cancel()
				all.Wait()
				records, commits = 0, 0
				for _, s := range soakers {
					commits += s.committed
					for _, end := range s.ends {
						records += end
					}
				}
			}
			c := startChild(t, dir)
			for _, s := range soakers {
				s.check(t, c.addr)
			}
			c.kill()
			t.Logf("%d kills, %d records and %d commits acknowledged", round, records, commits)
			if records == 0 || commits == 0 {
				t.Error("nothing was written")
			}
		})
	}
}
