package broker

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/coordinator"
	"github.com/kcoord/kcoord/log/vfs"
)

// A partition of groups that cannot be loaded is seen in readiness, metrics and
// Metadata, and when a client asks for one of its groups; the other groups are served.
func TestDamagedGroupsAreVisible(t *testing.T) {
	fs := vfs.NewMem()
	properties := map[string]string{"offsets.topic.num.partitions": "4"}
	stopWithOffset(t, Options{DataDir: "data", FS: fs, Properties: properties})

	out := &lines{}
	logger := zerolog.New(out)
	b, tr := newTest(t, Options{DataDir: "data", FS: fs, Properties: properties, Logger: &logger})
	b.core.replay = func(*coordinator.Shard, int64, []byte, []byte) error { return errors.New("damaged") }
	startBroker(t, b)
	server := httptest.NewServer(b.httpHandler())
	defer server.Close()
	damaged := coordinator.PartitionFor("g", 4)
	if status, body := httpGet(t, server.URL+"/readyz"); status != 503 || body != "groups of partition "+string('0'+rune(damaged))+" of __consumer_offsets are not served\n" {
		t.Errorf("readyz: %d %q", status, body)
	}
	if status, _ := httpGet(t, server.URL+"/healthz"); status != 200 {
		t.Errorf("healthz: %d", status)
	}
	if _, body := httpGet(t, server.URL+"/metrics"); !strings.Contains(body, "\nkcoord_ready 0\n") {
		t.Error("kcoord_ready is not 0")
	}
	c := tr.open(0)
	name := offsetsTopic
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
	for _, p := range ask[*kmsg.MetadataResponse](t, c, at(req, 9)).Topics[0].Partitions {
		if (p.ErrorCode != 0) != (p.Partition == damaged) {
			t.Errorf("partition %d: code %d", p.Partition, p.ErrorCode)
		}
	}
	for range 3 {
		if code := commitCode(t, c, commitRequest("g", "", -1, "t", 7, 0)); code != codeNotCoordinator {
			t.Errorf("commit: code %d", code)
		}
	}
	if n := out.await("a client asks for a group that is not served", 1); n != 1 || !strings.Contains(out.String(), `"group":"g"`) {
		t.Errorf("%d lines about the group:\n%s", n, out)
	}
}
