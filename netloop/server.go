package netloop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// stopGrace is how long Stop waits for callbacks that are still running when all
// connections have been closed.
const stopGrace = 2 * time.Second

// A Server owns connections: it accepts them, reads frames, calls the Handler
// and sends answers. New starts nothing.
//
// Lock order: a loop's inbox, a stream's mu, a budget's lock; mu below is never held
// together with these. None is held while the Handler is called or bytes are moved.
type Server struct {
	options Options
	onPass  func(loop int) // of a PassHandler; nil: it is none
	onInput func(loop int) // of an InputHandler; nil: it is none
	limits  Limits
	// onHalfClose is a HalfCloseHandler's; nil: it is none.
	onHalfClose func(c Conn)
	buffers     buffers
	input       budget
	large       budget // of input: what belongs to frames over Limits.LargeFrameBytes
	output      budget
	loops       loops

	// draining: no frame is applied any more. stopping: a connection with nothing left
	// to send is closed. Both are set once.
	draining atomic.Bool
	stopping atomic.Bool
	closing  chan struct{} // closed with draining
	ended    chan struct{} // closed by Stop when all connections are gone
	// serving counts calls of Serve, background the goroutines that are no connection's.
	serving, background sync.WaitGroup

	mu struct {
		sync.Mutex
		started   bool
		stopped   bool
		listeners []net.Listener
		// open counts connections that were admitted and are not gone.
		// Invariant: the sum of perAddress is at most open.
		open       int
		perAddress map[netip.Addr]int
		lastID     uint64
		streams    []*stream
		// empty, if not nil, is closed when open reaches zero.
		empty chan struct{}
	}
}

var _ Releaser = (*Server)(nil)

// New checks the options and returns a server that has started nothing yet.
func New(o Options) (*Server, error) {
	if o.Handler == nil {
		return nil, errors.New("netloop: no handler")
	}
	if o.Loops < 0 {
		return nil, fmt.Errorf("netloop: %d event loops", o.Loops)
	}
	limits := o.Limits.withDefaults()
	if err := limits.validate(); err != nil {
		return nil, err
	}
	if o.Mono == nil {
		start := time.Now()
		o.Mono = func() time.Duration { return time.Since(start) }
	}
	s := &Server{options: o, limits: limits, closing: make(chan struct{}), ended: make(chan struct{})}
	if h, ok := o.Handler.(PassHandler); ok {
		s.onPass = h.OnPass
	}
	if h, ok := o.Handler.(InputHandler); ok {
		s.onInput = h.OnInput
	}
	if h, ok := o.Handler.(HalfCloseHandler); ok {
		s.onHalfClose = h.OnHalfClose
	}
	s.input.limit, s.large.limit, s.output.limit = limits.InputBytes, limits.InputBytes/2, limits.OutputBytes
	s.mu.perAddress = make(map[netip.Addr]int)
	return s, nil
}

// now is the server's clock in nanoseconds, never zero.
func (s *Server) now() int64 { return int64(s.options.Mono()) + 1 }

// Start starts the event loops and what watches over the connections. It comes
// before Serve, ServeConn and Release, once.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.started {
		return errors.New("netloop: started twice")
	}
	if err := s.startLoops(); err != nil {
		return err
	}
	s.mu.started = true
	s.background.Add(1)
	go s.reapEvery(s.limits.tick())
	return nil
}

// Release finishes slots that were answered Later or Hold. It never blocks on a
// peer and may be called under locks; it does not call the Handler before it
// returns. Completions for closed connections, or that come too late, are dropped.
func (s *Server) Release(loop int, done []Completion) {
	start := s.release(loop, done)
	// Only now: answers of one connection that were completed together leave together.
	for _, st := range start {
		go st.drain()
	}
}

// checkRelease panics if a completion was released to the wrong loop or server.
func checkRelease(s *Server, c *conn, loop int) {
	if c.server != s || c.index != loop {
		panic(fmt.Sprintf("netloop: completion for connection %d of loop %d released to loop %d", c.id, c.index, loop))
	}
}

// Drain closes the listeners and gives the handler no further frame; answers
// that are owed still come by Release and are sent. It returns at once. The
// caller completes what it has parked, then calls Stop.
func (s *Server) Drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining.Load() {
		return
	}
	s.draining.Store(true)
	close(s.closing)
	for _, l := range s.mu.listeners {
		l.Close()
	}
}

// Stop drains, waits until every answer that is ready has been sent and nothing is
// owed, at most until ctx is done, closes every connection (OnClose with
// ErrStopping) and ends everything that Start, Serve and ServeConn began. The
// error is ctx's if peers that did not read, or slots never completed, made it
// run out.
func (s *Server) Stop(ctx context.Context) error {
	s.Drain()
	s.mu.Lock()
	if s.mu.stopped || !s.mu.started {
		s.mu.stopped = true
		s.mu.Unlock()
		return nil
	}
	s.mu.stopped = true
	empty := make(chan struct{})
	if s.mu.open == 0 {
		close(empty)
	} else {
		s.mu.empty = empty
	}
	s.mu.Unlock()
	s.stopping.Store(true)
	for _, st := range s.listStreams(nil) {
		st.stop()
	}
	s.wakeLoops()
	var err error
	select {
	case <-empty:
	case <-ctx.Done():
		err = fmt.Errorf("netloop: stopping: %w", ctx.Err())
	}
	// A call of Serve that is enrolling a connection needs the loop for it.
	if !within(stopGrace, s.serving.Wait) && err == nil {
		err = errors.New("netloop: stopping: a listener does not let go")
	}
	s.stopLoops()
	for _, st := range s.listStreams(nil) {
		st.kill(ErrStopping)
	}
	close(s.ended)
	done := func() {
		<-empty
		s.background.Wait()
	}
	if !within(stopGrace, done) && err == nil {
		err = errors.New("netloop: stopping: callbacks do not return")
	}
	return err
}

// within calls wait and returns whether it came back in time.
func within(d time.Duration, wait func()) bool {
	done := make(chan struct{})
	go func() {
		wait()
		close(done)
	}()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}
