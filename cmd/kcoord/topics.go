package main

import (
	"fmt"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A topicSpec is a topic to create at the start.
type topicSpec struct {
	name       string
	partitions int32 // -1: num.partitions
	configs    map[string]string
}

var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// maxPartitions bounds what a typing error can ask for.
const maxPartitions = 10_000

// topicForm is how --topics is written.
const topicForm = "NAME[:PARTITIONS[:PROPERTY=VALUE...]], with commas between several"

// parseTopics reads --topics and KAFKA_CREATE_TOPICS.
func (p *plan) parseTopics() ([]topicSpec, error) {
	var topics []topicSpec
	for _, word := range strings.Split(p.flag("topics"), ",") {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		spec, err := parseTopic(word)
		if err == nil {
			_, err = p.config.Topic(spec.configs)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", p.flags["topics"].origin, word, err)
		}
		topics = append(topics, spec)
	}
	for _, word := range strings.Split(p.config.Topics, ",") {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		spec, err := parseCreateTopic(word)
		if err == nil {
			_, err = p.config.Topic(spec.configs)
		}
		if err != nil {
			return nil, fmt.Errorf("KAFKA_CREATE_TOPICS: %s: %w", word, err)
		}
		topics = append(topics, spec)
	}
	return topics, nil
}

// parseTopic reads one topic of --topics.
func parseTopic(word string) (topicSpec, error) {
	parts := strings.Split(word, ":")
	spec := topicSpec{name: parts[0], partitions: -1, configs: map[string]string{}}
	if !topicName.MatchString(spec.name) || spec.name == "." || spec.name == ".." {
		return spec, fmt.Errorf("%q is no topic name; must be %s", spec.name, topicForm)
	}
	if len(parts) > 1 && parts[1] != "" {
		n, err := partitions(parts[1])
		if err != nil {
			return spec, err
		}
		spec.partitions = n
	}
	for _, assignment := range parts[min(2, len(parts)):] {
		name, value, ok := strings.Cut(assignment, "=")
		if !ok {
			return spec, fmt.Errorf("%q is no PROPERTY=VALUE; must be %s", assignment, topicForm)
		}
		spec.configs[name] = value
	}
	return spec, nil
}

// parseCreateTopic reads one topic of KAFKA_CREATE_TOPICS:
// name:partitions:replicas[:cleanup.policy]. There is one replica, whatever is asked.
func parseCreateTopic(word string) (topicSpec, error) {
	parts := strings.Split(word, ":")
	spec, err := parseTopic(parts[0])
	if err != nil {
		return spec, err
	}
	if len(parts) > 1 {
		if spec.partitions, err = partitions(parts[1]); err != nil {
			return spec, err
		}
	}
	if len(parts) > 3 {
		spec.configs["cleanup.policy"] = parts[3]
	}
	return spec, nil
}

func partitions(text string) (int32, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 || n > maxPartitions {
		return 0, fmt.Errorf("%q partitions; must be a number from 1 to %d", text, maxPartitions)
	}
	return int32(n), nil
}

// createTopics creates the topics that do not exist.
func createTopics(address string, topics []topicSpec) error {
	c, err := dial([]string{address}, toolTimeout)
	if err != nil {
		return err
	}
	defer c.close()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = int32(toolTimeout.Milliseconds())
	for _, spec := range topics {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = spec.name, spec.partitions, -1
		for name, value := range spec.configs {
			config := kmsg.NewCreateTopicsRequestTopicConfig()
			config.Name, config.Value = name, kmsg.StringPtr(value)
			topic.Configs = append(topic.Configs, config)
		}
		sort.Slice(topic.Configs, func(i, j int) bool { return topic.Configs[i].Name < topic.Configs[j].Name })
		req.Topics = append(req.Topics, topic)
	}
	resp, err := c.ask(req)
	if err != nil {
		return err
	}
	const topicAlreadyExists = 36
	for _, topic := range resp.(*kmsg.CreateTopicsResponse).Topics {
		if topic.ErrorCode != 0 && topic.ErrorCode != topicAlreadyExists {
			return topicError("creating", topic.Topic, topic.ErrorCode, topic.ErrorMessage)
		}
	}
	return nil
}
