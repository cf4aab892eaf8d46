package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/rs/zerolog"
)

// A textLog writes zerolog's events as lines for people: time, level, message,
// and key=value by key, the error first. Event loops log, so an event is split as
// it lies: zerolog.ConsoleWriter, which decodes it into a map, takes five times as long.
//
// An event is one line whatever a client wrote into a name or a reason: what is
// not printable is escaped, so that nobody forges lines or steers a terminal.
type textLog struct {
	out io.Writer
}

// A logLine is what one event needs while it is written.
type logLine struct {
	text   []byte
	fields []logField
}

// A logField has its value as JSON.
type logField struct{ key, value []byte }

var logLines = sync.Pool{New: func() any { return new(logLine) }}

// Write writes one event, as zerolog hands it over: a JSON object. What is none is
// written as it is, rather than lost.
func (w textLog) Write(event []byte) (int, error) {
	line := logLines.Get().(*logLine)
	defer logLines.Put(line)
	if !line.split(event) {
		return w.out.Write(event)
	}
	line.format()
	if _, err := w.out.Write(line.text); err != nil {
		return 0, err
	}
	return len(event), nil
}

// split finds the fields of a JSON object, and tells whether it is one.
func (l *logLine) split(event []byte) bool {
	l.fields = l.fields[:0]
	rest, ok := bytes.CutPrefix(bytes.TrimSpace(event), []byte("{"))
	for ok && len(rest) > 0 && rest[0] == '"' {
		end := stringEnd(rest)
		if end+1 >= len(rest) || rest[end] != ':' {
			return false
		}
		key := rest[1 : end-1]
		rest = rest[end+1:]
		end = valueEnd(rest)
		if end == 0 || end >= len(rest) {
			return false
		}
		l.fields = append(l.fields, logField{key, rest[:end]})
		rest = bytes.TrimPrefix(rest[end:], []byte(","))
	}
	return ok && string(rest) == "}"
}

// stringEnd returns the index behind the string that begins json.
func stringEnd(json []byte) int {
	for i := 1; i < len(json); i++ {
		switch json[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(json)
}

// valueEnd returns the index behind the value that begins json, which is followed
// by a comma or by the end of its object.
func valueEnd(json []byte) int {
	depth := 0
	for i := 0; i < len(json); i++ {
		switch json[i] {
		case '"':
			i += stringEnd(json[i:]) - 1
		case '[', '{':
			depth++
		case ']', '}':
			if depth == 0 {
				return i
			}
			depth--
		case ',':
			if depth == 0 {
				return i
			}
		}
	}
	return len(json)
}

// format makes the text of the fields.
func (l *logLine) format() {
	l.text = l.text[:0]
	at, level := l.take(zerolog.TimestampFieldName), l.take(zerolog.LevelFieldName)
	message := l.take(zerolog.MessageFieldName)
	l.text = append(append(l.text, at...), ' ')
	l.text = append(l.text, levelName(level)...)
	if message != "" {
		l.text = append(l.text, ' ')
	}
	l.text = appendPlain(l.text, message, unprintable)
	slices.SortStableFunc(l.fields, func(a, b logField) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), bytes.Compare(a.key, b.key))
	})
	for _, f := range l.fields {
		l.text = append(append(append(l.text, ' '), f.key...), '=')
		text, asks := string(f.value), unprintable
		if f.value[0] == '"' {
			text, asks = unquote(f.value), ambiguous
		}
		l.text = appendPlain(l.text, text, asks)
	}
	l.text = append(l.text, '\n')
}

// rank puts the error before all other fields.
func rank(f logField) int {
	if string(f.key) == zerolog.ErrorFieldName {
		return 0
	}
	return 1
}

// unprintable asks for quotes in a message and in what is no string.
func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// ambiguous asks for quotes in a value, which ends at a space.
func ambiguous(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }

// take removes a field and returns its text.
func (l *logLine) take(key string) string {
	i := slices.IndexFunc(l.fields, func(f logField) bool { return string(f.key) == key })
	if i < 0 {
		return ""
	}
	value := l.fields[i].value
	l.fields = slices.Delete(l.fields, i, i+1)
	return unquote(value)
}

// unquote returns the text of a JSON string.
func unquote(value []byte) string {
	if bytes.IndexByte(value, '\\') < 0 {
		return string(bytes.Trim(value, `"`))
	}
	var s string
	if json.Unmarshal(value, &s) != nil {
		return string(value)
	}
	return s
}

// appendPlain appends s, quoted as in Go where a character asks for it.
func appendPlain(text []byte, s string, asks func(rune) bool) []byte {
	if strings.ContainsFunc(s, asks) {
		return strconv.AppendQuote(text, s)
	}
	return append(text, s...)
}

// levelName is the level in three letters.
func levelName(level string) string {
	if l, err := zerolog.ParseLevel(level); err == nil {
		if name, ok := zerolog.FormattedLevels[l]; ok {
			return name
		}
	}
	return "???"
}
