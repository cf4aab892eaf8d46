package broker

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kcoord/kcoord/log"
	"github.com/kcoord/kcoord/netloop"
)

const (
	// freeParkedPartitions is how many partitions a fetch may have to be parked in any
	// case: a connection has one such fetch.
	freeParkedPartitions = 64
	// parkedPartitionBytes is about what a partition of a parked fetch takes.
	parkedPartitionBytes = 500
	// parkedBudgetBytes is what all parked fetches with more partitions may take.
	parkedBudgetBytes = 64 << 20
)

// A partitionID names a partition by the id of its topic.
type partitionID struct {
	topic log.TopicID
	index int32
}

// parkedFetches are the fetches that wait for records: who waits for which
// partition. An append wakes them; reading is done by the pool.
type parkedFetches struct {
	count atomic.Int32 // of waiters: nobody waits, nothing to look up
	// budget is the memory of fetches with more than freeParkedPartitions.
	budget byteBudget

	mu struct {
		sync.Mutex
		waiting map[partitionID]map[*parkedFetch]struct{}
		all     map[*parkedFetch]struct{}
		number  uint64 // of the last one parked
		stopped bool
	}
}

func newParkedFetches() *parkedFetches {
	w := &parkedFetches{}
	w.mu.waiting = map[partitionID]map[*parkedFetch]struct{}{}
	w.mu.all = map[*parkedFetch]struct{}{}
	w.budget.give(parkedBudgetBytes)
	return w
}

// A watchedPartition is a partition that a parked fetch waits for.
type watchedPartition struct {
	id        partitionID
	partition *log.Partition
	size      int64 // at the last read
}

// A parkedFetch is one fetch that waits.
type parkedFetch struct {
	b       *Broker
	number  uint64 // those who are woken together go in the order of their numbers
	fetch   *fetch // used by one goroutine at a time: who has set running
	alarm   alarm
	watched []watchedPartition
	// bytes could be read at the last read; negative: not read since it was parked.
	bytes int

	mu struct {
		sync.Mutex
		running bool // a worker has it or will have it
		again   bool // and has to look once more
		last    bool // no more waiting
		done    bool // answered or given up
	}
}

// reserve reports whether there is memory to park a fetch; remove gives it back.
func (w *parkedFetches) reserve(f *fetch) bool {
	if len(f.parts) <= freeParkedPartitions {
		return true
	}
	need := len(f.parts) * parkedPartitionBytes
	f.reserved = w.budget.take(need)
	if f.reserved < need {
		w.budget.give(f.reserved)
		f.reserved = 0
		return false
	}
	return true
}

// add parks a fetch until something can be given, its wait is over, or its
// connection closes.
func (w *parkedFetches) add(b *Broker, f *fetch) {
	p := &parkedFetch{b: b, fetch: f, bytes: -1}
	p.alarm.fire = p.end
	p.mu.running = true // until all is set up
	moved := false
	for i := range f.parts {
		if part := &f.parts[i]; part.partition != nil {
			p.watched = append(p.watched, watchedPartition{id: part.partitionID(), partition: part.partition})
		}
	}
	w.mu.Lock()
	w.mu.number++
	p.number = w.mu.number
	w.mu.all[p] = struct{}{}
	stopped := w.mu.stopped
	for i := range p.watched {
		id := p.watched[i].id
		set := w.mu.waiting[id]
		if set == nil {
			set = map[*parkedFetch]struct{}{}
			w.mu.waiting[id] = set
		}
		set[p] = struct{}{}
	}
	w.count.Add(1)
	w.mu.Unlock()

	f.session.onClose, f.session.onHalfClose = p.closed, p.end
	b.alarms.set(&p.alarm, f.arrived+f.wait)
	// From here on an append wakes the fetch. What came between its read and now is
	// found by looking once more.
	for i := range f.parts {
		if part := &f.parts[i]; part.partition != nil {
			part.partition.Watch(1)
			moved = moved || part.partition.DurableEnd() != part.result.highWatermark
		}
	}
	p.mu.Lock()
	p.mu.last = p.mu.last || stopped
	p.mu.running = p.mu.again || p.mu.last || moved
	start := p.mu.running
	p.mu.again = false
	p.mu.Unlock()
	switch {
	case start && stopped:
		p.run()
	case start:
		b.pool.submit(p.run)
	}
}

