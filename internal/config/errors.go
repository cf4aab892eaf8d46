package config

import (
	"fmt"
	"slices"
	"strings"
)

// An Error is one wrong setting, told in one line.
type Error struct {
	Setting Setting
	// Problem is what is wrong.
	Problem string
	// Nearest is the known name most like an unknown one, or empty.
	Nearest string

	unknown bool
}

// Error tells the property, its value, what is wrong or allowed, and where it
// was set.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Setting.Name != "" {
		b.WriteString(e.Setting.Name + "=")
	}
	b.WriteString(quoted(e.Setting.Value) + ": " + e.Problem)
	if e.Nearest != "" {
		fmt.Fprintf(&b, " (nearest: %s)", e.Nearest)
	}
	if e.Setting.Origin != "" {
		fmt.Fprintf(&b, ", set by %s", e.Setting.Origin)
	}
	return b.String()
}

// Message is the error in the words that Kafka answers a client with.
func (e *Error) Message() string {
	what := map[Source]string{TopicSource: "topic", GroupSource: "group"}[e.Setting.Source]
	switch {
	case e.unknown && what == "":
		return "Unknown broker config name: " + e.Setting.Name
	case e.unknown:
		return "Unknown " + what + " config name: " + e.Setting.Name
	}
	return fmt.Sprintf("Invalid value %s for configuration %s: %s", quoted(e.Setting.Value), e.Setting.Name, e.Problem)
}

// quoted makes a value fit for one line: control characters escaped, long ones
// cut.
func quoted(value string) string {
	const most = 120
	if len(value) > most {
		value = value[:most] + "..."
	}
	if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Sprintf("%q", value)
	}
	return value
}

// A scope is a table of properties that settings are checked against.
type scope struct {
	find func(string) (*Property, bool)
	all  func() []Property
}

var (
	brokerScope = scope{Find, Properties}
	topicScope  = scope{FindTopic, TopicProperties}
	groupScope  = scope{FindGroup, GroupProperties}
)

// check finds what is wrong with one setting.
func (in scope) check(s Setting) error {
	p, ok := in.find(s.Name)
	if !ok {
		return &Error{Setting: s, Problem: "unknown property", Nearest: nearest(in.all(), s.Name), unknown: true}
	}
	if allowed := p.Check(s.Value); allowed != "" {
		return &Error{Setting: s, Problem: "must be " + allowed}
	}
	if p.Stance == Refused && p.normal(s.Value) != p.Default {
		return &Error{Setting: s, Problem: "not supported: " + strings.TrimSuffix(p.Doc, ".")}
	}
	return nil
}

// Nearest returns the name of the broker property that takes the fewest changed
// letters to get from name, or the empty string if none is near.
func Nearest(name string) string { return nearest(Properties(), name) }

// nearest is Nearest in the table that find looks into.
func nearest(table []Property, name string) string {
	name = strings.ToLower(name)
	best, distance := "", max(2, len(name)/3)+1
	for i := range table {
		if d := editDistance(name, table[i].Name, distance); d < distance {
			best, distance = table[i].Name, d
		}
	}
	return best
}

// editDistance is the Levenshtein distance of two words, or limit if it is not
// below.
func editDistance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
		if slices.Min(row) >= limit {
			return limit
		}
	}
	return min(row[len(b)], limit)
}
