package broker_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kcoord/kcoord/broker"
)

// page is what the metrics page says.
func page(t *testing.T, b *broker.Broker) string {
	t.Helper()
	resp, err := http.Get("http://" + b.HTTPAddr() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// commit commits offset 3 of partition 0 of a topic for groups.
func commit(t *testing.T, addr, topic string, groups ...string) {
	t.Helper()
	adm := kadm.NewClient(client(t, addr))
	for _, group := range groups {
		offsets := kadm.Offsets{}
		offsets.Add(kadm.Offset{Topic: topic, Partition: 0, At: 3, LeaderEpoch: -1})
		if err := adm.CommitAllOffsets(within(t), group, offsets); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMetricsOfGroups commits, rebalances, and reads the page.
func TestMetricsOfGroups(t *testing.T) {
	b := start(t, broker.Options{HTTP: "127.0.0.1:0", Topics: []broker.Topic{{Name: "t", Partitions: 2}}})
	produce(t, b.Addr(), "t", 2, 0, 20) // ten in each partition
	commit(t, b.Addr(), "t", "late", "early")
	c := client(t, b.Addr(), kgo.ConsumerGroup("members"), kgo.ConsumeTopics("t"))
	if err := c.PollFetches(within(t)).Err(); err != nil {
		t.Fatal(err)
	}
	got := page(t, b)
	for _, want := range []string{
		`kcoord_group_lag{group="late",topic="t"} 7`, `kcoord_group_lag{group="early",topic="t"} 7`, `kcoord_groups_lag 14`,
		`kcoord_groups{state="Empty"} 2`, `kcoord_groups{state="Stable"} 1`, `kcoord_committed_offsets 2`,
		`kcoord_group_members{group="members"} 1`, `kcoord_group_members{group="late"} 0`,
		`kcoord_group_rebalance_seconds_count 1`, `kcoord_request_seconds_count{api="OffsetCommit"} 2`,
		`kcoord_request_seconds_count{api="SyncGroup"} 1`, `kcoord_request_seconds_bucket{api="Produce",le="+Inf"} 1`,
	} {
		if !strings.Contains(got, "\n"+want+"\n") {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	for _, api := range []string{"ApiVersions", "Metadata", "CreateTopics", "JoinGroup", "Fetch", "FindCoordinator"} {
		if timed := regexp.MustCompile(`kcoord_request_seconds_count\{api="` + api + `"\} [1-9]`).MatchString(got); timed != (api != "CreateTopics") {
			t.Errorf("%s is timed: %v", api, timed)
		}
	}
}

// TestSeriesOfGroups: a group has series of its own while there are not too many,
// or if the property chooses it; sums are there always.
func TestSeriesOfGroups(t *testing.T) {
	const many = 1001
	groups := make([]string, many)
	for i := range groups {
		groups[i] = fmt.Sprintf("g%d", i)
	}
	for pattern, want := range map[string]int{"": 0, "g1.": 10} {
		b := start(t, broker.Options{HTTP: "127.0.0.1:0", Topics: []broker.Topic{{Name: "t", Partitions: 1}},
			Properties: map[string]string{"kcoord.metrics.groups": pattern}})
		produce(t, b.Addr(), "t", 1, 0, 4)
		commit(t, b.Addr(), "t", groups[:many-1]...)
		count := func() int { return strings.Count(page(t, b), "kcoord_group_lag{") }
		if n := count(); pattern == "" && n != many-1 || pattern != "" && n != want {
			t.Errorf("pattern %q: %d series", pattern, n)
		}
		commit(t, b.Addr(), "t", groups[many-1])
		if n := count(); n != want {
			t.Errorf("pattern %q and one group more: %d series, want %d", pattern, n, want)
		}
		if !strings.Contains(page(t, b), fmt.Sprintf("\nkcoord_groups_lag %d\n", many)) {
			t.Errorf("pattern %q: no sum", pattern)
		}
	}
}

// lines are what the broker logs.
type lines struct{ ch chan string }

func (l lines) Write(p []byte) (int, error) {
	select {
	case l.ch <- string(p):
	default: // nobody reads that many
	}
	return len(p), nil
}

// find returns the first line that has all of the words.
func (l lines) find(t *testing.T, words ...string) string {
	t.Helper()
	timeout := time.After(deadline)
next:
	for {
		select {
		case line := <-l.ch:
			for _, word := range words {
				if !strings.Contains(line, word) {
					continue next
				}
			}
			return line
		case <-timeout:
			t.Fatalf("no line with %q", words)
		}
	}
}

// TestLogLines looks for what an operator is told: the start, a rebalance with who
// caused it and how long it took, requests at the level debug, the stop.
func TestLogLines(t *testing.T) {
	out := lines{make(chan string, 10000)}
	logger := zerolog.New(out).Level(zerolog.DebugLevel)
	b, err := broker.New(broker.Options{DataDir: t.TempDir(), Logger: &logger, Topics: []broker.Topic{{Name: "t", Partitions: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Start(within(t)); err != nil {
		t.Fatal(err)
	}
	out.find(t, `"level":"info"`, `"address":"`+b.Addr(), `"folder":"/`, `"durability":"sync"`, `"groups":0`, `"took":"`, `"message":"ready"`)
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.ClientID("me"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	out.find(t, `"level":"debug"`, `"api":"JoinGroup"`, `"client":"me"`, `"message":"request"`)
	out.find(t, `"level":"info"`, `"group":"g"`, `"to":"Stable"`, `"leader":"me-`, `"rebalance_took":"`)
	if err := b.Stop(within(t)); err != nil {
		t.Fatal(err)
	}
	out.find(t, `"level":"info"`, `"message":"stopped, folder clean"`)
}
