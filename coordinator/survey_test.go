package coordinator

import (
	"fmt"
	"maps"
	"testing"
)

// A survey sees each group and offset once, whatever the size of its pieces, and can be
// used for one shard after the other.
func TestSurvey(t *testing.T) {
	want := map[string]int{}
	w := newWorld(t)
	for g := range 7 {
		for _, topic := range []string{"t", "u"}[:g%3%2+1] {
			w.topics.create(topic, 5)
			commitMany(w, fmt.Sprintf("g%d", g), topic, g%5+1)
			for p := range g%5 + 1 {
				want[fmt.Sprintf("g%d %s %d %d", g, topic, p, p)]++
			}
		}
		want[fmt.Sprintf("g%d Empty 0", g)]++
	}
	got := map[string]int{}
	at := ""
	v := Survey{
		Group: func(id, state string, members int) {
			at = id
			got[fmt.Sprintf("%s %s %d", id, state, members)]++
		},
		Offset: func(topic string, partition int32, offset int64) {
			got[fmt.Sprintf("%s %s %d %d", at, topic, partition, offset)]++
		},
	}
	for limit := 1; limit < 40; limit++ {
		clear(got)
		v.Next()
		pieces := 1
		for ; !w.shard.Survey(&v, limit); pieces++ {
		}
		if !maps.Equal(got, want) {
			t.Fatalf("pieces of %d: %v, want %v", limit, got, want)
		}
		if limit < 3 && pieces < len(want)/limit {
			t.Errorf("%d pieces of %d for %d groups and offsets", pieces, limit, len(want))
		}
	}
	v.Next()
	if n := testing.AllocsPerRun(10, func() {
		quiet := Survey{Group: func(string, string, int) {}, Offset: func(string, int32, int64) {}}
		w.shard.Survey(&quiet, 1000)
	}); n > 1 {
		t.Errorf("%v allocations", n)
	}
}
