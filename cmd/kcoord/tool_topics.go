package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// errorCodeTopicExists is TOPIC_ALREADY_EXISTS.
const errorCodeTopicExists = 36

// repeated collects a flag that may stand several times.
type repeated []string

func (r *repeated) String() string     { return strings.Join(*r, ",") }
func (r *repeated) Set(v string) error { *r = append(*r, v); return nil }

// topicsTool is kafka-topics: --list, --create, --delete, --describe.
func topicsTool(args []string, stdout, stderr io.Writer) int {
	f := newToolFlags("kafka-topics")
	var (
		list        = f.Bool("list", false, "list topics")
		create      = f.Bool("create", false, "create a topic")
		remove      = f.Bool("delete", false, "delete a topic")
		describe    = f.Bool("describe", false, "describe topics")
		ifNotExists = f.Bool("if-not-exists", false, "with --create: an existing topic is no error")
		ifExists    = f.Bool("if-exists", false, "with --delete: a missing topic is no error")
		topic       = f.String("topic", "", "the topic's name")
		partitions  = f.Int("partitions", -1, "with --create: how many (default: the broker's)")
		replication = f.Int("replication-factor", -1, "with --create: replicas (default: the broker's)")
		configs     repeated
	)
	f.Bool("exclude-internal", false, "with --list: leave out internal topics")
	f.Var(&configs, "config", "with --create: name=value")
	c, code := f.connect(args, stderr)
	if code != nil {
		return *code
	}
	defer c.close()
	var err error
	switch {
	case *list:
		err = listTopics(c, stdout, "", false)
	case *describe:
		err = listTopics(c, stdout, *topic, true)
	case *create:
		err = createTopic(c, stdout, *topic, *partitions, *replication, configs, *ifNotExists)
	case *remove:
		err = deleteTopic(c, *topic, *ifExists)
	default:
		fmt.Fprintln(stderr, "kafka-topics: one of --list, --create, --delete, --describe is needed")
		return 2
	}
	if err != nil {
		fmt.Fprintf(stderr, "kafka-topics: %v\n", err)
		return 1
	}
	return 0
}

func listTopics(c *client, stdout io.Writer, only string, describe bool) error {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = nil // all
	resp, err := c.ask(req)
	if err != nil {
		return err
	}
	topics := resp.(*kmsg.MetadataResponse).Topics
	slices.SortFunc(topics, func(a, b kmsg.MetadataResponseTopic) int { return strings.Compare(*a.Topic, *b.Topic) })
	found := only == ""
	for _, t := range topics {
		if only != "" && *t.Topic != only {
			continue
		}
		found = true
		if !describe {
			fmt.Fprintln(stdout, *t.Topic)
			continue
		}
		fmt.Fprintf(stdout, "Topic: %s\tPartitionCount: %d\tReplicationFactor: 1\n", *t.Topic, len(t.Partitions))
		for _, p := range t.Partitions {
			fmt.Fprintf(stdout, "\tTopic: %s\tPartition: %d\tLeader: %d\tReplicas: %d\tIsr: %d\n", *t.Topic, p.Partition, p.Leader, p.Leader, p.Leader)
		}
	}
	if !found {
		return fmt.Errorf("topic %q does not exist", only)
	}
	return nil
}

func createTopic(c *client, stdout io.Writer, name string, partitions, replication int, configs []string, ifNotExists bool) error {
	if name == "" {
		return fmt.Errorf("--create needs --topic")
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = int32(toolTimeout.Milliseconds())
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, int32(partitions), int16(replication)
	for _, kv := range configs {
		k, v, ok := strings.Cut(kv, "=")
		if !ok {
			return fmt.Errorf("--config %s: name=value expected", kv)
		}
		cfg := kmsg.NewCreateTopicsRequestTopicConfig()
		cfg.Name, cfg.Value = k, &v
		t.Configs = append(t.Configs, cfg)
	}
	req.Topics = append(req.Topics, t)
	resp, err := c.ask(req)
	if err != nil {
		return err
	}
	for _, r := range resp.(*kmsg.CreateTopicsResponse).Topics {
		if r.ErrorCode == errorCodeTopicExists && ifNotExists {
			continue
		}
		if r.ErrorCode != 0 {
			return topicError("create", name, r.ErrorCode, r.ErrorMessage)
		}
		fmt.Fprintf(stdout, "Created topic %s.\n", name)
	}
	return nil
}

func deleteTopic(c *client, name string, ifExists bool) error {
	if name == "" {
		return fmt.Errorf("--delete needs --topic")
	}
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = int32(toolTimeout.Milliseconds())
	req.TopicNames = []string{name}
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.Topic = &name
	req.Topics = append(req.Topics, t)
	resp, err := c.ask(req)
	if err != nil {
		return err
	}
	const unknownTopic = 3
	for _, r := range resp.(*kmsg.DeleteTopicsResponse).Topics {
		if r.ErrorCode == unknownTopic && ifExists {
			continue
		}
		if r.ErrorCode != 0 {
			return topicError("delete", name, r.ErrorCode, r.ErrorMessage)
		}
	}
	return nil
}

func topicError(what, name string, code int16, message *string) error {
	if message != nil && *message != "" {
		return fmt.Errorf("%s %s: %s (error code %d)", what, name, *message, code)
	}
	return fmt.Errorf("%s %s: error code %d", what, name, code)
}
