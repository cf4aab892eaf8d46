package netloop

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"
)

func TestStopWithNothingStuckIsQuick(t *testing.T) {
	onEach(t, func(t *testing.T, tr transport) {
		w := tr.start(t, nil)
		var clients []*client
		for i := range 30 {
			c := w.client()
			clients = append(clients, c)
			if i%3 > 0 {
				c.send(c.frame(nil, []kind{none, later, bulk}[i%3], 100, 10))
				c.want(0, 100)
			}
			if i%3 == 2 {
				c.send(c.frame(nil, inline, 5, 5)[:7]) // unfinished
			}
		}
		start := time.Now()
		w.close()
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("stopping took %v", took)
		}
		for _, c := range clients {
			c.end2()
		}
		for i := range clients {
			if err := w.handler.reason(i); !errors.Is(err, ErrStopping) {
				t.Errorf("closed for %v", err)
			}
		}
	})
}

func TestStopWaitsForWhatIsOwed(t *testing.T) {
	onEach(t, func(t *testing.T, tr transport) {
		w := tr.start(t, nil)
		c, d := w.client(), w.client()
		b := c.frame(nil, parked, 500, 0)
		c.send(c.frame(b, inline, 5, 0)) // behind the parked one: not applied any more
		b = d.frame(nil, waits, 5, 0)
		d.send(d.frame(b, inline, 3<<20, 0)) // behind the other, and does not fit
		held, waiting := <-w.handler.parkedCh, <-w.handler.parkedCh
		eventually(t, "the frame behind", func() bool { return w.handler.frames.Load() == 3 })
		stopped := make(chan error)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			stopped <- w.server.Stop(ctx)
		}()
		select {
		case err := <-stopped:
			t.Fatalf("stopped at once: %v", err)
		case <-time.After(30 * time.Millisecond):
		}
		for _, done := range []Completion{held, waiting} {
			w.server.Release(done.Conn.Loop(), []Completion{done})
		}
		if held.Conn.LocalAddr() == nil {
			t.Error("no local address")
		}
		sizes := map[bool][2]int{true: {500, 0}, false: {5, 3 << 20}}
		for _, x := range []*client{c, d} {
			for i, size := range sizes[x == c] {
				if size > 0 {
					x.want(uint32(i), size)
				}
			}
			x.end()
		}
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		w.finish()
	})
}

func TestDrainAppliesNothingMore(t *testing.T) {
	onEach(t, func(t *testing.T, tr transport) {
		w := tr.start(t, nil)
		c := w.client()
		c.send(c.frame(nil, waits, 5, 0))
		done := <-w.handler.parkedCh
		w.server.Drain()
		w.server.Drain()
		c.send(c.frame(nil, panics, 5, 0))
		c.silent()
		w.server.Release(done.Conn.Loop(), []Completion{done})
		c.want(0, 5)
		c.silent() // connections stay until Stop
		_, b := net.Pipe()
		if err := w.server.ServeConn("pipe", b); err != ErrStopping {
			t.Errorf("a new connection: %v", err)
		}
		if n := w.handler.frames.Load(); n != 1 {
			t.Errorf("%d frames applied", n)
		}
	})
}

func TestStopWithStuckPeers(t *testing.T) {
	for _, k := range []kind{parked, waits, inline, later} {
		onEach(t, func(t *testing.T, tr transport) {
			w := tr.start(t, nil)
			stuck, good := w.client(), w.client()
			if tcp, ok := stuck.c.(*net.TCPConn); ok {
				tcp.SetReadBuffer(64 << 10)
			}
			stuck.send(stuck.frame(nil, k, 6<<20, 0))
			eventually(t, "the frame", func() bool { return w.handler.frames.Load() == 1 })
			good.send(good.frame(nil, later, 5, 0))
			good.want(0, 5)
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			start := time.Now()
			err := w.server.Stop(ctx)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Stop: %v", err)
			}
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("stopping took %v", took)
			}
			good.end()
			w.finish()
		})
	}
}

func TestStopUnderLoad(t *testing.T) {
	onEach(t, func(t *testing.T, tr transport) {
		for round := range 4 {
			w := tr.start(t, nil)
			var wg sync.WaitGroup
			for range 8 {
				c := w.client()
				wg.Add(1)
				go func() {
					defer wg.Done()
					for i := 0; ; i++ {
						n := c.next
						b := c.frame(nil, []kind{inline, later, hold, laterOwn}[i%4], 30, 10)
						if i == 20 {
							b = c.frame(b, bulk, 1, 1)
						}
						if _, err := c.c.Write(b); err != nil {
							return
						}
						// Answers are right until the connection ends.
						for ; n < c.next; n++ {
							size := 30
							if i == 20 && n == c.next-1 {
								size = 1
							}
							if err := c.read(n, size); err != nil {
								if !isEnd(err) {
									t.Error(err)
								}
								return
							}
						}
					}
				}()
			}
			time.Sleep(time.Duration(5+round*10) * time.Millisecond)
			w.close()
			wg.Wait()
		}
	})
}

