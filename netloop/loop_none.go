//go:build !linux && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd

package netloop

import (
	"errors"
	"net"
)

// Without event loops every connection lives on the goroutine transport.

type loops struct{}

type loopPart struct{}

// Loops is the number of values that Conn.Loop takes: always one here.
func (s *Server) Loops() int { return 1 }

func (s *Server) startLoops() error            { return nil }
func (s *Server) stopLoops()                   {}
func (s *Server) wakeLoops()                   {}
func (s *Server) reapLoops()                   {}
func (s *Server) onLoop(net.Conn) bool         { return false }
func (s *Server) enroll(*conn, net.Conn) error { return errors.ErrUnsupported }

// AfterInput is for event loops.
func (s *Server) AfterInput(int) {}

func (s *Server) release(index int, done []Completion) (start []*stream) {
	for i := range done {
		c := done[i].Conn.(*conn)
		checkRelease(s, c, index)
		if st := c.stream.Load(); st.complete(&done[i]) {
			start = append(start, st)
		}
	}
	return start
}
