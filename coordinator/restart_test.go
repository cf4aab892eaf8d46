package coordinator

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestRestartAnywhere runs every script with a crash after each of its commands:
// what is written then does not count, but the shard must agree with its own
// accounts, its twin and a replay of its log all the way.
func TestRestartAnywhere(t *testing.T) {
	files, err := filepath.Glob("testdata/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil || info.IsDir() {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			commands := commandsOf(t, file)
			for crash := range commands {
				s := &script{world: newWorld(t), labels: map[Token]string{}}
				s.replayEvery = 4
				for i := range commands {
					s.run(t, &commands[i])
					if i == crash {
						s.run(t, &datadriven.TestData{Cmd: "restart"})
					}
				}
			}
		})
	}
}

// commandsOf are the commands of a script, without what it expects.
func commandsOf(t *testing.T, file string) []datadriven.TestData {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []datadriven.TestData
	expected := false
	for _, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "----":
			expected = true
		case line == "":
			expected = false
		case expected || strings.HasPrefix(line, "#"):
		default:
			cmd, args, err := datadriven.ParseLine(line)
			if err != nil {
				t.Fatalf("%s: %q: %v", file, line, err)
			}
			all = append(all, datadriven.TestData{Pos: file, Cmd: cmd, CmdArgs: args})
		}
	}
	return all
}
