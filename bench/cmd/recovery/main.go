// Command recovery measures how long kcoord takes to come back after kill -9
// with many committed offsets, and how much memory it needs then, as Markdown:
//
//	go -C bench run ./cmd/recovery          # 1 and 10 million offsets in 100,000 groups, some minutes, 2 GB of disk
//	go -C bench run ./cmd/recovery -smoke   # small, some seconds: does it run at all
//
// Cold is after the page cache was dropped (by /proc/sys/vm/drop_caches, which
// needs root, else file by file with posix_fadvise); warm is with all files in it.
// Both times are from exec. -check ends with exit code 1 when a goal is missed.
package main

import (
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/kcoord/kcoord/bench/load"
	"github.com/kcoord/kcoord/bench/proc"
	"github.com/kcoord/kcoord/bench/server"
)

const (
	topic   = "bench-recovery"
	timeout = 2 * time.Minute
	// The goals, for the largest folder.
	allGoal   = 10 * time.Second
	firstGoal = 2 * time.Second
)

type options struct {
	kcoord, root string
	rounds       int
	smoke, check bool
}

func main() {
	var o options
	flag.StringVar(&o.kcoord, "kcoord", "", "the program to measure; built from -root when empty")
	flag.StringVar(&o.root, "root", "..", "folder of kcoord's module")
	flag.IntVar(&o.rounds, "rounds", 3, "starts of each kind")
	flag.BoolVar(&o.smoke, "smoke", false, "a small folder")
	flag.BoolVar(&o.check, "check", false, "end with exit code 1 when a goal is missed")
	flag.Parse()
	missed, err := run(o, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "recovery:", err)
		os.Exit(1)
	}
	if missed != "" {
		fmt.Fprintln(os.Stderr, "missed:", missed)
		if o.check {
			os.Exit(1)
		}
	}
}

func run(o options, out io.Writer) (missed string, err error) {
	dir, err := os.MkdirTemp("", "bench-recovery-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	if o.kcoord == "" {
		if o.kcoord, err = server.Build(o.root, "./cmd/kcoord", dir); err != nil {
			return "", err
		}
	}
	sizes := []folder{{groups: 100_000, each: 10}, {groups: 100_000, each: 100}}
	if o.smoke {
		sizes, o.rounds = []folder{{groups: 2_000, each: 10}}, 1
	}
	fmt.Fprintln(out, "| offsets in groups | on disk, MB | cache | first group answered, s | all loaded, s | resident then (peak), MB |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|")
	for i, f := range sizes {
		f.options, f.dir, f.name = o, dir, fmt.Sprintf("data-%d", i)
		if err := f.fill(); err != nil {
			return "", err
		}
		for _, cold := range []bool{true, false} {
			first, all, err := f.measure(out, cold)
			if err != nil {
				return "", err
			}
			if first > firstGoal || all > allGoal {
				missed = fmt.Sprintf("first group after %v, all after %v; goals %v and %v", first, all, firstGoal, allGoal)
			}
		}
		if err := os.RemoveAll(filepath.Join(dir, f.name)); err != nil {
			return "", err
		}
	}
	return missed, nil
}

// A folder is data with committed offsets: groups times each of them.
type folder struct {
	options
	dir, name    string
	groups, each int
}

func group(i int) string { return fmt.Sprintf("group-%07d", i) }

func (f *folder) start() (*server.Server, error) {
	return server.StartKcoord("kcoord", f.dir, f.kcoord, f.name)
}

// fill commits all offsets and kills the server.
func (f *folder) fill() error {
	s, err := f.start()
	if err != nil {
		return err
	}
	if err := s.WaitReady(timeout); err != nil {
		return err
	}
	p, err := load.Dial(s.Addr, timeout)
	if err != nil {
		return err
	}
	err = p.EnsureTopic(topic, f.each)
	p.Close()
	if err != nil {
		return err
	}
	const writers = 4
	var all sync.WaitGroup
	errs := make([]error, writers)
	for w := range writers {
		all.Go(func() {
			p, err := load.Dial(s.Addr, timeout)
			if err == nil {
				err = p.CommitMany(topic, f.each, f.groups*w/writers, f.groups*(w+1)/writers, 42, group)
				p.Close()
			}
			errs[w] = err
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return fmt.Errorf("%w\n%s", err, s.Output())
		}
	}
	return s.Kill()
}

// measure starts the server some times and prints the medians.
func (f *folder) measure(out io.Writer, cold bool) (first, all time.Duration, err error) {
	var firsts, alls []time.Duration
	var memory []proc.Memory
	how := "warm"
	for range f.rounds {
		if cold {
			if how, err = f.dropCache(); err != nil {
				return 0, 0, err
			}
		} else if err := f.readAll(); err != nil {
			return 0, 0, err
		}
		s, err := f.start()
		if err != nil {
			return 0, 0, err
		}
		first, err := f.firstAnswer(s)
		if err == nil {
			err = s.WaitReady(timeout)
		}
		took := time.Since(s.Started)
		if err != nil {
			return 0, 0, err
		}
		m, err := proc.MemoryOf(s.PID())
		if err != nil {
			return 0, 0, err
		}
		firsts, alls, memory = append(firsts, first), append(alls, took), append(memory, m)
		if err := s.Kill(); err != nil {
			return 0, 0, err
		}
	}
	size, err := f.size()
	if err != nil {
		return 0, 0, err
	}
	slices.SortFunc(memory, func(a, b proc.Memory) int { return int(a.Resident - b.Resident) })
	m := memory[len(memory)/2]
	fmt.Fprintf(out, "| %d in %d | %d | %s | %s | %s | %d (%d) |\n", f.groups*f.each, f.groups, size/1e6, how,
		spread(firsts), spread(alls), m.Resident/1e6, m.Peak/1e6)
	return median(firsts), median(alls), nil
}

// firstAnswer is how long after exec a group's committed offset was told. The group
// is one of the last ones of the order in which they were made.
func (f *folder) firstAnswer(s *server.Server) (time.Duration, error) {
	if err := s.WaitListening(timeout); err != nil {
		return 0, err
	}
	p, err := load.Dial(s.Addr, timeout)
	if err != nil {
		return 0, err
	}
	defer p.Close()
	offset, err := p.FetchOffset(group(f.groups-7), topic)
	if err == nil && offset != 42 {
		err = fmt.Errorf("committed offset %d after the restart, 42 was acknowledged", offset)
	}
	return time.Since(s.Started), err
}

// dropCache makes the next start read from the disk.
func (f *folder) dropCache() (how string, err error) {
	syncAll()
	if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0); err == nil {
		return "cold (drop_caches)", nil
	}
	return "cold (posix_fadvise)", f.files(dontNeed)
}

// readAll makes the next start find everything in the page cache.
func (f *folder) readAll() error {
	return f.files(func(file *os.File) error {
		_, err := io.Copy(io.Discard, file)
		return err
	})
}

func (f *folder) files(do func(*os.File) error) error {
	return filepath.WalkDir(filepath.Join(f.dir, f.name), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		return do(file)
	})
}

func (f *folder) size() (bytes int64, err error) {
	err = f.files(func(file *os.File) error {
		info, err := file.Stat()
		if err == nil {
			bytes += info.Size()
		}
		return err
	})
	return bytes, err
}

func median(d []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(d))[len(d)/2]
}

// spread is the median with the lowest and the highest.
func spread(d []time.Duration) string {
	return fmt.Sprintf("%.2f (%.2f–%.2f)", median(d).Seconds(), slices.Min(d).Seconds(), slices.Max(d).Seconds())
}
