package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestFetchVersions(t *testing.T) {
	_, tr := startTest(t, Options{})
	c := tr.open(0)
	id := createTopic(t, c, "a", 1)
	mustPut(t, c, "a", 0, "x", "y")
	for version := int16(4); version <= 18; version++ {
		req := fetching(0, 0, position("a", 0, 0))
		req.IsolationLevel = int8(version % 2)
		req.Topics[0].TopicID = id
		resp := ask[*kmsg.FetchResponse](t, c, at(req, version))
		p := resp.Topics[0].Partitions[0]
		if p.ErrorCode != 0 || p.HighWatermark != 2 || p.LastStableOffset != 2 || p.PreferredReadReplica != -1 ||
			!slices.Equal(values(t, p.RecordBatches), []string{"x", "y"}) {
			t.Errorf("version %d: %+v", version, p)
		}
		if (p.AbortedTransactions == nil) != (req.IsolationLevel == 0) || len(p.AbortedTransactions) != 0 {
			t.Errorf("version %d: aborted transactions %v", version, p.AbortedTransactions)
		}
	}
}

func TestFetchErrors(t *testing.T) {
	_, tr := startTest(t, Options{})
	c := tr.open(0)
	createTopic(t, c, "a", 1)
	mustPut(t, c, "a", 0, "x", "y")
	for what, w := range map[string]struct {
		pos  fetchPosition
		edit func(p *kmsg.FetchRequestTopicPartition)
		code int16
		end  int64
	}{
		"unknown topic":     {pos: position("nosuch", 0, 0), code: 3, end: -1},
		"unknown partition": {pos: position("a", 1, 0), code: 3, end: -1},
		"beyond the end":    {pos: position("a", 0, 3), code: 1, end: -1},
		"below the start":   {pos: position("a", 0, -1), code: 1, end: -1},
		"newer epoch":       {pos: position("a", 0, 0), code: 75, end: -1, edit: func(p *kmsg.FetchRequestTopicPartition) { p.CurrentLeaderEpoch = 9 }},
		"at the end":        {pos: position("a", 0, 2), code: 0, end: 2},
		"same epoch":        {pos: position("a", 0, 2), code: 0, end: 2, edit: func(p *kmsg.FetchRequestTopicPartition) { p.CurrentLeaderEpoch, p.LastFetchedEpoch = 0, 0 }},
		"diverging":         {pos: position("a", 0, 7), code: 0, end: 2, edit: func(p *kmsg.FetchRequestTopicPartition) { p.LastFetchedEpoch = 0 }},
	} {
		req := fetching(time.Minute, 1, w.pos)
		if w.edit != nil {
			w.edit(&req.Topics[0].Partitions[0])
		}
		if what == "at the end" || what == "same epoch" {
			req.MaxWaitMillis = 0
		}
		p := ask[*kmsg.FetchResponse](t, c, at(req, 12)).Topics[0].Partitions[0]
		if p.ErrorCode != w.code || p.HighWatermark != w.end || len(p.RecordBatches) != 0 || p.RecordBatches == nil {
			t.Errorf("%s: error %d, high watermark %d, %d bytes; want %d, %d, none", what, p.ErrorCode, p.HighWatermark, len(p.RecordBatches), w.code, w.end)
		}
		if what == "diverging" && (p.DivergingEpoch.Epoch != 0 || p.DivergingEpoch.EndOffset != 2) {
			t.Errorf("diverging: %+v", p.DivergingEpoch)
		}
	}
	byID := fetching(time.Minute, 1, position("", 0, 0))
	byID.Topics[0].TopicID = [16]byte{1}
	if p := ask[*kmsg.FetchResponse](t, c, at(byID, 13)).Topics[0].Partitions[0]; p.ErrorCode != 100 {
		t.Errorf("unknown id: error %d", p.ErrorCode)
	}
}

