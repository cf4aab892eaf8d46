package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// An Error is one wrong setting, told in one line.
type Error struct {
	Setting Setting
	// Problem is what is wrong.
	Problem string
	// Nearest is the known name most like an unknown one, or empty.
	Nearest string

	message string
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
func (e *Error) Message() string { return e.message }

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
	name string
	find func(string) (*Property, bool)
	all  func() []Property
}

var (
	brokerScope = scope{"broker", Find, Properties}
	topicScope  = scope{"topic", FindTopic, TopicProperties}
	groupScope  = scope{"group", FindGroup, GroupProperties}
)

// check finds what is wrong with one setting.
func (in scope) check(s Setting) error {
	p, ok := in.find(s.Name)
	if !ok {
		return &Error{Setting: s, Problem: "unknown property", Nearest: nearest(in.all(), s.Name),
			message: "Unknown " + in.name + " config name: " + s.Name}
	}
	if allowed := p.Check(s.Value); allowed != "" {
		return &Error{Setting: s, Problem: "must be " + allowed, message: p.refusal(s.Value)}
	}
	if p.Stance == Refused && p.normal(s.Value) != p.Default {
		problem := "not supported: " + strings.TrimSuffix(p.Doc, ".")
		return &Error{Setting: s, Problem: problem, message: fmt.Sprintf("Invalid value %s for configuration %s: %s", s.Value, s.Name, problem)}
	}
	return nil
}

// refusal is what Kafka says about an invalid value.
func (p *Property) refusal(value string) string {
	value = strings.TrimSpace(value)
	why := "Not a number of type " + strings.ToUpper(p.Type.String())
	n, err := strconv.ParseFloat(value, 64)
	if _, intErr := strconv.ParseInt(value, 10, map[Type]int{Short: 16, Int: 32}[p.Type]); p.Type != Double && intErr != nil {
		err = intErr
	}
	a := p.Allowed
	switch {
	case p.Type == Boolean:
		why = "Expected value to be either true or false"
	case a.Check != nil:
		why = "The value must be " + a.Check(value)
	case len(a.OneOf) > 0:
		if i := slices.IndexFunc(SplitList(value), func(word string) bool { return !a.has(word) }); p.Type == List && i >= 0 {
			value = SplitList(value)[i]
		}
		why = "String must be one of: " + strings.Join(a.OneOf, ", ")
	case err != nil:
	case a.Also != nil:
		why = fmt.Sprintf("Value must be between %s and %s or equal to %s", number(a.Min), number(a.Max), number(a.Also))
	case a.Min != nil && n < *a.Min:
		why = fmt.Sprintf("Value must be at least %s", number(a.Min))
	case a.Max != nil && n > *a.Max:
		why = fmt.Sprintf("Value must be no more than %s", number(a.Max))
	}
	return fmt.Sprintf("Invalid value %s for configuration %s: %s", quoted(value), p.Name, why)
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
