package broker

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/coordinator"
	"github.com/kcoord/kcoord/internal/metrics"
	"github.com/kcoord/kcoord/log"
)

// maxGroupSeries is how many groups have series of their own at most, if the
// property kcoord.metrics.groups does not choose them.
const maxGroupSeries = 1000

// topicLag is how many records of a topic a group has not committed yet.
type topicLag struct {
	topic string
	lag   int64
}

// A groupSeries is a group that has series of its own.
type groupSeries struct {
	name    string
	members int
	lag     []topicLag
}

// groupTotals are what the metrics page tells of groups.
type groupTotals struct {
	states  map[string]int
	offsets int
	lag     int64
	shown   []groupSeries
}

// groupTotals reads all groups that are served, in pieces.
func (b *Broker) groupTotals() *groupTotals {
	t := &groupTotals{states: make(map[string]int)}
	type found struct {
		sh   *shard
		name string
	}
	pace := b.newPace()
	var all []found
	for _, sh := range b.allShards() {
		pass := coordinator.NewListPass(nil, nil)
		offsets := 0
		code := sh.inPieces(pace, func(core *coordinator.Shard) bool {
			offsets = core.Stats().Offsets
			return core.ListGroups(pass, listPiece)
		})
		if code != codeNone {
			continue // it is loading, or has failed
		}
		t.offsets += offsets
		for _, g := range pass.Groups {
			t.states[g.GroupState]++
			all = append(all, found{sh, g.Group})
		}
	}
	shown := b.showsGroups(len(all))
	for _, g := range all {
		pace.step()
		lag, sum := b.groupLag(g.sh, g.name)
		t.lag += sum
		if shown(g.name) {
			t.shown = append(t.shown, groupSeries{name: g.name, members: b.groupMembers(g.sh, g.name), lag: lag})
		}
	}
	slices.SortFunc(t.shown, func(x, y groupSeries) int { return strings.Compare(x.name, y.name) })
	return t
}

// showsGroups says which of n groups have series of their own.
func (b *Broker) showsGroups(n int) func(group string) bool {
	if pattern := b.values().MetricsGroups; pattern != "" {
		return regexp.MustCompile("^(?:" + pattern + ")$").MatchString // config has compiled it
	}
	return func(string) bool { return n <= maxGroupSeries }
}

// groupLag compares a group's committed offsets with the ends of their partitions.
func (b *Broker) groupLag(sh *shard, group string) (byTopic []topicLag, sum int64) {
	topics := b.meta.Load()
	pass := coordinator.FetchPass{Group: &kmsg.OffsetFetchRequestGroup{Group: group}, Version: 9, Topics: topics}
	if sh.inPieces(nil, func(core *coordinator.Shard) bool { return core.FetchOffsets(&pass, fetchPiece) }) != codeNone {
		return nil, 0
	}
	for _, t := range pass.Response.Topics {
		id, _, ok := topics.ByName(t.Topic)
		if !ok {
			continue
		}
		behind := topicLag{topic: t.Topic}
		for _, p := range t.Partitions {
			if part := b.store.Partition(log.TopicID(id), p.Partition); part != nil && p.Offset >= 0 {
				behind.lag += max(0, part.HighWatermark()-p.Offset)
			}
		}
		byTopic = append(byTopic, behind)
		sum += behind.lag
	}
	slices.SortFunc(byTopic, func(x, y topicLag) int { return strings.Compare(x.topic, y.topic) })
	return byTopic, sum
}

func (b *Broker) groupMembers(sh *shard, group string) int {
	pass := coordinator.DescribePass{Group: group, Version: 5}
	if sh.inPieces(nil, func(core *coordinator.Shard) bool { return core.DescribeGroup(&pass, describePiece) }) != codeNone {
		return 0
	}
	return len(pass.Response.Members)
}

// groupPage writes the metrics of groups.
func (b *Broker) groupPage(t *metrics.Text) {
	totals := b.groupTotals()
	for _, state := range []string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"} {
		if _, ok := totals.states[state]; !ok {
			totals.states[state] = 0 // a series that comes and goes is hard to alert on
		}
	}
	states := make([]string, 0, len(totals.states))
	for state := range totals.states {
		states = append(states, state)
	}
	slices.Sort(states)
	for _, state := range states {
		t.Gauge("kcoord_groups", "Groups by state.", float64(totals.states[state]), "state", state)
	}
	t.Gauge("kcoord_committed_offsets", "Committed offsets of all groups.", float64(totals.offsets))
	t.Gauge("kcoord_groups_lag", "Records that groups have not committed yet, over all groups.", float64(totals.lag))
	for _, g := range totals.shown {
		t.Gauge("kcoord_group_members", "Members of a group; for up to 1000 groups, or those that kcoord.metrics.groups chooses.", float64(g.members), "group", g.name)
	}
	for _, g := range totals.shown {
		for _, behind := range g.lag {
			t.Gauge("kcoord_group_lag", "Records that a group has not committed yet; for the same groups as their members.", float64(behind.lag), "group", g.name, "topic", behind.topic)
		}
	}
	t.Counter("kcoord_group_transitions_total", "State changes of groups.", b.metrics.transitions.Load())
	t.Histogram("kcoord_group_rebalance_seconds", "From the start of a rebalance until the group is stable.", &b.metrics.rebalances)
}

// rebalances remembers since when groups rebalance. A group is in here at most once.
type rebalances struct {
	mu    sync.Mutex
	since map[string]time.Duration
}

// moved notes a transition, and returns how long a rebalance took that ends with it.
func (r *rebalances) moved(t *coordinator.Transition, now time.Duration) (took time.Duration, ended bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	begun, under := r.since[t.Group]
	switch t.To {
	case "Stable", "Empty", "Dead":
		delete(r.since, t.Group)
		return now - begun, under && t.To == "Stable"
	}
	if !under {
		if r.since == nil {
			r.since = make(map[string]time.Duration)
		}
		r.since[t.Group] = now
	}
	return 0, false
}
