package broker

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kcoord/kcoord/coordinator"
	"github.com/kcoord/kcoord/log"
	"github.com/kcoord/kcoord/netloop"
	"github.com/kcoord/kcoord/wire"
)

// Kafka's error codes that this file gives.
const (
	codeNone                      int16 = 0
	codeCoordinatorLoadInProgress int16 = 14
	codeNotCoordinator            int16 = 16
)

const (
	// timersPerTurn is how many timers of a shard expire before its lock is given
	// to others.
	timersPerTurn = 16
	// refusedRetry is when timers are tried again that may write and could not.
	refusedRetry = 500 * time.Millisecond
)

// A shardState says whether a shard answers.
type shardState uint8

const (
	shardLoading shardState = iota // COORDINATOR_LOAD_IN_PROGRESS
	shardActive
	shardFailed // NOT_COORDINATOR: its partition is damaged or was unreadable
	shardClosed // NOT_COORDINATOR: the broker is stopping
)

// A parked is a request whose answer the coordinator gives in a later step.
type parked struct {
	conn          netloop.Conn
	slot          netloop.Slot
	correlationID int32
	key, version  int16
	arrived       time.Duration
	gathering     *gathering // instead of all of the above
}

// A shard is one partition of __consumer_offsets: its coordinator, its log and
// everything that waits for them.
type shard struct {
	broker    *Broker
	index     int32
	partition *log.Partition
	taken     atomic.Bool // somebody loads it or has
	failed    atomic.Bool // mu.state is shardFailed, to be seen without the lock

	// nextTimer is the earliest deadline of mu.timers, for the timer loop to read
	// without the lock.
	nextTimer atomic.Int64

	mu struct {
		sync.Mutex
		state  shardState
		core   *coordinator.Shard
		event  coordinator.Event  // reused
		result coordinator.Result // reused
		// mono is the time of the last step: the core's time never goes back although
		// events read the clock before they have the lock.
		mono    time.Duration
		records []log.Record // reused
		timers  timerHeap
		// parked is indexed by token; free holds the tokens of free places.
		parked []parked
		free   []coordinator.Token
	}
}

// coreCalls are the calls that change a coordinator. They are values so that
// tests can put wrong ones in their place, to see whether their checkers notice.
type coreCalls struct {
	step   func(core *coordinator.Shard, ev *coordinator.Event, out *coordinator.Result)
	replay func(core *coordinator.Shard, offset int64, key, value []byte) error
}

// An aftermath is what a step wants done once the shard's lock is released.
type aftermath struct {
	done        []netloop.Completion
	transitions []coordinator.Transition
	expiries    []coordinator.Expiry
	offsets     *offsetsChanged // nil: nothing to tell

	replacements []coordinator.Replacement
	refusals     []coordinator.Refusal
}

// shardFor returns the shard that owns a group, nil before the folder is open.
func (b *Broker) shardFor(group string) *shard {
	all := b.shards.Load()
	if all == nil {
		return nil
	}
	return (*all)[coordinator.PartitionFor(group, int32(len(*all)))]
}

// allShards is every shard, none before the folder is open.
func (b *Broker) allShards() []*shard {
	if all := b.shards.Load(); all != nil {
		return *all
	}
	return nil
}

// group gives a request to the coordinator of its group: read, decided and
// encoded under the shard's lock. What may write is refused while the store
// cannot take more; heartbeats and reads go on.
func (b *Broker) group(r *request, group string, out []byte) ([]byte, netloop.Verdict) {
	sh := r.session.shard
	if sh == nil || group != string(r.session.group) {
		if sh = b.shardFor(group); sh == nil {
			return b.refuseGroup(r, codeCoordinatorLoadInProgress, out)
		}
		if !r.pooled {
			r.session.shard, r.session.group = sh, append(r.session.group[:0], group...)
		}
	}
	var after aftermath
	out, verdict, code := sh.request(r, coordinator.MayWrite(r.message), out, &after)
	if code != codeNone {
		b.tellNotServed(sh, group, r)
		return b.refuseGroup(r, code, out)
	}
	b.conclude(&after)
	return out, verdict
}

