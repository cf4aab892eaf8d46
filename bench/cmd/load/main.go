// Command load puts one load on a broker and prints what it measured as JSON.
// The exit code is 1 when the run was no success.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/kcoord/kcoord/bench/load"
)

func main() {
	var s load.Spec
	kind := flag.String("kind", "heartbeat", "heartbeat or commit")
	flag.StringVar(&s.Addr, "addr", "127.0.0.1:9092", "address of the broker")
	flag.BoolVar(&s.Bare, "bare", false, "no set-up: the server is a ceiling, not a broker")
	flag.IntVar(&s.Conns, "conns", 16, "connections")
	flag.IntVar(&s.Depth, "depth", 1, "requests on the way on each connection")
	flag.IntVar(&s.Groups, "groups", 0, "groups; 0: as many as connections")
	flag.IntVar(&s.Partitions, "partitions", 1, "partitions in one commit")
	flag.Float64Var(&s.Rate, "rate", 0, "requests per second in all, on a schedule; 0: as fast as answers come")
	flag.DurationVar(&s.Warmup, "warmup", 500*time.Millisecond, "load before anything is counted")
	flag.DurationVar(&s.Duration, "duration", 3*time.Second, "measured time")
	flag.IntVar(&s.PID, "pid", 0, "process of the server, whose CPU time and memory to report")
	flag.Float64Var(&s.MaxErrorRatio, "max-error-ratio", 0, "share of answers with error codes up to which the run is a success")
	flag.Parse()
	s.Kind = load.Kind(*kind)

	report, err := load.Run(s)
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	if encodeErr := out.Encode(report); encodeErr != nil && err == nil {
		err = encodeErr
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}
