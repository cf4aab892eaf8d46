package load

import (
	"math"
	"math/bits"
)

// A Histogram counts durations in nanoseconds, in 16 linear steps per power of
// two: a quantile read from it is at most 6.25 percent above the true one.
type Histogram struct {
	count   int64
	largest int64
	buckets [61 * stepsPerOctave]int64
}

const (
	stepBits       = 4
	stepsPerOctave = 1 << stepBits
)

// Record counts one duration. A negative one counts as 0.
func (h *Histogram) Record(nanos int64) {
	nanos = max(nanos, 0)
	h.count++
	h.largest = max(h.largest, nanos)
	h.buckets[bucketOf(nanos)]++
}

// Add counts in everything that other has counted.
func (h *Histogram) Add(other *Histogram) {
	h.count += other.count
	h.largest = max(h.largest, other.largest)
	for i, n := range other.buckets {
		h.buckets[i] += n
	}
}

// Count returns how many durations were recorded.
func (h *Histogram) Count() int64 { return h.count }

// Max returns the longest duration recorded, in nanoseconds.
func (h *Histogram) Max() int64 { return h.largest }

// Quantile returns the duration in nanoseconds that the share q (0 to 1) of
// all recorded ones does not exceed, and 0 when nothing was recorded.
func (h *Histogram) Quantile(q float64) int64 {
	rank := max(int64(math.Ceil(q*float64(h.count))), 1)
	for i, n := range h.buckets {
		if rank -= n; n > 0 && rank <= 0 {
			return min(bucketEnd(i), h.largest)
		}
	}
	return h.largest
}

func bucketOf(v int64) int {
	if v < stepsPerOctave {
		return int(v)
	}
	shift := bits.Len64(uint64(v)) - 1 - stepBits
	return (shift+1)<<stepBits + int(v>>shift) - stepsPerOctave
}

// bucketEnd is the largest value that bucketOf maps to i.
func bucketEnd(i int) int64 {
	if i < stepsPerOctave {
		return int64(i)
	}
	shift := i>>stepBits - 1
	return (int64(i&(stepsPerOctave-1)+stepsPerOctave)+1)<<shift - 1
}
