// Command record runs transcript scripts against a broker and writes its
// answers into them:
//
//	go run ./internal/transcript/record -addr 127.0.0.1:9092 testdata/transcripts/*.txt
//
// Scripts use group and topic names of their own, so a fresh broker is needed; one
// that names the broker's settings is refused by a broker that has others. Of
// those without settings, group_administration.txt has to be the first on its
// broker, because it lists every group.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/kcoord/kcoord/internal/transcript"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:9092", "the broker's address")
	flag.Parse()
	for _, file := range flag.Args() {
		if err := record(*addr, file); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", file, err)
			os.Exit(1)
		}
	}
}

func record(addr, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	steps, err := transcript.Parse(string(text))
	if err != nil {
		return err
	}
	r := transcript.NewRunner(addr)
	defer r.Close()
	if err := r.Ready(); err != nil {
		return err
	}
	for i := range steps {
		if steps[i].Want, err = r.Run(steps[i].Command); err != nil {
			return fmt.Errorf("%s: %w", steps[i].Command, err)
		}
		if steps[i].Want == steps[i].Ours {
			steps[i].Reason, steps[i].Ours = "", ""
		}
	}
	return os.WriteFile(file, []byte(transcript.Format(steps)), 0o644)
}
