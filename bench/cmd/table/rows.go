package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/kcoord/kcoord/bench/load"
	"github.com/kcoord/kcoord/bench/server"
)

// Names of the servers. The two kcoords differ in the number of partitions of
// __consumer_offsets.
const (
	kcoord50 = "kcoord"
	kcoord1  = "kcoord, 1 partition"
	kfake    = "kfake"
	echo     = "echo ceiling"
	synced   = "sync ceiling"
)

// answer lengths of the ceilings, behind the correlation id: those of the
// broker's answers to the same frames.
const (
	heartbeatAnswerBytes = 8
	commitAnswerBytes    = 26
)

// A row is one load, put on kcoord and on the servers it is compared with.
type row struct {
	name     string
	spec     load.Spec
	compared []comparison
}

// A comparison: kcoord's rate divided by that of other must be at least ratio
// (0: for information only).
type comparison struct {
	other string
	ratio float64
}

var allRows = []row{
	{"heartbeat 16x1", load.Spec{Kind: load.Heartbeat, Conns: 16, Depth: 1},
		[]comparison{{echo, 0.75}, {kfake, 1.3}}},
	{"heartbeat 16x32", load.Spec{Kind: load.Heartbeat, Conns: 16, Depth: 32},
		[]comparison{{echo, 0.35}, {kfake, 8}}},
	{"commit 1x1", load.Spec{Kind: load.OffsetCommit, Conns: 1, Depth: 1},
		[]comparison{{synced, 0.75}, {kfake, 0}}},
	{"commit 16x1", load.Spec{Kind: load.OffsetCommit, Conns: 16, Depth: 1},
		[]comparison{{synced, 0.75}, {kfake, 0}}},
	{"commit 256x1", load.Spec{Kind: load.OffsetCommit, Conns: 256, Depth: 1},
		[]comparison{{synced, 0.75}, {kfake, 0}}},
	{"commit 16x32", load.Spec{Kind: load.OffsetCommit, Conns: 16, Depth: 32},
		[]comparison{{synced, 0.5}, {kfake, 4}}},
	{"partitions, commit 256x1", load.Spec{Kind: load.OffsetCommit, Conns: 256, Depth: 1},
		[]comparison{{kcoord1, 0.9}}},
	{"partitions, commit 16x32 to 256 groups", load.Spec{Kind: load.OffsetCommit, Conns: 16, Depth: 32, Groups: 256},
		[]comparison{{kcoord1, 0.9}}},
}

// launch starts the named server and waits until it listens.
func (b *bench) launch(name string) error {
	addr, err := server.FreeAddr()
	if err != nil {
		return err
	}
	var s *server.Server
	_, port := splitPort(addr)
	switch name {
	case kcoord50:
		s, err = b.startKcoord("kcoord-50", addr, "data-50", 50)
	case kcoord1:
		s, err = b.startKcoord("kcoord-1", addr, "data-1", 1)
	case kfake:
		s, err = server.Start("kfake", addr, b.dir, b.kfakeBin, "-port", port)
	case echo:
		s, err = server.Start("echo", addr, b.dir, b.ceilingBin, "-addr", addr,
			"-answer-bytes", fmt.Sprint(heartbeatAnswerBytes))
	case synced:
		s, err = server.Start("synced", addr, b.dir, b.ceilingBin, "-addr", addr,
			"-answer-bytes", fmt.Sprint(commitAnswerBytes), "-journal", filepath.Join(b.dir, "ceiling-journal"))
	default:
		panic("no such server: " + name)
	}
	if err != nil {
		return err
	}
	b.servers[name] = s
	b.order = append(b.order, name)
	if err := s.WaitListening(30 * time.Second); err != nil {
		return err
	}
	return s.Pause()
}

func (b *bench) startKcoord(name, addr, folder string, partitions int) (*server.Server, error) {
	return server.Start(name, addr, b.dir, b.kcoord, "serve",
		"--listeners", "PLAINTEXT://"+addr,
		"--data-dir", filepath.Join(b.dir, folder),
		"--http", "127.0.0.1:0",
		"--log-level", "warn",
		// As kcoord without configuration: members that join one after another must
		// not wait 3 s each.
		"--set", "group.initial.rebalance.delay.ms=0",
		"--set", fmt.Sprintf("offsets.topic.num.partitions=%d", partitions))
}

// A series has one report per round.
type series []load.Report

func (b *bench) loadTable(rows []row) error {
	t := newTable("load", "server", "answers/s", "p50 µs", "p99 µs", "server CPU µs", "kcoord's ratio to it", "required")
	for _, r := range rows {
		measured, err := b.measureRow(r)
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		b.renderRow(t, r, measured)
	}
	fmt.Fprint(b.out, t)
	return nil
}

func (b *bench) measureRow(r row) (map[string]series, error) {
	names := []string{kcoord50}
	for _, c := range r.compared {
		names = append(names, c.other)
	}
	for _, name := range names {
		if b.servers[name] == nil {
			if err := b.launch(name); err != nil {
				return nil, err
			}
		}
	}
	measured := map[string]series{}
	for round := range b.rounds {
		for i := range names {
			name := names[(i+round)%len(names)]
			report, err := b.measureOnce(b.servers[name], r.spec)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			measured[name] = append(measured[name], report)
		}
	}
	return measured, nil
}

// measureOnce lets only s run, under load.
func (b *bench) measureOnce(s *server.Server, spec load.Spec) (load.Report, error) {
	if err := s.Resume(); err != nil {
		return load.Report{}, err
	}
	spec.Addr, spec.PID = s.Addr, s.PID()
	spec.Warmup, spec.Duration = b.warmup, b.duration
	spec.Bare = s == b.servers[echo] || s == b.servers[synced]
	report, err := load.Run(spec)
	for again := 0; errors.Is(err, load.ErrNoAnswer) && again < 3; again++ {
		report, err = load.Run(spec) // a busy machine can stall a short measurement
	}
	if err != nil {
		return report, fmt.Errorf("%w\n%s", err, s.Output())
	}
	return report, s.Pause()
}

func (b *bench) renderRow(t *table, r row, measured map[string]series) {
	own := measured[kcoord50]
	t.add(append([]string{r.name, kcoord50}, append(figures(own), "", "")...)...)
	for _, c := range r.compared {
		other := measured[c.other]
		var ratios sample
		for round := range other {
			ratios = append(ratios, own[round].PerSecond/other[round].PerSecond)
		}
		required := ""
		if c.ratio > 0 {
			required = fmt.Sprintf("%.2f", c.ratio)
			b.require(fmt.Sprintf("%s, kcoord to %s", r.name, c.other), ratios.median(), c.ratio, true)
		}
		t.add(append([]string{"", c.other}, append(figures(other), ratios.format("%.2f"), required)...)...)
	}
}

func figures(s series) []string {
	column := func(format string, of func(load.Report) float64) string {
		var all sample
		for _, r := range s {
			all = append(all, of(r))
		}
		return all.format(format)
	}
	return []string{
		column("%.0f", func(r load.Report) float64 { return r.PerSecond }),
		column("%.0f", func(r load.Report) float64 { return r.P50 }),
		column("%.0f", func(r load.Report) float64 { return r.P99 }),
		column("%.2f", func(r load.Report) float64 { return r.ServerCPU }),
	}
}