// TestFetchLimits: the first batch whatever its size, then no more than was asked
// for (KIP-74).
func TestFetchLimits(t *testing.T) {
	_, tr := startTest(t, Options{})
	c := tr.open(0)
	createTopic(t, c, "a", 3)
	size := len(batchOf(strings.Repeat("x", 10_000)))
	for p := range int32(3) {
		for range 5 {
			mustPut(t, c, "a", p, strings.Repeat("x", 10_000))
		}
	}
	for _, w := range []struct {
		max, perPartition int32
		want              string
	}{
		{50 << 20, 1 << 20, "[5 5 5]"},
		{1, 1, "[1 0 0]"},
		{50 << 20, 1, "[1 0 0]"}, // the others' limit leaves no whole batch
		{int32(7 * size), 1 << 20, "[5 2 0]"},
		{int32(7*size - 1), 1 << 20, "[5 1 0]"},
		{50 << 20, int32(2 * size), "[2 2 2]"},
		{0, 0, "[1 0 0]"},
	} {
		req := fetching(0, 0, position("a", 0, 0), position("a", 1, 0), position("a", 2, 0))
		req.MaxBytes = w.max
		for i := range req.Topics {
			req.Topics[i].Partitions[0].PartitionMaxBytes = w.perPartition
		}
		var got []int
		for _, rt := range ask[*kmsg.FetchResponse](t, c, at(req, 11)).Topics {
			for _, p := range rt.Partitions {
				got = append(got, len(values(t, p.RecordBatches)))
			}
		}
		if fmt.Sprint(got) != w.want {
			t.Errorf("max bytes %d, per partition %d: %v batches, want %s", w.max, w.perPartition, got, w.want)
		}
	}
}

// TestFetchBudget: when the memory that answers share is used up they get
// shorter, down to one batch, and nobody waits for it.
func TestFetchBudget(t *testing.T) {
	b, tr := startTest(t, Options{})
	c := tr.open(0)
	createTopic(t, c, "a", 1)
	for range 40 {
		mustPut(t, c, "a", 0, strings.Repeat("x", 100_000))
	}
	req := fetching(0, 0, position("a", 0, 0))
	req.Topics[0].Partitions[0].PartitionMaxBytes = 50 << 20
	count := func() int {
		return len(values(t, ask[*kmsg.FetchResponse](t, c, at(req, 11)).Topics[0].Partitions[0].RecordBatches))
	}
	if n := count(); n != 40 {
		t.Errorf("%d batches, want all 40", n)
	}
	c.crowded = true
	if n := count(); n != 1 {
		t.Errorf("%d batches while memory for answers is short, want 1", n)
	}
	c.crowded = false
	taken := b.data.fetchBudget.take(1 << 40)
	if taken != fetchBudgetBytes {
		t.Errorf("%d bytes are left of the budget after an answer, want all %d", taken, fetchBudgetBytes)
	}
	if n := count(); n != freeFetchBytes/100_000 {
		t.Errorf("%d batches without budget, want %d", n, freeFetchBytes/100_000)
	}
	b.data.fetchBudget.give(taken)
}

