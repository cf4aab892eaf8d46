package server

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"
)

// StartKcoord runs a kcoord with its defaults (every write synced), but with only the
// warnings of its log and no initial delay of groups, on free ports, its data in folder,
// its output under dir. settings are name=value, or flags.
func StartKcoord(name, dir, program, folder string, settings ...string) (*Server, error) {
	addr, err := FreeAddr()
	if err != nil {
		return nil, err
	}
	web, err := FreeAddr()
	if err != nil {
		return nil, err
	}
	args := []string{"serve", "--listeners", "PLAINTEXT://" + addr, "--http", web, "--data-dir", filepath.Join(dir, folder),
		"--log-level", "warn", "--set", "group.initial.rebalance.delay.ms=0"}
	for _, s := range settings {
		if strings.HasPrefix(s, "--") {
			args = append(args, s)
		} else {
			args = append(args, "--set", s)
		}
	}
	s, err := Start(name, addr, dir, program, args...)
	if err != nil {
		return nil, err
	}
	s.HTTP = web
	return s, nil
}

// WaitReady returns when kcoord has loaded all groups.
func (s *Server) WaitReady(timeout time.Duration) error {
	client := http.Client{Timeout: time.Second}
	defer client.CloseIdleConnections()
	for {
		resp, err := client.Get("http://" + s.HTTP + "/readyz")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		if s.Exited() || time.Since(s.Started) > timeout {
			return fmt.Errorf("%s is not ready: %s", s.Name, s.Output())
		}
		time.Sleep(2 * time.Millisecond)
	}
}
