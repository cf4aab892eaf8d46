package broker

import (
	"container/list"
	"math"
	"sync"
	"time"
)

const (
	// maxSessionPartitions bounds the partitions remembered in all fetch sessions
	// together; beyond it no session is given, which clients live with.
	maxSessionPartitions = 200_000

	// fetchSessionEviction is how long a session has to be unused to make room for
	// another one (min.incremental.fetch.session.eviction.ms in Kafka's code).
	fetchSessionEviction = 2 * time.Minute

	initialEpoch = 0  // a full fetch that asks for a session
	finalEpoch   = -1 // a full fetch that asks for none and ends one
)

// A partitionKey names a partition in a fetch: by name below version 13, by id
// from there on.
type partitionKey struct {
	topic string
	id    [16]byte
	index int32
}

// A sessionPartition is a partition of a fetch session: what is asked for and
// what was answered last.
type sessionPartition struct {
	fetchPosition
	highWatermark, logStart int64
	prev, next              *sessionPartition
}

// A fetchSession is the memory of an incremental fetch (KIP-227). A client uses
// it for one request at a time; the lock is for those that do not.
type fetchSession struct {
	id   int32
	byID bool // its requests name topics by id

	// Guarded by the cache's lock: when it was used last (monotonic), its place
	// in the order of that, and its number of partitions as counted there.
	used    time.Duration
	place   *list.Element
	counted int

	mu struct {
		sync.Mutex
		epoch      int32 // that the next request has to have
		partitions map[partitionKey]*sessionPartition
		// head is a ring's sentinel: partitions in the order in which they are
		// read. One that gave records moves to the end, so that none starves.
		head sessionPartition
	}
}

func newFetchSession(byID bool) *fetchSession {
	s := &fetchSession{byID: byID}
	s.mu.epoch = initialEpoch + 1
	s.mu.partitions = map[partitionKey]*sessionPartition{}
	s.mu.head.prev, s.mu.head.next = &s.mu.head, &s.mu.head
	return s
}

func (p *sessionPartition) unlink() {
	p.prev.next, p.next.prev = p.next, p.prev
}

func (s *fetchSession) pushLocked(p *sessionPartition) {
	last := s.mu.head.prev
	p.prev, p.next = last, &s.mu.head
	last.next, s.mu.head.prev = p, p
}

// setLocked adds a partition or changes what is asked of it.
func (s *fetchSession) setLocked(pos fetchPosition) *sessionPartition {
	p := s.mu.partitions[pos.partitionKey]
	if p == nil {
		p = &sessionPartition{highWatermark: -1, logStart: -1}
		s.mu.partitions[pos.partitionKey] = p
		s.pushLocked(p)
	}
	p.fetchPosition = pos
	return p
}

func (s *fetchSession) forgetLocked(key partitionKey) {
	if p := s.mu.partitions[key]; p != nil {
		p.unlink()
		delete(s.mu.partitions, key)
	}
}

// answeredLocked notes what an answer said of a partition.
func (s *fetchSession) answeredLocked(p *sessionPartition, r *fetchResult) {
	p.highWatermark, p.logStart = r.highWatermark, r.logStart
	if r.code != 0 {
		// When the error has gone the partition is to be answered again.
		p.highWatermark = -1
	}
	if r.bytes > 0 && s.mu.partitions[p.partitionKey] == p {
		p.unlink()
		s.pushLocked(p)
	}
}

// changed says whether an incremental answer has to mention a partition.
func (p *sessionPartition) changed(r *fetchResult) bool {
	return r.bytes > 0 || r.code != 0 || r.diverging || r.highWatermark != p.highWatermark || r.logStart != p.logStart
}

// nextEpoch is the epoch after one that is neither initial nor final.
func nextEpoch(epoch int32) int32 {
	if epoch == math.MaxInt32 {
		return 1
	}
	return epoch + 1
}

// fetchSessions is the bounded cache of fetch sessions. When it is full a new
// session replaces the one unused longest, if that was unused for a while.
type fetchSessions struct {
	slots    int           // max.incremental.fetch.session.cache.slots
	eviction time.Duration // min.incremental.fetch.session.eviction.ms

	mu struct {
		sync.Mutex
		sessions   map[int32]*fetchSession
		order      list.List // of sessions, the one used last in front
		partitions int       // Invariant: the sum of counted over sessions
	}
}

func newFetchSessions(slots int, eviction time.Duration) *fetchSessions {
	c := &fetchSessions{slots: slots, eviction: eviction}
	c.mu.sessions = map[int32]*fetchSession{}
	return c
}

// get returns a session and marks it used; nil if there is none of this id.
func (c *fetchSessions) get(id int32, now time.Duration) *fetchSession {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.mu.sessions[id]
	if s != nil {
		s.used = now
		c.mu.order.MoveToFront(s.place)
	}
	return s
}

// add gives s an id, drawn by random, and keeps it. It reports false if there is
// no room; s has id 0 then.
func (c *fetchSessions) add(s *fetchSession, size int, now time.Duration, random func() int32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.mu.sessions) >= c.slots || c.mu.partitions+size > maxSessionPartitions {
		oldest := c.mu.order.Back()
		if oldest == nil || now-oldest.Value.(*fetchSession).used < c.eviction {
			return false
		}
		c.removeLocked(oldest.Value.(*fetchSession).id)
	}
	for s.id == 0 || c.mu.sessions[s.id] != nil {
		s.id = random() & math.MaxInt32
	}
	s.used, s.counted = now, size
	s.place = c.mu.order.PushFront(s)
	c.mu.sessions[s.id] = s
	c.mu.partitions += size
	return true
}

// resized notes how many partitions a session has now. It reports false, and
// drops the session, if that is too much.
func (c *fetchSessions) resized(s *fetchSession, size int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.sessions[s.id] != s {
		return true
	}
	c.mu.partitions += size - s.counted
	s.counted = size
	if c.mu.partitions > maxSessionPartitions {
		c.removeLocked(s.id)
		return false
	}
	return true
}

// remove ends a session, if there is one of this id.
func (c *fetchSessions) remove(id int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeLocked(id)
}

func (c *fetchSessions) removeLocked(id int32) {
	if s := c.mu.sessions[id]; s != nil {
		c.mu.partitions -= s.counted
		c.mu.order.Remove(s.place)
		delete(c.mu.sessions, id)
	}
}

// count is how many sessions and partitions of sessions there are.
func (c *fetchSessions) count() (sessions, partitions int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.mu.sessions), c.mu.partitions
}
