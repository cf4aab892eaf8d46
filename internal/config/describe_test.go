package config

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// described is an entry as the lines of testdata/kafka-4.4.0.tsv tell it.
func described(resource string, e Entry) string {
	value := func(v *string) string {
		if v == nil {
			return "<null>"
		}
		return *v
	}
	var synonyms []string
	for _, s := range e.Synonyms {
		synonyms = append(synonyms, fmt.Sprintf("%s=%s(%d)", s.Name, value(s.Value), s.Source))
	}
	return strings.Join([]string{resource, e.Name, value(e.Value), fmt.Sprint(e.ReadOnly), fmt.Sprint(uint8(e.Type)), strings.Join(synonyms, " ")}, "\t")
}

// TestDescribeAsKafka compares the entries of what nobody set with those of a real
// Kafka: names, values, types, synonyms and what is read-only.
func TestDescribeAsKafka(t *testing.T) {
	content, err := os.ReadFile("testdata/kafka-4.4.0.tsv")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for line := range strings.Lines(string(content)) {
		if line[0] != '#' {
			fields := strings.SplitN(line, "\t", 3)
			want[fields[0]+" "+fields[1]] = strings.TrimSuffix(line, "\n")
		}
	}
	c := Default()
	got := map[string]string{}
	for resource, entries := range map[string][]Entry{"broker": c.DescribeBroker(), "topic": c.DescribeTopic(nil), "group": c.DescribeGroup(nil)} {
		if !slices.IsSortedFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) }) {
			t.Errorf("entries of the %s are not sorted", resource)
		}
		for _, e := range entries {
			got[resource+" "+e.Name] = described(resource, e)
		}
	}
	for key, line := range want {
		if got[key] != line {
			t.Errorf("entry\n%q, Kafka has\n%q", got[key], line)
		}
	}
	if len(want) < 350 {
		t.Errorf("only %d entries were compared", len(want))
	}
}
