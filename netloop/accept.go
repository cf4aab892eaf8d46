package netloop

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"
)

const (
	// acceptPause is how long accepting rests when descriptors or memory are short.
	acceptPause = 50 * time.Millisecond
	// acceptNews is how often at most that is told.
	acceptNews = time.Second
	// enrolling is how many connections of a listener may be on their way to their
	// event loops. Each takes a turn of its loop; if accepting waited for that, thousands
	// of clients that come back together would overflow the kernel's queue, and who
	// does not get into it tries again after a second.
	enrolling = 128
)

// Serve accepts connections from l until Stop or until l is closed, and blocks
// meanwhile; one call per listener, each in a goroutine of the caller's. name is
// what Conn.Listener tells. It closes l. Lack of descriptors or memory does not
// end it. The result is nil after Stop, else what Accept said.
func (s *Server) Serve(name string, l net.Listener) error {
	defer l.Close()
	if !s.addListener(l) {
		return nil
	}
	defer s.removeListener(l)
	a := acceptor{server: s, name: name, room: make(chan struct{}, enrolling), short: make(chan error, 1)}
	defer a.running.Wait()
	var failures int
	var told time.Duration
	for {
		nc, err := l.Accept()
		if err == nil {
			if err = a.admit(nc); err == nil {
				continue
			}
		}
		switch {
		case s.draining.Load():
			return nil
		case shortage(err):
			failures++
			if now := s.options.Mono(); told == 0 || now-told >= acceptNews {
				s.tellAcceptFailed(name, err, failures)
				failures, told = 0, now
			}
			if !s.rest(acceptPause) {
				return nil
			}
		default:
			return fmt.Errorf("netloop: accept on %s: %w", l.Addr(), err)
		}
	}
}

// shortage reports whether an error of Accept may pass by itself.
func shortage(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM,
		syscall.ECONNABORTED, syscall.EPROTO, syscall.EPERM} {
		if errors.Is(err, e) {
			return true
		}
	}
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}

// rest waits; false: the server drains.
func (s *Server) rest(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.closing:
		return false
	}
}

func (s *Server) tellAcceptFailed(name string, err error, failures int) {
	if f := s.options.Events.AcceptFailed; f != nil {
		f(name, err, failures)
	}
}

func (s *Server) tellRefused(name string, remote net.Addr, err error) {
	if f := s.options.Events.Refused; f != nil {
		f(name, remote, err)
	}
}

// An acceptor is one call of Serve.
type acceptor struct {
	server *Server
	name   string
	// room has an element for every connection that is being enrolled, running counts
	// the goroutines that do it.
	room    chan struct{}
	running sync.WaitGroup
	// short is told of a shortage that enrolling met.
	short chan error
}

// admit opens an accepted connection or closes it. An error is a shortage, of this
// connection or of one before it, that makes accepting another one pointless for now.
func (a *acceptor) admit(nc net.Conn) error {
	s := a.server
	c, err := s.newConn(a.name, nc)
	if err != nil {
		nc.Close()
		s.tellRefused(a.name, nc.RemoteAddr(), err)
		return nil
	}
	if !s.onLoop(nc) {
		s.startStream(c, nc)
		return nil
	}
	a.room <- struct{}{}
	a.running.Add(1)
	go a.enroll(c, nc)
	select {
	case err := <-a.short:
		return err
	default:
		return nil
	}
}

// enroll gives an accepted connection to its event loop or closes it.
func (a *acceptor) enroll(c *conn, nc net.Conn) {
	defer a.running.Done()
	s := a.server
	err := s.enroll(c, nc)
	<-a.room
	if err == nil {
		return
	}
	s.forget(c)
	s.tellRefused(a.name, c.remote, err)
	if shortage(err) {
		select {
		case a.short <- err:
		default: // one is told already
		}
	}
}

// ServeConn serves one connection on the goroutine transport, whatever it is
// (net.Pipe, TLS), and returns at once; the server owns conn from here on. Errors:
// ErrStopping, ErrTooMany, ErrTooManyFromAddress; conn is closed then.
func (s *Server) ServeConn(name string, conn net.Conn) error {
	c, err := s.newConn(name, conn)
	if err != nil {
		conn.Close()
		s.tellRefused(name, conn.RemoteAddr(), err)
		return err
	}
	s.startStream(c, conn)
	return nil
}

// newConn counts a connection, if the limits allow it.
func (s *Server) newConn(name string, nc net.Conn) (*conn, error) {
	c := &conn{
		server:   s,
		listener: name,
		local:    ownAddr(nc.LocalAddr()),
		remote:   ownAddr(nc.RemoteAddr()),
	}
	c.address = peerAddress(c.remote)
	c.slots.pools = &s.buffers
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.draining.Load() || !s.mu.started:
		return nil, ErrStopping
	case s.limits.Conns > 0 && s.mu.open >= s.limits.Conns:
		return nil, ErrTooMany
	case s.limits.ConnsPerAddress > 0 && c.address.IsValid() && s.mu.perAddress[c.address] >= s.limits.ConnsPerAddress:
		return nil, ErrTooManyFromAddress
	}
	s.mu.open++
	if c.address.IsValid() {
		s.mu.perAddress[c.address]++
	}
	s.mu.lastID++
	c.id = s.mu.lastID
	c.index = int(c.id % uint64(s.Loops()))
	return c, nil
}

// ownAddr returns a copy where the original is written to later: the network library
// changes the local names of unix sockets in place.
func ownAddr(a net.Addr) net.Addr {
	if u, ok := a.(*net.UnixAddr); ok && u != nil {
		copied := *u
		return &copied
	}
	return a
}

// forget takes a connection off the counts.
func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetLocked(c)
}

// forgetLocked is forget. REQUIRES s.mu.
func (s *Server) forgetLocked(c *conn) {
	s.mu.open--
	if c.address.IsValid() {
		if s.mu.perAddress[c.address]--; s.mu.perAddress[c.address] == 0 {
			delete(s.mu.perAddress, c.address)
		}
	}
	if s.mu.open == 0 && s.mu.empty != nil {
		close(s.mu.empty)
		s.mu.empty = nil
	}
}

// startStream begins the life of a connection on the goroutine transport.
func (s *Server) startStream(c *conn, nc net.Conn) {
	st := newStream(c, nc)
	c.stream.Store(st)
	s.addStream(st)
	go st.run(true)
}

func (s *Server) addStream(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.place = len(s.mu.streams)
	s.mu.streams = append(s.mu.streams, st)
}

// removeStream is the end of a stream: the connection is no longer counted.
func (s *Server) removeStream(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.mu.streams) - 1
	s.mu.streams[st.place] = s.mu.streams[last]
	s.mu.streams[st.place].place = st.place
	s.mu.streams[last] = nil
	s.mu.streams = s.mu.streams[:last]
	s.forgetLocked(st.c)
}

func (s *Server) listStreams(into []*stream) []*stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(into, s.mu.streams...)
}

func (s *Server) addListener(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining.Load() || !s.mu.started {
		return false
	}
	s.mu.listeners = append(s.mu.listeners, l)
	s.serving.Add(1)
	return true
}

func (s *Server) removeListener(l net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, other := range s.mu.listeners {
		if other == l {
			s.mu.listeners = append(s.mu.listeners[:i], s.mu.listeners[i+1:]...)
		}
	}
	s.serving.Done()
}
