package netloop

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// A peer that takes its answer slowly is served as long as it takes something, seen
// to the byte on a socket; one that takes nothing is closed. The clock is the test's.
func TestSlowAndStuckPeersOfASocket(t *testing.T) {
	for _, tr := range transports() {
		if tr.pipe {
			continue // that is the test with a clock that jumps
		}
		t.Run(tr.name, func(t *testing.T) {
			var clock atomic.Int64
			w := tr.start(t, func(o *Options) {
				o.Mono = func() time.Duration { return time.Duration(clock.Load()) }
				o.Limits.Linger = 40 * time.Millisecond // looks every 5 ms
			})
			c := w.client()
			c.c.(*net.TCPConn).SetReadBuffer(64 << 10)
			const size = 16 << 20
			c.send(c.frame(nil, inline, size, 0))
			var st *stream
			eventually(t, "a write that waits", func() bool {
				for _, st = range w.server.listStreams(nil) {
					return st.writeSince.Load() != 0
				}
				return false
			})
			piece := make([]byte, 200<<10)
			for range 4 {
				clock.Add(int64(defaultWriteStall - time.Second))
				time.Sleep(4 * minTick)
				if n := w.handler.closed.Load(); n != 0 {
					t.Fatalf("closed before its time: %v", w.handler.reason(0))
				}
				if _, err := io.ReadFull(c.c, piece); err != nil {
					t.Fatal(err)
				}
				now := clock.Load()
				eventually(t, "progress", func() bool { return st.writeSince.Load() > now })
			}
			// What the last piece made room for may still be on its way.
			eventually(t, "OnClose", func() bool {
				clock.Add(int64(time.Second))
				return w.handler.closed.Load() == 1
			})
			if err := w.handler.reason(0); !errors.Is(err, ErrWriteStalled) {
				t.Errorf("closed for %v", err)
			}
		})
	}
}
