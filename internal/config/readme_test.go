package config

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables in README.md instead of comparing them")

// TestReadme compares the tables of properties in README.md with those in the
// code. With -update it writes them.
func TestReadme(t *testing.T) {
	const file, begin, end = "../../README.md", "<!-- properties: go test ./internal/config -run Readme -update -->\n", "<!-- end of properties -->\n"
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(content), begin)
	written, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the tables: %s...%s", file, begin, end)
	}
	want := readmeTables()
	if *update {
		if err := os.WriteFile(file, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if written != want {
		t.Errorf("the tables of properties in %s are not those of the code; run the command in the comment above them", file)
	}
}

// readmeTables are the tables in Markdown.
func readmeTables() string {
	var b strings.Builder
	broker := slices.DeleteFunc(Properties(), func(p Property) bool { return p.Internal && p.Stance != Honoured })
	slices.SortFunc(broker, func(a, b Property) int { return strings.Compare(a.Name, b.Name) })
	writeTable(&b, "Of the broker", broker, Honoured)
	writeTable(&b, "Of a topic", TopicProperties(), Honoured)
	writeTable(&b, "Of a group", GroupProperties(), Honoured)
	writeTable(&b, "Refused: any value but the default is an error", append(broker, TopicProperties()...), Refused)
	b.WriteString("<details><summary>Accepted and shown, without effect on a single node</summary>\n\n")
	for _, table := range [][]Property{broker, TopicProperties(), GroupProperties()} {
		var names []string
		for _, p := range table {
			if p.Stance == Accepted && !p.Internal {
				names = append(names, "`"+p.Name+"`")
			}
		}
		b.WriteString(strings.Join(names, ", ") + "\n\n")
	}
	b.WriteString("</details>\n")
	return b.String()
}

func writeTable(b *strings.Builder, title string, table []Property, stance Stance) {
	if !slices.ContainsFunc(table, func(p Property) bool { return p.Stance == stance }) {
		return
	}
	fmt.Fprintf(b, "%s:\n\n| property | default | values | |\n|---|---|---|---|\n", title)
	for _, p := range table {
		if p.Stance != stance {
			continue
		}
		value := p.Default
		if len(p.Synonyms) > 0 {
			value = "the broker's `" + p.Synonyms[0].Name + "`"
		} else if value != "" {
			value = "`" + strings.ReplaceAll(value, ",", ", ") + "`"
		}
		values := strings.ReplaceAll(strings.TrimPrefix(p.Allowed.describe(p.Type), "a "), "whole number (32 bits)", "number")
		values = strings.NewReplacer("whole number (64 bits)", "number", "whole number (16 bits)", "number").Replace(values)
		doc := strings.ToUpper(p.Doc[:1]) + p.Doc[1:]
		if p.Mode == ClusterWide && stance == Honoured {
			doc += " Can be changed while the broker runs."
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", p.Name, value, values, strings.ReplaceAll(doc, "|", `\|`))
	}
	b.WriteString("\n")
}
