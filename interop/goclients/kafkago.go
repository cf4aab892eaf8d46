package goclients

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/kcoord/kcoord/interop/adapter"
)

// KafkaGo drives segmentio/kafka-go.
type KafkaGo struct {
	addr      string
	client    *kafka.Client
	writer    *kafka.Writer
	consumers map[string]*kafkaGoConsumer
}

type kafkaGoConsumer struct {
	*kafka.Reader
	group, id string
	polled    []kafka.Message
}

// NewKafkaGo makes a client of the broker.
func NewKafkaGo(addr string) (*KafkaGo, error) {
	return &KafkaGo{
		addr:   addr,
		client: &kafka.Client{Addr: kafka.TCP(addr), Timeout: requestTimeout},
		writer: &kafka.Writer{Addr: kafka.TCP(addr), RequiredAcks: kafka.RequireAll,
			BatchTimeout: 5 * time.Millisecond, MaxAttempts: 50, Balancer: &kafka.Hash{}},
		consumers: map[string]*kafkaGoConsumer{},
	}, nil
}

// CreateTopic implements adapter.Client.
func (k *KafkaGo) CreateTopic(topic string, partitions int) error {
	ctx, cancel := withTimeout()
	defer cancel()
	resp, err := k.client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{
		{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1}}})
	if err != nil {
		return err
	}
	return resp.Errors[topic]
}

// DeleteTopic implements adapter.Client.
func (k *KafkaGo) DeleteTopic(topic string) error {
	ctx, cancel := withTimeout()
	defer cancel()
	resp, err := k.client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	if err != nil {
		return err
	}
	return resp.Errors[topic]
}

// Produce implements adapter.Client.
func (k *KafkaGo) Produce(topic string, from, to int) error {
	ctx, cancel := withTimeout()
	defer cancel()
	var messages []kafka.Message
	for i := from; i < to; i++ {
		messages = append(messages, kafka.Message{Topic: topic, Key: fmt.Appendf(nil, "k%d", i), Value: fmt.Appendf(nil, "v%d", i)})
	}
	return k.writer.WriteMessages(ctx, messages...)
}

// Join implements adapter.Client. The consumer's client id is its name, since
// kafka-go does not tell what a reader has been assigned: Poll asks the broker.
func (k *KafkaGo) Join(consumer, group, topic string) error {
	k.consumers[consumer] = &kafkaGoConsumer{group: group, id: consumer, Reader: kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{k.addr}, GroupID: group, Topic: topic, StartOffset: kafka.FirstOffset,
		HeartbeatInterval: 500 * time.Millisecond, MaxWait: 200 * time.Millisecond, JoinGroupBackoff: 200 * time.Millisecond,
		Dialer: &kafka.Dialer{ClientID: consumer, Timeout: 10 * time.Second},
	})}
	return nil
}

// Poll implements adapter.Client.
func (k *KafkaGo) Poll(consumer string, millis int) ([]adapter.Record, []int32, error) {
	c := k.consumers[consumer]
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(millis)*time.Millisecond)
	defer cancel()
	var records []adapter.Record
	for {
		m, err := c.FetchMessage(ctx)
		if err != nil {
			if !errors.Is(err, context.DeadlineExceeded) {
				return records, nil, err
			}
			break
		}
		c.polled = append(c.polled, m)
		records = append(records, adapter.Record{Partition: int32(m.Partition), Offset: m.Offset, Value: string(m.Value)})
	}
	d, err := k.describe(c.group)
	if err != nil {
		return records, nil, err
	}
	var assigned []int32
	for _, m := range d.Members {
		if m.ClientID != c.id {
			continue
		}
		for _, t := range m.MemberAssignments.Topics {
			for _, p := range t.Partitions {
				assigned = append(assigned, int32(p))
			}
		}
	}
	return records, assigned, nil
}

// Commit implements adapter.Client.
func (k *KafkaGo) Commit(consumer string) error {
	c := k.consumers[consumer]
	ctx, cancel := withTimeout()
	defer cancel()
	polled := c.polled
	c.polled = nil
	return c.CommitMessages(ctx, polled...)
}

// Leave implements adapter.Client.
func (k *KafkaGo) Leave(consumer string) error {
	c := k.consumers[consumer]
	delete(k.consumers, consumer)
	return c.Close()
}

// ListGroups implements adapter.Client.
func (k *KafkaGo) ListGroups() ([]string, error) {
	ctx, cancel := withTimeout()
	defer cancel()
	resp, err := k.client.ListGroups(ctx, &kafka.ListGroupsRequest{})
	if err != nil {
		return nil, err
	}
	var groups []string
	for _, g := range resp.Groups {
		groups = append(groups, g.GroupID)
	}
	return groups, resp.Error
}

func (k *KafkaGo) describe(group string) (kafka.DescribeGroupsResponseGroup, error) {
	ctx, cancel := withTimeout()
	defer cancel()
	resp, err := k.client.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})
	if err != nil {
		return kafka.DescribeGroupsResponseGroup{}, err
	}
	return resp.Groups[0], resp.Groups[0].Error
}

// DescribeGroup implements adapter.Client.
func (k *KafkaGo) DescribeGroup(group string) (state string, members int, err error) {
	d, err := k.describe(group)
	return strings.TrimSpace(d.GroupState), len(d.Members), err
}

// Offsets implements adapter.Client.
func (k *KafkaGo) Offsets(group, topic string) (map[int32]int64, error) {
	ctx, cancel := withTimeout()
	defer cancel()
	resp, err := k.client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{topic: {0, 1, 2, 3}}})
	if err != nil {
		return nil, err
	}
	if resp.Error != nil {
		return nil, resp.Error
	}
	offsets := map[int32]int64{}
	for _, p := range resp.Topics[topic] {
		if p.Error != nil {
			return nil, p.Error
		}
		if p.CommittedOffset >= 0 {
			offsets[int32(p.Partition)] = p.CommittedOffset
		}
	}
	return offsets, nil
}

// SetOffsets implements adapter.Client.
func (k *KafkaGo) SetOffsets(group, topic string, offsets map[int32]int64) error {
	ctx, cancel := withTimeout()
	defer cancel()
	var commits []kafka.OffsetCommit
	for p, at := range offsets {
		commits = append(commits, kafka.OffsetCommit{Partition: int(p), Offset: at})
	}
	resp, err := k.client.OffsetCommit(ctx, &kafka.OffsetCommitRequest{GroupID: group, GenerationID: -1,
		Topics: map[string][]kafka.OffsetCommit{topic: commits}})
	if err != nil {
		return err
	}
	for _, p := range resp.Topics[topic] {
		if p.Error != nil {
			return p.Error
		}
	}
	return nil
}

// DeleteGroup implements adapter.Client.
func (k *KafkaGo) DeleteGroup(group string) error {
	ctx, cancel := withTimeout()
	defer cancel()
	resp, err := k.client.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{group}})
	if err != nil {
		return err
	}
	return resp.Errors[group]
}

// Close implements adapter.Client.
func (k *KafkaGo) Close() error {
	var all []error
	for name := range k.consumers {
		all = append(all, k.Leave(name))
	}
	return errors.Join(append(all, k.writer.Close())...)
}
