package sim

import (
	"flag"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
)

var (
	seedFlag   = flag.Uint64("sim.seed", 0, "run this one seed")
	seedsFlag  = flag.Int("sim.seeds", 12, "how many seeds to run")
	traceFlag  = flag.Bool("sim.trace", false, "with one seed: print what happens")
	eventsFlag = flag.Int("sim.events", 2000, "events of each run before the faults stop")
)

// TestSeeds runs seed after seed. A failing one prints the command that runs it
// again.
func TestSeeds(t *testing.T) {
	first, count := uint64(1), *seedsFlag
	if *seedFlag != 0 {
		first, count = *seedFlag, 1
	}
	total := map[string]int{}
	var (
		sum  Report
		mu   sync.Mutex
		work sync.WaitGroup
		next = first
	)
	for range runtime.GOMAXPROCS(0) {
		work.Go(func() {
			for {
				mu.Lock()
				seed := next
				next++
				mu.Unlock()
				if seed >= first+uint64(count) || t.Failed() {
					return
				}
				r, err := Run(optionsFor(seed))
				mu.Lock()
				sum.add(r, total)
				mu.Unlock()
				if err != nil {
					t.Errorf("%v\nagain: go test ./internal/sim -run TestSeeds -sim.seed %d -sim.events %d -sim.trace", err, seed, *eventsFlag)
				}
			}
		})
	}
	work.Wait()
	for _, what := range []string{"JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch",
		"OffsetDelete", "DeleteGroups", "ListGroups", "DescribeGroups", "CreateTopics"} {
		if total[what] == 0 && *seedFlag == 0 {
			t.Errorf("%s never succeeded: the runs show nothing about it", what)
		}
	}
	var kinds []string
	for _, k := range slices.Sorted(maps.Keys(total)) {
		kinds = append(kinds, fmt.Sprintf("%s %d", k, total[k]))
	}
	t.Logf("%d events, %d crashes, %d cuts, %d pauses, %d stalls; %v", sum.Events, sum.Crashes, sum.Cuts, sum.Pauses, sum.Stalls, kinds)
}

func optionsFor(seed uint64) Options {
	o := Options{Seed: seed, Events: *eventsFlag}
	if *traceFlag {
		o.Trace = func(line string) { fmt.Println(line) }
	}
	return o
}

func (sum *Report) add(r Report, total map[string]int) {
	for k, n := range r.Succeeded {
		total[k] += n
	}
	sum.Events += r.Events
	sum.Crashes += r.Crashes
	sum.Cuts += r.Cuts
	sum.Pauses += r.Pauses
	sum.Stalls += r.Stalls
}

// TestSameSeedSameRun is what makes a seed worth keeping.
func TestSameSeedSameRun(t *testing.T) {
	one, err1 := Run(Options{Seed: 7})
	two, err2 := Run(Options{Seed: 7})
	if fmt.Sprint(one, err1) != fmt.Sprint(two, err2) {
		t.Errorf("two runs of one seed differ:\n%v %v\n%v %v", one, err1, two, err2)
	}
}
