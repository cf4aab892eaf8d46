package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// cubPause is the time between two attempts of cub.
const cubPause = 200 * time.Millisecond

// cubTool is cub, the small program of cp-kafka images that start scripts and
// health checks wait with:
//
//	cub kafka-ready -b HOST:PORT[,...] BROKERS SECONDS
//	cub zk-ready HOST:PORT SECONDS      there is no ZooKeeper to wait for
//
// Flags may stand anywhere.
func cubTool(args []string, _, stderr io.Writer) int {
	bad := func(format string, args ...any) int {
		fmt.Fprintf(stderr, "cub: "+format+"\n", args...)
		return 2
	}
	var words []string
	bootstrap := ""
	for i := 0; i < len(args); i++ {
		switch {
		case slices.Contains([]string{"-b", "--bootstrap_broker_list"}, args[i]) && i+1 < len(args):
			i++
			bootstrap = args[i]
		case slices.Contains([]string{"-c", "--config", "-s", "--security"}, args[i]) && i+1 < len(args):
			i++ // of a client; there is nothing to configure yet
		case strings.HasPrefix(args[i], "-"):
			return bad("%s is not known; kafka-ready takes -b HOST:PORT", args[i])
		default:
			words = append(words, args[i])
		}
	}
	switch {
	case len(words) > 0 && words[0] == "zk-ready":
		return 0
	case len(words) != 3 || words[0] != "kafka-ready" || bootstrap == "":
		return bad("kafka-ready -b HOST:PORT BROKERS SECONDS expected")
	}
	brokers, err := strconv.Atoi(words[1])
	if err != nil || brokers > 1 {
		return bad("%s brokers; there is one", words[1])
	}
	seconds, err := strconv.ParseFloat(words[2], 64)
	if err != nil {
		return bad("%s is no number of seconds", words[2])
	}
	deadline := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	for {
		if err = askAny(strings.Split(bootstrap, ",")); err == nil {
			return 0
		}
		if time.Now().After(deadline) {
			fmt.Fprintf(stderr, "cub: not ready within %s s: %v\n", words[2], err)
			return 1
		}
		time.Sleep(cubPause)
	}
}

// askAny asks the brokers at addresses whether one serves every group.
func askAny(addresses []string) error {
	var err error
	for _, address := range addresses {
		if i := strings.Index(address, "://"); i >= 0 { // PLAINTEXT://host:port
			address = address[i+len("://"):]
		}
		if err = askHealth(address); err == nil {
			return nil
		}
	}
	return err
}
