package broker

import (
	"container/heap"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kcoord/kcoord/coordinator"
)

// never is a deadline that does not come.
const never = time.Duration(math.MaxInt64)

// A timerHeap is the deadlines of one coordinator shard, guarded by its lock.
// Setting a key again replaces its deadline.
type timerHeap struct {
	items []coordinator.Timer
	index map[coordinator.TimerKey]int
}

func (h *timerHeap) Len() int           { return len(h.items) }
func (h *timerHeap) Less(i, j int) bool { return h.items[i].Deadline < h.items[j].Deadline }
func (h *timerHeap) Swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.index[h.items[i].Key], h.index[h.items[j].Key] = i, j
}

// Push and Pop are for package heap.
func (h *timerHeap) Push(x any) {
	t := x.(coordinator.Timer)
	h.index[t.Key] = len(h.items)
	h.items = append(h.items, t)
}

func (h *timerHeap) Pop() any {
	last := len(h.items) - 1
	t := h.items[last]
	h.items[last] = coordinator.Timer{}
	h.items = h.items[:last]
	delete(h.index, t.Key)
	return t
}

// set does what t asks for.
func (h *timerHeap) set(t coordinator.Timer) {
	i, known := h.index[t.Key]
	switch {
	case t.Cancel && known:
		heap.Remove(h, i)
	case t.Cancel:
	case known:
		h.items[i].Deadline = t.Deadline
		heap.Fix(h, i)
	default:
		if h.index == nil {
			h.index = make(map[coordinator.TimerKey]int)
		}
		heap.Push(h, t)
	}
}

// next is the earliest deadline.
func (h *timerHeap) next() time.Duration {
	if len(h.items) == 0 {
		return never
	}
	return h.items[0].Deadline
}

// due takes out the earliest timer if its time has come.
func (h *timerHeap) due(now time.Duration) (coordinator.TimerKey, bool) {
	if h.next() > now {
		return coordinator.TimerKey{}, false
	}
	return heap.Pop(h).(coordinator.Timer).Key, true
}

// An alarm calls fire once, at or after a deadline, on the timer loop: fire must
// not block. It is for waits outside the coordinator, such as a parked Fetch.
type alarm struct {
	fire func()
	// Guarded by alarms.mu. position is the place in the heap plus one, 0 when not set.
	deadline time.Duration
	position int
}

// alarms is the set of pending alarms.
type alarms struct {
	timers *timers
	mu     struct {
		sync.Mutex
		heap alarmHeap
	}
}

// set arms a for the broker's time deadline, replacing an earlier one.
func (s *alarms) set(a *alarm, deadline time.Duration) {
	s.mu.Lock()
	a.deadline = deadline
	if a.position > 0 {
		heap.Fix(&s.mu.heap, a.position-1)
	} else {
		heap.Push(&s.mu.heap, a)
	}
	first := s.mu.heap[0] == a
	s.mu.Unlock()
	if first {
		s.timers.wakeBefore(deadline)
	}
}

// cancel takes a out. It reports whether a was set: if not it has fired, or
// fires just now on another goroutine, or was never set.
func (s *alarms) cancel(a *alarm) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.position == 0 {
		return false
	}
	heap.Remove(&s.mu.heap, a.position-1)
	return true
}

// expire fires what is due and returns the next deadline.
func (s *alarms) expire(now time.Duration) time.Duration {
	for {
		s.mu.Lock()
		if len(s.mu.heap) == 0 {
			s.mu.Unlock()
			return never
		}
		if next := s.mu.heap[0].deadline; next > now {
			s.mu.Unlock()
			return next
		}
		a := heap.Pop(&s.mu.heap).(*alarm)
		s.mu.Unlock()
		a.fire()
	}
}

type alarmHeap []*alarm

func (h alarmHeap) Len() int           { return len(h) }
func (h alarmHeap) Less(i, j int) bool { return h[i].deadline < h[j].deadline }
func (h alarmHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].position, h[j].position = i+1, j+1
}

// Push and Pop are for package heap.
func (h *alarmHeap) Push(x any) {
	a := x.(*alarm)
	*h = append(*h, a)
	a.position = len(*h)
}

func (h *alarmHeap) Pop() any {
	last := len(*h) - 1
	a := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	a.position = 0
	return a
}

// timers is the one loop that lets time pass: for the coordinator shards, the
// alarms and the broker's own clock.
type timers struct {
	broker *Broker
	wake   chan struct{}
	// sleepingUntil is the deadline the loop sleeps towards; an earlier one wakes it.
	sleepingUntil atomic.Int64
}

func newTimers(b *Broker) *timers {
	return &timers{broker: b, wake: make(chan struct{}, 1)}
}

// wakeBefore makes sure that the loop looks again by deadline. It may be called
// under a shard's lock.
func (t *timers) wakeBefore(deadline time.Duration) {
	if int64(deadline) < t.sleepingUntil.Load() {
		select {
		case t.wake <- struct{}{}:
		default:
		}
	}
}

// step lets everything expire whose time has come.
func (t *timers) step() (time.Duration, error) {
	// Whoever sets a deadline from here on wakes the loop again.
	t.sleepingUntil.Store(int64(never))
	now, quiet := t.broker.time.tick()
	if quiet > 0 {
		return min(quiet, tickInterval), nil
	}
	next := now + tickInterval
	for _, sh := range t.broker.allShards() {
		if sh.nextTimer.Load() <= int64(now) {
			sh.expire(now)
		}
		next = min(next, time.Duration(sh.nextTimer.Load()))
	}
	next = min(next, t.broker.alarms.expire(now), t.broker.answerStalled(now))
	t.sleepingUntil.Store(int64(next))
	now, _ = t.broker.time.now()
	return max(0, next-now), nil
}