// refuseGroup answers for a shard that cannot serve now.
func (b *Broker) refuseGroup(r *request, code int16, out []byte) ([]byte, netloop.Verdict) {
	var res coordinator.Result
	var ev coordinator.Event
	b.fillEvent(&ev, r, 0)
	ev.Config = b.groupConfig.Load()
	if b.isOpen() { // else nobody knows yet which topics there are
		ev.Topics = b.meta.Load()
	}
	coordinator.Refuse(&ev, code, &res)
	if len(res.Replies) != 1 {
		return r.refuse(out, code)
	}
	return wire.AppendResponse(out, r.correlationID, res.Replies[0].Response), netloop.Answered
}

// fillEvent makes ev the event of a request: the fields that count for one.
func (b *Broker) fillEvent(ev *coordinator.Event, r *request, token coordinator.Token) {
	ev.Kind, ev.Mono, ev.Wall = coordinator.EventRequest, r.mono, r.wall
	ev.Token, ev.Request = token, r.message
	ev.Client.ID, ev.Client.Host = r.clientID, r.session.host
}

// request steps the core with a request. If the core keeps it for later the
// request is parked. A code says why it was not given to the core.
func (sh *shard) request(r *request, writes bool, out []byte, after *aftermath) (_ []byte, verdict netloop.Verdict, code int16) {
	sh.mu.Lock()
	defer sh.unlock()
	if code = sh.admitLocked(writes); code != codeNone {
		sh.broker.countRefused(code)
		return out, netloop.Answered, code
	}
	token := sh.reserveLocked()
	ev := &sh.mu.event
	sh.broker.fillEvent(ev, r, token)
	if needsEntropy(r.key) {
		sh.broker.options.Random(ev.Entropy[:])
	}
	sh.stepForLocked(ev, r)
	out, verdict, answered := sh.settleLocked(r, token, out, after)
	if answered {
		sh.mu.free = append(sh.mu.free, token)
		return out, verdict, codeNone
	}
	sh.mu.parked[token] = parked{conn: r.session.conn, slot: r.slot, correlationID: r.correlationID, key: r.key, version: r.version, arrived: r.mono}
	return out, netloop.Hold, codeNone
}

// unlock is deferred by whoever steps the core. After a panic memory and log may
// disagree: the shard answers no more and the process ends; what was
// acknowledged is in the log.
func (sh *shard) unlock() {
	if p := recover(); p != nil {
		sh.mu.state = shardFailed
		sh.failed.Store(true)
		sh.mu.Unlock()
		sh.broker.fail(fmt.Errorf("partition %d of the offsets topic: panic: %v\n%s", sh.index, p, debug.Stack()))
		return
	}
	sh.mu.Unlock()
}

// admitLocked tells why a request cannot be given to the core now.
func (sh *shard) admitLocked(writes bool) int16 {
	switch sh.mu.state {
	case shardLoading:
		sh.broker.asked.Store(sh.index + 1)
		return codeCoordinatorLoadInProgress
	case shardActive:
		if writes && sh.broker.store.Admit() != nil {
			return codeCoordinatorNotAvailable
		}
		return codeNone
	}
	return codeNotCoordinator
}

// needsEntropy tells which requests may have a member id made for them.
func needsEntropy(key int16) bool { return key == 11 || key == 68 }

// stepLocked runs the core and appends its records.
func (sh *shard) stepLocked(ev *coordinator.Event) { sh.stepForLocked(ev, nil) }

// stepForLocked is stepLocked for the event of a request, if r is not nil.
func (sh *shard) stepForLocked(ev *coordinator.Event, r *request) {
	sh.mu.mono = max(sh.mu.mono, ev.Mono)
	ev.Mono = sh.mu.mono
	ev.Config = sh.broker.groupConfig.Load()
	ev.Topics = sh.broker.meta.Load() // under the lock: see locks.go
	expected := sh.mu.core.NextOffset()
	sh.broker.core.step(sh.mu.core, ev, &sh.mu.result)
	sh.appendLocked(ev, expected, r)
}

