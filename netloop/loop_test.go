//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package netloop

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func loopTransports() []transport {
	return []transport{{name: "loop"}, {name: "moving", moving: true}}
}

func TestWhyConnectionsMove(t *testing.T) {
	for _, test := range []struct {
		want MoveReason
		do   func(w *world, c *client)
	}{
		{MoveBulk, func(w *world, c *client) {
			c.send(c.frame(nil, bulk, 5, 5))
			c.want(0, 5)
		}},
		{MoveInput, func(w *world, c *client) {
			b := c.frame(nil, parked, 5, 5)
			for range 3 {
				b = c.frame(b, inline, 5, 500_000)
			}
			c.send(b)
			done := <-w.handler.parkedCh
			eventually(w.t, "the move", done.Conn.Bulk)
			w.server.Release(done.Conn.Loop(), []Completion{done})
			for i := range 4 {
				c.want(uint32(i), 5)
			}
		}},
		{MoveOutput, func(w *world, c *client) {
			c.send(c.frame(nil, inline, 10<<20, 5))
			c.want(0, 10<<20)
		}},
		{MoveHalfClose, func(w *world, c *client) {
			c.c.Write(c.frame(nil, parked, 5, 5))
			done := <-w.handler.parkedCh
			c.c.(*net.TCPConn).CloseWrite()
			eventually(w.t, "the move", done.Conn.Bulk)
			w.server.Release(done.Conn.Loop(), []Completion{done})
			c.want(0, 5)
			c.end()
		}},
	} {
		t.Run(test.want.String(), func(t *testing.T) {
			moved := make(chan MoveReason, 10)
			w := transport{name: "loop"}.start(t, func(o *Options) {
				o.Events.Moved = func(_ Conn, why MoveReason) { moved <- why }
			})
			test.do(w, w.client())
			if why := <-moved; why != test.want {
				t.Errorf("moved for %v, want %v", why, test.want)
			}
		})
	}
}

// OnInput comes after the frames that were there when it was asked for, once for all
// who asked since the last, and not without being asked.
func TestAfterInput(t *testing.T) {
	w := transport{name: "loop"}.start(t, nil)
	c := w.client()
	c.send(c.frame(nil, inline, 5, 5))
	c.want(0, 5)
	if n := w.handler.inputs.Load(); n != 0 {
		t.Fatalf("OnInput came %d times, unasked", n)
	}
	const frames = 50
	var b []byte
	for range frames {
		b = c.frame(b, asks, 5, 5)
	}
	c.send(b)
	for i := range frames {
		c.want(uint32(1+i), 5)
	}
	eventually(t, "OnInput behind the last frame", func() bool { return w.handler.seen.Load() == 1+frames })
	if n := w.handler.inputs.Load(); n > frames/2 {
		t.Errorf("OnInput came %d times for %d frames of one write", n, frames)
	}
	c.silent()
}

// A client that floods the loop does not keep others from theirs. The handler takes
// five microseconds a request, so a pass without limits would take milliseconds.
func TestFloodIsFair(t *testing.T) {
	h := &busyHandler{newEchoHandler(), 5 * time.Microsecond}
	s, address := serverFor(t, Options{Handler: h, Loops: 1, Limits: Limits{KeptBytes: 1 << 30}})
	var stop atomic.Bool
	var served atomic.Int64
	var wg sync.WaitGroup
	for range 2 {
		c := dialTCP(t, address)
		wg.Add(2)
		go func() {
			defer wg.Done()
			b := slices.Repeat(requestFrame(), 512)
			for !stop.Load() {
				if _, err := c.Write(b); err != nil {
					return
				}
			}
			c.(*net.TCPConn).CloseWrite()
		}()
		go func() {
			defer wg.Done()
			b := make([]byte, 64<<10)
			for {
				n, err := c.Read(b)
				if err != nil {
					return
				}
				served.Add(int64(n / benchAnswer))
			}
		}()
	}
	quiet := dialTCP(t, address)
	var took []time.Duration
	answer := make([]byte, benchAnswer)
	for len(took) < 100 {
		time.Sleep(2 * time.Millisecond)
		start := time.Now()
		quiet.Write(requestFrame())
		if _, err := quiet.Read(answer); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	stop.Store(true)
	slices.Sort(took)
	if p50 := took[50]; p50 > 50*time.Millisecond {
		t.Errorf("half of the answers beside a flood take over %v", p50)
	}
	t.Logf("beside %d flooded requests: p50 %v, p95 %v, worst %v", served.Load(), took[50], took[95], took[99])
	if served.Load() < 1000 {
		t.Errorf("only %d requests of the flood were served", served.Load())
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Error(err)
	}
	wg.Wait()
}

// Connections are accepted while their event loop is busy, for the kernel's queue of
// those that are not is short; in the end all are served.
func TestAcceptingDoesNotWaitForTheLoop(t *testing.T) {
	h := &stuckHandler{echoHandler: newEchoHandler(), in: make(chan struct{}, 1), out: make(chan struct{})}
	s, address := serverFor(t, Options{Handler: h, Loops: 1})
	conns := []net.Conn{dialTCP(t, address)}
	conns[0].Write(requestFrame())
	<-h.in
	for range enrolling {
		c := dialTCP(t, address)
		c.Write(requestFrame())
		conns = append(conns, c)
	}
	open := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.mu.open
	}
	eventually(t, "all are accepted", func() bool { return open() == len(conns) })
	if n := len(s.loops.all[0].conns); n != 1 {
		t.Errorf("%d connections on a loop that is stuck in its first", n)
	}
	close(h.out)
	for _, c := range conns {
		if _, err := io.ReadFull(c, make([]byte, benchAnswer)); err != nil {
			t.Fatal(err)
		}
	}
}

