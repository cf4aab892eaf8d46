package main

import (
	"bufio"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kcoord/kcoord/bench/load"
	"github.com/kcoord/kcoord/bench/server"
)

func middle(all []float64) float64 { return slices.Sorted(slices.Values(all))[len(all)/2] }

// cleaning measures commits on a schedule while others overwrite offsets, with the
// cleaner at work and without it.
func (b *bench) cleaning() error {
	with, err := b.overwriting(true)
	if err != nil {
		return err
	}
	without, err := b.overwriting(false)
	if err != nil {
		return err
	}
	b.tell("cleaning", fmt.Sprintf("commits at 1,000/s, p99, beside commits of 50 offsets as fast as they go, %v each", b.lasts(time.Minute)),
		fmt.Sprintf("%.1f ms while the log is cleaned (%.0f rounds, %.0f MB freed; a journal write with its sync takes %.2f ms), %.1f ms without (%.2f ms)",
			with.p99/1e3, with.rounds, with.freed/1e6, with.sync*1e3, without.p99/1e3, without.sync*1e3),
		"2 times", with.p99 <= 2*without.p99 && with.rounds > 0)
	return nil
}

// cleaned is what one run of overwriting found.
type cleaned struct{ p99, rounds, freed, sync float64 }

func (b *bench) overwriting(clean bool) (c cleaned, err error) {
	s, p, err := b.start(fmt.Sprintf("log.cleaner.enable=%v", clean), "log.cleaner.backoff.ms=100", "offsets.topic.num.partitions=4")
	if err != nil {
		return c, err
	}
	defer p.Close()
	if err := p.EnsureTopic("bench-overwritten", 50); err != nil {
		return c, err
	}
	var stop atomic.Bool
	ended := make(chan error, 1)
	go func() {
		w, err := load.Dial(s.Addr, timeout)
		for offset := int64(1); err == nil && !stop.Load(); offset++ {
			err = w.CommitMany("bench-overwritten", 50, 0, 200, offset, func(i int) string { return fmt.Sprintf("overwritten-%d", i) })
			time.Sleep(20 * time.Millisecond)
		}
		ended <- err
	}()
	r, err := load.Run(load.Spec{Addr: s.Addr, Kind: load.OffsetCommit, Conns: 16, Depth: 1, Rate: 1_000, Warmup: b.lasts(5 * time.Second), Duration: b.lasts(time.Minute)})
	stop.Store(true)
	if e := <-ended; err == nil {
		err = e
	}
	if err != nil {
		return c, err
	}
	m, err := metrics(s)
	if err != nil {
		return c, err
	}
	c = cleaned{p99: r.P99, rounds: m["kcoord_cleaner_round_seconds_count"], freed: m["kcoord_cleaner_freed_bytes_total"],
		sync: m["kcoord_journal_round_seconds_sum"] / m["kcoord_journal_round_seconds_count"]}
	return c, s.Kill()
}

// metrics reads the server's counters that have no labels.
func metrics(s *server.Server) (map[string]float64, error) {
	resp, err := http.Get("http://" + s.HTTP + "/metrics")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	m := map[string]float64{}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if v, err := strconv.ParseFloat(value, 64); ok && err == nil {
			m[name] = v
		}
	}
	return m, nil
}

// logSize overwrites 100,000 offsets a hundred times and compares the size of the
// log some seconds later with that after it had all the time it wants.
func (b *bench) logSize() error {
	keys, times := b.size(100_000), 100
	s, p, err := b.start()
	if err != nil {
		return err
	}
	defer p.Close()
	begun := time.Now()
	const width = 4
	for offset := range times {
		err := inParallel(width, width, func(w int) error {
			c, err := load.DialPatient(s.Addr, p)
			if err != nil {
				return err
			}
			defer c.Close()
			return c.CommitMany(topic, 10, keys/10*w/width, keys/10*(w+1)/width, int64(offset), func(i int) string { return fmt.Sprintf("group-%d", i) })
		})
		if err != nil {
			return err
		}
	}
	took := time.Since(begun)
	time.Sleep(b.lasts(5 * time.Second))
	soon, err := b.logBytes()
	if err != nil {
		return err
	}
	last, same := soon, 0
	for end := time.Now().Add(b.lasts(3 * time.Minute)); same < 30 && time.Now().Before(end); time.Sleep(b.lasts(time.Second)) {
		now, err := b.logBytes()
		if err != nil {
			return err
		}
		if same++; now != last {
			last, same = now, 0
		}
	}
	m, err := metrics(s)
	if err != nil {
		return err
	}
	b.tell("logsize", fmt.Sprintf("%d offsets overwritten %d times in %.0f s", keys, times, took.Seconds()),
		fmt.Sprintf("%.1f MB 5 s after the last write, %.1f MB when idle (%.0f MB had been freed)", soon/1e6, last/1e6, m["kcoord_cleaner_freed_bytes_total"]/1e6),
		"2 times", soon <= 2*last)
	return s.Kill()
}

// logBytes is the size of the segments of __consumer_offsets of the newest server.
func (b *bench) logBytes() (bytes float64, err error) {
	dir := filepath.Join(b.dir, fmt.Sprintf("data-%d", b.servers))
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(path, "__consumer_offsets") || !strings.HasSuffix(path, ".log") {
			return nil // files come and go
		}
		if info, err := d.Info(); err == nil {
			bytes += float64(info.Size())
		}
		return nil
	})
	return bytes, err
}
