package main

import (
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"
)

// A tool is a program that kcoord is when it is called by that name. Container
// tooling and compose files call a few of Kafka's scripts inside the container,
// mostly to see whether the broker is up; these answer to what such callers use.
type tool func(args []string, stdout, stderr io.Writer) int

// toolFor finds the tool for the name that the process was started by:
// kafka-topics.sh and kafka-topics are the same.
func toolFor(argv0 string) (tool, bool) {
	name := strings.TrimSuffix(filepath.Base(argv0), ".sh")
	tools := map[string]tool{
		"kafka-topics":              topicsTool,
		"kafka-broker-api-versions": apiVersionsTool,
		"kafka-cluster":             clusterTool,
		"kafka-consumer-groups":     groupsTool,
		"kafka-storage":             storageTool,
		"cub":                       cubTool,
		"nc":                        ncTool,
		"kafka-run-class":           unsupportedTool(name),
		"kafka-configs":             unsupportedTool(name),
		"kafka-console-producer":    producerTool,
		"kafka-console-consumer":    consumerTool,
	}
	t, ok := tools[name]
	return t, ok
}

// toolTimeout bounds each connection attempt and each answer.
const toolTimeout = 10 * time.Second

// toolFlags are the flags that the tools share. Kafka's scripts write them with
// two dashes, which package flag takes as well.
type toolFlags struct {
	*flag.FlagSet
	bootstrap string
}

func newToolFlags(name string) *toolFlags {
	f := &toolFlags{FlagSet: flag.NewFlagSet(name, flag.ContinueOnError)}
	f.SetOutput(io.Discard)
	f.StringVar(&f.bootstrap, "bootstrap-server", "", "host:port[,host:port...] of the broker")
	f.StringVar(&f.bootstrap, "bootstrap-servers", "", "the same")
	f.String("command-config", "", "accepted and not read: there is nothing to configure yet")
	return f
}

// connect parses args and connects; a non-nil code ends the tool.
func (f *toolFlags) connect(args []string, stderr io.Writer) (*client, *int) {
	two, one := 2, 1
	if err := f.Parse(args); err != nil {
		fmt.Fprintf(stderr, "%s: %s; Kafka's own %s works against this broker\n", f.Name(), strings.ReplaceAll(err.Error(), ": -", ": --"), f.Name())
		return nil, &two
	}
	if f.bootstrap == "" {
		fmt.Fprintf(stderr, "%s: --bootstrap-server HOST:PORT is missing\n", f.Name())
		return nil, &two
	}
	c, err := dial(strings.Split(f.bootstrap, ","), toolTimeout)
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", f.Name(), err)
		return nil, &one
	}
	return c, nil
}

func unsupportedTool(name string) tool {
	return func(_ []string, _, stderr io.Writer) int {
		fmt.Fprintf(stderr, "%s: this image has no Java; run Kafka's own %s from another container against this broker\n", name, name)
		return 1
	}
}
