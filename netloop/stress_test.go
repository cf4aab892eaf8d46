package netloop

import (
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"
)

// memory returns the bytes of live heap and stacks.
func memory() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}

// TestRandomTraffic sends random frames in odd pieces over connections of every
// temper, and checks number, length and content of every answer.
func TestRandomTraffic(t *testing.T) {
	onEach(t, func(t *testing.T, tr transport) {
		moved := make(chan MoveReason, 1<<16)
		w := tr.start(t, func(o *Options) {
			o.Loops = 2
			o.Limits.PassFrames = 7
			o.Limits.ReleaseConns = 5
			o.Limits.OwedAnswers = 50
			o.Limits.OutputBytes = 1 << 20
			o.Limits.InputBytes = 256 << 10
			o.Events.Moved = func(_ Conn, why MoveReason) { moved <- why }
		})
		var wg sync.WaitGroup
		for i := range 24 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				rnd := rand.New(rand.NewPCG(uint64(i), 3))
				for range 3 {
					if err := w.randomClient(rnd); err != nil {
						t.Error(err)
						return
					}
				}
			}()
		}
		wg.Wait()
		eventually(t, "all connections are gone", func() bool { return w.handler.closed.Load() == 24*3 })
		kinds := map[MoveReason]int{}
		for len(moved) > 0 {
			kinds[<-moved]++
		}
		switch {
		case tr.moving && kinds[MoveInput] == 0,
			tr.name == "loop" && (kinds[MoveBulk] == 0 || len(kinds) < 2),
			(tr.goroutine || tr.pipe) && len(kinds) > 0:
			t.Errorf("moves: %v", kinds)
		}
	})
}

// randomClient is one connection with a temper of its own.
func (w *world) randomClient(rnd *rand.Rand) error {
	nc := w.dial()
	defer nc.Close()
	c := &client{t: w.t, c: nc, r: newReader(nc)}
	slow, half := rnd.IntN(4) == 0, rnd.IntN(2) == 0
	if tcp, ok := nc.(*net.TCPConn); ok && slow {
		tcp.SetReadBuffer(64 << 10)
	}
	n := 20 + rnd.IntN(150)
	bulkAt := rnd.IntN(3 * n) // for a third of the connections
	type expect struct {
		number uint32
		size   int
	}
	var want []expect
	var pieces [][]byte
	var b []byte
	for i := range n {
		k := []kind{inline, inline, later, later, laterOwn, hold, none}[rnd.IntN(7)]
		if i == bulkAt {
			k = bulk
		}
		size, payload := rnd.IntN(300), rnd.IntN(300)
		switch rnd.IntN(30) {
		case 0:
			size = rnd.IntN(50_000)
		case 1:
			payload = rnd.IntN(100_000)
		}
		if k != none {
			want = append(want, expect{c.next, size})
		}
		b = c.frame(b, k, size, payload)
	}
	for len(b) > 0 {
		k := min(len(b), 1+rnd.IntN([]int{3, 100, 5000, 70000}[rnd.IntN(4)]))
		pieces = append(pieces, b[:k])
		b = b[k:]
	}
	sent := make(chan error, 1)
	go func() {
		for _, p := range pieces {
			if _, err := nc.Write(p); err != nil {
				sent <- fmt.Errorf("write: %w", err)
				return
			}
		}
		if tcp, ok := nc.(*net.TCPConn); ok && half {
			tcp.CloseWrite()
		}
		sent <- nil
	}()
	for i, e := range want {
		if slow && i%40 == 39 {
			time.Sleep(2 * time.Millisecond)
		}
		if err := c.read(e.number, e.size); err != nil {
			return err
		}
	}
	return <-sent
}
