package log

import (
	"math"
	"time"
)

// A writeQueue holds the partitions that have batches to write to their logs,
// the one that is due first on top. Guarded by the journal lock.
type writeQueue struct {
	heap []*Partition
	// sleepsUntil is the monotonic time until which the writer sleeps; 0 while it
	// works.
	sleepsUntil time.Duration
}

// writeSlot is a partition's part of the queue.
type writeSlot struct {
	due   time.Duration
	place int // in the heap, plus one; 0: not in it
	// retryAt is when a write that failed is tried again.
	retryAt time.Duration
	// restsUntil is until when a partition that was just written is left alone, so
	// that steady small appends become few writes.
	restsUntil time.Duration
}

const forever = time.Duration(math.MaxInt64)

// restFactor is how many times SegmentWriteDelay a partition rests after a write.
const restFactor = 40

// dueAt is when the partition's batches are to be written: at once if somebody
// waits or if there is enough for a write of its own; else some milliseconds
// later, together with what comes until then, and not before the partition has
// rested. A reader never sees the difference: it has the log written first.
// REQUIRES s.mu.
func (p *Partition) dueAt(now time.Duration) time.Duration {
	switch {
	case now < p.slot.retryAt:
		return p.slot.retryAt
	case p.watchers.Load() > 0 || p.queueBytes >= writeEnough:
		return now
	}
	return max(now+p.s.o.SegmentWriteDelay, p.slot.restsUntil)
}

// add puts p into the queue, or moves it if it is due earlier than thought.
func (q *writeQueue) add(p *Partition, due time.Duration) {
	switch {
	case p.slot.place == 0:
		p.slot.due = due
		q.heap = append(q.heap, p)
		p.slot.place = len(q.heap)
	case due < p.slot.due:
		p.slot.due = due
	default:
		return
	}
	q.up(p.slot.place - 1)
}

// earliest is when the first partition is due.
func (q *writeQueue) earliest() time.Duration {
	if len(q.heap) == 0 {
		return forever
	}
	return q.heap[0].slot.due
}

// pop takes the first partition off if it is due.
func (q *writeQueue) pop(now time.Duration) *Partition {
	if q.earliest() > now {
		return nil
	}
	p := q.heap[0]
	q.remove(p)
	return p
}

// remove takes p out if it is in.
func (q *writeQueue) remove(p *Partition) {
	i := p.slot.place - 1
	if i < 0 {
		return
	}
	last := len(q.heap) - 1
	q.swap(i, last)
	q.heap[last] = nil
	q.heap = q.heap[:last]
	p.slot.place = 0
	if i < last {
		q.down(i)
		q.up(i)
	}
}

func (q *writeQueue) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if q.heap[parent].slot.due <= q.heap[i].slot.due {
			return
		}
		q.swap(i, parent)
		i = parent
	}
}

func (q *writeQueue) down(i int) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(q.heap); c++ {
			if q.heap[c].slot.due < q.heap[least].slot.due {
				least = c
			}
		}
		if least == i {
			return
		}
		q.swap(i, least)
		i = least
	}
}

func (q *writeQueue) swap(i, j int) {
	q.heap[i], q.heap[j] = q.heap[j], q.heap[i]
	q.heap[i].slot.place, q.heap[j].slot.place = i+1, j+1
}
