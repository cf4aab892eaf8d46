package broker

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/log/vfs"
)

// flip overwrites one byte of a file.
func flip(t *testing.T, fs vfs.FS, name string, at int64) {
	t.Helper()
	f, err := fs.Open(name, vfs.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0xff
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

// Damage that a read meets in an ordinary topic is seen: one line of the log with the
// place and what is at stake, however often it is asked for, and a metric. The
// records before and behind it are served, writes go on, the broker is ready.
func TestDamagedTopicIsVisible(t *testing.T) {
	fs := vfs.NewMem()
	b, tr := newTest(t, Options{DataDir: "data", FS: fs})
	startBroker(t, b)
	c := tr.open(0)
	createTopic(t, c, "orders", 1)
	for _, v := range []string{"a", "b", "c"} {
		mustPut(t, c, "orders", 0, v)
	}
	if err := b.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	flip(t, fs, "data/orders-0/00000000000000000000.log", 2*int64(len(batchOf("a")))-1)

	out := &lines{}
	logger := zerolog.New(out)
	b, tr = newTest(t, Options{DataDir: "data", FS: fs, Logger: &logger})
	startBroker(t, b)
	server := httptest.NewServer(b.httpHandler())
	defer server.Close()
	c = tr.open(0)
	if p := get(t, c, "orders", 0, 0); p.ErrorCode != 0 || !slices.Equal(values(t, p.RecordBatches), []string{"a"}) {
		t.Errorf("before the damage: %+v", p)
	}
	for range 3 {
		if p := get(t, c, "orders", 0, 1); p.ErrorCode != codeStorageError || len(p.RecordBatches) != 0 {
			t.Errorf("the damage: %+v", p)
		}
	}
	if p := get(t, c, "orders", 0, 2); p.ErrorCode != 0 || !slices.Equal(values(t, p.RecordBatches), []string{"c"}) {
		t.Errorf("behind the damage: %+v", p)
	}
	mustPut(t, c, "orders", 0, "d")
	if n := out.await("is damaged", 1); n != 1 {
		t.Errorf("%d lines about the damage:\n%s", n, out)
	}
	for _, part := range []string{`"level":"error"`, `"topic":"orders"`, `"partition":0`, `"file":"data/orders-0/00000000000000000000.log"`, `"offset":1`, `"next_offset":2`} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("no %s in the log:\n%s", part, out)
		}
	}
	_, page := httpGet(t, server.URL+"/metrics")
	for _, series := range []string{"kcoord_partitions_damaged 1", "kcoord_partitions_refused 0", "kcoord_ready 1"} {
		if !strings.Contains(page, "\n"+series+"\n") {
			t.Errorf("no %s in the metrics", series)
		}
	}
	if status, body := httpGet(t, server.URL+"/readyz"); status != 200 {
		t.Errorf("readyz: %d %q", status, body)
	}

	// Once the damaged records are deleted nothing is at stake.
	if p := deleteRecords(t, c, "orders", 0, 2); p.ErrorCode != 0 || p.LowWatermark != 2 {
		t.Errorf("deleting: %+v", p)
	}
	if _, page := httpGet(t, server.URL+"/metrics"); !strings.Contains(page, "\nkcoord_partitions_damaged 0\n") {
		t.Error("kcoord_partitions_damaged is not 0")
	}
}

func deleteRecords(t *testing.T, c *testConn, topic string, partition int32, before int64) kmsg.DeleteRecordsResponseTopicPartition {
	t.Helper()
	req := kmsg.NewPtrDeleteRecordsRequest()
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewDeleteRecordsRequestTopicPartition()
	rp.Partition, rp.Offset = partition, before
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return ask[*kmsg.DeleteRecordsResponse](t, c, at(req, 2)).Topics[0].Partitions[0]
}