// isEnd reports that an answer did not come at all.
func isEnd(err error) bool {
	var timeout net.Error
	return !(errors.As(err, &timeout) && timeout.Timeout()) && errors.Unwrap(err) != nil
}

func TestServerOutOfOrder(t *testing.T) {
	onEach(t, func(t *testing.T, tr transport) {
		s, err := New(Options{Handler: &testHandler{t: t}, GoroutineOnly: tr.goroutine})
		if err != nil {
			t.Fatal(err)
		}
		a, b := net.Pipe()
		if err := s.ServeConn("early", b); err != ErrStopping {
			t.Errorf("a connection before Start: %v", err)
		}
		a.Close()
		if err := s.Stop(context.Background()); err != nil {
			t.Errorf("Stop before Start: %v", err)
		}

		w := tr.start(t, nil)
		if err := w.server.Start(); err == nil {
			t.Error("started twice")
		}
		c := w.client()
		c.send(c.frame(nil, waits, 5, 0))
		done := <-w.handler.parkedCh
		for name, release := range map[string]func(){
			"to another loop":      func() { w.server.Release(done.Conn.Loop()+1, []Completion{done}) },
			"to another server":    func() { s.Release(0, []Completion{done}) },
			"to a loop under zero": func() { w.server.Release(-1, []Completion{done}) },
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("released %s without a panic", name)
					}
				}()
				release()
			}()
		}
		w.server.Release(done.Conn.Loop(), []Completion{done})
		c.want(0, 5)
		w.close()
		if err := w.server.Stop(context.Background()); err != nil {
			t.Errorf("a second Stop: %v", err)
		}
		w.server.Release(done.Conn.Loop(), []Completion{done})
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if err := w.server.Serve("late", l); err != nil {
			t.Errorf("Serve after Stop: %v", err)
		}
		if _, err := l.Accept(); err == nil {
			t.Error("Serve after Stop left the listener open")
		}
	})
}

func TestServeReturnsWhenItsListenerFails(t *testing.T) {
	onEach(t, func(t *testing.T, tr transport) {
		if tr.pipe {
			return // no listener
		}
		w := tr.start(t, nil)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error)
		go func() { served <- w.server.Serve("other", l) }()
		c := dialTCP(t, l.Addr().String())
		c.Write(appendFrame(nil, inline, 0, 5, nil))
		l.Close()
		if err := <-served; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Serve: %v", err)
		}
		x := w.client() // the first listener goes on
		x.send(x.frame(nil, inline, 5, 5))
		x.want(0, 5)
	})
}

// failingListener has no descriptors for a while.
type failingListener struct {
	net.Listener
	mu    sync.Mutex
	fails []error
}

func (l *failingListener) Accept() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.fails) > 0 {
		err := l.fails[0]
		l.fails = l.fails[1:]
		return nil, err
	}
	return l.Listener.Accept()
}

func TestDescriptorsLeftOver(t *testing.T) {
	// What the library and the runtime open once is open after the first round.
	round := func(tr transport) {
		w := tr.start(t, nil)
		var wg sync.WaitGroup
		for i := range 20 {
			c := w.client()
			wg.Add(1)
			go func() {
				defer wg.Done()
				b := c.frame(nil, later, 5, 5)
				if i%2 == 0 {
					b = c.frame(b, bulk, 5, 5)
				}
				if i%5 == 0 {
					b = c.frame(b, panics, 5, 5)
				}
				c.c.Write(b)
				if i%5 != 0 {
					c.read(0, 5)
				}
				if i%3 != 0 {
					c.c.Close()
				}
			}()
		}
		wg.Wait()
		w.close()
	}
	for _, tr := range transports() {
		round(tr)
		files, goroutines := openFiles(), runtime.NumGoroutine()
		for range 3 {
			round(tr)
		}
		// The clients of this test that it left open are closed at its end: count them.
		const left = 3 * 7
		eventually(t, "descriptors and goroutines are given back", func() bool {
			return openFiles() <= files+left && runtime.NumGoroutine() <= goroutines
		})
	}
}

// openFiles counts the descriptors of this process, zero where there is no way to.
func openFiles() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}
