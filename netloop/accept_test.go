package netloop

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// Accepting survives what passes by itself, and tells of it at most once a second.
func TestAcceptSurvivesShortage(t *testing.T) {
	for _, errno := range []error{syscall.EMFILE, syscall.ECONNABORTED} {
		onEach(t, func(t *testing.T, tr transport) {
			if tr.pipe {
				return // no listener
			}
			var told []int
			w := tr.start(t, func(o *Options) {
				o.Events.AcceptFailed = func(listener string, err error, failures int) {
					if listener != "poor" || !errors.Is(err, errno) {
						t.Errorf("listener %s: %v", listener, err)
					}
					told = append(told, failures)
				}
			})
			inner, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			fail := &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", errno)}
			l := &failingListener{Listener: inner, fails: []error{fail, fail}}
			served := make(chan error)
			go func() { served <- w.server.Serve("poor", l) }()
			start := time.Now()
			nc := dialTCP(t, inner.Addr().String())
			c := &client{t: t, c: nc, r: newReader(nc)}
			c.send(c.frame(nil, inline, 5, 5))
			c.want(0, 5)
			if took := time.Since(start); took < acceptPause {
				t.Errorf("no pause after a failure: %v", took)
			}
			w.close()
			if err := <-served; err != nil {
				t.Error(err)
			}
			if fmt.Sprint(told) != "[1]" {
				t.Errorf("told %v, want once of one failure", told)
			}
		})
	}
}

func TestShortage(t *testing.T) {
	for _, test := range []struct {
		err  error
		want bool
	}{
		{syscall.EMFILE, true}, {syscall.ENFILE, true}, {syscall.ENOBUFS, true}, {syscall.ENOMEM, true},
		{syscall.ECONNABORTED, true}, {syscall.EPROTO, true}, {syscall.EPERM, true}, {syscall.EINTR, true},
		{fmt.Errorf("wrapped: %w", syscall.EMFILE), true},
		{net.ErrClosed, false}, {syscall.EBADF, false}, {syscall.EINVAL, false}, {errors.New("other"), false},
	} {
		if got := shortage(test.err); got != test.want {
			t.Errorf("%v: %v", test.err, got)
		}
	}
}

func TestStopDuringTheRestOfAccepting(t *testing.T) {
	w := transport{goroutine: true}.start(t, nil)
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &failingListener{Listener: inner, fails: []error{syscall.EMFILE}}
	served := make(chan error)
	go func() { served <- w.server.Serve("poor", l) }()
	eventually(t, "the failure", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.fails) == 0
	})
	w.close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
