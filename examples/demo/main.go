// Command demo produces orders to a topic, or consumes them in a group: two
// small programs that show a consumer group at work.
//
//	demo produce --brokers localhost:9092 --topic orders
//	demo consume --brokers localhost:9092 --topic orders --group billing
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 || (args[0] != "produce" && args[0] != "consume") {
		return errors.New("produce or consume expected")
	}
	f := flag.NewFlagSet("demo "+args[0], flag.ExitOnError)
	var (
		brokers = f.String("brokers", "localhost:9092", "host:port[,host:port...]")
		topic   = f.String("topic", "orders", "topic")
		group   = f.String("group", "billing", "consume: the consumer group")
		count   = f.Int("count", 0, "stop after so many records (0: never)")
		every   = f.Duration("every", time.Second, "produce: pause between records")
	)
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	opts := []kgo.Opt{kgo.SeedBrokers(strings.Split(*brokers, ",")...), kgo.ClientID("demo-" + args[0])}
	if args[0] == "produce" {
		return produce(ctx, opts, *topic, *count, *every)
	}
	return consume(ctx, opts, *topic, *group, *count)
}

func produce(ctx context.Context, opts []kgo.Opt, topic string, count int, every time.Duration) error {
	client, err := kgo.NewClient(append(opts, kgo.DefaultProduceTopic(topic), kgo.AllowAutoTopicCreation())...)
	if err != nil {
		return err
	}
	defer client.Close()
	for n := 0; count == 0 || n < count; n++ {
		record := &kgo.Record{
			Key:   fmt.Appendf(nil, "customer-%d", n%10),
			Value: fmt.Appendf(nil, `{"order":%d}`, n),
		}
		if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
			return err
		}
		fmt.Printf("produced order %d to %s-%d at offset %d\n", n, topic, record.Partition, record.Offset)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every):
		}
	}
	return nil
}

func consume(ctx context.Context, opts []kgo.Opt, topic, group string, count int) error {
	client, err := kgo.NewClient(append(opts, kgo.ConsumeTopics(topic), kgo.ConsumerGroup(group), kgo.DisableAutoCommit())...)
	if err != nil {
		return err
	}
	defer client.Close()
	for n := 0; count == 0 || n < count; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return err
		}
		fetches.EachError(func(t string, p int32, err error) {
			fmt.Fprintf(os.Stderr, "demo: %s-%d: %v\n", t, p, err)
		})
		fetches.EachRecord(func(r *kgo.Record) {
			n++
			fmt.Printf("consumed %s from %s-%d at offset %d\n", r.Value, r.Topic, r.Partition, r.Offset)
		})
		// Commit what was worked on; kcoord answers when the commit is on disk.
		if err := client.CommitUncommittedOffsets(ctx); err != nil {
			return err
		}
	}
	return nil
}
