package broker

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ids draws session ids 1, 2, 3, ...
func ids() func() int32 {
	next := int32(0)
	return func() int32 { next++; return next }
}

func addSession(t *testing.T, c *fetchSessions, size int, now time.Duration, random func() int32) *fetchSession {
	t.Helper()
	s := newFetchSession(false)
	for i := range size {
		s.setLocked(fetchPosition{partitionKey: partitionKey{topic: "t", index: int32(i)}})
	}
	if !c.add(s, size, now, random) {
		return nil
	}
	return s
}

func TestFetchSessionCache(t *testing.T) {
	c, draw := newFetchSessions(2, time.Minute), ids()
	a := addSession(t, c, 3, 0, draw)
	b := addSession(t, c, 4, time.Second, draw)
	if a == nil || b == nil || a.id == b.id {
		t.Fatalf("sessions %v and %v", a, b)
	}
	if s := addSession(t, c, 1, 30*time.Second, draw); s != nil {
		t.Error("a session was evicted although all were in use")
	}
	if c.get(a.id, 40*time.Second) != a { // now b is the one unused longest
		t.Error("the first session is gone")
	}
	d := addSession(t, c, 5, 61*time.Second, draw)
	if d == nil || c.get(b.id, 61*time.Second) != nil || c.get(a.id, 61*time.Second) != a {
		t.Errorf("evicted the wrong one: new %v", d)
	}
	if sessions, partitions := c.count(); sessions != 2 || partitions != 8 {
		t.Errorf("%d sessions with %d partitions, want 2 with 8", sessions, partitions)
	}
	c.remove(d.id)
	c.remove(d.id)
	if sessions, partitions := c.count(); sessions != 1 || partitions != 3 {
		t.Errorf("%d sessions with %d partitions, want 1 with 3", sessions, partitions)
	}
}

func TestFetchSessionPartitionLimit(t *testing.T) {
	c, draw := newFetchSessions(10, time.Minute), ids()
	s := newFetchSession(false)
	if !c.add(s, maxSessionPartitions, 0, draw) {
		t.Fatal("at the limit there is no session")
	}
	if addSession(t, c, 1, 0, draw) != nil {
		t.Error("one past the limit there is a session")
	}
	if !c.resized(s, maxSessionPartitions) || c.resized(s, maxSessionPartitions+1) {
		t.Error("the limit holds for a session that grows, and not below")
	}
	if sessions, partitions := c.count(); sessions != 0 || partitions != 0 {
		t.Errorf("%d sessions with %d partitions are left", sessions, partitions)
	}
	if !c.resized(s, 1) {
		t.Error("a session that is gone has a size")
	}
}

// incremental makes a request of a session.
func incremental(id, epoch int32, positions ...fetchPosition) *kmsg.FetchRequest {
	r := kmsg.NewPtrFetchRequest()
	r.SessionID, r.SessionEpoch = id, epoch
	for _, pos := range positions {
		rt := kmsg.NewFetchRequestTopic()
		rt.Topic = pos.topic
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.FetchOffset = pos.index, pos.offset
		rt.Partitions = append(rt.Partitions, rp)
		r.Topics = append(r.Topics, rt)
	}
	return r
}

func order(f *fetch) (indexes []int32) {
	for i := range f.parts {
		indexes = append(indexes, f.parts[i].index)
	}
	return indexes
}

func TestFetchSessionSequence(t *testing.T) {
	c := newFetchSessions(2, time.Minute)
	s := addSession(t, c, 3, 0, ids())
	join := func(version int16, r *kmsg.FetchRequest) (*fetch, int16) {
		f := &fetch{version: version}
		return f, c.join(f, r, 0)
	}
	for _, wrong := range []struct {
		what      string
		version   int16
		id, epoch int32
		code      int16
	}{
		{"unknown id", 11, s.id + 1, 1, codeFetchSessionNotFound},
		{"no id", 11, 0, 1, codeFetchSessionNotFound},
		{"epoch too high", 11, s.id, 2, codeInvalidFetchSessionEpoch},
		{"by id", 13, s.id, 1, codeFetchSessionTopicID},
	} {
		if _, code := join(wrong.version, incremental(wrong.id, wrong.epoch)); code != wrong.code {
			t.Errorf("%s: error %d, want %d", wrong.what, code, wrong.code)
		}
	}
	f, code := join(11, incremental(s.id, 1))
	if code != 0 || !slices.Equal(order(f), []int32{0, 1, 2}) {
		t.Fatalf("error %d, partitions %v", code, order(f))
	}
	if _, code := join(11, incremental(s.id, 1)); code != codeInvalidFetchSessionEpoch {
		t.Errorf("the same epoch twice: error %d", code)
	}
	// A partition that gave records goes to the end; one is added, one moved, one
	// forgotten.
	f.parts[0].result = fetchResult{bytes: 10, highWatermark: 5}
	s.answeredLocked(f.parts[0].cached, &f.parts[0].result)
	r := incremental(s.id, 2, fetchPosition{partitionKey: partitionKey{topic: "t", index: 7}}, fetchPosition{partitionKey: partitionKey{topic: "t", index: 2}, offset: 9})
	r.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: "t", Partitions: []int32{1, 33}}}
	f, code = join(11, r)
	if code != 0 || !slices.Equal(order(f), []int32{2, 0, 7}) || f.parts[0].offset != 9 {
		t.Errorf("error %d, partitions %v, offset %d", code, order(f), f.parts[0].offset)
	}
	if _, partitions := c.count(); partitions != 3 {
		t.Errorf("%d partitions counted, want 3", partitions)
	}
}

func TestFetchSessionMentions(t *testing.T) {
	p := sessionPartition{highWatermark: 5, logStart: 1}
	for what, c := range map[string]struct {
		r    fetchResult
		want bool
	}{
		"nothing new": {fetchResult{highWatermark: 5, logStart: 1}, false},
		"records":     {fetchResult{highWatermark: 5, logStart: 1, bytes: 1}, true},
		"end":         {fetchResult{highWatermark: 6, logStart: 1}, true},
		"start":       {fetchResult{highWatermark: 5, logStart: 2}, true},
		"error":       {fetchResult{highWatermark: 5, logStart: 1, code: 3}, true},
		"diverging":   {fetchResult{highWatermark: 5, logStart: 1, diverging: true}, true},
	} {
		if got := p.changed(&c.r); got != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
	s := newFetchSession(false)
	at := s.setLocked(fetchPosition{})
	s.answeredLocked(at, &fetchResult{code: 1, highWatermark: 5, logStart: 1})
	if !at.changed(&fetchResult{highWatermark: 5, logStart: 1}) {
		t.Error("after an error the partition is not mentioned again")
	}
}

func TestNextEpoch(t *testing.T) {
	for epoch, want := range map[int32]int32{1: 2, math.MaxInt32: 1} {
		if got := nextEpoch(epoch); got != want {
			t.Errorf("after %d comes %d, want %d", epoch, got, want)
		}
	}
}
