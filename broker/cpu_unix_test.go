//go:build unix

package broker

import (
	"syscall"
	"testing"
	"time"
)

// cpuPerOp reports the processor time of an operation of the benchmark, which a
// busy machine does not change. Call the result at the end.
func cpuPerOp(b *testing.B) func() {
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	return func() { b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/op") }
}
