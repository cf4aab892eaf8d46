package main

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// apiVersionsTool is kafka-broker-api-versions.
func apiVersionsTool(args []string, stdout, stderr io.Writer) int {
	f := newToolFlags("kafka-broker-api-versions")
	c, code := f.connect(args, stderr)
	if code != nil {
		return *code
	}
	defer c.close()
	fmt.Fprintf(stdout, "%s -> (\n", c.conn.RemoteAddr())
	keys := make([]int16, 0, len(c.versions))
	for k := range c.versions {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		fmt.Fprintf(stdout, "\t%s(%d): up to %d\n", kmsg.NameForKey(k), k, c.versions[k])
	}
	fmt.Fprintln(stdout, ")")
	return 0
}

// clusterTool is kafka-cluster cluster-id.
func clusterTool(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 || args[0] != "cluster-id" {
		fmt.Fprintln(stderr, "kafka-cluster: only cluster-id is served")
		return 2
	}
	f := newToolFlags("kafka-cluster")
	c, code := f.connect(args[1:], stderr)
	if code != nil {
		return *code
	}
	defer c.close()
	resp, err := c.ask(kmsg.NewPtrMetadataRequest())
	if err != nil {
		fmt.Fprintf(stderr, "kafka-cluster: %v\n", err)
		return 1
	}
	if id := resp.(*kmsg.MetadataResponse).ClusterID; id != nil {
		fmt.Fprintf(stdout, "Cluster ID: %s\n", *id)
	}
	return 0
}

// groupsTool is kafka-consumer-groups --list.
func groupsTool(args []string, stdout, stderr io.Writer) int {
	f := newToolFlags("kafka-consumer-groups")
	list := f.Bool("list", false, "list groups")
	c, code := f.connect(args, stderr)
	if code != nil {
		return *code
	}
	defer c.close()
	if !*list {
		fmt.Fprintln(stderr, "kafka-consumer-groups: only --list is served here; Kafka's own tool works against this broker")
		return 2
	}
	resp, err := c.ask(kmsg.NewPtrListGroupsRequest())
	if err != nil {
		fmt.Fprintf(stderr, "kafka-consumer-groups: %v\n", err)
		return 1
	}
	answer := resp.(*kmsg.ListGroupsResponse)
	if answer.ErrorCode != 0 {
		fmt.Fprintf(stderr, "kafka-consumer-groups: error code %d\n", answer.ErrorCode)
		return 1
	}
	for _, g := range answer.Groups {
		fmt.Fprintln(stdout, g.Group)
	}
	return 0
}

// storageTool is kafka-storage: start scripts call random-uuid and format before
// the server; kcoord makes its folder by itself.
func storageTool(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprintln(stderr, "kafka-storage: random-uuid or format expected")
		return 2
	}
	switch args[0] {
	case "random-uuid":
		var id [16]byte
		for {
			rand.Read(id[:])
			// Kafka never hands out an id that begins with a dash: it would read as
			// an option.
			if s := base64.RawURLEncoding.EncodeToString(id[:]); !strings.HasPrefix(s, "-") {
				fmt.Fprintln(stdout, s)
				return 0
			}
		}
	case "format", "info":
		fmt.Fprintln(stdout, "kcoord formats its data folder when it starts")
		return 0
	}
	fmt.Fprintf(stderr, "kafka-storage: %s is not served\n", args[0])
	return 2
}
