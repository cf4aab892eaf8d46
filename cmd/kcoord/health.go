package main

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/internal/config"
)

// healthTimeout is below the timeout that the image gives its health check.
const healthTimeout = 2 * time.Second

// health asks a broker whether it serves every group and takes writes: a list of groups is an error
// while one is still being loaded. The address is the argument, else that of the
// first listener by the same flags and variables that serve reads.
func health(args, environ []string, stdout, stderr io.Writer) int {
	var address string
	switch len(args) {
	case 0:
		var err error
		if address, err = listenAddress(environ); err != nil {
			return fail(stderr, exitUsage, "%v", err)
		}
	case 1:
		address = args[0]
		if _, _, err := net.SplitHostPort(address); err != nil {
			return fail(stderr, exitUsage, "%s: must be HOST:PORT", address)
		}
	default:
		return fail(stderr, exitUsage, "health takes one address, HOST:PORT")
	}
	if err := askHealth(address); err != nil {
		return fail(stderr, exitFailed, "%v", err)
	}
	fmt.Fprintln(stdout, "ok")
	return exitOK
}

func askHealth(address string) error {
	c, err := dial([]string{address}, healthTimeout)
	if err != nil {
		return err
	}
	defer c.close()
	resp, err := c.ask(kmsg.NewPtrListGroupsRequest())
	if err != nil {
		return fmt.Errorf("%s: %w", address, err)
	}
	if code := resp.(*kmsg.ListGroupsResponse).ErrorCode; code != 0 {
		return fmt.Errorf("%s: groups are not served yet (error code %d)", address, code)
	}
	if err := askPartitions(c, address); err != nil {
		return err
	}
	return askSpace(c, address)
}

// askPartitions asks whether every partition of groups is served.
func askPartitions(c *client, address string) error {
	req := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = kmsg.StringPtr(groupsTopic)
	req.Topics = append(req.Topics, topic)
	resp, err := c.ask(req)
	if err != nil {
		return fmt.Errorf("%s: %w", address, err)
	}
	for _, t := range resp.(*kmsg.MetadataResponse).Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 {
				return fmt.Errorf("%s: groups of partition %d of %s are not served (error code %d)", address, p.Partition, groupsTopic, p.ErrorCode)
			}
		}
	}
	return nil
}

// askSpace asks whether writes are accepted.
func askSpace(c *client, address string) error {
	req := kmsg.NewPtrDescribeLogDirsRequest()
	req.Topics = []kmsg.DescribeLogDirsRequestTopic{} // the folder only
	resp, err := c.ask(req)
	if err != nil {
		return fmt.Errorf("%s: %w", address, err)
	}
	for _, dir := range resp.(*kmsg.DescribeLogDirsResponse).Dirs {
		if dir.ErrorCode != 0 {
			return fmt.Errorf("%s: writes to %s are refused, %d bytes are free (error code %d)", address, dir.Dir, dir.UsableBytes, dir.ErrorCode)
		}
	}
	return nil
}

// listenAddress is where a broker with this environment can be reached from the
// same host.
func listenAddress(environ []string) (string, error) {
	flags, err := parseFlags(nil, environ, io.Discard)
	if err != nil {
		return "", err
	}
	sources := config.Sources{Environ: withoutFlags(environ)}
	if value := flags["listeners"].get(); value != "" {
		sources.Flags = []config.Setting{{Name: "listeners", Value: value, Origin: flags["listeners"].origin}}
	}
	c, err := config.Load(sources)
	if err != nil {
		return "", err
	}
	l := c.Values().Listeners[0]
	host := l.Host
	if host == "" || host == "0.0.0.0" || host == "::" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, strconv.Itoa(l.Port)), nil
}
