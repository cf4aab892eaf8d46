package broker

import (
	"sync/atomic"
	"time"
)

// maxGather is how long the open round may wait, while the journal is free, for loops
// that always have more to read. It is looked at whenever a loop turns to its next
// connection.
const maxGather = time.Millisecond

// A gatherer leaves the open round open while the event loop that writes into it goes
// through the input that is there. Else a round begins with the first commit of many,
// and the others wait for its sync and then for their own: more syncs, each with fewer
// commits. It is no timer that ends the wait: a loop with nothing more to read does, at
// once, and where one request is on its way at a time nothing waits at all.
type gatherer struct {
	// loop is 1 + the loop that is waited for, 0 if none is. Whoever sets it has the
	// transport call OnInput for that loop, which clears it: so the wait ends.
	loop atomic.Int32
	// enough: the round is taken although the loop has more. It stays until the round
	// is durable, so that the loop's next request does not make the flusher wait again.
	enough atomic.Bool
	// several: the last round had answers to several requests.
	several atomic.Bool
	// since is when the open round's wait began or, if that was later, when the journal
	// became free: ns of the store's clock. It stays, until a round is durable, although
	// loops come to the end of their input and begin again: the flusher may not have seen
	// that there was nobody to wait for. begun: it is set.
	since atomic.Int64
	begun atomic.Bool
	ended atomic.Bool
}

// gathering is the store's Gathering.
func (g *gatherer) gathering() bool {
	return g.loop.Load() != 0 && !g.enough.Load() && !g.ended.Load()
}

// begin is called on a loop that is about to append.
func (g *gatherer) begin(b *Broker, loop int) {
	if g.loop.Load() == 0 && g.several.Load() && g.loop.CompareAndSwap(0, int32(loop)+1) {
		if !g.begun.Swap(true) {
			g.since.Store(int64(b.storeMono()))
		}
		b.transport.AfterInput(loop)
	}
}

// pass is called when a loop turns to its next connection: any loop, since the one that
// is waited for may be without a processor.
func (g *gatherer) pass(b *Broker) {
	if g.loop.Load() == 0 || g.enough.Load() || b.store.Syncing() != 0 ||
		b.storeMono()-time.Duration(g.since.Load()) < maxGather {
		return
	}
	g.enough.Store(true)
	b.store.Gathered()
}

// input is called when a loop has gone through its input.
func (g *gatherer) input(b *Broker, loop int) {
	if g.loop.CompareAndSwap(int32(loop)+1, 0) {
		b.store.Gathered()
	}
}

// durable is called when a round is, with the number of requests it lets answer.
func (g *gatherer) durable(answers int, mono time.Duration) {
	g.several.Store(answers > 1)
	g.since.Store(int64(mono))
	g.begun.Store(g.loop.Load() != 0) // a wait that goes on counts from here, too
	g.enough.Store(false)
}

// end is called before the transport stops: from then on nothing waits.
func (g *gatherer) end(b *Broker) {
	g.ended.Store(true)
	if b.isOpen() {
		b.store.Gathered()
	}
}