func took(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

func TestFetchWaits(t *testing.T) {
	b, tr := startTest(t, Options{})
	c, d := tr.open(0), tr.open(0)
	createTopic(t, c, "a", 2)
	createTopic(t, c, "gone", 1)
	if dt := took(func() {
		ask[*kmsg.FetchResponse](t, c, at(fetching(80*time.Millisecond, 1, position("a", 0, 0)), 12))
	}); dt < 80*time.Millisecond || dt > 5*time.Second {
		t.Errorf("max_wait of 80 ms: answered after %v", dt)
	}
	// An append wakes it, and the one behind it on the same connection follows.
	req := at(fetching(time.Minute, 1, position("a", 0, 0), position("a", 1, 0)), 12)
	c.send(frame(req, 42))
	again := at(fetching(time.Minute, 1, position("a", 0, 0), position("a", 1, 1)), 12)
	c.send(frame(again, 42))
	mustPut(t, d, "a", 1, "woken")
	resp := answer[*kmsg.FetchResponse](t, c, req)
	if got := values(t, resp.Topics[0].Partitions[1].RecordBatches); !slices.Equal(got, []string{"woken"}) {
		t.Errorf("woken with %v", got)
	}
	mustPut(t, d, "a", 0, "once more")
	resp = answer[*kmsg.FetchResponse](t, c, again)
	if got := values(t, resp.Topics[0].Partitions[0].RecordBatches); !slices.Equal(got, []string{"once more"}) {
		t.Errorf("woken with %v", got)
	}
	// min_bytes: one batch is not enough, three are.
	size := int32(len(batchOf("123")))
	req = at(fetching(time.Minute, 3*size, position("a", 0, 1)), 12)
	c.send(frame(req, 42))
	for i := range 3 {
		if len(c.answers) != 0 {
			t.Fatalf("answered after %d batches of 3", i)
		}
		mustPut(t, d, "a", 0, "123")
	}
	if got := values(t, answer[*kmsg.FetchResponse](t, c, req).Topics[0].Partitions[0].RecordBatches); len(got) != 3 {
		t.Errorf("min_bytes of three batches: %d given", len(got))
	}
	// The deletion of what is waited for ends the wait.
	req = at(fetching(time.Minute, 1, position("gone", 0, 0)), 12)
	c.send(frame(req, 42))
	del := kmsg.NewPtrDeleteTopicsRequest()
	del.TopicNames = []string{"gone"}
	ask[*kmsg.DeleteTopicsResponse](t, d, at(del, 5))
	if p := answer[*kmsg.FetchResponse](t, c, req).Topics[0].Partitions[0]; p.ErrorCode != 3 {
		t.Errorf("after the deletion: error %d", p.ErrorCode)
	}
	if n := b.data.parked.count.Load(); n != 0 || len(b.data.parked.mu.waiting) != 0 {
		t.Errorf("%d fetches are still parked", n)
	}
}

// TestParkedFetchIsForgotten: a closed connection leaves nothing behind, and a
// stop answers who waits.
func TestParkedFetchIsForgotten(t *testing.T) {
	b, tr := newTest(t, Options{})
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, d := tr.open(0), tr.open(0)
	createTopic(t, c, "a", 1)
	req := at(fetching(time.Hour, 1, position("a", 0, 0)), 12)
	for range 10 {
		x := tr.open(0)
		x.send(frame(req, 42))
		if n := b.data.parked.count.Load(); n != 1 {
			t.Fatalf("%d parked, want 1", n)
		}
		b.OnClose(x, nil)
		if n := b.data.parked.count.Load(); n != 0 {
			t.Fatalf("%d parked after the connection was closed", n)
		}
	}
	d.send(frame(req, 42))
	stopped := make(chan error, 1)
	go func() { stopped <- b.Stop(t.Context()) }()
	if p := answer[*kmsg.FetchResponse](t, d, req).Topics[0].Partitions[0]; p.ErrorCode != 0 {
		t.Errorf("answered at the stop with error %d", p.ErrorCode)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// TestFetchSession goes through a session's life on the wire.
func TestFetchSession(t *testing.T) {
	_, tr := startTest(t, Options{})
	c, d := tr.open(0), tr.open(0)
	createTopic(t, c, "a", 3)
	mustPut(t, c, "a", 1, "x")
	session := func(id, epoch int32, wait time.Duration, positions ...fetchPosition) *kmsg.FetchRequest {
		req := fetching(wait, 1, positions...)
		req.SessionID, req.SessionEpoch = id, epoch
		return at(req, 12)
	}
	mentioned := func(r *kmsg.FetchResponse) string {
		s := fmt.Sprint(r.ErrorCode)
		for _, rt := range r.Topics {
			for _, p := range rt.Partitions {
				s += fmt.Sprintf(" %s-%d:%d/%d", rt.Topic, p.Partition, p.ErrorCode, len(values(t, p.RecordBatches)))
			}
		}
		return s
	}
	full := ask[*kmsg.FetchResponse](t, c, session(0, 0, 0, position("a", 0, 0), position("a", 1, 1), position("a", 2, 0)))
	id := full.SessionID
	if got := mentioned(full); id == 0 || got != "0 a-0:0/0 a-1:0/0 a-2:0/0" {
		t.Fatalf("full fetch: session %d, %s", id, got)
	}
	if got := mentioned(ask[*kmsg.FetchResponse](t, c, session(id, 1, 20*time.Millisecond))); got != "0" {
		t.Errorf("nothing new: %s", got)
	}
	req := session(id, 2, time.Minute)
	c.send(frame(req, 42))
	mustPut(t, d, "a", 2, "y")
	if got := mentioned(answer[*kmsg.FetchResponse](t, c, req)); got != "0 a-2:0/1" {
		t.Errorf("one append: %s", got)
	}
	if got := mentioned(ask[*kmsg.FetchResponse](t, c, session(id, 2, 0))); got != "71" {
		t.Errorf("an epoch twice: %s", got)
	}
	if got := mentioned(ask[*kmsg.FetchResponse](t, c, session(id, 3, 0, position("a", 1, 0), position("a", 2, 1), position("b", 0, 0)))); got != "0 a-1:0/1 b-0:3/0" {
		t.Errorf("moved, and an unknown one: %s", got)
	}
	final := ask[*kmsg.FetchResponse](t, c, session(id, -1, 0, position("a", 0, 0)))
	if got := mentioned(final); final.SessionID != 0 || got != "0 a-0:0/0" {
		t.Errorf("final fetch: session %d, %s", final.SessionID, got)
	}
	if got := mentioned(ask[*kmsg.FetchResponse](t, c, session(id, 4, 0))); got != "70" {
		t.Errorf("after the end: %s", got)
	}
}

func BenchmarkFetch(b *testing.B) {
	for _, size := range []int{100, 100_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			_, tr := startTest(b, Options{})
			c := tr.open(0)
			createTopic(b, c, "a", 1)
			mustPut(b, c, "a", 0, strings.Repeat("x", size))
			req := frame(at(fetching(0, 1, position("a", 0, 0)), fetchByName), 42)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				c.send(req)
				<-c.answers
			}
		})
	}
}

