package broker

import (
	"time"

	"github.com/kcoord/kcoord/internal/metrics"
	"github.com/kcoord/kcoord/log"
	"github.com/kcoord/kcoord/netloop"
	"github.com/kcoord/kcoord/wire"
)

// A latencies has the time of requests by API key, from their arrival to the
// moment when their answer may go.
type latencies [maxKey + 1]metrics.Histogram

// keyFetch is the API key of Fetch.
const keyFetch = 1

const (
	// timedFirst requests of an API and loop are all timed, and then every
	// timedEvery-th: reading the clock costs as much as a tenth of a heartbeat.
	timedFirst = 1000
	timedEvery = 16
)

// times reports whether the n-th request of its API is timed when it is answered at
// once. Only the first of those that came together is: those behind it waited for
// their turn.
func (w *bench) times(n uint64) bool {
	return w.first && (n <= timedFirst || n%timedEvery == 0)
}

// observe notes the time of a request that is answered now.
func (b *Broker) observe(to *latencies, key int16, arrived time.Duration) {
	now, _ := b.time.now()
	to[key].Observe(max(0, now-arrived))
}

// observeWaiter notes the time of requests whose round has become durable.
func (l *latencies) observeWaiter(w *log.Waiter, now time.Duration) {
	arrived := time.Duration(w.At) - time.Duration(w.Patience)*time.Millisecond
	l[w.Key].ObserveSeveral(max(0, now-arrived), 1+int64(w.More))
}

// verdicts are the words for what became of a request.
var verdicts = map[netloop.Verdict]string{netloop.Answered: "now", netloop.Later: "when durable", netloop.Hold: "later",
	netloop.None: "none", netloop.Close: "closed"}

const requestSecondsHelp = "From the arrival of a request to the moment when its answer may go: with the wait for its sync, for other members, " +
	"for records. Of requests that are answered at once and came together one is timed."

// tellRequest is the line of a request at the level debug.
func (b *Broker) tellRequest(r *request, verdict netloop.Verdict) {
	api, _ := wire.Lookup(r.key)
	b.logger.Debug().Str("api", api.Name).Int16("version", r.version).Int32("correlation", r.correlationID).Str("client", r.clientID).
		Str("peer", r.session.host).Str("answer", verdicts[verdict]).Msg("request")
}

// requestTimes are the latencies of all loops, of what waited, and of the pool.
func (m *brokerMetrics) requestTimes(key int16) *metrics.Histogram {
	var sum metrics.Histogram
	sum.Add(&m.waited[key])
	for i := range m.byLoop {
		sum.Add(&m.byLoop[i].latency[key])
	}
	return &sum
}
