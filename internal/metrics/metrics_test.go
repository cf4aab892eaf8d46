package metrics

import (
	"strings"
	"testing"
	"time"
)

func TestBuckets(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want int
	}{
		{-1, 0}, {0, 0}, {1, 0}, {time.Microsecond, 0}, {time.Microsecond + 1, 1}, {2 * time.Microsecond, 1},
		{2*time.Microsecond + 1, 2}, {time.Millisecond, 10}, {bound(buckets - 1), buckets - 1},
		{bound(buckets-1) + 1, buckets}, {time.Hour, buckets},
	} {
		if got := bucketOf(c.d); got != c.want {
			t.Errorf("bucketOf(%v) = %d, want %d", c.d, got, c.want)
		}
	}
}

func TestText(t *testing.T) {
	var h Histogram
	h.Observe(3 * time.Microsecond)
	h.Observe(time.Hour)
	var page Text
	page.Counter("requests_total", "Requests.", 3, "api", "Heartbeat")
	page.Counter("requests_total", "Requests.", 4, "api", "a\"b\\c\nd")
	page.Gauge("up", "Up.", 0.5)
	page.Histogram("sync_seconds", "Syncs.", &h, "kind", "x")
	got := string(page.Bytes())
	for _, want := range []string{
		"# HELP requests_total Requests.\n# TYPE requests_total counter\nrequests_total{api=\"Heartbeat\"} 3\n" +
			`requests_total{api="a\"b\\c\nd"} 4` + "\n# HELP up Up.\n# TYPE up gauge\nup 0.5\n",
		`sync_seconds_bucket{kind="x",le="2e-06"} 0` + "\n",
		`sync_seconds_bucket{kind="x",le="4e-06"} 1` + "\n",
		`sync_seconds_bucket{kind="x",le="+Inf"} 2` + "\n",
		`sync_seconds_sum{kind="x"} 3600.000003` + "\n",
		`sync_seconds_count{kind="x"} 2` + "\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if h.Count() != 2 {
		t.Error("count")
	}
}

func BenchmarkObserve(b *testing.B) {
	var h Histogram
	b.ReportAllocs()
	for b.Loop() {
		h.Observe(123 * time.Microsecond)
	}
}
