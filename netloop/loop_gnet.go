//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package netloop

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"syscall"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"
)

// loops is the part of the Server that lives on event loops.
type loops struct {
	client *gnet.Client
	all    []*loop
}

// Loops is the number of values that Conn.Loop takes: 0 to Loops()-1. It does not
// change after Start.
func (s *Server) Loops() int { return max(1, len(s.loops.all)) }

// defaultLoops leaves most processors to what the loops hand on.
func defaultLoops() int {
	if n := runtime.GOMAXPROCS(0); n > 4 {
		return n / 2
	}
	return 1
}

// startLoops starts the library's client engine. Its server engine is not used: it
// ends when it cannot accept for want of descriptors.
func (s *Server) startLoops() error {
	if s.options.GoroutineOnly {
		return nil
	}
	n := s.options.Loops
	if n == 0 {
		n = defaultLoops()
	}
	client, err := gnet.NewClient(&callbacks{server: s},
		gnet.WithNumEventLoop(n),
		gnet.WithLogger(libraryLog{s.options.Events.Library}),
		// The listener has set the options already; set again they could fail, and
		// then the library would forget the descriptor.
		gnet.WithTCPNoDelay(gnet.TCPDelay),
	)
	if err != nil {
		return fmt.Errorf("netloop: event loops: %w", err)
	}
	if err := client.Start(); err != nil {
		return fmt.Errorf("netloop: starting %d event loops: %w", n, err)
	}
	s.loops.client = client
	for i := range n {
		if err := s.addLoop(i); err != nil {
			s.stopLoops()
			return err
		}
	}
	return nil
}

// addLoop finds one more of the library's loops by giving it a bell: the library
// puts a new connection on the loop that has the fewest.
func (s *Server) addLoop(index int) error {
	l := &loop{server: s, index: index}
	inner, err := l.bell.open()
	if err != nil {
		return fmt.Errorf("netloop: bell of event loop %d: %w", index, err)
	}
	if _, err := s.loops.client.EnrollContext(inner, l); err != nil {
		l.bell.close()
		return fmt.Errorf("netloop: bell of event loop %d: %w", index, err)
	}
	for _, other := range s.loops.all {
		if other.el == l.el {
			err = errors.New("two bells on one event loop")
		}
	}
	if l.el == nil {
		err = errors.New("not registered")
	}
	if err != nil {
		l.bell.close()
		return fmt.Errorf("netloop: event loop %d: %w", index, err)
	}
	s.loops.all = append(s.loops.all, l)
	return nil
}

// stopLoops ends the loops and closes what is left on them. After it the library
// drops tasks silently, so nothing may wait for one.
func (s *Server) stopLoops() {
	if s.loops.client == nil {
		return
	}
	for _, l := range s.loops.all {
		l.mu.Lock()
		l.mu.ended = true
		l.mu.done = nil
		l.mu.Unlock()
	}
	_ = s.loops.client.Stop()
	for _, l := range s.loops.all {
		l.bell.close()
	}
}

// wakeLoops gives every connection a turn in which it sees that the server stops.
func (s *Server) wakeLoops() {
	for _, l := range s.loops.all {
		l.sweep.Store(true)
		l.wake()
	}
}

func (s *Server) reapLoops() {
	for _, l := range s.loops.all {
		l.reap.Store(true)
		l.wake()
	}
}

// onLoop reports whether nc can live on an event loop. An address with a zone cannot:
// the library puts the zone's name into its pool of buffers when the connection ends,
// though package net goes on using it.
func (s *Server) onLoop(nc net.Conn) bool {
	if len(s.loops.all) == 0 {
		return false
	}
	switch nc.(type) {
	case *net.TCPConn:
		return !hasZone(nc.LocalAddr()) && !hasZone(nc.RemoteAddr())
	case *net.UnixConn:
		return true
	}
	return false
}

func hasZone(a net.Addr) bool {
	t, ok := a.(*net.TCPAddr)
	return ok && t.Zone != ""
}

// enroll gives nc to an event loop and returns when the loop has it. What the library
// returns does not count: it reports success even if registration failed.
func (s *Server) enroll(c *conn, nc net.Conn) error {
	_, err := s.loops.client.EnrollContext(nc, c)
	if c.onLoop.opened {
		return nil
	}
	if err == nil {
		err = errors.New("not registered")
	}
	return fmt.Errorf("netloop: event loop: %w", err)
}

