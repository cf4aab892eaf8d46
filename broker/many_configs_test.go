package broker

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestManyAlterations: thousands of resources, or of properties of one, are looked
// at in time that grows with their number only; and nobody's writes wait for a
// change that is being checked.
func TestManyAlterations(t *testing.T) {
	const limit = 5 * time.Second
	b, tr := startTest(t, Options{})
	c := tr.open(0)
	createTopic(t, c, "t", 1)
	resources := alterRequest(onTopic, "t", change{"retention.ms", opSet, "1000"})
	for i := range 50_000 {
		one := kmsg.NewIncrementalAlterConfigsRequestResource()
		one.ResourceType, one.ResourceName = onTopic, fmt.Sprintf("absent%05d", i)
		resources.Resources = append(resources.Resources, one)
	}
	properties := alterRequest(onBroker, fmt.Sprint(b.nodeID), change{"a", opSet, "1"})
	for i := range 5_000 {
		one := properties.Resources[0].Configs[0]
		one.Name = fmt.Sprintf("a%05d", i)
		properties.Resources[0].Configs = append(properties.Resources[0].Configs, one)
	}
	for i, req := range []*kmsg.IncrementalAlterConfigsRequest{resources, properties} {
		want := []int16{0, 42}[i] // there are no such properties
		began := time.Now()
		resp := ask[*kmsg.IncrementalAlterConfigsResponse](t, c, req)
		if since := time.Since(began); since > limit || len(resp.Resources) != len(req.Resources) || resp.Resources[0].ErrorCode != want {
			t.Errorf("%d answers, first error %d, after %v", len(resp.Resources), resp.Resources[0].ErrorCode, since)
		}
	}
	// A change of t is on its way to the disk while the next one is being checked.
	b.configs.serial.Lock()
	mustPut(t, c, "t", 0, "x")
	b.configs.serial.Unlock()
}
