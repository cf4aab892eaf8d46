// Command scale measures what kcoord does with very many members, groups and
// offsets on one node, as Markdown:
//
//	go -C bench run ./cmd/scale               # all of it, about ten minutes
//	go -C bench run ./cmd/scale -only return  # rows whose name contains this
//	go -C bench run ./cmd/scale -smoke        # small and short: does it run at all
//
// Generator and server are two processes that share the CPUs. 10,000 connections
// need a limit of open files above that for both.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/kcoord/kcoord/bench/load"
	"github.com/kcoord/kcoord/bench/server"
)

const (
	topic   = "bench-scale"
	timeout = 2 * time.Minute
)

// A bench is one run of the command.
type bench struct {
	kcoord, root, only string
	smoke, check       bool
	dir                string
	servers            int
	missed             []string
}

// A row measures one thing and prints what it found.
type row struct {
	name string
	run  func(b *bench) error
}

func main() {
	b := &bench{}
	flag.StringVar(&b.kcoord, "kcoord", "", "the program to measure; built from -root when empty")
	flag.StringVar(&b.root, "root", "..", "folder of kcoord's module")
	flag.StringVar(&b.only, "only", "", "measure only rows whose name contains this")
	flag.BoolVar(&b.smoke, "smoke", false, "a hundredth of everything, goals are not looked at")
	flag.BoolVar(&b.check, "check", false, "end with exit code 1 when a goal is missed")
	flag.Parse()
	if err := b.run(); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
	for _, m := range b.missed {
		fmt.Fprintln(os.Stderr, "missed:", m)
	}
	if b.check && len(b.missed) > 0 {
		os.Exit(1)
	}
}

func (b *bench) run() (err error) {
	if b.dir, err = os.MkdirTemp("", "bench-scale-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if b.kcoord == "" {
		if b.kcoord, err = server.Build(b.root, "./cmd/kcoord", b.dir); err != nil {
			return err
		}
	}
	fmt.Println("| row | what | measured | goal |")
	fmt.Println("|---|---|---|---|")
	for _, r := range []row{
		{"members", (*bench).members}, {"joining", (*bench).joining}, {"return", (*bench).comeBack}, {"listing", (*bench).listing},
		{"churn", (*bench).churn}, {"cleaning", (*bench).cleaning}, {"logsize", (*bench).logSize},
	} {
		if !strings.Contains(r.name, b.only) {
			continue
		}
		if err := r.run(b); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return nil
}

// size is n, or a hundredth in a smoke run.
func (b *bench) size(n int) int {
	if b.smoke {
		return max(n/100, 1)
	}
	return n
}

// lasts is d, or little in a smoke run.
func (b *bench) lasts(d time.Duration) time.Duration {
	if b.smoke {
		return d / 30
	}
	return d
}

// tell prints a line of the table; goal may be empty.
func (b *bench) tell(row, what, measured, goal string, met bool) {
	fmt.Printf("| %s | %s | %s | %s |\n", row, what, measured, goal)
	if !met && !b.smoke {
		b.missed = append(b.missed, fmt.Sprintf("%s, %s: %s, goal %s", row, what, measured, goal))
	}
}

// start runs a kcoord in a new folder, with the topic, and returns a connection.
func (b *bench) start(settings ...string) (*server.Server, *load.Peer, error) {
	b.servers++
	return b.startIn(fmt.Sprintf("data-%d", b.servers), true, settings...)
}

func (b *bench) startIn(folder string, create bool, settings ...string) (*server.Server, *load.Peer, error) {
	s, err := server.StartKcoord("kcoord", b.dir, b.kcoord, folder, settings...)
	if err != nil {
		return nil, nil, err
	}
	if err := s.WaitListening(timeout); err != nil {
		return nil, nil, err
	}
	p, err := load.Dial(s.Addr, timeout)
	if err == nil && create {
		if err = s.WaitReady(timeout); err == nil {
			err = p.EnsureTopic(topic, 10)
		}
	}
	return s, p, err
}
