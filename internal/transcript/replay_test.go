package transcript

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kcoord/kcoord/broker"
)

// oursFlag writes differences into the scripts, as answers that kcoord gives on
// purpose; read the diff.
var oursFlag = flag.String("transcript.ours", "", "the reason why kcoord's answers stand beside Kafka's")

// TestReplay runs every recorded conversation against kcoord and shows where it
// answers otherwise than Apache Kafka did.
func TestReplay(t *testing.T) {
	files, err := filepath.Glob("../../testdata/transcripts/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			steps, err := Parse(string(text))
			if err != nil {
				t.Fatal(err)
			}
			replay(t, steps)
			if *oursFlag != "" && t.Failed() {
				if err := os.WriteFile(file, []byte(Format(steps)), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func replay(t *testing.T, steps []Step) {
	b, err := broker.New(broker.Options{Properties: Settings(steps)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := b.Start(ctx); err != nil {
		t.Fatal(err)
	}
	defer b.Stop(ctx)
	r := NewRunner(b.Addr())
	defer r.Close()
	for i, s := range steps {
		got, err := r.Run(s.Command)
		if err != nil {
			t.Fatalf("%s\n%v", s.Command, err)
		}
		want := s.Want
		if s.Reason != "" {
			want = s.Ours
		}
		if got != want {
			if *oursFlag != "" {
				steps[i].Reason, steps[i].Ours = *oursFlag, got
			}
			t.Errorf("%s\nApache Kafka, or what stands as kcoord's own answer:\n%skcoord:\n%s", s.Command, want, got)
		}
	}
}
