package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kcoord/kcoord/broker"
)

// A flagRow is one flag of serve. Each can also be given by a variable:
// --data-dir by KCOORD_DATA_DIR.
type flagRow struct {
	name    string
	value   string   // what stands for its value in the help; empty for a switch
	words   []string // the values it takes, if they are few
	initial string
	doc     string
}

// serveFlags is the table of flags, in the order of the help.
var serveFlags = []flagRow{
	{name: "listeners", value: "NAME://HOST:PORT,...", doc: "addresses to listen on, as the property listeners (default PLAINTEXT://127.0.0.1:9092)"},
	{name: "data-dir", value: "DIR", doc: "data folder, or memory: to keep everything in memory (default ./kcoord-data, or the property log.dirs)"},
	{name: "http", value: "HOST:PORT", doc: "address of health checks and metrics (default: none)"},
	{name: "set", value: "NAME=VALUE", doc: "a property by Kafka's name; may be repeated"},
	{name: "config", value: "FILE", doc: "properties in the syntax of Kafka's server.properties"},
	{name: "topics", value: "NAME[:PARTITIONS[:PROPERTY=VALUE...]],...", doc: "topics to create before ready, if they do not exist"},
	{name: "advertised-listeners-file", value: "FILE", doc: "wait for this file and take the property advertised.listeners from it"},
	{name: "log-level", value: "LEVEL", words: []string{"error", "warn", "info", "debug"}, initial: "info", doc: "what is logged to standard error"},
	{name: "log-format", value: "FORMAT", words: []string{"text", "json"}, initial: "text", doc: "how it is logged"},
	{name: "transport", value: "KIND", words: []string{"auto", "net"}, initial: "auto", doc: "auto: event loops where the platform has them; net: a goroutine for each connection"},
	{name: "pprof", doc: "serve profiles under /debug/pprof/ of the HTTP side"},
	{name: "log-marker", value: "WHOSE", words: []string{"kafka"}, doc: "when ready, also print the lines that tools wait for in Kafka's log"},
}

// A flagValue is what a flag was given, and by what.
type flagValue struct {
	row    flagRow
	values []string
	origin string
}

func (v *flagValue) String() string   { return strings.Join(v.values, ",") }
func (v *flagValue) IsBoolFlag() bool { return v.row.value == "" }

func (v *flagValue) Set(s string) error {
	if v.row.value == "" && s != "true" && s != "false" {
		return errors.New("it is true or false")
	}
	if s == "" && v.row.name == "data-dir" {
		return errors.New("it takes a folder, or " + broker.MemoryDir + " to keep nothing") // an empty variable of a script must not cost the data
	}
	if v.row.name == "data-dir" && s+":" == broker.MemoryDir {
		return errors.New("to keep nothing on disk it is " + broker.MemoryDir + "; a folder of that name is ./" + s)
	}
	if len(v.row.words) > 0 && !slices.Contains(v.row.words, s) {
		return fmt.Errorf("it takes one of %s", strings.Join(v.row.words, ", "))
	}
	if v.row.name != "set" {
		v.values = nil
	}
	v.values = append(v.values, s)
	v.origin = "--" + v.row.name
	return nil
}

// get is the value of a flag that is not repeated.
func (v *flagValue) get() string {
	if len(v.values) == 0 {
		return v.row.initial
	}
	return v.values[len(v.values)-1]
}

// errHelp says that the help was asked for and printed.
var errHelp = errors.New("help")

// parseFlags reads serve's flags, and the variables for those that are missing.
func parseFlags(args, environ []string, stdout io.Writer) (map[string]*flagValue, error) {
	set := flag.NewFlagSet("kcoord serve", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.Usage = func() {}
	values := make(map[string]*flagValue, len(serveFlags))
	for _, row := range serveFlags {
		values[row.name] = &flagValue{row: row}
		set.Var(values[row.name], row.name, row.doc)
	}
	if err := set.Parse(args); errors.Is(err, flag.ErrHelp) {
		printHelp(stdout)
		return nil, errHelp
	} else if err != nil {
		return nil, flagError(err)
	}
	if set.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	for _, row := range serveFlags {
		v := values[row.name]
		if given := lookup(environ, variable(row.name)); given != "" && len(v.values) == 0 {
			if err := v.Set(given); err != nil {
				return nil, fmt.Errorf("%s=%s: %w", variable(row.name), given, err)
			}
			v.origin = variable(row.name)
		}
	}
	return values, nil
}

// flagError words package flag's errors as kcoord's, with the nearest flag for an
// unknown one.
func flagError(err error) error {
	text := strings.NewReplacer("flag -", "flag --", "argument: -", "argument: --", "for -", "for --").Replace(err.Error())
	name, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !ok {
		return errors.New(text)
	}
	for _, row := range serveFlags {
		if len(name) > 2 && (strings.HasPrefix(name, row.name) || strings.Contains("-"+row.name, "-"+name)) {
			return fmt.Errorf("no flag --%s (nearest: --%s)", name, row.name)
		}
	}
	return fmt.Errorf("no flag --%s; kcoord serve --help lists them", name)
}

// variable is the environment's name of a flag.
func variable(flagName string) string {
	return "KCOORD_" + strings.ToUpper(strings.ReplaceAll(flagName, "-", "_"))
}

// withoutFlags is the environment without the variables that stand for flags.
func withoutFlags(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.ContainsFunc(serveFlags, func(row flagRow) bool { return variable(row.name) == name })
	})
}

func lookup(environ []string, name string) string {
	for _, entry := range environ {
		if key, value, _ := strings.Cut(entry, "="); key == name {
			return value
		}
	}
	return ""
}

func printHelp(w io.Writer) {
	fmt.Fprint(w, "kcoord serve [flags]\n\n")
	for _, row := range serveFlags {
		doc := row.doc
		if len(row.words) > 0 {
			doc += ": " + strings.Join(row.words, ", ")
		}
		if row.initial != "" {
			doc += " (default " + row.initial + ")"
		}
		fmt.Fprintf(w, "  --%s\n        %s\n", strings.TrimSpace(row.name+" "+row.value), doc)
	}
	fmt.Fprint(w, `
A flag can be given by a variable as well: --data-dir by KCOORD_DATA_DIR. Properties
come from --set, then from variables (KAFKA_NUM_PARTITIONS for num.partitions), then
from the file. Exit codes: 0 stopped, 1 failed, 2 wrong usage.
`)
}
