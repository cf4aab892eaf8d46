package wire

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table in README.md instead of comparing it")

// TestReadme compares the table of APIs in README.md with the one in the code. With
// -update it writes it.
func TestReadme(t *testing.T) {
	const file, begin, end = "../README.md", "<!-- apis: go test ./wire -run Readme -update -->\n", "<!-- end of apis -->\n"
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(content), begin)
	written, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table: %s...%s", file, begin, end)
	}
	var b strings.Builder
	b.WriteString("| key | API | versions |\n|---|---|---|\n")
	for _, api := range APIs() {
		versions := fmt.Sprintf("%d to %d", api.Min, api.Max)
		if api.Min == api.Max {
			versions = fmt.Sprint(api.Min)
		}
		fmt.Fprintf(&b, "| %d | %s | %s |\n", api.Key, api.Name, versions)
	}
	if *update {
		if err := os.WriteFile(file, []byte(before+begin+b.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if written != b.String() {
		t.Errorf("the table of APIs in %s is not that of the code; run the command in the comment above it", file)
	}
}