// advance wakes those who wait for a partition. It is the store's OnAdvance.
func (w *parkedFetches) advance(id log.TopicID, index int32) {
	if w.count.Load() == 0 {
		return
	}
	w.mu.Lock()
	woken := inOrder(w.mu.waiting[partitionID{id, index}])
	w.mu.Unlock()
	for _, p := range woken {
		p.wake()
	}
}

func inOrder(set map[*parkedFetch]struct{}) []*parkedFetch {
	list := make([]*parkedFetch, 0, len(set))
	for p := range set {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b *parkedFetch) int { return cmp.Compare(a.number, b.number) })
	return list
}

// remove forgets a fetch and reports whether it was there.
func (w *parkedFetches) remove(p *parkedFetch) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.mu.all[p]; !ok {
		return false
	}
	delete(w.mu.all, p)
	w.count.Add(-1)
	w.budget.give(p.fetch.reserved)
	for i := range p.watched {
		id := p.watched[i].id
		set := w.mu.waiting[id]
		delete(set, p)
		if len(set) == 0 {
			delete(w.mu.waiting, id)
		}
	}
	return true
}

// stop answers all parked fetches with what there is, and every later one: here
// and now, the workers are about to end.
func (w *parkedFetches) stop() {
	w.mu.Lock()
	w.mu.stopped = true
	all := inOrder(w.mu.all)
	w.mu.Unlock()
	for _, p := range all {
		if p.begin(true) {
			p.run()
		}
	}
}

// wake has a worker look at the fetch.
func (p *parkedFetch) wake() {
	if p.begin(false) {
		p.b.pool.submit(p.run)
	}
}

// end has a worker answer the fetch whatever there is.
func (p *parkedFetch) end() {
	if p.begin(true) {
		p.b.pool.submit(p.run)
	}
}

// begin reports whether the caller has to see to it that run is called; if not,
// somebody is at it and will look once more.
func (p *parkedFetch) begin(last bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.last = p.mu.last || last
	if p.mu.running || p.mu.done {
		p.mu.again = true
		return false
	}
	p.mu.running = true
	return true
}

// closed is told when the connection is gone.
func (p *parkedFetch) closed() {
	p.mu.Lock()
	p.mu.done = true
	p.mu.Unlock()
	p.forget()
}

// forget takes the fetch out of everything that would wake it.
func (p *parkedFetch) forget() {
	if !p.b.data.parked.remove(p) {
		return
	}
	p.b.alarms.cancel(&p.alarm)
	for i := range p.watched {
		p.watched[i].partition.Watch(-1)
	}
}

// run reads for the fetch, on a worker.
func (p *parkedFetch) run() {
	for {
		p.mu.Lock()
		last, done := p.mu.last, p.mu.done
		p.mu.Unlock()
		if done || (last || p.enough()) && p.answer(last) {
			return
		}
		p.mu.Lock()
		again := p.mu.again
		p.mu.again, p.mu.running = false, again
		p.mu.Unlock()
		if !again {
			return
		}
	}
}

// enough estimates whether reading is worth it: with a min_bytes above one,
// reading again after every append would cost more than the records.
func (p *parkedFetch) enough() bool {
	if p.fetch.minBytes <= 1 || p.bytes < 0 {
		return true
	}
	bytes := int64(p.bytes)
	for i := range p.watched {
		bytes += max(0, p.watched[i].partition.Size()-p.watched[i].size)
	}
	return bytes >= int64(p.fetch.minBytes)
}

// answer reads and, if that is to be the answer, gives it. It reports false if
// the fetch goes on waiting.
func (p *parkedFetch) answer(last bool) bool {
	for i := range p.watched {
		p.watched[i].size = p.watched[i].partition.Size()
	}
	out, ready := p.fetch.read(p.b, nil, last)
	if !ready {
		p.bytes = p.fetch.bytes()
		return false
	}
	p.mu.Lock()
	done := p.mu.done
	p.mu.done = true
	p.mu.Unlock()
	if !done {
		p.forget()
		p.b.observe(&p.b.metrics.waited, keyFetch, p.fetch.arrived)
		p.b.release.complete(netloop.Completion{Conn: p.fetch.session.conn, Slot: p.fetch.slot, Answer: out})
	}
	return true
}
