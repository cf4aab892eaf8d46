package config

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ParseAssignment reads "name=value", as flags give it. The error is an *Error.
func ParseAssignment(text, origin string) (Setting, error) {
	name, value, ok := strings.Cut(text, "=")
	s := Setting{Name: strings.TrimSpace(name), Value: strings.TrimSpace(value), Source: StaticSource, Origin: origin}
	if !ok || s.Name == "" {
		return s, &Error{Setting: Setting{Value: text, Origin: origin}, Problem: "must be name=value"}
	}
	return s, nil
}

// ParseFile reads a file in the syntax of Java's properties: a name and a value on
// a line, separated by '=', ':' or blanks; '#' and '!' begin a comment; a backslash
// at the end continues a line and elsewhere begins an escape. The file's name is
// for the origin of the settings only. The error is an *Error.
func ParseFile(name string, content []byte) ([]Setting, error) {
	origin := func(line int) string { return name + ":" + strconv.Itoa(line) }
	if !utf8.Valid(content) {
		return nil, &Error{Setting: Setting{Origin: name}, Problem: "the file is not text in UTF-8"}
	}
	var settings []Setting
	lines := strings.Split(strings.ReplaceAll(string(content), "\r\n", "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		first := i + 1
		line := strings.TrimLeft(lines[i], " \t\f")
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		for continued(line) && i+1 < len(lines) {
			i++
			line = line[:len(line)-1] + strings.TrimLeft(lines[i], " \t\f")
		}
		key, value := splitProperty(line)
		s := Setting{Source: StaticSource, Origin: origin(first)}
		var ok bool
		if s.Name, ok = unescape(key); ok {
			s.Value, ok = unescape(value)
		}
		if !ok {
			return nil, &Error{Setting: Setting{Name: key, Value: value, Origin: origin(first)}, Problem: "has an escape that is none"}
		}
		s.Value = strings.TrimSpace(s.Value)
		settings = append(settings, s)
	}
	return settings, nil
}

// continued reports whether a line goes on in the next: it ends with an odd number
// of backslashes.
func continued(line string) bool {
	trimmed := strings.TrimRight(line, `\`)
	return (len(line)-len(trimmed))%2 == 1
}

// splitProperty splits a logical line at the first unescaped separator.
func splitProperty(line string) (key, value string) {
	end := 0
	for end < len(line) && !strings.ContainsRune("=: \t\f", rune(line[end])) {
		if line[end] == '\\' {
			end++
		}
		end++
	}
	end = min(end, len(line))
	key, value = line[:end], strings.TrimLeft(line[end:], " \t\f")
	if value != "" && (value[0] == '=' || value[0] == ':') {
		value = strings.TrimLeft(value[1:], " \t\f")
	}
	return key, value
}

// unescape resolves backslashes.
func unescape(s string) (string, bool) {
	if !strings.Contains(s, `\`) {
		return s, true
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		i++
		if i == len(s) {
			break // a single one at the end of the file
		}
		switch s[i] {
		case 't':
			b.WriteByte('\t')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 'f':
			b.WriteByte('\f')
		case 'u':
			if i+4 >= len(s) {
				return "", false
			}
			code, err := strconv.ParseUint(s[i+1:i+5], 16, 16)
			if err != nil {
				return "", false
			}
			b.WriteRune(rune(code))
			i += 4
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), true
}

// wrong is an error about a property of this configuration.
func (c *Config) wrong(name, problem string, args ...any) *Error {
	s, ok := c.Lookup(name)
	if !ok {
		s = Setting{Name: name, Value: c.Get(name), Source: DefaultSource, Origin: "default"}
	}
	problem = fmt.Sprintf(problem, args...)
	return &Error{Setting: s, Problem: problem, message: name + " " + problem}
}
