// Package goclients has the clients that are written in Go.
package goclients

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kcoord/kcoord/interop/adapter"
)

// requestTimeout bounds every call that is not a poll.
const requestTimeout = 60 * time.Second

// Franz drives franz-go.
type Franz struct {
	addr      string
	client    *kgo.Client
	admin     *kadm.Client
	consumers map[string]*franzConsumer
}

type franzConsumer struct {
	client *kgo.Client
	mu     struct {
		sync.Mutex
		assigned map[int32]bool
	}
}

// NewFranz connects to the broker.
func NewFranz(addr string) (*Franz, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return nil, err
	}
	return &Franz{addr: addr, client: client, admin: kadm.NewClient(client), consumers: map[string]*franzConsumer{}}, nil
}

func withTimeout() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), requestTimeout)
}

// CreateTopic implements adapter.Client.
func (f *Franz) CreateTopic(topic string, partitions int) error {
	ctx, cancel := withTimeout()
	defer cancel()
	_, err := f.admin.CreateTopic(ctx, int32(partitions), 1, nil, topic)
	return err
}

// DeleteTopic implements adapter.Client.
func (f *Franz) DeleteTopic(topic string) error {
	ctx, cancel := withTimeout()
	defer cancel()
	_, err := f.admin.DeleteTopic(ctx, topic)
	return err
}

// Produce implements adapter.Client.
func (f *Franz) Produce(topic string, from, to int) error {
	ctx, cancel := withTimeout()
	defer cancel()
	var records []*kgo.Record
	for i := from; i < to; i++ {
		records = append(records, &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "k%d", i), Value: fmt.Appendf(nil, "v%d", i)})
	}
	return f.client.ProduceSync(ctx, records...).FirstErr()
}

// Join implements adapter.Client.
func (f *Franz) Join(consumer, group, topic string) error {
	c := &franzConsumer{}
	c.mu.assigned = map[int32]bool{}
	change := func(owned bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, p := range partitions[topic] {
				if owned {
					c.mu.assigned[p] = true
				} else {
					delete(c.mu.assigned, p)
				}
			}
		}
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(f.addr), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.HeartbeatInterval(500*time.Millisecond),
		kgo.OnPartitionsAssigned(change(true)), kgo.OnPartitionsRevoked(change(false)), kgo.OnPartitionsLost(change(false)))
	if err != nil {
		return err
	}
	c.client = client
	f.consumers[consumer] = c
	return nil
}

// Poll implements adapter.Client.
func (f *Franz) Poll(consumer string, millis int) ([]adapter.Record, []int32, error) {
	c := f.consumers[consumer]
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(millis)*time.Millisecond)
	defer cancel()
	fetches := c.client.PollFetches(ctx)
	for _, e := range fetches.Errors() {
		if !errors.Is(e.Err, context.DeadlineExceeded) {
			return nil, nil, fmt.Errorf("partition %d: %w", e.Partition, e.Err)
		}
	}
	var records []adapter.Record
	fetches.EachRecord(func(r *kgo.Record) {
		records = append(records, adapter.Record{Partition: r.Partition, Offset: r.Offset, Value: string(r.Value)})
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	return records, slices.Collect(maps.Keys(c.mu.assigned)), nil
}

// Commit implements adapter.Client.
func (f *Franz) Commit(consumer string) error {
	ctx, cancel := withTimeout()
	defer cancel()
	return f.consumers[consumer].client.CommitUncommittedOffsets(ctx)
}

// Leave implements adapter.Client.
func (f *Franz) Leave(consumer string) error {
	f.consumers[consumer].client.Close()
	delete(f.consumers, consumer)
	return nil
}

// ListGroups implements adapter.Client.
func (f *Franz) ListGroups() ([]string, error) {
	ctx, cancel := withTimeout()
	defer cancel()
	listed, err := f.admin.ListGroups(ctx)
	return listed.Groups(), err
}

// DescribeGroup implements adapter.Client.
func (f *Franz) DescribeGroup(group string) (state string, members int, err error) {
	ctx, cancel := withTimeout()
	defer cancel()
	described, err := f.admin.DescribeGroups(ctx, group)
	if err != nil {
		return "", 0, err
	}
	d := described[group]
	return d.State, len(d.Members), d.Err
}

// Offsets implements adapter.Client.
func (f *Franz) Offsets(group, topic string) (map[int32]int64, error) {
	ctx, cancel := withTimeout()
	defer cancel()
	fetched, err := f.admin.FetchOffsets(ctx, group)
	if err != nil {
		return nil, err
	}
	offsets := map[int32]int64{}
	for _, o := range fetched.Sorted() {
		if o.Err != nil {
			return nil, o.Err
		}
		if o.Topic == topic {
			offsets[o.Partition] = o.At
		}
	}
	return offsets, nil
}

// SetOffsets implements adapter.Client.
func (f *Franz) SetOffsets(group, topic string, offsets map[int32]int64) error {
	ctx, cancel := withTimeout()
	defer cancel()
	var all kadm.Offsets
	for p, at := range offsets {
		all.AddOffset(topic, p, at, -1)
	}
	committed, err := f.admin.CommitOffsets(ctx, group, all)
	return errors.Join(err, committed.Error())
}

// DeleteGroup implements adapter.Client.
func (f *Franz) DeleteGroup(group string) error {
	ctx, cancel := withTimeout()
	defer cancel()
	_, err := f.admin.DeleteGroup(ctx, group)
	return err
}

// Close implements adapter.Client.
func (f *Franz) Close() error {
	for _, c := range f.consumers {
		c.client.CloseAllowingRebalance()
	}
	f.client.Close()
	return nil
}
