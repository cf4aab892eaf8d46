package broker

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func httpGet(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestHTTP(t *testing.T) {
	b, tr := newTest(t, Options{})
	server := httptest.NewServer(b.httpHandler())
	defer server.Close()
	check := func(path string, status int, part string) {
		t.Helper()
		if got, body := httpGet(t, server.URL+path); got != status || !strings.Contains(body, part) {
			t.Errorf("%s: %d %q, want %d with %q", path, got, body, status, part)
		}
	}
	check("/readyz", 503, "loading")
	check("/healthz", 200, "ok")
	startBroker(t, b)
	c := tr.open(0)
	for range 3 {
		ask[*kmsg.HeartbeatResponse](t, c, heartbeatRequest("g", "m", 1))
	}
	check("/readyz", 200, "ready")
	check("/metrics", 200, `kcoord_requests_total{api="Heartbeat"} 3`+"\n")
	check("/metrics", 200, "\nkcoord_ready 1\n")
	check("/metrics", 200, `durability="none"`)
	check("/debug/pprof/", 404, "")
	createTopic(t, c, "t", 1)
	if code := commitCode(t, c, commitRequest("g", "", -1, "t", 7, 0)); code != 0 {
		t.Fatalf("commit: %d", code)
	}
	for _, name := range []string{
		`kcoord_partition_bytes{topic="__consumer_offsets",partition="`, `kcoord_partition_segments{topic="__consumer_offsets",partition="`,
		`kcoord_partition_dirty_ratio{topic="__consumer_offsets",partition="`, `kcoord_partition_live_bytes{topic="__consumer_offsets",partition="`,
		"kcoord_log_bytes ", "kcoord_log_segments ", "kcoord_cleaner_round_seconds_count ", "kcoord_cleaner_freed_bytes_total ",
		"kcoord_journal_round_seconds_bucket{", `kcoord_journal_round_items_bucket{le="1"} `, "kcoord_journal_used_bytes ", "kcoord_journal_room_bytes ", "kcoord_journal_files ", "kcoord_checkpoint_last_timestamp_seconds ",
	} {
		check("/metrics", 200, "\n"+name)
	}
}

// Profiles are there only when asked for (TestHTTP did not).
func TestProfiles(t *testing.T) {
	b, _ := newTest(t, Options{Profiling: true})
	server := httptest.NewServer(b.httpHandler())
	defer server.Close()
	if got, body := httpGet(t, server.URL+"/debug/pprof/"); got != 200 || !strings.Contains(body, "goroutine") {
		t.Errorf("profiles: %d %q", got, body)
	}
}

// One cause is warned of once a minute, and what was left out is counted.
func TestWarnings(t *testing.T) {
	var out strings.Builder
	logger := zerolog.New(&out)
	clock := &manualClock{}
	b, _ := newTest(t, Options{Clock: clock, Logger: &logger})
	warn := func(cause string) {
		if e := b.warn(cause); e != nil {
			e.Send()
		}
	}
	warn("a")
	warn("a")
	warn("b")
	clock.advance(warnInterval - 1)
	warn("a")
	clock.advance(1)
	warn("a")
	want := `{"level":"warn","cause":"a"}
{"level":"warn","cause":"b"}
{"level":"warn","cause":"a","not_shown":2}
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

// A stopped process (SIGSTOP, a frozen container) expires nobody, and goes on.
func TestPausedBroker(t *testing.T) {
	clock := &jumpingClock{Clock: newRealClock()}
	b, tr := startTest(t, Options{Clock: clock, Properties: map[string]string{"group.min.session.timeout.ms": "1"}})
	c := tr.open(0)
	member, generation := stableMember(t, c, "g")
	clock.jump(time.Hour)
	if hb := ask[*kmsg.HeartbeatResponse](t, c, heartbeatRequest("g", member, generation)); hb.ErrorCode != 0 {
		t.Errorf("Heartbeat after a pause: %+v", hb)
	}
	clock.jump(time.Hour)
	b.timers.wake <- struct{}{}
	time.Sleep(50 * time.Millisecond)
	if hb := ask[*kmsg.HeartbeatResponse](t, c, heartbeatRequest("g", member, generation)); hb.ErrorCode != 0 {
		t.Errorf("Heartbeat after a pause that the timer loop saw first: %+v", hb)
	}
}
