// Package server runs the programs under measurement as child processes.
package server

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// stopTimeout is how long a child may take from SIGTERM to its end.
const stopTimeout = 10 * time.Second

// A Server is a running child process that listens on Addr.
type Server struct {
	Name, Addr string
	// HTTP is the address of health checks and metrics, for StartKcoord.
	HTTP string
	// Started is when the process was executed.
	Started time.Time

	cmd    *exec.Cmd
	output *os.File
	done   chan struct{}
	err    error
}

// Build compiles the package as it is shipped, with its profile (default.pgo) where it
// has one and debugging information left out, and returns
// the program's path in dir.
func Build(moduleDir, pkg, dir string) (string, error) {
	program := filepath.Join(dir, filepath.Base(pkg))
	cmd := exec.Command("go", "build", "-pgo=auto", "-ldflags=-s -w", "-o", program, pkg)
	cmd.Dir = moduleDir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
	}
	return program, nil
}

// FreeAddr returns an address on 127.0.0.1 whose port was free just now.
func FreeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// Start runs program, which is to listen on addr, with its output in a file
// under dir. It does not wait for the listener: WaitListening does.
func Start(name, addr, dir, program string, args ...string) (*Server, error) {
	output, err := os.OpenFile(filepath.Join(dir, name+".out"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	s := &Server{Name: name, Addr: addr, output: output, done: make(chan struct{})}
	s.cmd = exec.Command(program, args...)
	s.cmd.Stdout, s.cmd.Stderr = output, output
	s.cmd.SysProcAttr = childAttributes()
	s.Started = time.Now()
	if err := s.cmd.Start(); err != nil {
		output.Close()
		return nil, err
	}
	go func() {
		s.err = s.cmd.Wait()
		output.Close()
		close(s.done)
	}()
	return s, nil
}

// PID returns the process id.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Output returns the end of what the process has printed.
func (s *Server) Output() string {
	b, _ := os.ReadFile(s.output.Name())
	b = bytes.TrimSpace(b)
	return string(b[max(0, len(b)-2000):])
}

// Exited tells whether the process has ended.
func (s *Server) Exited() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// WaitListening connects again and again until the server takes a connection.
// It fails when the process ends first or the time is over.
func (s *Server) WaitListening(timeout time.Duration) error {
	for {
		c, err := net.Dial("tcp", s.Addr)
		if err == nil {
			return c.Close()
		}
		if s.Exited() || time.Since(s.Started) > timeout {
			return fmt.Errorf("%s does not listen on %s: %s", s.Name, s.Addr, s.Output())
		}
		time.Sleep(200 * time.Microsecond)
	}
}

// Pause stops the process without ending it, so that it takes no CPU while
// another server is measured.
func (s *Server) Pause() error { return s.signal(syscall.SIGSTOP) }

// Resume undoes Pause.
func (s *Server) Resume() error { return s.signal(syscall.SIGCONT) }

// Kill ends the process as kill -9 does.
func (s *Server) Kill() error {
	if err := s.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-s.done
	return nil
}

// Stop ends the process as SIGTERM does and fails when it does not end well.
func (s *Server) Stop() error {
	if err := errors.Join(s.signal(syscall.SIGCONT), s.signal(syscall.SIGTERM)); err != nil {
		return err
	}
	select {
	case <-s.done:
	case <-time.After(stopTimeout):
		return errors.Join(fmt.Errorf("%s does not stop within %v", s.Name, stopTimeout), s.Kill())
	}
	// A process that was paused before it could catch the signal dies of it.
	status, ok := s.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if s.err != nil && !(ok && status.Signaled() && status.Signal() == syscall.SIGTERM) {
		return fmt.Errorf("%s: %w: %s", s.Name, s.err, s.Output())
	}
	return nil
}

func (s *Server) signal(sig syscall.Signal) error {
	err := s.cmd.Process.Signal(sig)
	if errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s has ended: %v: %s", s.Name, s.err, strings.TrimSpace(s.Output()))
	}
	return err
}
