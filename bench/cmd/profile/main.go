// Command profile makes cmd/kcoord/default.pgo anew: a CPU profile of the program
// under the loads of the table, from which the compiler learns what to inline and
// where to devirtualize (profile-guided optimization). It takes a minute and wants a
// machine that does nothing else. A profile that is older than the code is still of
// use: what is no longer there is ignored.
//
//	go -C bench run ./cmd/profile
package main

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/google/pprof/profile"

	"github.com/kcoord/kcoord/bench/load"
	"github.com/kcoord/kcoord/bench/server"
)

// loads get the same time each, so that none is forgotten for another.
var loads = []load.Spec{
	{Kind: load.Heartbeat, Conns: 16, Depth: 1},
	{Kind: load.Heartbeat, Conns: 16, Depth: 32},
	{Kind: load.OffsetCommit, Conns: 1, Depth: 1},
	{Kind: load.OffsetCommit, Conns: 16, Depth: 1},
	{Kind: load.OffsetCommit, Conns: 256, Depth: 1},
	{Kind: load.OffsetCommit, Conns: 16, Depth: 32},
}

func main() {
	root := flag.String("root", "..", "folder of kcoord's module")
	each := flag.Duration("each", 8*time.Second, "time of each load")
	flag.Parse()
	if err := run(*root, *each); err != nil {
		fmt.Fprintln(os.Stderr, "profile:", err)
		os.Exit(1)
	}
}

func run(root string, each time.Duration) (err error) {
	dir, err := os.MkdirTemp("", "profile")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	// Without an earlier profile: what it has inlined would be missing in the new one.
	program := filepath.Join(dir, "kcoord")
	build := exec.Command("go", "build", "-trimpath", "-pgo=off", "-o", program, "./cmd/kcoord")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	s, err := server.StartKcoord("kcoord", dir, program, "data", "--pprof")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	if err := s.WaitReady(10 * time.Second); err != nil {
		return err
	}
	var merged []*profile.Profile
	for _, spec := range loads {
		p, err := under(s, spec, each)
		if err != nil {
			return fmt.Errorf("%s %dx%d: %w", spec.Kind, spec.Conns, spec.Depth, err)
		}
		merged = append(merged, p)
	}
	p, err := profile.Merge(merged)
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(root, "cmd", "kcoord", "default.pgo"))
	if err != nil {
		return err
	}
	return errors.Join(anonymous(p).Write(f), f.Close())
}

// under takes a profile of the server under a load.
func under(s *server.Server, spec load.Spec, each time.Duration) (*profile.Profile, error) {
	spec.Addr, spec.Warmup, spec.Duration = s.Addr, 500*time.Millisecond, each
	loaded := make(chan error, 1)
	go func() {
		_, err := load.Run(spec)
		loaded <- err
	}()
	p, err := fetch(fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%.0f", s.HTTP, each.Seconds()))
	return p, errors.Join(err, <-loaded)
}

func fetch(url string) (*profile.Profile, error) {
	resp, err := http.Get(url)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, resp.Status)
	}
	return profile.Parse(resp.Body)
}

// anonymous takes out what depends on the machine and is of no use to the compiler.
func anonymous(p *profile.Profile) *profile.Profile {
	for _, m := range p.Mapping {
		m.File, m.BuildID = "", ""
	}
	for _, l := range p.Location {
		l.Address = 0
	}
	p.TimeNanos, p.DurationNanos = 0, 0
	return p
}
