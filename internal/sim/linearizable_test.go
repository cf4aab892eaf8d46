package sim

import (
	"flag"
	"testing"
	"time"

	"github.com/kcoord/kcoord/internal/history"
)

var historiesFlag = flag.Uint64("sim.histories", 8, "of how many seeds the histories are judged")

// TestLinearizable has the whole history of each offset judged, where the
// checkers of a run look at one answer at a time.
func TestLinearizable(t *testing.T) {
	operations := 0
	for seed := *firstFlag; seed < *firstFlag+*historiesFlag; seed++ {
		var h history.History
		if _, err := Run(Options{Seed: seed, Events: *eventsFlag, History: &h}); err != nil {
			t.Fatal(err)
		}
		if err := h.Check(20 * time.Second); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		operations += h.Len()
	}
	if operations < 100*int(*historiesFlag) {
		t.Errorf("only %d operations were judged", operations)
	}
}