// stuckHandler keeps the first request until out is closed.
type stuckHandler struct {
	*echoHandler
	once    sync.Once
	in, out chan struct{}
}

func (h *stuckHandler) OnFrame(c Conn, slot Slot, frame, out []byte) ([]byte, Verdict) {
	h.once.Do(func() {
		h.in <- struct{}{}
		<-h.out
	})
	return h.echoHandler.OnFrame(c, slot, frame, out)
}

// busyHandler takes its time for each request.
type busyHandler struct {
	*echoHandler
	busy time.Duration
}

func (h *busyHandler) OnFrame(c Conn, slot Slot, frame, out []byte) ([]byte, Verdict) {
	for start := time.Now(); time.Since(start) < h.busy; {
	}
	return h.echoHandler.OnFrame(c, slot, frame, out)
}

// The library has one logger for the whole process; two servers work all the same.
func TestTwoServersInOneProcess(t *testing.T) {
	var worlds []*world
	for i := range 2 {
		worlds = append(worlds, transport{name: "loop"}.start(t, func(o *Options) {
			o.Loops = 2
			o.Events.Library = func(level, message string) {
				t.Errorf("server %d is told: level %q, message %q", i, level, message)
			}
		}))
	}
	try := func(w *world) {
		for range 5 {
			c := w.client()
			b := c.frame(nil, later, 5, 5)
			c.send(c.frame(b, bulk, 5, 5))
			c.want(0, 5)
			c.want(1, 5)
		}
	}
	var wg sync.WaitGroup
	for _, w := range worlds {
		wg.Add(1)
		go func() {
			defer wg.Done()
			try(w)
		}()
	}
	wg.Wait()
	worlds[0].close()
	try(worlds[1])
	worlds[1].close()
}

// What the library says of itself is dropped, what went wrong is passed on.
func TestLibraryLog(t *testing.T) {
	var got []string
	l := libraryLog{func(level, message string) { got = append(got, level+": "+message) }}
	l.Debugf("%d", 1)
	l.Infof("%d", 2)
	l.Warnf("%d", 3)
	l.Errorf("%d", 4)
	l.Fatalf("%d", 5)
	libraryLog{}.Warnf("nobody listens")
	if want := []string{"warn: 3", "error: 4", "fatal: 5"}; !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}

func TestSeveralLoopsShareTheConnections(t *testing.T) {
	var mu sync.Mutex
	perLoop := map[int]int{}
	w := transport{name: "loop"}.start(t, func(o *Options) {
		o.Loops = 3
		o.Events.Accepted = func(c Conn) {
			mu.Lock()
			defer mu.Unlock()
			perLoop[c.Loop()]++
		}
	})
	if n := w.server.Loops(); n != 3 {
		t.Fatalf("%d loops", n)
	}
	for range 12 {
		c := w.client()
		b := c.frame(nil, later, 5, 5)
		c.send(c.frame(b, hold, 5, 5))
		c.want(0, 5)
		c.want(1, 5)
	}
	mu.Lock()
	defer mu.Unlock()
	for i := range 3 {
		if perLoop[i] != 4 {
			t.Errorf("connections per loop: %v", perLoop)
		}
	}
}

func TestOtherNetworks(t *testing.T) {
	for _, network := range []string{"unix", "tcp6"} {
		t.Run(network, func(t *testing.T) {
			address := "[::1]:0"
			if network == "unix" {
				address = filepath.Join(t.TempDir(), "s")
			}
			l, err := net.Listen(network, address)
			if err != nil && network == "tcp6" {
				t.Logf("no IPv6 here: %v", err)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			accepted := make(chan Conn, 1)
			w := transport{name: "loop"}.start(t, func(o *Options) {
				o.Events.Accepted = func(c Conn) { accepted <- c }
			})
			served := make(chan error, 1)
			go func() { served <- w.server.Serve(network, l) }()
			nc, err := net.Dial(network, l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			c := &client{t: t, c: nc, r: newReader(nc)}
			b := c.frame(nil, later, 5, 5)
			b = c.frame(b, bulk, 5, 5)
			c.send(c.frame(b, inline, 3<<20, 5))
			c.want(0, 5)
			c.want(1, 5)
			c.want(2, 3<<20)
			conn := <-accepted
			if got := conn.LocalAddr().String(); got != l.Addr().String() || conn.Listener() != network {
				t.Errorf("local address %q of listener %q, want %q", got, conn.Listener(), l.Addr())
			}
			w.close()
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
	}
}

// The library would scribble over the names of zones.
func TestZonesStayOffTheLoops(t *testing.T) {
	ip := net.ParseIP("fe80::1")
	for _, test := range []struct {
		address net.Addr
		want    bool
	}{
		{&net.TCPAddr{IP: ip, Zone: "eth0"}, true},
		{&net.TCPAddr{IP: ip}, false},
		{&net.UnixAddr{Name: "fe80::1%eth0"}, false},
	} {
		if got := hasZone(test.address); got != test.want {
			t.Errorf("%v: zone %v", test.address, got)
		}
	}
	w := transport{name: "loop"}.start(t, nil)
	if w.server.onLoop(notASocket{}) {
		t.Error("a connection that is no socket on a loop")
	}
	if got := peerAddress(&net.TCPAddr{IP: ip, Zone: "eth0"}).String(); got != "fe80::1" {
		t.Errorf("connections are counted under %s", got)
	}
}

type notASocket struct{ net.Conn }
