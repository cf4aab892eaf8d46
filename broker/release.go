package broker

import (
	"fmt"
	"sync"

	"github.com/kcoord/kcoord/log"
	"github.com/kcoord/kcoord/netloop"
)

// A releaser turns waiters whose round is durable into completions and hands
// them to the transport, one call per event loop.
type releaser struct {
	transport netloop.Releaser
	time      *timekeeper
	waited    *latencies
	gather    *gatherer
	mu        struct {
		sync.Mutex
		byLoop [][]netloop.Completion
	}
}

// durable is the store's OnDurable.
func (r *releaser) durable(ws []log.Waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, _ := r.time.now()
	answers := 0
	for i := range ws {
		w := &ws[i]
		answers += 1 + int(w.More)
		switch who := w.Conn.(type) {
		case wakeUp:
			who()
		case netloop.Conn:
			r.waited.observeWaiter(w, now)
			r.addLocked(netloop.Completion{Conn: who, Slot: netloop.Slot{Index: w.Slot, Generation: w.Generation}, Answer: w.Answer, More: w.More})
		default:
			panic(fmt.Sprintf("broker: a waiter is a %T", w.Conn))
		}
	}
	mono, _ := r.time.clock.Now()
	r.gather.durable(answers, mono)
	for loop, done := range r.mu.byLoop {
		if len(done) > 0 {
			r.transport.Release(loop, done)
			clear(done) // what was answered must not be kept alive
			r.mu.byLoop[loop] = done[:0]
		}
	}
}

func (r *releaser) addLocked(c netloop.Completion) {
	loop := c.Conn.Loop()
	for loop >= len(r.mu.byLoop) {
		r.mu.byLoop = append(r.mu.byLoop, nil)
	}
	r.mu.byLoop[loop] = append(r.mu.byLoop[loop], c)
}

// complete finishes slots whose answers depend on nothing (any more).
func (r *releaser) complete(done ...netloop.Completion) {
	for i := range done {
		r.transport.Release(done[i].Conn.Loop(), done[i:i+1])
	}
}

// A wakeUp is the Conn of a Waiter that is not an answer: it is called, and must
// not block. Such a Waiter has At: neverLate.
type wakeUp func()

// await says when the answer in out may go: now or, attached to the round that
// holds offset, Later. A pooled request's answer travels with the waiter.
func (r *request) await(p *log.Partition, offset int64, out []byte) ([]byte, netloop.Verdict) {
	if offset < p.DurableEnd() || p.Await(offset, r.waiter(r.travelling(out))) {
		return out, netloop.Answered
	}
	return out, netloop.Later
}

// awaitPosition is await for a position in the journal: the largest of several
// implies the others.
func (r *request) awaitPosition(store *log.Store, pos log.Position, out []byte) ([]byte, netloop.Verdict) {
	if pos == 0 || store.AwaitPosition(pos, r.waiter(r.travelling(out))) {
		return out, netloop.Answered
	}
	return out, netloop.Later
}

// travelling is the answer that a waiter has to carry: that of a pooled request;
// others lie in their slot.
func (r *request) travelling(out []byte) []byte {
	if r.pooled {
		return out
	}
	return nil
}

// positionOf is the position at which an answer that depends on offset may go.
func positionOf(p *log.Partition, offset int64) log.Position {
	if offset < 0 {
		return 0
	}
	return p.Position(offset)
}
