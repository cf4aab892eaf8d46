package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A Type is a property's type as Kafka names it.
type Type uint8

// The types, with the numbers of DescribeConfigs answers.
const (
	Boolean  Type = 1
	String   Type = 2
	Int      Type = 3 // 32 bits
	Short    Type = 4 // 16 bits
	Long     Type = 5 // 64 bits
	Double   Type = 6
	List     Type = 7 // separated by commas
	Class    Type = 8
	Password Type = 9
)

func (t Type) String() string {
	switch t {
	case Boolean:
		return "boolean"
	case String:
		return "string"
	case Int:
		return "int"
	case Short:
		return "short"
	case Long:
		return "long"
	case Double:
		return "double"
	case List:
		return "list"
	case Class:
		return "class"
	case Password:
		return "password"
	}
	panic(fmt.Sprintf("config: type %d", uint8(t)))
}

// A Stance says what kcoord does with a property of Kafka.
type Stance uint8

const (
	// Honoured: the property does what it does in Kafka.
	Honoured Stance = iota
	// Accepted: every valid value is taken and shown, and none has an effect,
	// because a single node (or one without what the property tunes) has nothing to
	// do for it.
	Accepted
	// Refused: any value but the default is an error, because ignoring it would
	// break what the person asked for.
	Refused
)

func (s Stance) String() string {
	return [...]string{"honoured", "accepted", "refused"}[s]
}

// A Mode says whether and how a property can be changed while the broker runs.
type Mode uint8

const (
	// ReadOnly: a restart is needed.
	ReadOnly Mode = iota
	// PerBroker: IncrementalAlterConfigs on one broker.
	PerBroker
	// ClusterWide: as PerBroker, and on the empty broker name for the cluster.
	ClusterWide
)

// A Property is one row of the table.
type Property struct {
	Name string
	Type Type
	// Default is the value in Kafka's text form; Null means that Kafka's default is
	// null, which DescribeConfigs shows as such and a Config as the empty string.
	Default string
	Null    bool
	Allowed Allowed
	Mode    Mode
	Stance  Stance
	// Doc is one sentence.
	Doc string
	// Internal properties can be set but DescribeConfigs does not show them.
	Internal bool
	// Synonyms are the broker properties that a topic or group property takes its
	// default from, the strongest first.
	Synonyms []Synonym
}

// A Synonym is a broker property behind a topic's or group's property; a value of
// it times Factor is a value of that property (hours for a property in
// milliseconds: 3600000).
type Synonym struct {
	Name   string
	Factor int64
}

// Allowed says which values of a type are valid. The zero value allows all.
type Allowed struct {
	// Min and Max are the bounds of a number; nil means none.
	Min, Max *float64
	// OneOf are the words of a String or the elements of a List.
	OneOf []string
	// AnyCase makes the case of OneOf's words irrelevant.
	AnyCase bool
	// Also is a number outside the bounds that is valid.
	Also *float64
	// Check finds what the fields above cannot say. It returns what is allowed if
	// the value is not, else the empty string.
	Check func(value string) string
}

func atLeast(low float64) Allowed       { return Allowed{Min: &low} }
func between(low, high float64) Allowed { return Allowed{Min: &low, Max: &high} }
func oneOf(words ...string) Allowed     { return Allowed{OneOf: words} }

func (a Allowed) or(number float64) Allowed {
	a.Also = &number
	return a
}

// describe says in words what is allowed for a type.
func (a Allowed) describe(t Type) string {
	also := ""
	if a.Also != nil {
		also = " or " + number(a.Also)
	}
	switch {
	case a.Min != nil && a.Max != nil:
		return fmt.Sprintf("%s from %s to %s%s", t.noun(), number(a.Min), number(a.Max), also)
	case a.Min != nil:
		return fmt.Sprintf("%s of at least %s%s", t.noun(), number(a.Min), also)
	case len(a.OneOf) > 0 && t == List:
		return "a list of " + strings.Join(a.OneOf, ", ")
	case len(a.OneOf) > 0:
		return "one of " + strings.Join(a.OneOf, ", ")
	}
	return t.noun()
}

func number(f *float64) string { return strconv.FormatFloat(*f, 'f', -1, 64) }

func (t Type) noun() string {
	switch t {
	case Boolean:
		return "true or false"
	case Int:
		return "a whole number (32 bits)"
	case Short:
		return "a whole number (16 bits)"
	case Long:
		return "a whole number (64 bits)"
	case Double:
		return "a number"
	case List:
		return "a list separated by commas"
	}
	return "a text"
}

// Check reports whether a value is valid: the empty string if it is, else what is
// allowed, in words.
func (p *Property) Check(value string) (allowed string) {
	value = strings.TrimSpace(value)
	if value == p.Default {
		return "" // what Kafka ships with is valid, whatever its bounds say
	}
	switch p.Type {
	case Boolean:
		if !strings.EqualFold(value, "true") && !strings.EqualFold(value, "false") {
			return p.Type.noun()
		}
	case Int, Short, Long:
		bits := map[Type]int{Int: 32, Short: 16, Long: 64}[p.Type]
		n, err := strconv.ParseInt(value, 10, bits)
		if err != nil || !p.Allowed.inBounds(float64(n)) {
			return p.Allowed.describe(p.Type)
		}
	case Double:
		f, err := strconv.ParseFloat(value, 64)
		if err != nil || math.IsNaN(f) || !p.Allowed.inBounds(f) {
			return p.Allowed.describe(p.Type)
		}
	case List:
		for _, word := range SplitList(value) {
			if !p.Allowed.has(word) {
				return p.Allowed.describe(p.Type)
			}
		}
	default:
		if !p.Allowed.has(value) {
			return p.Allowed.describe(p.Type)
		}
	}
	if p.Allowed.Check != nil {
		return p.Allowed.Check(value)
	}
	return ""
}

func (a Allowed) inBounds(f float64) bool {
	if a.Also != nil && f == *a.Also {
		return true
	}
	return (a.Min == nil || f >= *a.Min) && (a.Max == nil || f <= *a.Max)
}

func (a Allowed) has(word string) bool {
	if len(a.OneOf) == 0 {
		return true
	}
	return slices.ContainsFunc(a.OneOf, func(allowed string) bool {
		return allowed == word || a.AnyCase && strings.EqualFold(allowed, word)
	})
}

// SplitList splits the value of a List: by commas, without blanks around the
// elements; the empty value has no elements.
func SplitList(value string) []string {
	value = strings.TrimSpace(value)
	if value == "" {
		return nil
	}
	words := strings.Split(value, ",")
	for i := range words {
		words[i] = strings.TrimSpace(words[i])
	}
	return words
}