// emitLocked runs decide and appends the records that it left in the result.
func (sh *shard) emitLocked(ev *coordinator.Event, decide func()) {
	expected := sh.mu.core.NextOffset()
	decide()
	sh.appendLocked(ev, expected, nil)
}

// appendLocked appends the records in the result, whose first has offset expected, and
// attaches r if its answer waits for the last of them, as that to a commit does: one
// turn of the journal's lock does both. r is nil or the event's request.
func (sh *shard) appendLocked(ev *coordinator.Event, expected int64, r *request) {
	res := &sh.mu.result
	if len(res.Records) == 0 {
		return
	}
	recs := sh.mu.records[:0]
	for _, rec := range res.Records {
		recs = append(recs, log.Record{Key: rec.Key, Value: rec.Value})
	}
	sh.mu.records = recs
	if r != nil && r.onLoop() {
		sh.broker.gather.begin(sh.broker, r.session.conn.Loop())
	}
	var base int64
	var err error
	if last := expected + int64(len(recs)) - 1; r != nil && !r.pooled && len(res.Replies) == 1 &&
		res.Replies[0].Token == ev.Token && res.Replies[0].DependsOn == last {
		w := r.waiter(nil)
		base, err = sh.partition.AppendAwaited(ev.Wall, recs, &w)
		r.attached = true
	} else {
		base, err = sh.partition.AppendRecords(ev.Wall, recs)
	}
	if err != nil || base != expected {
		// Memory is ahead of the log now. Nothing of this step is answered: its answers
		// would depend on records that do not exist.
		panic(fmt.Sprintf("%d records for offset %d went to %d: %v", len(recs), expected, base, err))
	}
}

// settleLocked encodes the step's replies and sets its timers. own is the token
// of r, whose answer goes to out; r may be nil. Answers of others are released
// when durable.
func (sh *shard) settleLocked(r *request, own coordinator.Token, out []byte, after *aftermath) (_ []byte, verdict netloop.Verdict, answered bool) {
	res := &sh.mu.result
	for i := range res.Replies {
		reply := &res.Replies[i]
		if r != nil && reply.Token == own {
			out = wire.AppendResponse(out, r.correlationID, reply.Response)
			if verdict = netloop.Later; !r.attached {
				out, verdict = r.await(sh.partition, reply.DependsOn, out)
			}
			answered = true
			if sh.broker.tellsRequests {
				after.offsets = adminOffsets(r, reply.Response)
			}
			continue
		}
		sh.unparkLocked(reply, after)
	}
	for i := range res.Timers {
		sh.mu.timers.set(res.Timers[i])
	}
	if len(res.Timers) > 0 {
		sh.publishTimerLocked()
	}
	after.transitions = append(after.transitions, res.Transitions...)
	after.expiries = append(after.expiries, res.Expiries...)
	after.replacements = append(after.replacements, res.Replacements...)
	after.refusals = append(after.refusals, res.Refusals...)
	return out, verdict, answered
}

// publishTimerLocked shows the timer loop the earliest deadline.
func (sh *shard) publishTimerLocked() {
	next := sh.mu.timers.next()
	if before := sh.nextTimer.Swap(int64(next)); int64(next) < before {
		sh.broker.timers.wakeBefore(next)
	}
}

// reserveLocked takes a free token.
func (sh *shard) reserveLocked() coordinator.Token {
	if n := len(sh.mu.free); n > 0 {
		token := sh.mu.free[n-1]
		sh.mu.free = sh.mu.free[:n-1]
		return token
	}
	sh.mu.parked = append(sh.mu.parked, parked{})
	return coordinator.Token(len(sh.mu.parked) - 1)
}

