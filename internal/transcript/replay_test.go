package transcript

import (
	"context"
	"flag"
	"fmt"
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

// onlyFlag chooses conversations by name.
var onlyFlag = flag.String("transcript.only", "*", "which conversations to replay, as a file name pattern")

// atOnce is how many conversations run at a time: they mostly wait.
const atOnce = 8

// TestReplay runs every recorded conversation against kcoord and shows where it
// answers otherwise than Apache Kafka did.
func TestReplay(t *testing.T) {
	files, err := filepath.Glob("../../testdata/transcripts/" + *onlyFlag + ".txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	room := make(chan struct{}, atOnce)
	found := make([]chan []string, len(files))
	for i, file := range files {
		found[i] = make(chan []string, 1)
		go func() {
			room <- struct{}{}
			defer func() { <-room }()
			found[i] <- replay(file)
		}()
	}
	for i, file := range files {
		differences := <-found[i]
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			for _, d := range differences {
				t.Error(d)
			}
		})
	}
}

// replay runs one conversation against a broker of its own and tells what differs.
func replay(file string) (differences []string) {
	text, err := os.ReadFile(file)
	if err != nil {
		return []string{err.Error()}
	}
	steps, err := Parse(string(text))
	if err != nil {
		return []string{err.Error()}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	b, err := broker.New(broker.Options{Properties: Settings(steps)})
	if err == nil {
		err = b.Start(ctx)
	}
	if err != nil {
		return []string{err.Error()}
	}
	defer b.Stop(ctx)
	r := NewRunner(b.Addr())
	defer r.Close()
	for i, s := range steps {
		got, err := r.Run(s.Command)
		if err != nil {
			return append(differences, fmt.Sprintf("%s\n%v", s.Command, err))
		}
		want := s.Want
		if s.Reason != "" {
			want = s.Ours
		}
		if got != want {
			steps[i].Reason, steps[i].Ours = *oursFlag, got
			differences = append(differences, fmt.Sprintf("%s\nApache Kafka, or what stands as kcoord's own answer:\n%skcoord:\n%s", s.Command, want, got))
		}
	}
	if *oursFlag != "" && len(differences) > 0 {
		if err := os.WriteFile(file, []byte(Format(steps)), 0o644); err != nil {
			differences = append(differences, err.Error())
		}
	}
	return differences
}
