package broker

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/coordinator"
	"github.com/kcoord/kcoord/internal/meta"
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

// surveyPiece is how many groups and offsets are visited under a shard's lock at a time:
// well under 100 us.
const surveyPiece = 500

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

// A foundGroup is a group that may have series of its own.
type foundGroup struct {
	shard   *shard
	name    string
	members int
}

// groupTotals reads all groups that are served, in pieces. Those that
// kcoord.metrics.groups names have series of their own or, without it, all as long as
// they are few.
func (b *Broker) groupTotals() *groupTotals {
	t := &groupTotals{states: make(map[string]int)}
	var pattern *regexp.Regexp
	if text := b.values().MetricsGroups; text != "" {
		pattern = regexp.MustCompile("^(?:" + text + ")$") // config has compiled it
	}
	var found []foundGroup
	groups := 0
	lag := lagSum{topics: b.meta.Load(), store: b.store}
	var at *shard
	survey := coordinator.Survey{
		Group: func(id, state string, members int) {
			t.states[state]++
			if groups++; pattern != nil || groups <= maxGroupSeries {
				found = append(found, foundGroup{at, id, members})
			}
		},
		Offset: func(topic string, partition int32, offset int64) {
			t.offsets++
			t.lag += lag.of(topic, partition, offset)
		},
	}
	pace := b.newPace()
	for _, at = range b.allShards() {
		survey.Next()
		// One that is loading, or has failed, has no groups to count.
		at.inPieces(pace, func(core *coordinator.Shard) bool { return core.Survey(&survey, surveyPiece) })
	}
	if pattern == nil && groups > maxGroupSeries {
		found = nil
	}
	for _, g := range found {
		pace.step()
		if pattern == nil || pattern.MatchString(g.name) { // not under the shard's lock: it takes long
			t.shown = append(t.shown, groupSeries{name: g.name, members: g.members, lag: b.groupLag(pace, g.shard, g.name)})
		}
	}
	slices.SortFunc(t.shown, func(x, y groupSeries) int { return strings.Compare(x.name, y.name) })
	return t
}

// A lagSum compares offsets with the ends of their partitions. Offsets come by topic.
type lagSum struct {
	topics *meta.Snapshot
	store  *log.Store
	topic  string
	id     log.TopicID
	known  bool
}

// of returns how many records lie behind an offset, 0 if the partition is not there.
func (l *lagSum) of(topic string, partition int32, offset int64) int64 {
	if topic != l.topic {
		id, _, ok := l.topics.ByName(topic)
		l.topic, l.id, l.known = topic, log.TopicID(id), ok
	}
	if !l.known || offset < 0 {
		return 0
	}
	part := l.store.Partition(l.id, partition)
	if part == nil {
		return 0
	}
	return max(0, part.HighWatermark()-offset)
}

// groupLag is how far a group is behind, by topic.
func (b *Broker) groupLag(pace *pace, sh *shard, group string) (byTopic []topicLag) {
	lag := lagSum{topics: b.meta.Load(), store: b.store}
	pass := coordinator.FetchPass{Group: &kmsg.OffsetFetchRequestGroup{Group: group}, Version: 9, Topics: lag.topics}
	if sh.inPieces(pace, func(core *coordinator.Shard) bool { return core.FetchOffsets(&pass, fetchPiece) }) != codeNone {
		return nil
	}
	for _, t := range pass.Response.Topics {
		if _, _, ok := lag.topics.ByName(t.Topic); !ok {
			continue
		}
		behind := topicLag{topic: t.Topic}
		for _, p := range t.Partitions {
			behind.lag += lag.of(t.Topic, p.Partition, p.Offset)
		}
		byTopic = append(byTopic, behind)
	}
	slices.SortFunc(byTopic, func(x, y topicLag) int { return strings.Compare(x.topic, y.topic) })
	return byTopic
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
