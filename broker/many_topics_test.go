package broker

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/internal/meta"
)

// TestManyTopicsInARequest: thousands of topics are created, enlarged and deleted
// by one request each, in time that grows with their number only.
func TestManyTopicsInARequest(t *testing.T) {
	const n, limit = 6000, 10 * time.Second
	_, tr := startTest(t, Options{})
	c := tr.open(0)
	create, grow, remove := creation(false), kmsg.NewPtrCreatePartitionsRequest(), kmsg.NewPtrDeleteTopicsRequest()
	for i := range n {
		name := fmt.Sprintf("a.%05d", i)
		create.Topics = append(create.Topics, newTopic(name, 1, 1))
		grow.Topics = append(grow.Topics, kmsg.CreatePartitionsRequestTopic{Topic: name, Count: 2})
		remove.TopicNames = append(remove.TopicNames, name)
	}
	began := time.Now()
	took := func(what string, answers int, bad int) {
		t.Helper()
		if since := time.Since(began); since > limit || answers != n || bad > 0 {
			t.Errorf("%s: %d answers, %d errors, after %v", what, answers, bad, since)
		}
		began = time.Now()
	}
	bad := 0
	created := ask[*kmsg.CreateTopicsResponse](t, c, at(create, 7)).Topics
	for i := range created {
		if created[i].ErrorCode != 0 {
			bad++
		}
	}
	took("creation", len(created), bad)
	alike := ask[*kmsg.CreateTopicsResponse](t, c, at(creation(false, newTopic("a_00007", 1, 1)), 7)).Topics[0]
	if alike.ErrorCode != 17 || *alike.ErrorMessage != "Topic 'a_00007' collides with existing topic: a.00007" {
		t.Errorf("a name alike: %+v", alike)
	}
	grown := ask[*kmsg.CreatePartitionsResponse](t, c, at(grow, 3)).Topics
	for i := range grown {
		if grown[i].ErrorCode != 0 {
			bad++
		}
	}
	took("enlargement", len(grown), bad)
	mustPut(t, c, "a.05999", 1, "x")
	deleted := ask[*kmsg.DeleteTopicsResponse](t, c, at(remove, 5)).Topics
	for i := range deleted {
		if deleted[i].ErrorCode != 0 {
			bad++
		}
	}
	took("deletion", len(deleted), bad)
	createTopic(t, c, "a_00007", 1)
}

// A start applies what the journal has one record after the other: what one costs must
// not grow with the topics that are there.
func TestMetadataOfAStart(t *testing.T) {
	b, _ := newTest(t, Options{})
	m := &metalog{b}
	n := 0
	apply := func(topics int) {
		for range topics {
			n++
			if err := m.Apply(meta.AppendTopic(nil, &meta.Topic{ID: [16]byte{1, byte(n), byte(n >> 8)}, Name: fmt.Sprintf("t%d", n), Partitions: 1})); err != nil {
				t.Fatal(err)
			}
		}
	}
	apply(5000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	apply(200)
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / 200; each > 20_000 {
		t.Errorf("a record takes %d bytes", each)
	}
}
