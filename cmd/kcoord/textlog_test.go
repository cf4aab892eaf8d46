package main

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

// everyKind logs one event with a field of every kind, some of them as a client
// may have chosen them.
func everyKind(logger zerolog.Logger) {
	logger.Warn().Str("member", "m-1").Str("space", "two words").Str("quote", `a"b\c`).Str("empty", "").
		Str("forged", "x\n2026-11-30T00:00:00.000Z ERR forged").Str("escape", "\x1b[2J").Str("umlaut", "ä").
		Str("braces", `{"a":[1,2]},"b":`).Strs("list", []string{"a b", `"`, "]"}).Dict("map", zerolog.Dict().Int("one", 1)).
		Int("n", -3).Float64("f", 1.5).Bool("yes", true).Any("nothing", nil).Err(errors.New("no such file")).
		Msg("All members joined; client reason: <rebalance> & more")
}

// The lines are those of zerolog's own writer for people.
func TestTextLogAsConsoleWriter(t *testing.T) {
	var got, want bytes.Buffer
	fixed := func(w io.Writer) zerolog.Logger {
		return zerolog.New(w).With().Str(zerolog.TimestampFieldName, "2026-11-30T05:21:44.625Z").Logger()
	}
	for _, log := range []func(zerolog.Logger){
		everyKind,
		func(l zerolog.Logger) { l.Info().Msg("") },
		func(l zerolog.Logger) { l.Debug().Str("a", "b").Msg("debug") },
		func(l zerolog.Logger) { l.Trace().Err(nil).Send() },
	} {
		log(fixed(textLog{&got}))
		log(fixed(zerolog.ConsoleWriter{Out: &want, NoColor: true, TimeFormat: logTime}))
	}
	if got.String() != want.String() {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want.String())
	}
}

// What a client says does not make a second line or steer a terminal.
func TestTextLogOneLine(t *testing.T) {
	var out bytes.Buffer
	l := newLogger(&out, "info", "text")
	l.Info().Str("member", "a\nb").Strs("waited_for", []string{"\n\x1b", "\u2028\u202e"}).Msg("Removing member a\nb; client reason: \x1b[2J\r\n2026-11-30T00:00:00.000Z ERR forged \u2028 \u202e")
	line := strings.TrimSuffix(out.String(), "\n")
	if strings.ContainsAny(line, "\n\r\x1b\u2028\u202e") || !strings.Contains(line, `\x1b[2J\r\n2026`) {
		t.Errorf("%q", line)
	}
}

func TestTextLogKeepsWhatItCannotSplit(t *testing.T) {
	for _, event := range []string{"", "{", `{"a"`, `{"a":`, `{"a":"b`, `{"a":1`, `{"a":[1}`, "plain\n", `{"a":1}{`, `["a"]`, `{"a":}`, `{"a":,"b":1}`, `{"a\"`} {
		var out bytes.Buffer
		if n, err := (textLog{&out}).Write([]byte(event)); n != len(event) || err != nil || out.String() != event {
			t.Errorf("%q: %d, %v, %q", event, n, err, out.String())
		}
	}
}

func FuzzTextLog(f *testing.F) {
	f.Add([]byte(`{"level":"info","a":"b"}`))
	f.Fuzz(func(t *testing.T, event []byte) {
		_, _ = textLog{io.Discard}.Write(event) // nothing but no panic is asked for
		var out bytes.Buffer
		l := zerolog.New(textLog{&out})
		l.Info().Str("s", string(event)).Bytes("b", event).Msg(string(event))
		if n := strings.Count(out.String(), "\n"); n != 1 {
			t.Errorf("%d lines: %q", n, out.String())
		}
	})
}

func BenchmarkTextLog(b *testing.B) {
	for _, format := range []string{"text", "json"} {
		b.Run(format, func(b *testing.B) {
			l := newLogger(io.Discard, "info", format)
			for b.Loop() {
				l.Info().Str("group", "group-1").Str("member", "client-9c06af34").Str("from", "Stable").Str("to", "PreparingRebalance").
					Int("generation", 3).Str("host", "/127.0.0.1").Str("client", "client").Msg("Adding new member client-9c06af34")
			}
		})
	}
}
