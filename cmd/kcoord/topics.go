package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kcoord/kcoord/broker"
)

var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// maxPartitions bounds what a typing error can ask for.
const maxPartitions = 10_000

// topicForm is how --topics is written.
const topicForm = "NAME[:PARTITIONS[:PROPERTY=VALUE...]], with commas between several"

// parseTopics reads --topics and KAFKA_CREATE_TOPICS.
func (p *plan) parseTopics() ([]broker.Topic, error) {
	var topics []broker.Topic
	for _, word := range strings.Split(p.flag("topics"), ",") {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		spec, err := parseTopic(word)
		if err == nil {
			_, err = p.config.Topic(spec.Configs)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", p.flags["topics"].origin, word, err)
		}
		if slices.ContainsFunc(topics, func(other broker.Topic) bool { return other.Name == spec.Name }) {
			return nil, fmt.Errorf("%s: %s: %s stands there twice", p.flags["topics"].origin, word, spec.Name)
		}
		topics = append(topics, spec)
	}
	for _, word := range strings.Split(p.config.Topics, ",") {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		spec, err := parseCreateTopic(word)
		if err == nil {
			_, err = p.config.Topic(spec.Configs)
		}
		if err != nil {
			return nil, fmt.Errorf("KAFKA_CREATE_TOPICS: %s: %w", word, err)
		}
		topics = append(topics, spec)
	}
	return topics, nil
}

// parseTopic reads one topic of --topics.
func parseTopic(word string) (broker.Topic, error) {
	parts := strings.Split(word, ":")
	spec := broker.Topic{Name: parts[0], Configs: map[string]string{}}
	if !topicName.MatchString(spec.Name) || spec.Name == "." || spec.Name == ".." {
		return spec, fmt.Errorf("%q is no topic name; must be %s", spec.Name, topicForm)
	}
	if len(parts) > 1 && parts[1] != "" {
		n, err := partitions(parts[1])
		if err != nil {
			return spec, err
		}
		spec.Partitions = n
	}
	for _, assignment := range parts[min(2, len(parts)):] {
		name, value, ok := strings.Cut(assignment, "=")
		if !ok {
			return spec, fmt.Errorf("%q is no PROPERTY=VALUE; must be %s", assignment, topicForm)
		}
		spec.Configs[name] = value
	}
	return spec, nil
}

// parseCreateTopic reads one topic of KAFKA_CREATE_TOPICS:
// name:partitions:replicas[:cleanup.policy]. There is one replica, whatever is asked.
func parseCreateTopic(word string) (broker.Topic, error) {
	parts := strings.Split(word, ":")
	spec, err := parseTopic(parts[0])
	if err != nil {
		return spec, err
	}
	if len(parts) > 1 {
		if spec.Partitions, err = partitions(parts[1]); err != nil {
			return spec, err
		}
	}
	if len(parts) > 3 {
		spec.Configs["cleanup.policy"] = parts[3]
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
