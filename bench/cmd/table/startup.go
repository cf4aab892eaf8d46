package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/kcoord/kcoord/bench/load"
	"github.com/kcoord/kcoord/bench/proc"
	"github.com/kcoord/kcoord/bench/server"
)

const (
	startLimit    = 30 * time.Millisecond
	recoverLimit  = 150 * time.Millisecond
	idleLimit     = 20e6 // bytes
	strippedLimit = 16e6 // bytes
	startTopic    = "bench-start"
	// idleTime passes between the first commit and the look at the memory.
	idleTime = time.Second
)

// startTable measures starts, memory and the program's size. Ready is the
// first answer to an OffsetCommit that is a success, so it is after
// ApiVersions, FindCoordinator and, in an empty folder, CreateTopics.
func (b *bench) startTable() error {
	empty, memory, err := b.emptyStarts()
	if err != nil {
		return fmt.Errorf("start in an empty folder: %w", err)
	}
	after, err := b.startsAfterKill()
	if err != nil {
		return fmt.Errorf("start after kill -9: %w", err)
	}
	t := newTable("start and size", "median (lowest–highest)", "limit")
	addLimit := func(what, format string, s sample, limit float64) {
		b.require(what, s.median(), limit, false)
		t.add(what, s.format(format), fmt.Sprintf(format, limit))
	}
	addLimit("exec to ready, empty folder, ms", "%.1f", empty, float64(startLimit.Milliseconds()))
	addLimit("exec to ready, after kill -9 under load, ms", "%.1f", after, float64(recoverLimit.Milliseconds()))
	addLimit("resident memory idle, MB", "%.1f", memory, idleLimit/1e6)
	if b.strippedBytes > 0 {
		addLimit("program, stripped, MB", "%.1f", sample{float64(b.strippedBytes) / 1e6}, strippedLimit/1e6)
	}
	fmt.Fprintln(b.out, t)
	return nil
}

func (b *bench) emptyStarts() (milliseconds, megabytes sample, err error) {
	for range b.starts {
		s, took, err := b.startAndCommit(fmt.Sprintf("start-%d", b.startNo), true)
		if err != nil {
			return nil, nil, err
		}
		milliseconds = append(milliseconds, took)
		time.Sleep(idleTime)
		m, err := proc.MemoryOf(s.PID())
		if err != nil {
			return nil, nil, err
		}
		megabytes = append(megabytes, float64(m.Resident)/1e6)
		if err := s.Stop(); err != nil {
			return nil, nil, err
		}
		b.startNo++
	}
	return milliseconds, megabytes, nil
}

// startsAfterKill kills the server in the middle of a load of pipelined commits,
// each time in the same folder, so the journal and the logs are well filled.
func (b *bench) startsAfterKill() (milliseconds sample, err error) {
	const folder = "killed"
	s, _, err := b.startAndCommit(folder, true)
	if err != nil {
		return nil, err
	}
	for range b.starts {
		spec := load.Spec{Kind: load.OffsetCommit, Addr: s.Addr, Conns: 16, Depth: 32, Duration: 2 * b.duration}
		ended := make(chan error, 1)
		go func() {
			_, err := load.Run(spec)
			ended <- err
		}()
		time.Sleep(spec.Duration * 3 / 4)
		if err := s.Kill(); err != nil {
			return nil, err
		}
		if err := <-ended; err == nil {
			return nil, errors.New("the load did not notice that the server was killed")
		}
		var took float64
		if s, took, err = b.startAndCommit(folder, false); err != nil {
			return nil, err
		}
		milliseconds = append(milliseconds, took)
	}
	if err := s.Stop(); err != nil {
		return nil, err
	}
	return milliseconds, os.RemoveAll(filepath.Join(b.dir, folder))
}

// startAndCommit returns the milliseconds from exec to the first commit.
func (b *bench) startAndCommit(folder string, createTopic bool) (*server.Server, float64, error) {
	addr, err := server.FreeAddr()
	if err != nil {
		return nil, 0, err
	}
	s, err := b.startKcoord("kcoord-"+folder, addr, folder, 50)
	if err != nil {
		return nil, 0, err
	}
	if err := s.WaitListening(30 * time.Second); err != nil {
		return s, 0, err
	}
	p, err := load.Dial(addr, 30*time.Second)
	if err != nil {
		return s, 0, err
	}
	defer p.Close()
	if err := p.FindCoordinator(startTopic); err != nil {
		return s, 0, err
	}
	if createTopic {
		if err := p.EnsureTopic(startTopic, 1); err != nil {
			return s, 0, err
		}
	}
	commit := load.NewCommit(startTopic, startTopic, 1)
	for {
		again, err := p.Commit(commit)
		took := time.Since(s.Started)
		if err == nil {
			return s, float64(took.Microseconds()) / 1e3, nil
		}
		if !again || took > 30*time.Second {
			return s, 0, fmt.Errorf("first commit: %w", err)
		}
		time.Sleep(500 * time.Microsecond)
	}
}
