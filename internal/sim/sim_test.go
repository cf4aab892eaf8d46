package sim

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kcoord/kcoord/wire"
)

var (
	seedFlag   = flag.Uint64("sim.seed", 0, "run this one seed")
	firstFlag  = flag.Uint64("sim.first", 1, "the first seed to run")
	seedsFlag  = flag.Int("sim.seeds", 12, "how many seeds to run")
	traceFlag  = flag.Bool("sim.trace", false, "with one seed: print what happens")
	eventsFlag = flag.Int("sim.events", 2000, "events of each run before the faults stop")
	eachFlag   = flag.Int("sim.each", 0, "fail unless every API succeeded so often in all runs together")
)

// TestSeeds runs seed after seed. A failing one prints the command that runs it
// again.
func TestSeeds(t *testing.T) {
	first, count := *firstFlag, *seedsFlag
	if *seedFlag != 0 {
		first, count = *seedFlag, 1
	}
	var (
		sum  = Report{Succeeded: map[string]int{}}
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
				if err == nil && (r.Crashes == 0 || r.Cuts == 0 || r.Events < *eventsFlag) {
					err = fmt.Errorf("seed %d: %d events, %d crashes, %d cuts: it shows too little", seed, r.Events, r.Crashes, r.Cuts)
				}
				mu.Lock()
				sum.add(r)
				mu.Unlock()
				if err != nil {
					t.Errorf("%v\nagain: go test ./internal/sim -run TestSeeds -sim.seed %d -sim.events %d -sim.trace", err, seed, *eventsFlag)
				}
			}
		})
	}
	work.Wait()
	if *seedFlag == 0 {
		sum.enough(t, *eachFlag)
	}
	t.Log(sum)
}

func optionsFor(seed uint64) Options {
	o := Options{Seed: seed, Events: *eventsFlag}
	if *traceFlag {
		o.Trace = func(line string) { fmt.Println(line) }
	}
	return o
}

func (sum *Report) add(r Report) {
	for k, n := range r.Succeeded {
		sum.Succeeded[k] += n
	}
	sum.Events += r.Events
	sum.Crashes += r.Crashes
	sum.Stops += r.Stops
	sum.Cuts += r.Cuts
	sum.Pauses += r.Pauses
	sum.Stalls += r.Stalls
	sum.SlowSyncs += r.SlowSyncs
	sum.FailedSyncs += r.FailedSyncs
	sum.FullDisks += r.FullDisks
}

// enough complains about APIs that the runs show too little about.
func (sum *Report) enough(t *testing.T, each int) {
	t.Helper()
	for _, api := range wire.APIs() {
		if n := sum.Succeeded[api.Name]; n < each {
			t.Errorf("%s succeeded %d times, not %d", api.Name, n, each)
		}
	}
}

func (sum Report) String() string {
	var kinds []string
	for _, k := range slices.Sorted(maps.Keys(sum.Succeeded)) {
		kinds = append(kinds, fmt.Sprintf("%s %d", k, sum.Succeeded[k]))
	}
	return fmt.Sprintf("%d events, %d crashes, %d stops, %d cuts, %d pauses, %d stalls, %d slow syncs, %d failed ones, %d full disks; %s", sum.Events, sum.Crashes, sum.Stops,
		sum.Cuts, sum.Pauses, sum.Stalls, sum.SlowSyncs, sum.FailedSyncs, sum.FullDisks, strings.Join(kinds, ", "))
}

// TestSameSeedSameRun is what makes a seed worth keeping.
func TestSameSeedSameRun(t *testing.T) {
	one, err1 := Run(Options{Seed: 7})
	two, err2 := Run(Options{Seed: 7})
	if err := errors.Join(err1, err2); err != nil || one.String() != two.String() {
		t.Errorf("two runs of one seed differ:\n%v %v\n%v %v", one, err1, two, err2)
	}
}
