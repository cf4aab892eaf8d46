package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestSeveralListeners: who comes in by a listener is told that listener's address,
// whatever the others have; and a topic made by --topics has its property.
func TestSeveralListeners(t *testing.T) {
	at := start(t, t.TempDir(), []string{
		"KAFKA_LISTENERS=HOST://127.0.0.1:0,INSIDE://127.0.0.1:0,PLAIN://127.0.0.1:0,CONTROLLER://:9093",
		"KAFKA_ADVERTISED_LISTENERS=HOST://localhost:9092,INSIDE://kafka:19092",
		"KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=HOST:PLAINTEXT,INSIDE:PLAINTEXT,PLAIN:PLAINTEXT,CONTROLLER:PLAINTEXT",
	}, "--data-dir", "memory:", "--topics", "events:3:cleanup.policy=compact:retention.ms=1000").ready(t)
	if _, ok := at["CONTROLLER"]; ok {
		t.Error("a listener of the controller is open")
	}
	for name, want := range map[string]string{"HOST": "localhost:9092", "INSIDE": "kafka:19092", "PLAIN": at["PLAIN"]} {
		c, err := dial([]string{at[name]}, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer c.close()
		resp, err := c.ask(kmsg.NewPtrMetadataRequest())
		if err != nil {
			t.Fatal(err)
		}
		told := resp.(*kmsg.MetadataResponse).Brokers[0]
		if got := fmt.Sprintf("%s:%d", told.Host, told.Port); got != want {
			t.Errorf("%s: clients are told %s, want %s", name, got, want)
		}
		describe := kmsg.NewPtrDescribeConfigsRequest()
		resource := kmsg.NewDescribeConfigsRequestResource()
		resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, "events"
		resource.ConfigNames = []string{"cleanup.policy", "retention.ms"}
		describe.Resources = append(describe.Resources, resource)
		if resp, err = c.ask(describe); err != nil {
			t.Fatal(err)
		}
		configs := map[string]string{}
		for _, entry := range resp.(*kmsg.DescribeConfigsResponse).Resources[0].Configs {
			configs[entry.Name] = *entry.Value
		}
		if configs["cleanup.policy"] != "compact" || configs["retention.ms"] != "1000" {
			t.Errorf("the topic of --topics has %v", configs)
		}
	}
}
