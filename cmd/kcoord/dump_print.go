package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// A field is one named value of a line. Values are integers, booleans, strings,
// nil, millis, word, fields (an object) and []any (a list).
type field struct {
	name  string
	value any
}

type fields []field

// millis is a time in Unix milliseconds; below 0 there is none.
type millis int64

// word is text that is a number where it can be.
type word string

// begin starts showing a file.
func (d *dumper) begin(name, kind string, size int64) {
	d.file = name
	if d.asJSON {
		d.line("file", field{"kind", kind}, field{"size", size})
		return
	}
	fmt.Fprintf(d.out, "%s: %s, %d bytes\n", name, kind, size)
}

// damage tells what is wrong with the file that is being shown.
func (d *dumper) damage(err error) {
	d.failed = true
	d.line("damaged", field{"reason", err.Error()})
}

// line prints one line about the file that is being shown.
func (d *dumper) line(kind string, fs ...field) {
	if d.asJSON {
		all := append(fields{{"file", d.file}, {"type", kind}}, fs...)
		d.out.Write(appendJSON(nil, all)) //nolint:errcheck // told by Flush
		d.out.WriteByte('\n')             //nolint:errcheck // told by Flush
		return
	}
	var b strings.Builder
	b.WriteString("  ")
	if kind == "record" || kind == "item" {
		b.WriteString("  ")
	}
	b.WriteString(kind)
	for _, f := range fs {
		b.WriteByte(' ')
		appendText(&b, f)
	}
	b.WriteByte('\n')
	d.out.WriteString(b.String()) //nolint:errcheck // told by Flush
}

func appendText(b *strings.Builder, f field) {
	if f.name != "" {
		b.WriteString(f.name)
		b.WriteByte('=')
	}
	switch v := f.value.(type) {
	case nil:
		b.WriteString("null")
	case string:
		b.WriteString(quoted(v))
	case word:
		b.WriteString(quoted(string(v)))
	case millis:
		b.WriteString(v.String())
	case fields:
		b.WriteByte('{')
		for i, part := range v {
			if i > 0 {
				b.WriteByte(' ')
			}
			appendText(b, part)
		}
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		for i, part := range v {
			if i > 0 {
				b.WriteByte(' ')
			}
			appendText(b, field{"", part})
		}
		b.WriteByte(']')
	default:
		fmt.Fprint(b, v)
	}
}

// quoted is s, in quotes unless it is one plain word.
func quoted(s string) string {
	plain := s != "" && s != "null"
	for _, r := range s {
		plain = plain && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-._:/*", r))
	}
	if plain && utf8.ValidString(s) {
		return s
	}
	return strconv.Quote(s)
}

func (m millis) String() string {
	const most = 253402300799999 // the last one of the year 9999
	if m < 0 || m > most {
		return strconv.FormatInt(int64(m), 10)
	}
	return time.UnixMilli(int64(m)).UTC().Format("2006-01-02T15:04:05.000Z")
}

func appendJSON(b []byte, value any) []byte {
	switch v := value.(type) {
	case fields:
		b = append(b, '{')
		for i, f := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendJSON(b, f.name), ':')
			b = appendJSON(b, f.value)
		}
		return append(b, '}')
	case []any:
		b = append(b, '[')
		for i, part := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(b, part)
		}
		return append(b, ']')
	case word:
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return strconv.AppendInt(b, n, 10)
		}
		return appendJSON(b, string(v))
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		panic(fmt.Sprintf("dump: a %T cannot be shown: %v", value, err))
	}
	return append(b, bytes.TrimSuffix(out.Bytes(), []byte("\n"))...)
}

// bytesField is a field of bytes: text where it is text, else hexadecimal under
// another name.
func bytesField(name string, b []byte) field {
	if b == nil {
		return field{name, nil}
	}
	for _, r := range string(b) {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return field{name + "_hex", hex.EncodeToString(b)}
		}
	}
	return field{name, string(b)}
}

func optional(s *string) any {
	if s == nil {
		return nil
	}
	return *s
}

func list[T any](values []T) []any {
	out := make([]any, len(values))
	for i, v := range values {
		out[i] = v
	}
	return out
}
