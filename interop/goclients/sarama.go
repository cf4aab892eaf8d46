package goclients

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"github.com/kcoord/kcoord/interop/adapter"
)

// Sarama drives IBM/sarama.
type Sarama struct {
	addr      string
	admin     sarama.ClusterAdmin
	producer  sarama.SyncProducer
	consumers map[string]*saramaConsumer
}

func saramaConfig() *sarama.Config {
	c := sarama.NewConfig()
	c.Version = sarama.V3_6_0_0
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Producer.Idempotent = true
	c.Net.MaxOpenRequests = 1 // sarama's condition for the line above
	c.Producer.Return.Successes = true
	c.Producer.Retry.Max = 50
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Offsets.AutoCommit.Enable = false
	c.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	c.Metadata.Retry.Max = 50
	c.Consumer.Return.Errors = true
	return c
}

// NewSarama connects to the broker.
func NewSarama(addr string) (*Sarama, error) {
	admin, err := sarama.NewClusterAdmin([]string{addr}, saramaConfig())
	if err != nil {
		return nil, err
	}
	producer, err := sarama.NewSyncProducer([]string{addr}, saramaConfig())
	if err != nil {
		return nil, err
	}
	return &Sarama{addr: addr, admin: admin, producer: producer, consumers: map[string]*saramaConsumer{}}, nil
}

// CreateTopic implements adapter.Client.
func (s *Sarama) CreateTopic(topic string, partitions int) error {
	return s.admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: int32(partitions), ReplicationFactor: 1}, false)
}

// DeleteTopic implements adapter.Client.
func (s *Sarama) DeleteTopic(topic string) error { return s.admin.DeleteTopic(topic) }

// Produce implements adapter.Client.
func (s *Sarama) Produce(topic string, from, to int) error {
	var messages []*sarama.ProducerMessage
	for i := from; i < to; i++ {
		messages = append(messages, &sarama.ProducerMessage{Topic: topic,
			Key: sarama.StringEncoder(fmt.Sprintf("k%d", i)), Value: sarama.StringEncoder(fmt.Sprintf("v%d", i))})
	}
	return s.producer.SendMessages(messages)
}

// A saramaConsumer hands what its claims deliver to Poll.
type saramaConsumer struct {
	group   sarama.ConsumerGroup
	topic   string
	stop    context.CancelFunc
	running sync.WaitGroup
	records chan *sarama.ConsumerMessage
	mu      struct {
		sync.Mutex
		session  sarama.ConsumerGroupSession // nil between generations
		assigned []int32
		err      error
	}
}

// Join implements adapter.Client.
func (s *Sarama) Join(consumer, group, topic string) error {
	g, err := sarama.NewConsumerGroup([]string{s.addr}, group, saramaConfig())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &saramaConsumer{group: g, topic: topic, stop: cancel, records: make(chan *sarama.ConsumerMessage)}
	s.consumers[consumer] = c
	c.running.Go(func() {
		for ctx.Err() == nil {
			c.note(g.Consume(ctx, []string{topic}, c))
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	c.running.Go(func() {
		for err := range g.Errors() {
			c.note(err)
		}
	})
	return nil
}

func (c *saramaConsumer) note(err error) {
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.mu.err = err
	}
}

// Setup implements sarama.ConsumerGroupHandler.
func (c *saramaConsumer) Setup(session sarama.ConsumerGroupSession) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.session, c.mu.assigned = session, session.Claims()[c.topic]
	return nil
}

// Cleanup implements sarama.ConsumerGroupHandler.
func (c *saramaConsumer) Cleanup(sarama.ConsumerGroupSession) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.session, c.mu.assigned = nil, nil
	return nil
}

// ConsumeClaim implements sarama.ConsumerGroupHandler.
func (c *saramaConsumer) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case m, ok := <-claim.Messages():
			if !ok {
				return nil
			}
			select {
			case c.records <- m:
				session.MarkMessage(m, "")
			case <-session.Context().Done():
				return nil
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

// Poll implements adapter.Client.
func (s *Sarama) Poll(consumer string, millis int) ([]adapter.Record, []int32, error) {
	c := s.consumers[consumer]
	var records []adapter.Record
	timeout := time.After(time.Duration(millis) * time.Millisecond)
	for {
		select {
		case m := <-c.records:
			records = append(records, adapter.Record{Partition: m.Partition, Offset: m.Offset, Value: string(m.Value)})
			continue
		case <-timeout:
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		err := c.mu.err
		c.mu.err = nil
		if err != nil && len(records) == 0 {
			return nil, nil, err
		}
		return records, slices.Clone(c.mu.assigned), nil
	}
}

// Commit implements adapter.Client. Sarama reports a failed commit as an error
// of the consumer and not here; the scenario looks at the committed offsets.
func (s *Sarama) Commit(consumer string) error {
	c := s.consumers[consumer]
	c.mu.Lock()
	session := c.mu.session
	c.mu.Unlock()
	if session == nil {
		return errors.New("between two generations")
	}
	session.Commit()
	return nil
}

// Leave implements adapter.Client.
func (s *Sarama) Leave(consumer string) error {
	c := s.consumers[consumer]
	delete(s.consumers, consumer)
	c.stop()
	err := c.group.Close()
	c.running.Wait()
	return err
}

// ListGroups implements adapter.Client.
func (s *Sarama) ListGroups() ([]string, error) {
	groups, err := s.admin.ListConsumerGroups()
	return slices.Collect(maps.Keys(groups)), err
}

// DescribeGroup implements adapter.Client.
func (s *Sarama) DescribeGroup(group string) (state string, members int, err error) {
	described, err := s.admin.DescribeConsumerGroups([]string{group})
	if err != nil {
		return "", 0, err
	}
	if d := described[0]; d.Err != sarama.ErrNoError {
		return "", 0, d.Err
	}
	return described[0].State, len(described[0].Members), nil
}

// Offsets implements adapter.Client.
func (s *Sarama) Offsets(group, topic string) (map[int32]int64, error) {
	fetched, err := s.admin.ListConsumerGroupOffsets(group, nil)
	if err != nil {
		return nil, err
	}
	offsets := map[int32]int64{}
	for p, block := range fetched.Blocks[topic] {
		if block.Err != sarama.ErrNoError {
			return nil, block.Err
		}
		offsets[p] = block.Offset
	}
	return offsets, nil
}

// SetOffsets implements adapter.Client.
func (s *Sarama) SetOffsets(string, string, map[int32]int64) error { return adapter.ErrUnsupported }

// DeleteGroup implements adapter.Client.
func (s *Sarama) DeleteGroup(group string) error { return s.admin.DeleteConsumerGroup(group) }

// Close implements adapter.Client.
func (s *Sarama) Close() error {
	var all []error
	for name := range s.consumers {
		all = append(all, s.Leave(name))
	}
	return errors.Join(append(all, s.producer.Close(), s.admin.Close())...)
}
