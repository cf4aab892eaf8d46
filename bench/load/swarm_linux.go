package load

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"runtime"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"
)

const (
	// beatVersion is the version of a swarm's heartbeats, beatAnswer the length of
	// their answers and beatError where the error code stands in them.
	beatVersion = 4
	beatAnswer  = 16
	beatError   = 13
	// swarmConnects is how many connections a swarm opens before it looks for answers.
	swarmConnects = 64
)

// A Swarm is a connection for each of very many members. One thread drives them with
// the least that there is to do, for it shares the CPUs with the server.
type Swarm struct {
	epoll   int
	conns   []swarmConn
	scratch []byte
	// again are the connections that were told to ask again, in the order in which
	// they will.
	again []swarmAgain
	// left counts the members that have no answer yet.
	left int

	result Return
}

// A question is a request and where the error code stands in its answer.
type question struct {
	frame  []byte
	codeAt int
}

// A swarmConn has at most one request on the way, and asks the next question when the
// one before was answered well.
type swarmConn struct {
	fd        int
	questions []question
	sent      bool
	// in is the beginning of an answer, got how much of it came.
	in  [beatAnswer]byte
	got int
}

type swarmAgain struct {
	conn int
	at   time.Time
}

// ComeBack opens a connection for each member, all at once, and sends a heartbeat on
// each, again after pause if the broker asks for that, until all have been answered.
// With greet it sends ApiVersions and FindCoordinator first, as clients do. The
// connections stay open until Close.
func ComeBack(addr string, members []Member, greet bool, pause, timeout time.Duration) (*Swarm, Return, error) {
	to, err := net.ResolveTCPAddr("tcp4", addr)
	if err != nil {
		return nil, Return{}, err
	}
	s := &Swarm{conns: make([]swarmConn, len(members)), scratch: make([]byte, 4<<10), left: len(members), result: Return{Codes: map[int16]int{}}}
	for i, m := range members {
		s.conns[i] = swarmConn{fd: -1, questions: questions(m, greet)}
	}
	if s.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, Return{}, err
	}
	runtime.GC() // not while it is measured
	at := &unix.SockaddrInet4{Port: to.Port, Addr: [4]byte(to.IP.To4())}
	if err := s.run(at, pause, time.Now().Add(timeout)); err != nil {
		s.Close()
		return nil, s.result, err
	}
	s.result.Answered = time.Now()
	return s, s.result, nil
}

func questions(m Member, greet bool) []question {
	beat := question{heartbeatTemplate(m, beatVersion).frame, beatError}
	if !greet {
		return []question{beat}
	}
	versions := kmsg.NewPtrApiVersionsRequest()
	versions.Version, versions.ClientSoftwareName, versions.ClientSoftwareVersion = 3, clientID, "1"
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.Version, find.CoordinatorKey = 2, m.Group
	f := newFormatter()
	return []question{{f.AppendRequest(nil, versions, 0), 8}, {f.AppendRequest(nil, find, 0), 12}, beat}
}

// Close closes all connections.
func (s *Swarm) Close() {
	for i := range s.conns {
		if s.conns[i].fd >= 0 {
			unix.Close(s.conns[i].fd)
		}
	}
	unix.Close(s.epoll)
}

func (s *Swarm) run(at unix.Sockaddr, pause time.Duration, end time.Time) error {
	events := make([]unix.EpollEvent, 1024)
	for opened := 0; s.left > 0; {
		for range min(swarmConnects, len(s.conns)-opened) {
			if err := s.open(opened, at); err != nil {
				return fmt.Errorf("connection %d: %w", opened, err)
			}
			if opened++; opened == len(s.conns) {
				s.result.Opened = time.Now()
			}
		}
		wait := 0
		if opened == len(s.conns) {
			wait = 1000
			if len(s.again) > 0 {
				wait = max(0, int(time.Until(s.again[0].at).Milliseconds())+1)
			}
		}
		n, err := unix.EpollWait(s.epoll, events, wait)
		if err != nil && err != unix.EINTR {
			return err
		}
		now := time.Now()
		for i := range max(n, 0) {
			if err := s.turn(int(events[i].Fd), now.Add(pause)); err != nil {
				return err
			}
		}
		for len(s.again) > 0 && !s.again[0].at.After(now) {
			c := &s.conns[s.again[0].conn]
			s.again = s.again[1:]
			if err := c.send(); err != nil {
				return err
			}
		}
		if now.After(end) {
			return fmt.Errorf("%d of %d members have no answer", s.left, len(s.conns))
		}
	}
	return nil
}

func (s *Swarm) open(i int, at unix.Sockaddr) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	c := &s.conns[i]
	c.fd = fd
	switch err := unix.Connect(fd, at); err {
	case nil, unix.EINPROGRESS:
	default:
		return err
	}
	if err := c.send(); err != nil {
		return err
	}
	// With edges nothing has to be changed when the connection stands.
	wanted := uint32(unix.EPOLLIN | unix.EPOLLET)
	if !c.sent {
		wanted |= unix.EPOLLOUT
	}
	return unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: wanted, Fd: int32(i)})
}

// send writes the request at hand, unless the connection does not stand yet.
func (c *swarmConn) send() error {
	frame := c.questions[0].frame
	n, err := unix.Write(c.fd, frame)
	switch {
	case err == unix.EAGAIN:
		c.sent = false
		return nil
	case err != nil:
		return err
	case n < len(frame):
		return errors.New("a request does not fit into its socket")
	}
	c.sent, c.got = true, 0
	return nil
}

// receive reads what is there, and returns the error code when the answer is whole.
func (c *swarmConn) receive(scratch []byte) (code int16, whole bool, err error) {
	n, err := unix.Read(c.fd, scratch)
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return 0, false, nil
	case err != nil:
		return 0, false, err
	case n == 0:
		return 0, false, errors.New("closed by the server")
	}
	if c.got < len(c.in) {
		copy(c.in[c.got:], scratch[:n])
	}
	c.got += n
	size := 4 + int(binary.BigEndian.Uint32(c.in[:]))
	if c.got < 4 || c.got < size {
		return 0, false, nil
	}
	if c.got > size || size < len(c.in) {
		return 0, false, fmt.Errorf("%d bytes for an answer of %d", c.got, size)
	}
	return int16(binary.BigEndian.Uint16(c.in[c.questions[0].codeAt:])), true, nil
}

// turn does what a connection is ready for.
func (s *Swarm) turn(i int, again time.Time) (err error) {
	c := &s.conns[i]
	if !c.sent {
		err = c.send()
	}
	var code int16
	whole := false
	if err == nil && c.sent {
		code, whole, err = c.receive(s.scratch)
	}
	switch {
	case err != nil:
		return fmt.Errorf("connection %d: %w", i, err)
	case !whole:
	case Transient(code):
		s.result.Again++
		s.again = append(s.again, swarmAgain{i, again})
	case len(c.questions) > 1 && code != 0:
		return fmt.Errorf("connection %d: error code %d", i, code)
	case len(c.questions) > 1:
		c.questions = c.questions[1:]
		return c.send()
	default:
		s.result.Codes[code]++
		s.left--
	}
	return nil
}
