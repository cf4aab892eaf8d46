package netloop

import (
	"errors"
	"net"
)

type loops struct{}

type loopPart struct{}

func (s *Server) Loops() int                                { return 1 }
func (s *Server) startLoops() error                         { return nil }
func (s *Server) stopLoops()                                {}
func (s *Server) wakeLoops()                                {}
func (s *Server) reapLoops()                                {}
func (s *Server) onLoop(net.Conn) bool                      { return false }
func (s *Server) enroll(*conn, net.Conn) error              { return errors.ErrUnsupported }
func (s *Server) releaseOnLoop(loop int, done []Completion) {}