// release puts completions into the loop's inbox, or applies them if their connection
// lives on a goroutine; the caller has to drain the streams that are returned.
func (s *Server) release(index int, done []Completion) (start []*stream) {
	var l *loop
	if index < len(s.loops.all) {
		l = s.loops.all[index]
		l.mu.Lock()
	}
	inbox := false
	for i := range done {
		c := done[i].Conn.(*conn)
		checkRelease(s, c, index)
		if st := c.stream.Load(); st == nil {
			// The loop looks again: the connection may move before it gets there.
			if !l.mu.ended {
				l.mu.done = append(l.mu.done, done[i])
				l.filled.Store(true)
				inbox = true
			}
		} else if st.complete(&done[i]) {
			start = append(start, st)
		}
	}
	if l == nil {
		return start
	}
	post := inbox && l.claimPost()
	l.mu.Unlock()
	if post {
		l.post()
	}
	return start
}

// AfterInput has the handler's OnInput called once the loop has gone through the input
// that is there now, at once if there is none. It may be called on that loop only, by
// the handler; several calls before OnInput are one.
func (s *Server) AfterInput(index int) {
	l := s.loops.all[index]
	l.tells = true
	l.ringBell()
}

// callbacks is what the library calls, each on the loop of its connection.
type callbacks struct {
	gnet.BuiltinEventEngine
	server *Server
}

func (b *callbacks) OnOpen(gc gnet.Conn) ([]byte, gnet.Action) {
	switch c := gc.Context().(type) {
	case *loop: // its bell
		c.el = gc.EventLoop()
	case *conn:
		return nil, b.open(c, gc)
	}
	return nil, gnet.None
}

func (b *callbacks) open(c *conn, gc gnet.Conn) gnet.Action {
	p := &c.onLoop
	for _, l := range b.server.loops.all {
		if l.el == gc.EventLoop() {
			p.loop = l
		}
	}
	now := b.server.now()
	p.gc, p.active, p.heard, p.opened = gc, now, now, true
	c.index = p.loop.index
	p.loop.add(c)
	if c.callOpen() {
		p.why = ErrPanic
	} else if b.server.stopping.Load() {
		p.why = ErrStopping // the turn that Stop gave to all connections may be over
	}
	if p.why != nil {
		return gnet.Close
	}
	return gnet.None
}

func (b *callbacks) OnTraffic(gc gnet.Conn) gnet.Action {
	fresh, _ := gc.Next(-1)
	switch c := gc.Context().(type) {
	case *loop:
		c.rang()
	case *conn:
		if c.onLoop.loop.input(c, fresh) {
			return gnet.Close
		}
	}
	return gnet.None
}

func (b *callbacks) OnClose(gc gnet.Conn, err error) gnet.Action {
	if c, ok := gc.Context().(*conn); ok {
		c.onLoop.loop.closed(c, err)
	}
	return gnet.None
}

// A bell wakes its loop as input does: in turn with the input of connections.
type bell struct{ outer int }

// open makes the bell and returns the end that the loop listens to.
func (b *bell) open() (net.Conn, error) {
	b.outer = -1
	syscall.ForkLock.RLock()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	b.outer = fds[0]
	inner := os.NewFile(uintptr(fds[1]), "bell")
	defer inner.Close()
	err = os.NewSyscallError("fcntl", unix.SetNonblock(b.outer, true))
	var conn net.Conn
	if err == nil {
		conn, err = net.FileConn(inner)
	}
	if err != nil {
		b.close()
		return nil, err
	}
	return conn, nil
}

// ring makes the loop's end readable. A full socket is readable already.
func (b *bell) ring() { _, _ = unix.Write(b.outer, []byte{0}) }

func (b *bell) close() {
	if b.outer >= 0 {
		unix.Close(b.outer)
		b.outer = -1
	}
}

// libraryLog hands the library's warnings and errors to an event. That it starts and
// stops is no news.
type libraryLog struct{ tell func(level, message string) }

func (l libraryLog) log(level, format string, args []any) {
	if l.tell != nil {
		l.tell(level, fmt.Sprintf(format, args...))
	}
}

func (libraryLog) Debugf(string, ...any) {}
func (libraryLog) Infof(string, ...any)  {}

func (l libraryLog) Warnf(format string, args ...any)  { l.log("warn", format, args) }
func (l libraryLog) Errorf(format string, args ...any) { l.log("error", format, args) }
func (l libraryLog) Fatalf(format string, args ...any) { l.log("fatal", format, args) }
