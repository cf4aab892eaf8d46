package metrics

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// buckets is the number of a Histogram's buckets with an upper bound: 1 µs
// times the powers of two, up to 34 s.
const buckets = 26

// A Histogram counts durations in buckets that double. The zero value is ready.
type Histogram struct {
	counts [buckets + 1]atomic.Uint64
	sum    atomic.Int64 // nanoseconds
}

// Observe counts d. It never allocates.
func (h *Histogram) Observe(d time.Duration) { h.ObserveSeveral(d, 1) }

// ObserveSeveral counts n times d.
func (h *Histogram) ObserveSeveral(d time.Duration, n int64) {
	h.counts[bucketOf(d)].Add(uint64(n))
	h.sum.Add(n * int64(d))
}

// sizeUnit stands for a size of 1 in a Histogram of sizes.
const sizeUnit = time.Microsecond

// ObserveSize counts n, 0 to 2^25 or more, in a histogram that Sizes writes.
func (h *Histogram) ObserveSize(n int) { h.Observe(time.Duration(n) * sizeUnit) }

// bucketOf is the first bucket whose bound is not below d.
func bucketOf(d time.Duration) int {
	if d <= time.Microsecond {
		return 0
	}
	return min(bits.Len64(uint64((d-1)/time.Microsecond)), buckets)
}

// Bound is the upper bound of bucket i.
func bound(i int) time.Duration { return time.Microsecond << i }

// Add adds what other has counted.
func (h *Histogram) Add(other *Histogram) {
	for i := range h.counts {
		h.counts[i].Add(other.counts[i].Load())
	}
	h.sum.Add(other.sum.Load())
}

// Count is the number of observations.
func (h *Histogram) Count() uint64 {
	var n uint64
	for i := range h.counts {
		n += h.counts[i].Load()
	}
	return n
}