// unparkLocked answers a parked request.
func (sh *shard) unparkLocked(reply *coordinator.Reply, after *aftermath) {
	if int(reply.Token) >= len(sh.mu.parked) || sh.mu.parked[reply.Token] == (parked{}) {
		panic(fmt.Sprintf("a reply for token %d, which nobody has", reply.Token))
	}
	p := sh.mu.parked[reply.Token]
	sh.mu.parked[reply.Token] = parked{}
	sh.mu.free = append(sh.mu.free, reply.Token)
	if p.gathering != nil {
		sh.takePart(p.gathering, reply, after)
		return
	}
	answer := wire.AppendResponse(nil, p.correlationID, reply.Response)
	waited := max(0, sh.mu.mono-p.arrived)
	w := log.Waiter{Conn: p.conn, Slot: p.slot.Index, Generation: p.slot.Generation, Patience: int32(waited.Milliseconds()),
		Key: p.key, Version: p.version, At: int64(sh.mu.mono), Answer: answer}
	if reply.DependsOn < 0 || sh.partition.Await(reply.DependsOn, w) {
		sh.broker.metrics.waited[p.key].Observe(waited)
		after.done = append(after.done, netloop.Completion{Conn: p.conn, Slot: p.slot, Answer: answer})
	}
}

// conclude does what a step left to do without its lock.
func (b *Broker) conclude(after *aftermath) {
	if len(after.done) > 0 {
		b.release.complete(after.done...)
	}
	for i := range after.transitions {
		b.tellTransition(&after.transitions[i])
	}
	for i := range after.expiries {
		b.tellExpiry(&after.expiries[i])
	}
	for i := range after.replacements {
		b.tellReplacement(&after.replacements[i])
	}
	for i := range after.refusals {
		b.tellRefusal(&after.refusals[i])
	}
	if after.offsets != nil {
		b.tellOffsets(after.offsets)
	}
}

// expire lets the shard's timers expire whose time has come.
func (sh *shard) expire(now time.Duration) {
	for more := true; more; {
		var after aftermath
		more = sh.expireSome(now, &after)
		sh.broker.conclude(&after)
	}
}

// expireSome reports whether more timers are due.
func (sh *shard) expireSome(now time.Duration, after *aftermath) (more bool) {
	sh.mu.Lock()
	defer sh.unlock()
	if code := sh.admitLocked(true); code != codeNone {
		sh.nextTimer.Store(int64(now + refusedRetry))
		return false
	}
	for range timersPerTurn {
		key, ok := sh.mu.timers.due(now)
		if !ok {
			break
		}
		ev := &sh.mu.event
		*ev = coordinator.Event{Kind: coordinator.EventTimer, Mono: now, Timer: key}
		_, ev.Wall = sh.broker.time.now()
		sh.stepLocked(ev)
		sh.settleLocked(nil, 0, nil, after)
	}
	sh.publishTimerLocked()
	return sh.mu.timers.next() <= now
}

// topicsDeleted tells the shard that topics are gone; metadata no longer has them.
func (sh *shard) topicsDeleted(topics []coordinator.DeletedTopic) bool {
	return sh.event(coordinator.Event{Kind: coordinator.EventTopicsDeleted, Deleted: topics})
}

// event gives an event to an active shard. It reports false if the store could
// not take what it writes.
func (sh *shard) event(ev coordinator.Event) bool {
	var after aftermath
	ev.Mono, ev.Wall = sh.broker.time.now()
	ok := sh.eventLocking(ev, &after)
	if ev.Kind == coordinator.EventUnload {
		after.transitions = nil // every group ends, with the process: no news
	}
	sh.broker.conclude(&after)
	return ok
}

func (sh *shard) eventLocking(ev coordinator.Event, after *aftermath) bool {
	sh.mu.Lock()
	defer sh.unlock()
	if sh.admitLocked(ev.Kind != coordinator.EventUnload) != codeNone {
		return false
	}
	sh.mu.event = ev
	sh.stepLocked(&sh.mu.event)
	sh.settleLocked(nil, 0, nil, after)
	if ev.Kind == coordinator.EventUnload {
		sh.mu.state = shardClosed
		sh.nextTimer.Store(int64(never))
	}
	return true
}
