// Package ceiling has the two servers that show what this machine allows: gnet
// with one event loop that answers each frame at once, and the same with a
// journal in between, which answers a frame when it is on disk.
//
// They know nothing of Kafka but the length prefix and the place of the
// correlation id, do no more work than that, and so stand for the fastest
// server of this shape. Both answer all frames of a pass, or of a synced round
// and connection, with one write. Like the broker's network loop they accept
// with package net and enrol the connection with gnet's client engine.
package ceiling

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/panjf2000/gnet/v2"
)

// minFrameBytes is the shortest frame that holds a correlation id.
const minFrameBytes = 8

// Options of a ceiling server.
type Options struct {
	// AnswerBytes is the length of an answer behind its correlation id.
	AnswerBytes int
	// JournalPath is where to write frames before they are answered. Empty:
	// they are answered at once.
	JournalPath string
}

// A Server answers every frame.
type Server struct {
	gnet.BuiltinEventEngine
	client  *gnet.Client
	answer  []byte
	journal *journal // nil: answer at once
	flusher sync.WaitGroup
}

// A conn is the state of one connection, touched on the event loop only.
type conn struct {
	server *Server
	gnet   gnet.Conn
	closed bool
	// kept is the beginning of a frame whose end has not been read yet.
	kept []byte
	out  []byte
}

// New prepares a server and its journal. Serve starts it.
func New(o Options) (*Server, error) {
	s := &Server{answer: make([]byte, 8+o.AnswerBytes)}
	binary.BigEndian.PutUint32(s.answer, uint32(4+o.AnswerBytes))
	if o.JournalPath != "" {
		j, err := openJournal(o.JournalPath)
		if err != nil {
			return nil, err
		}
		s.journal = j
	}
	client, err := gnet.NewClient(s, gnet.WithNumEventLoop(1), gnet.WithTCPNoDelay(gnet.TCPDelay),
		gnet.WithLogger(quiet{}))
	if err != nil {
		return nil, err
	}
	s.client = client
	return s, nil
}

// Serve answers what comes in through l until l is closed. A failed journal
// write ends it too.
func (s *Server) Serve(l net.Listener) error {
	if err := s.client.Start(); err != nil {
		return err
	}
	if s.journal != nil {
		s.flusher.Go(func() {
			s.journal.run(s)
			l.Close()
		})
	}
	err := s.accept(l)
	if s.journal != nil {
		s.journal.stop()
		s.flusher.Wait()
		err = errors.Join(err, s.journal.err)
	}
	return errors.Join(err, s.client.Stop())
}

func (s *Server) accept(l net.Listener) error {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		// What EnrollContext returns says nothing certain; a connection that
		// was not enrolled is closed and its client sees it.
		_, _ = s.client.EnrollContext(c, &conn{server: s})
	}
}

// OnOpen implements gnet.EventHandler.
func (s *Server) OnOpen(g gnet.Conn) ([]byte, gnet.Action) {
	g.Context().(*conn).gnet = g
	return nil, gnet.None
}

// OnClose implements gnet.EventHandler.
func (s *Server) OnClose(g gnet.Conn, _ error) gnet.Action {
	if c, ok := g.Context().(*conn); ok {
		c.closed = true
	}
	return gnet.None
}

// OnTraffic implements gnet.EventHandler.
func (s *Server) OnTraffic(g gnet.Conn) gnet.Action {
	c := g.Context().(*conn)
	input, err := g.Next(-1)
	if err != nil {
		return gnet.Close
	}
	if len(c.kept) > 0 {
		c.kept = append(c.kept, input...)
		input = c.kept
	}
	whole, ok := wholeFrames(input)
	if !ok {
		return gnet.Close
	}
	switch {
	case whole == 0:
	case s.journal != nil:
		ok = s.journal.add(c, input[:whole])
	default:
		c.out = c.appendAnswers(c.out[:0], input[:whole])
		_, err := g.Write(c.out)
		ok = err == nil
	}
	if !ok {
		return gnet.Close
	}
	c.kept = append(c.kept[:0], input[whole:]...)
	return gnet.None
}

// wholeFrames returns how many bytes at the beginning of b are whole frames. A
// length out of range is not ok.
func wholeFrames(b []byte) (whole int, ok bool) {
	for len(b)-whole >= 4 {
		size := int(binary.BigEndian.Uint32(b[whole:]))
		if size < minFrameBytes || size > roundBytes/2 {
			return 0, false
		}
		if len(b)-whole < 4+size {
			break
		}
		whole += 4 + size
	}
	return whole, true
}

func (c *conn) appendAnswers(dst, frames []byte) []byte {
	for len(frames) > 0 {
		size := 4 + int(binary.BigEndian.Uint32(frames))
		start := len(dst)
		dst = append(dst, c.server.answer...)
		copy(dst[start+4:], frames[8:12])
		frames = frames[size:]
	}
	return dst
}

// release answers everything that a synced round holds, one write per
// connection. It runs on the event loop.
func (s *Server) release(r *round) {
	for _, c := range r.conns {
		c.out = c.out[:0]
	}
	for _, p := range r.pieces {
		if !p.conn.closed {
			p.conn.out = p.conn.appendAnswers(p.conn.out, r.data[p.from:p.to])
		}
	}
	for _, c := range r.conns {
		if c.closed {
			continue
		}
		if _, err := c.gnet.Write(c.out); err != nil {
			c.closed = true
		}
	}
	s.journal.recycle(r)
}

// releaseTask carries a round to the event loop.
type releaseTask struct {
	server *Server
	round  *round
}

func (t releaseTask) Run(context.Context) error {
	t.server.release(t.round)
	return nil
}

// quiet is gnet's logger here: standard output is for the address alone.
type quiet struct{}

func (quiet) Debugf(string, ...any) {}
func (quiet) Infof(string, ...any)  {}
func (quiet) Warnf(string, ...any)  {}
func (quiet) Errorf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "gnet: "+format+"\n", args...)
}
func (q quiet) Fatalf(format string, args ...any) {
	q.Errorf(format, args...)
	os.Exit(1)
}
