package netloop

import (
	"context"
	"errors"
	"net"
	"sync"
)

// A Server owns connections: it accepts them, reads frames, calls the Handler
// and sends answers. New starts nothing.
type Server struct {
	options Options
	limits  Limits

	mu struct {
		sync.Mutex
		stopping bool
	}
}

var _ Releaser = (*Server)(nil)

// New checks the options and returns a server that has started nothing yet.
func New(o Options) (*Server, error) {
	if o.Handler == nil {
		return nil, errors.New("netloop: no handler")
	}
	limits := o.Limits.withDefaults()
	if err := limits.validate(); err != nil {
		return nil, err
	}
	return &Server{options: o, limits: limits}, nil
}

// Start starts the event loops. It comes before Serve, ServeConn and Release,
// once.
func (s *Server) Start() error {
	return nil
}

// Loops is the number of values that Conn.Loop takes: 0 to Loops()-1. It does not
// change after Start.
func (s *Server) Loops() int {
	return 1
}

// Serve accepts connections from l until Stop or until l is closed, and blocks
// meanwhile; one call per listener, each in a goroutine of the caller's. name is
// what Conn.Listener tells. It closes l. Lack of descriptors or memory does not
// end it. The result is nil after Stop, else what Accept said.
func (s *Server) Serve(name string, l net.Listener) error {
	return nil
}

// ServeConn serves one connection on the goroutine transport, whatever it is
// (net.Pipe, TLS), and returns at once; the server owns conn from here on. Errors:
// ErrStopping, ErrTooMany, ErrTooManyFromAddress; conn is closed then.
func (s *Server) ServeConn(name string, conn net.Conn) error {
	return nil
}

// Release finishes slots that were answered Later or Hold. It never blocks on a
// peer and may be called under locks; it does not call the Handler before it
// returns. Completions for closed connections, or that come too late, are dropped.
func (s *Server) Release(loop int, done []Completion) {
}

// Drain closes the listeners and gives the handler no further frame; answers
// that are owed still come by Release and are sent. It returns at once. The
// caller completes what it has parked, then calls Stop.
func (s *Server) Drain() {
}

// Stop drains, waits until every answer that is ready has been sent and nothing is
// owed, at most until ctx is done, closes every connection (OnClose with
// ErrStopping) and ends everything that Start, Serve and ServeConn began. The
// error is ctx's if peers that did not read, or slots never completed, made it
// run out.
func (s *Server) Stop(ctx context.Context) error {
	return nil
}
