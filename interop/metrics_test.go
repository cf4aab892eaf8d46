package interop

import (
	"context"
	"net/http"
	"os"
	"regexp"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestMetricsPage: Prometheus' own linter (promtool check metrics) finds nothing on
// the metrics page, after a consumer group has filled it.
func TestMetricsPage(t *testing.T) {
	if os.Getenv("INTEROP_BROKER") == "kafka" {
		return // it has no such page
	}
	b := startBroker(t)
	if err := useGroup(b.Addr); err != nil {
		t.Fatal(err)
	}
	address := regexp.MustCompile(`http=(\S+)`).FindStringSubmatch(b.Output())
	if address == nil {
		t.Fatal("the ready line has no address of the HTTP side")
	}
	resp, err := http.Get("http://" + address[1] + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	problems, err := promlint.New(resp.Body).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// useGroup produces a record and reads it in a group, so that the series of topics
// and groups are there.
func useGroup(addr string) error {
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.AllowAutoTopicCreation(), kgo.ConsumerGroup("watched"), kgo.ConsumeTopics("watched"))
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: "watched", Value: []byte("x")}).FirstErr(); err != nil {
		return err
	}
	if err := client.PollFetches(ctx).Err(); err != nil {
		return err
	}
	return client.CommitUncommittedOffsets(ctx)
}
