package netloop

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"
)

// The sizes of a Heartbeat request and its answer, length prefix included.
const (
	benchRequest = 60
	benchAnswer  = 28
)

// echoHandler answers each frame at once, or, with a queue, when it is released.
type echoHandler struct {
	answer []byte
	queue  chan Completion
}

func newEchoHandler() *echoHandler {
	h := &echoHandler{answer: make([]byte, benchAnswer)}
	binary.BigEndian.PutUint32(h.answer, benchAnswer-4)
	return h
}

func (h *echoHandler) OnOpen(Conn)            {}
func (h *echoHandler) OnClose(Conn, error)    {}
func (h *echoHandler) FrameLimit([6]byte) int { return 1 << 20 }
func (h *echoHandler) OnFrame(c Conn, slot Slot, frame, out []byte) ([]byte, Verdict) {
	out = append(out, h.answer...)
	if h.queue == nil {
		return out, Answered
	}
	h.queue <- Completion{Conn: c, Slot: slot}
	return out, Later
}

// release completes what was answered Later, in batches.
func (h *echoHandler) release(s *Server) {
	batch := make([]Completion, 0, 4096)
	for first := range h.queue {
		batch = append(batch[:0], first)
		for len(batch) < cap(batch) && len(h.queue) > 0 {
			batch = append(batch, <-h.queue)
		}
		s.Release(0, batch)
	}
}

// load sends n requests over conns connections with depth of them on the way on each.
func load(b *testing.B, address string, conns, depth, n int) {
	var wg sync.WaitGroup
	for range conns {
		c, err := net.Dial("tcp", address)
		if err != nil {
			b.Fatal(err)
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			defer c.Close()
			if err := loadOne(c, depth, n/conns+1); err != nil {
				b.Error(err)
			}
		}()
	}
	wg.Wait()
}

// requestFrame is one request of the load.
func requestFrame() []byte {
	b := make([]byte, benchRequest)
	binary.BigEndian.PutUint32(b, benchRequest-4)
	return b
}

func dialTCP(t testing.TB, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func loadOne(c net.Conn, depth, n int) error {
	requests := make([]byte, depth*benchRequest)
	for i := range depth {
		binary.BigEndian.PutUint32(requests[i*benchRequest:], benchRequest-4)
	}
	answers := make([]byte, depth*benchAnswer)
	sent, got, part := 0, 0, 0
	for got < n {
		if k := min(depth-(sent-got), n-sent); k > 0 {
			if _, err := c.Write(requests[:k*benchRequest]); err != nil {
				return err
			}
			sent += k
		}
		m, err := c.Read(answers)
		if err != nil {
			return fmt.Errorf("after %d of %d answers: %w", got, n, err)
		}
		part += m
		got += part / benchAnswer
		part %= benchAnswer
	}
	if part != 0 {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// serverFor starts a server that is stopped with the test.
func serverFor(b testing.TB, o Options) (s *Server, address string) {
	s, err := New(o)
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Start(); err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve("bench", l) }()
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			b.Error(err)
		}
		<-served
	})
	return s, l.Addr().String()
}

var loads = []struct{ conns, depth int }{{16, 1}, {16, 32}}

// BenchmarkEcho compares the transports with the least that the library can do. One
// operation is one request; the generator shares the processors.
func BenchmarkEcho(b *testing.B) {
	servers := []struct {
		name  string
		start func(b *testing.B) string
	}{
		{"bare", bareEcho},
		{"loop", func(b *testing.B) string {
			_, address := serverFor(b, Options{Handler: newEchoHandler()})
			return address
		}},
		{"goroutine", func(b *testing.B) string {
			_, address := serverFor(b, Options{Handler: newEchoHandler(), GoroutineOnly: true})
			return address
		}},
		{"released", func(b *testing.B) string {
			h := newEchoHandler()
			h.queue = make(chan Completion, 1<<16)
			s, address := serverFor(b, Options{Handler: h, Loops: 1})
			go h.release(s)
			b.Cleanup(func() { close(h.queue) })
			return address
		}},
	}
	for _, load := range loads {
		for _, server := range servers {
			if server.start == nil {
				continue
			}
			b.Run(fmt.Sprintf("%dx%d/%s", load.conns, load.depth, server.name), func(b *testing.B) {
				address := server.start(b)
				runtime.GC()
				b.ReportAllocs()
				b.ResetTimer()
				loadN(b, address, load.conns, load.depth)
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
			})
		}
	}
}

func loadN(b *testing.B, address string, conns, depth int) { load(b, address, conns, depth, b.N) }
