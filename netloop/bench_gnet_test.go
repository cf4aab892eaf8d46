//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package netloop

import (
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"
)

// bare is the least a server of length-prefixed frames can do on the library: it
// answers each whole frame and writes once per pass.
type bare struct {
	gnet.BuiltinEventEngine
	answer []byte
}

type bareConn struct{ kept, out []byte }

func (h *bare) OnTraffic(gc gnet.Conn) gnet.Action {
	c := gc.Context().(*bareConn)
	in, _ := gc.Next(-1)
	if len(c.kept) > 0 {
		c.kept = append(c.kept, in...)
		in = c.kept
	}
	c.out = c.out[:0]
	for len(in) >= 4 {
		n := 4 + int(binary.BigEndian.Uint32(in))
		if len(in) < n {
			break
		}
		in = in[n:]
		c.out = append(c.out, h.answer...)
	}
	c.kept = append(c.kept[:0], in...)
	if _, err := gc.Write(c.out); err != nil {
		return gnet.Close
	}
	return gnet.None
}

// BenchmarkEchoAgainstBare alternates between this package and the bare echo, because
// the machine's mood changes faster than a benchmark ends. One operation is one
// round of both; "rate%" and "cpu%" are medians of what this package needs
// compared with the bare echo: requests per second, and processor time of server and
// generator together.
func BenchmarkEchoAgainstBare(b *testing.B) {
	for _, l := range loads {
		b.Run(fmt.Sprintf("%dx%d", l.conns, l.depth), func(b *testing.B) {
			addresses := [2]string{bareEcho(b)}
			_, addresses[1] = serverFor(b, Options{Handler: newEchoHandler()})
			n := 10000 * min(l.depth, 20)
			var rate, cpu []float64
			for i := 0; b.Loop(); i++ {
				var wall, used [2]float64
				for j := range addresses {
					which := (i + j) % 2
					start, before := time.Now(), processTime()
					load(b, addresses[which], l.conns, l.depth, n)
					wall[which], used[which] = float64(time.Since(start)), float64(processTime()-before)
				}
				rate = append(rate, 100*wall[0]/wall[1])
				cpu = append(cpu, 100*used[1]/used[0])
			}
			slices.Sort(rate)
			slices.Sort(cpu)
			b.ReportMetric(rate[len(rate)/2], "rate%")
			b.ReportMetric(cpu[len(cpu)/2], "cpu%")
		})
	}
}

// processTime is the processor time this process has used.
func processTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func bareEcho(b *testing.B) string {
	h := &bare{answer: newEchoHandler().answer}
	client, err := gnet.NewClient(h, gnet.WithNumEventLoop(defaultLoops()), gnet.WithLogger(libraryLog{}), gnet.WithTCPNoDelay(gnet.TCPDelay))
	if err != nil {
		b.Fatal(err)
	}
	if err := client.Start(); err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if _, err := client.EnrollContext(c, &bareConn{}); err != nil {
				b.Error(err)
			}
		}
	}()
	b.Cleanup(func() {
		l.Close()
		wg.Wait()
		if err := client.Stop(); err != nil {
			b.Error(err)
		}
	})
	return l.Addr().String()
}
