package load

import (
	"math"
	"testing"
)

func TestBucketsAreContiguous(t *testing.T) {
	for i := range 60*stepsPerOctave - 1 {
		end := bucketEnd(i)
		if bucketOf(end) != i {
			t.Fatalf("bucketOf(%d) = %d, want %d", end, bucketOf(end), i)
		}
		if bucketOf(end+1) != i+1 {
			t.Fatalf("bucketOf(%d) = %d, want %d", end+1, bucketOf(end+1), i+1)
		}
	}
	if i := bucketOf(math.MaxInt64); i >= len(new(Histogram).buckets) {
		t.Fatalf("the largest duration falls into bucket %d, out of range", i)
	}
}

func TestQuantile(t *testing.T) {
	var empty Histogram
	if q := empty.Quantile(0.5); q != 0 {
		t.Fatalf("empty: %d", q)
	}
	var a, b Histogram
	for i := int64(1); i <= 1000; i++ {
		if i%2 == 0 {
			a.Record(i * 1000)
		} else {
			b.Record(i * 1000)
		}
	}
	a.Add(&b)
	a.Record(-5)
	if a.Count() != 1001 || a.Max() != 1_000_000 {
		t.Fatalf("count %d, max %d", a.Count(), a.Max())
	}
	for _, q := range []float64{0.01, 0.5, 0.9, 0.99, 1} {
		got, want := float64(a.Quantile(q)), q*1e6
		if got < want*0.999 || got > want*1.0625+1000 {
			t.Errorf("quantile %v = %v, want %v and at most 6.25%% more", q, got, want)
		}
	}
}
