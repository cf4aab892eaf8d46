package testcontainers

import (
	"cmp"
	"context"
	"os"
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/kafka"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestGroup starts the image, writes a record and reads it in a consumer group.
func TestGroup(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	container, err := kafka.Run(ctx, cmp.Or(os.Getenv("KCOORD_IMAGE"), "kcoord-compat:latest"))
	testcontainers.CleanupContainer(t, container)
	if err != nil {
		t.Fatal(err)
	}
	brokers, err := container.Brokers(ctx)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.AllowAutoTopicCreation(),
		kgo.ConsumerGroup("readers"), kgo.ConsumeTopics("greetings"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: "greetings", Value: []byte("hello")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	fetches := client.PollFetches(ctx)
	if err := fetches.Err(); err != nil {
		t.Fatal(err)
	}
	if got := string(fetches.Records()[0].Value); got != "hello" {
		t.Errorf("read %q", got)
	}
	if err := client.CommitUncommittedOffsets(ctx); err != nil {
		t.Error(err)
	}
}
