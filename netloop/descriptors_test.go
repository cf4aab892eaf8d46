//go:build linux || darwin

package netloop

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// childTransport names the transport of a server in a child process.
const childTransport = "NETLOOP_TEST_TRANSPORT"

// TestDescriptorChild is the child of the next test: a server with few descriptors. It
// tells its address, runs until its input ends, and tells what happened.
func TestDescriptorChild(t *testing.T) {
	name := os.Getenv(childTransport)
	if name == "" {
		return
	}
	failed, refused := make(chan int, 1000), make(chan error, 1000)
	s, err := New(Options{Handler: newEchoHandler(), GoroutineOnly: name == "goroutine", Events: Events{
		AcceptFailed: func(_ string, _ error, failures int) { failed <- failures },
		Refused:      func(_ string, _ net.Addr, err error) { refused <- err },
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	limit := uint64(openFiles() + 20)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve("tcp", l) }()
	fmt.Printf("address %s\n", l.Addr())
	io.Copy(io.Discard, os.Stdin)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	fmt.Printf("stop %v, serve %v, accept failed %v, refused %v\n", s.Stop(ctx), <-served, len(failed) > 0, len(refused) > 0)
}

// A server without descriptors keeps the connections it has and accepts again when
// there are some.
func TestDescriptorsRunOut(t *testing.T) {
	for _, name := range []string{"goroutine", "loop"} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestDescriptorChild$")
			cmd.Env = append(os.Environ(), childTransport+"="+name)
			cmd.Stderr = os.Stderr
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				in.Close()
				cmd.Wait()
			}()
			lines := bufio.NewScanner(out)
			if !lines.Scan() || !strings.HasPrefix(lines.Text(), "address ") {
				t.Fatalf("the child says %q", lines.Text())
			}
			address := strings.TrimPrefix(lines.Text(), "address ")
			exhaust(t, address)
			in.Close()
			if !lines.Scan() {
				t.Fatal("the child says nothing at its end")
			}
			if got := lines.Text(); !strings.HasPrefix(got, "stop <nil>, serve <nil>, accept failed true") {
				t.Errorf("the child says %q", got)
			}
		})
	}
}

// exhaust opens more connections than the server has descriptors for, and closes some.
func exhaust(t *testing.T, address string) {
	ask := func(c net.Conn, limit time.Duration) bool {
		c.SetDeadline(time.Now().Add(limit))
		if _, err := c.Write(requestFrame()); err != nil {
			return false
		}
		_, err := io.ReadFull(c, make([]byte, benchAnswer))
		return err == nil
	}
	var first, more []net.Conn
	for range 8 {
		c := dialTCP(t, address)
		if !ask(c, 10*time.Second) {
			t.Fatal("no answer while there are descriptors")
		}
		first = append(first, c)
	}
	for range 40 {
		more = append(more, dialTCP(t, address))
	}
	for range 5 {
		for _, c := range first {
			if !ask(c, 10*time.Second) {
				t.Fatal("a connection was lost when descriptors ran out")
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	for _, c := range more {
		c.Close()
	}
	eventually(t, "new connections are answered again", func() bool {
		c := dialTCP(t, address)
		defer c.Close()
		return ask(c, 100*time.Millisecond)
	})
	for _, c := range first {
		if !ask(c, 10*time.Second) {
			t.Fatal("a connection was lost")
		}
	}
}

// TestMemoryOfIdleConnections counts the memory of this process: the peers are bare
// descriptors and have none of it.
func TestMemoryOfIdleConnections(t *testing.T) {
	for _, test := range []struct {
		name  string
		o     Options
		limit int // bytes of heap and stacks per connection
	}{
		{"loop", Options{}, 2500},
		{"goroutine", Options{GoroutineOnly: true}, 8000},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.o.Handler = newEchoHandler()
			s, address := serverFor(t, test.o)
			tcp, err := net.ResolveTCPAddr("tcp4", address)
			if err != nil {
				t.Fatal(err)
			}
			const n = 1000
			answer := make([]byte, benchAnswer)
			open := func() {
				fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { unix.Close(fd) })
				if err := unix.Connect(fd, &unix.SockaddrInet4{Port: tcp.Port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
					t.Fatal(err)
				}
				if _, err := unix.Write(fd, requestFrame()); err != nil {
					t.Fatal(err)
				}
				if _, err := unix.Read(fd, answer); err != nil {
					t.Fatal(err)
				}
			}
			for range 50 {
				open()
			}
			before := memory()
			for range n {
				open()
			}
			per := (memory() - before) / n
			t.Logf("%d bytes per idle connection", per)
			if per > test.limit {
				t.Errorf("%d bytes per idle connection, at most %d", per, test.limit)
			}
			if got := s.input.used.Load(); got != 0 {
				t.Errorf("idle connections hold %d bytes of input", got)
			}
		})
	}
}
