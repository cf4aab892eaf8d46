// Command table measures kcoord beside a fake broker and beside what the
// machine allows, and prints the figures as Markdown:
//
//	go -C bench run ./cmd/table          # all of it, some minutes
//	go -C bench run ./cmd/table -check   # exit code 1 when a requirement is missed
//	go -C bench run ./cmd/table -smoke   # under a minute: does it run at all
//
// Every row is measured in several rounds. In each round all servers of the row
// get the same load, one after another and in turning order, while the others
// are paused (SIGSTOP). A ratio is taken within a round; the table has its
// median and its spread over the rounds.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/kcoord/kcoord/bench/server"
)

type options struct {
	kcoord, root, only string
	rounds, starts     int
	warmup, duration   time.Duration
	smoke, check, keep bool
	slack              float64
}

func main() {
	var o options
	flag.StringVar(&o.kcoord, "kcoord", "", "the program to measure; built from -root when empty")
	flag.StringVar(&o.root, "root", "..", "folder of kcoord's module")
	flag.StringVar(&o.only, "only", "", "measure only rows whose name contains this")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds of every row")
	flag.IntVar(&o.starts, "starts", 9, "starts to measure, of each kind")
	flag.DurationVar(&o.warmup, "warmup", 300*time.Millisecond, "load before each measurement")
	flag.DurationVar(&o.duration, "duration", time.Second, "time of each measurement")
	flag.BoolVar(&o.smoke, "smoke", false, "2 short rounds, and requirements eased to what such short rounds can tell")
	flag.BoolVar(&o.check, "check", false, "end with exit code 1 when a requirement is missed")
	flag.BoolVar(&o.keep, "keep", false, "leave the folder with data and output of the servers")
	flag.Parse()
	o.slack = 1
	if o.smoke {
		o.rounds, o.starts, o.slack = 2, 3, 0.5
		o.warmup, o.duration = 100*time.Millisecond, 300*time.Millisecond
	}
	missed, err := run(o, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
	for _, m := range missed {
		fmt.Fprintln(os.Stderr, "missed:", m)
	}
	if o.check && len(missed) > 0 {
		os.Exit(1)
	}
}

// A bench is one run of the table.
type bench struct {
	options
	dir                    string // of everything that is written
	kfakeBin, ceilingBin   string
	servers                map[string]*server.Server
	order                  []string
	begun                  time.Time
	out                    io.Writer
	missed                 []string
	strippedBytes, startNo int64
}

func run(o options, out io.Writer) (missed []string, err error) {
	b := &bench{options: o, out: out, servers: map[string]*server.Server{}, begun: time.Now()}
	if b.dir, err = os.MkdirTemp("", "bench-table-"); err != nil {
		return nil, err
	}
	if o.keep {
		fmt.Fprintln(os.Stderr, "data and output in", b.dir)
	} else {
		defer os.RemoveAll(b.dir)
	}
	if err := b.build(); err != nil {
		return nil, err
	}
	err = b.measure()
	for _, name := range b.order {
		err = errors.Join(err, b.servers[name].Stop())
	}
	return b.missed, err
}

func (b *bench) build() (err error) {
	if b.kfakeBin, err = server.Build(".", "./cmd/kfake", b.dir); err != nil {
		return err
	}
	if b.ceilingBin, err = server.Build(".", "./cmd/ceiling", b.dir); err != nil {
		return err
	}
	if b.kcoord == "" {
		if b.kcoord, err = server.Build(b.root, "./cmd/kcoord", b.dir); err != nil {
			return err
		}
		info, err := os.Stat(b.kcoord)
		if err != nil {
			return err
		}
		b.strippedBytes = info.Size()
	}
	b.kcoord, err = filepath.Abs(b.kcoord)
	return err
}

func (b *bench) measure() error {
	fmt.Fprintf(b.out, "%d CPUs shared by generator and server, %s, %s/%s, %d rounds of %v.\n\n",
		runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH, b.rounds, b.duration)
	if b.selected("start") {
		if err := b.startTable(); err != nil {
			return err
		}
	}
	var rows []row
	for _, r := range allRows {
		if b.selected(r.name) {
			rows = append(rows, r)
		}
	}
	if len(rows) > 0 {
		if err := b.loadTable(rows); err != nil {
			return err
		}
	}
	fmt.Fprintf(b.out, "\nMeasured in %v.\n", time.Since(b.begun).Round(time.Second))
	return nil
}

func (b *bench) selected(name string) bool { return strings.Contains(name, b.only) }

// require notes a requirement that is missed. atLeast tells the direction; in
// a smoke run the limit is eased by slack.
func (b *bench) require(what string, got, limit float64, atLeast bool) {
	eased := limit * b.slack
	if !atLeast {
		eased = limit / b.slack
	}
	if atLeast && got < eased || !atLeast && got > eased {
		b.missed = append(b.missed, fmt.Sprintf("%s: %.3g, required %.3g", what, got, limit))
	}
}
