// Command kcoord runs the broker: kcoord serve, or kcoord alone. It has a few
// smaller commands (version, health, dump, completion), and answers to the names of some
// of Kafka's scripts.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
)

// version is set by the build (-ldflags "-X main.version=1.2.3").
var version = "dev"

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // what was asked for did not work
	exitUsage  = 2 // a flag, a property, a file or a variable is wrong
)

func main() {
	if tool, ok := toolFor(os.Args[0]); ok {
		os.Exit(tool(os.Args[1:], os.Stdout, os.Stderr))
	}
	args := os.Args[1:]
	if strings.TrimSuffix(filepath.Base(os.Args[0]), ".sh") == "kafka-server-start" {
		args = serverStartArgs(args)
	}
	os.Exit(run(args, os.Environ(), os.Stdout, os.Stderr))
}

// serverStartArgs turns the arguments of Kafka's start script, a file and
// --override name=value, into those of serve.
func serverStartArgs(args []string) []string {
	serve := []string{"serve"}
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "-daemon": // a container's first process stays
		case args[i] == "--override" && i+1 < len(args):
			i++
			serve = append(serve, "--set", args[i])
		case strings.HasPrefix(args[i], "--override="):
			serve = append(serve, "--set", strings.TrimPrefix(args[i], "--override="))
		default:
			serve = append(serve, "--config", args[i])
		}
	}
	return serve
}

const usage = `kcoord is a broker for Kafka clients.

  kcoord [serve] [flags]   serve; without flags on 127.0.0.1:9092 with data in ./kcoord-data
  kcoord health [ADDRESS]  exit code 0 if a broker serves every group
  kcoord dump FILE|DIR...  show what is in segments, journal files and checkpoints
  kcoord version
  kcoord completion bash|zsh|fish

kcoord serve --help lists the flags.
`

// run runs one command and returns the exit code.
func run(args, environ []string, stdout, stderr io.Writer) int {
	command := "serve"
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		command, args = args[0], args[1:]
	} else if len(args) > 0 && isHelp(args[0]) {
		command = "help"
	} else if len(args) > 0 && (args[0] == "--version" || args[0] == "-version") {
		command = "version"
	}
	if command == "dump" && len(args) > 0 && isHelp(args[0]) {
		fmt.Fprint(stdout, dumpUsage)
		return exitOK
	}
	if command != "serve" && len(args) > 0 && isHelp(args[0]) {
		command = "help"
	}
	switch command {
	case "serve":
		return serve(args, environ, stdout, stderr)
	case "health":
		return health(args, environ, stdout, stderr)
	case "dump":
		return dump(args, stdout, stderr)
	case "version":
		fmt.Fprintln(stdout, versionLine())
		return exitOK
	case "completion":
		return completion(args, stdout, stderr)
	case "help":
		fmt.Fprint(stdout, usage)
		return exitOK
	}
	return fail(stderr, exitUsage, "no command %q; there are serve, health, dump, version, completion and help", command)
}

func isHelp(arg string) bool { return arg == "-h" || arg == "--help" || arg == "-help" }

// fail tells in one line what is wrong.
func fail(stderr io.Writer, code int, format string, args ...any) int {
	line := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ")
	fmt.Fprintln(stderr, "kcoord: "+line)
	return code
}

func versionLine() string {
	line := "kcoord " + version
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				line += " (" + s.Value[:12] + ")"
			}
		}
	}
	return line + fmt.Sprintf(" %s %s/%s, protocol of Apache Kafka 4.4", runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
