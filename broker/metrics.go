package broker

import (
	"sync/atomic"

	"github.com/kcoord/kcoord/internal/metrics"
	"github.com/kcoord/kcoord/netloop"
	"github.com/kcoord/kcoord/wire"
)

// counts are the counters of one event loop and the goroutine connections that
// came from it.
type counts struct {
	requests [maxKey + 1]atomic.Uint64 // by API key
	latency  latencies                 // of what was answered at once
	_        [64]byte                  // counters of two loops share no cache line
}

// brokerMetrics is what the broker counts.
type brokerMetrics struct {
	byLoop []counts

	accepted, closed, refused atomic.Uint64 // connections
	moved                     [4]atomic.Uint64
	waited                    latencies // of requests that were not answered at once
	malformed, panics         atomic.Uint64
	transitions, expired      atomic.Uint64
	roundBytes, roundItems    atomic.Uint64
	stalled                   atomic.Uint64
	recordsLoaded, startTook  atomic.Int64
	cleanFailures             atomic.Uint64
	cleanedBytes              atomic.Uint64
	rounds, checkpoints       metrics.Histogram
	cleanings, rebalances     metrics.Histogram
	refusedPartitions         atomic.Int64
	writesRefused             atomic.Uint64     // of clients
	lastCheckpoint, lastClean atomic.Int64      // Unix ms, 0: none since the start
	roundSizes                metrics.Histogram // items per round
}

// page writes all metrics in Prometheus' text format.
func (b *Broker) metricsPage() []byte {
	var t metrics.Text
	m := &b.metrics
	for _, api := range wire.APIs() {
		var sum uint64
		for i := range m.byLoop {
			sum += m.byLoop[i].requests[api.Key].Load()
		}
		t.Counter("kcoord_requests_total", "Requests by API.", sum, "api", api.Name)
	}
	for _, api := range wire.APIs() {
		if times := m.requestTimes(api.Key); times.Count() > 0 {
			t.Histogram("kcoord_request_seconds", requestSecondsHelp, times, "api", api.Name)
		}
	}
	t.Counter("kcoord_requests_malformed_total", "Requests that closed their connection.", m.malformed.Load())
	t.Counter("kcoord_request_panics_total", "Requests whose handling panicked.", m.panics.Load())
	closed := m.closed.Load()
	t.Gauge("kcoord_connections", "Open connections.", float64(m.accepted.Load()-closed))
	t.Counter("kcoord_connections_closed_total", "Connections that were closed.", closed)
	t.Counter("kcoord_connections_refused_total", "Connections refused at a limit.", m.refused.Load())
	for why := range m.moved {
		t.Counter("kcoord_connections_moved_total", "Connections that left their event loop.", m.moved[why].Load(),
			"reason", netloop.MoveReason(why).String())
	}
	b.groupPage(&t)
	t.Counter("kcoord_offsets_expired_total", "Committed offsets removed by retention or topic deletion.", m.expired.Load())
	t.Histogram("kcoord_journal_round_seconds", "Writing and syncing one round of the journal.", &m.rounds)
	t.Counter("kcoord_requests_stalled_total", "Requests answered with an error because a sync took too long.", m.stalled.Load())
	t.Counter("kcoord_journal_bytes_total", "Bytes written to the journal.", m.roundBytes.Load())
	t.Counter("kcoord_journal_items_total", "Batches and metadata items written to the journal.", m.roundItems.Load())
	t.Sizes("kcoord_journal_round_items", "Batches and metadata items per round of the journal.", &m.roundSizes)
	t.Histogram("kcoord_checkpoint_seconds", "Checkpoints.", &m.checkpoints)
	t.Gauge("kcoord_checkpoint_last_timestamp_seconds", "When the newest checkpoint was made, 0: none since the start.", float64(m.lastCheckpoint.Load())/1e3)
	t.Gauge("kcoord_partitions_refused", "Partitions that are closed because of damage or a failed disk.", float64(m.refusedPartitions.Load()))
	t.Gauge("kcoord_cleaner_last_timestamp_seconds", "When a log was cleaned last, 0: none since the start.", float64(m.lastClean.Load())/1e3)
	t.Histogram("kcoord_cleaner_round_seconds", "Rounds of the log cleaner.", &m.cleanings)
	t.Counter("kcoord_cleaner_freed_bytes_total", "Bytes that the log cleaner removed.", m.cleanedBytes.Load())
	t.Counter("kcoord_cleaner_failures_total", "Rounds of the log cleaner that were given up.", m.cleanFailures.Load())
	b.storeMetrics(&t)
	t.Gauge("kcoord_start_seconds", "From start to ready.", float64(m.startTook.Load())/1e9)
	t.Gauge("kcoord_ready", "1 when every group is served and writes are accepted.", truth(len(b.Problems()) == 0))
	t.Gauge("kcoord_info", "What runs.", 1, "version", b.options.Version, "durability", b.Durability())
	return t.Bytes()
}

func truth(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