// BenchmarkFetchPark is a long poll: parked, woken by an append, answered.
func BenchmarkFetchPark(b *testing.B) {
	_, tr := startTest(b, Options{})
	c, d := tr.open(0), tr.open(0)
	createTopic(b, c, "a", 1)
	produce := frame(at(production(-1, "a", 0, batchOf("x")), produceByName), 42)
	b.ReportAllocs()
	for offset := int64(0); b.Loop(); offset++ {
		c.send(frame(at(fetching(time.Minute, 1, position("a", 0, offset)), fetchByName), 42))
		d.send(produce)
		<-d.answers
		<-c.answers
	}
}

// A partition that is named again counts once, and the last naming counts, as in
// Kafka; parked fetches with many partitions share a budget.
func TestFetchOfOnePartitionManyTimes(t *testing.T) {
	b, tr := startTest(t, Options{})
	tr.bulk = true
	c := tr.open(0)
	createTopic(t, c, "a", 2)
	mustPut(t, c, "a", 0, "x")
	for _, times := range []int{2, 3 * fewParts, 3 * firstParts} {
		positions := []fetchPosition{position("a", 0, 1), position("a", 1, 0)}
		for range times {
			positions = append(positions, position("a", 0, 0))
		}
		topics := ask[*kmsg.FetchResponse](t, c, at(fetching(0, 0, positions...), 12)).Topics
		n, first := 0, []string(nil)
		for i := range topics {
			n += len(topics[i].Partitions)
			if p := &topics[i].Partitions[0]; p.Partition == 0 {
				first = values(t, p.RecordBatches)
			}
		}
		if n != 2 || !slices.Equal(first, []string{"x"}) {
			t.Errorf("%d times: %d partitions, records %q", times, n, first)
		}
	}
	many := func(n int) []fetchPosition {
		positions := []fetchPosition{position("a", 0, 1)}
		for i := range n - 1 {
			positions = append(positions, position("a", int32(i+2), 0))
		}
		return positions
	}
	b.data.parked.budget.take(parkedBudgetBytes - 200*parkedPartitionBytes)
	wide := at(fetching(time.Hour, 1<<20, many(150)...), 12)
	first, second, small := tr.open(0), tr.open(0), tr.open(0)
	first.send(frame(wide, 42))
	if n := b.data.parked.count.Load(); n != 1 {
		t.Fatalf("%d fetches are parked, want 1", n)
	}
	ask[*kmsg.FetchResponse](t, second, wide) // at once
	narrow := at(fetching(time.Hour, 1<<20, many(freeParkedPartitions)...), 12)
	small.send(frame(narrow, 42))
	if n := b.data.parked.count.Load(); n != 2 {
		t.Errorf("%d fetches are parked, want 2", n)
	}
	// Who closes its side waits no longer.
	b.OnHalfClose(small)
	answer[*kmsg.FetchResponse](t, small, narrow)
	b.OnClose(first, nil)
	if left := b.data.parked.budget.take(parkedBudgetBytes); left != 200*parkedPartitionBytes {
		t.Errorf("%d bytes are left of the budget", left)
	}
}
