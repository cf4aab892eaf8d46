package broker

import (
	"slices"
	"sync/atomic"
	"testing"
)

// Every shard is loaded once, and what is asked for meanwhile comes next.
func TestLoadOrder(t *testing.T) {
	b, shards := &Broker{}, make([]*shard, 5)
	for i := range shards {
		shards[i] = &shard{broker: b, index: int32(i)}
	}
	ask := map[int]int{1: 4, 2: 0, 3: 3} // before which turn which shard is asked for
	var next atomic.Int32
	var order []int32
	for turn := 0; ; turn++ {
		if i, ok := ask[turn]; ok && shards[i].admitLocked(false) != codeCoordinatorLoadInProgress {
			t.Fatal("a loading shard answers")
		}
		sh := b.nextToLoad(shards, &next)
		if sh == nil {
			break
		}
		order = append(order, sh.index)
	}
	if want := []int32{0, 4, 1, 3, 2}; !slices.Equal(order, want) {
		t.Errorf("loaded in order %v, want %v", order, want)
	}
}
