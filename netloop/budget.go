package netloop

import (
	"sync"
	"sync/atomic"
)

// A budget counts bytes held over all connections and lets readers wait while
// there are too many. It never refuses: event loops only add to it.
type budget struct {
	limit int64
	used  atomic.Int64
	// waiting is the number of entries of mu.waiters, to be read without the lock.
	waiting atomic.Int32
	mu      struct {
		sync.Mutex
		waiters []chan struct{}
		// pass is the one reader that may go on although the budget is used up, so that
		// readers which hold it together with unfinished frames do not wait for each other.
		pass *stream
	}
}

// add changes the count by n bytes, which may be negative.
func (b *budget) add(n int) {
	if n == 0 {
		return
	}
	if used := b.used.Add(int64(n)); n < 0 && used <= b.limit && b.waiting.Load() > 0 {
		b.wake()
	}
}

func (b *budget) over() bool { return b.used.Load() > b.limit }

// crowded reports that little is left: what can do with less should.
func (b *budget) crowded() bool { return b.used.Load() > b.limit/4*3 }

func (b *budget) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.mu.waiters {
		close(w)
	}
	b.mu.waiters = nil
	b.waiting.Store(0)
}

// wait returns true when the budget is not used up, false when gone was closed.
func (b *budget) wait(gone <-chan struct{}) bool {
	return b.waitOr(gone, func() bool { return false })
}

// waitOrPass is as wait, but one caller at a time goes on all the same. It holds the
// pass until drop.
func (b *budget) waitOrPass(st *stream, gone <-chan struct{}) bool {
	return b.waitOr(gone, func() bool {
		if b.mu.pass == nil {
			b.mu.pass = st
		}
		return b.mu.pass == st
	})
}

func (b *budget) waitOr(gone <-chan struct{}, otherwise func() bool) bool {
	for b.over() {
		b.mu.Lock()
		if otherwise() {
			b.mu.Unlock()
			return true
		}
		w := make(chan struct{})
		b.mu.waiters = append(b.mu.waiters, w)
		b.waiting.Store(int32(len(b.mu.waiters)))
		b.mu.Unlock()
		// An add between the test and here has seen no waiter: look again.
		if !b.over() {
			b.wake()
		}
		select {
		case <-w:
		case <-gone:
			b.forget(w)
			return false
		}
	}
	return true
}

// forget takes a waiter off the list that nobody waits for any more.
func (b *budget) forget(w chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, other := range b.mu.waiters {
		if other == w {
			b.mu.waiters = append(b.mu.waiters[:i], b.mu.waiters[i+1:]...)
			b.waiting.Store(int32(len(b.mu.waiters)))
			return
		}
	}
}

// holds reports whether st has the pass.
func (b *budget) holds(st *stream) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.pass == st
}

// drop gives the pass back.
func (b *budget) drop(st *stream) {
	b.mu.Lock()
	mine := b.mu.pass == st
	if mine {
		b.mu.pass = nil
	}
	b.mu.Unlock()
	if mine {
		b.wake()
	}
}
