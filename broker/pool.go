package broker

import (
	"sync"
	"time"

	"github.com/kcoord/kcoord/netloop"
	"github.com/kcoord/kcoord/wire"
)

const (
	// poolWorkers is how many pooled requests are worked on at once.
	poolWorkers = 4
	// maxLoopFrame is the largest frame that is decoded on an event loop or copied
	// for the pool; a larger one moves its connection to a goroutine.
	maxLoopFrame = 64 << 10
	// decodeBudget is how many bytes of large frames are being decoded at a time; one
	// larger frame may be alone. A frame can take a hundred times its size once
	// decoded.
	decodeBudget = 4 << 20
)

// A job is one pooled request with its own copy of the frame, or work of another
// kind.
type job struct {
	work    func() // if not nil, the rest is empty
	session *session
	slot    netloop.Slot
	frame   []byte
	arrived time.Duration
}

// A pool works on requests that event loops have no time for. Its queue is
// bounded by the connections: each is held while it has a job here.
type pool struct {
	broker *Broker
	wake   chan struct{}
	mu     struct {
		sync.Mutex
		queue []job // a ring would save copying; it is short
	}
	// turns is taken by a goroutine connection while it works on a pooled request
	// itself.
	turns chan struct{}
}

func newPool(b *Broker) *pool {
	return &pool{broker: b, wake: make(chan struct{}, poolWorkers), turns: make(chan struct{}, poolWorkers)}
}

// add queues a request; frame is copied.
func (p *pool) add(s *session, slot netloop.Slot, frame []byte) {
	arrived, _ := p.broker.time.now()
	p.push(job{session: s, slot: slot, frame: append([]byte(nil), frame...), arrived: arrived})
}

// submit queues work that must not be done by the caller. It never blocks; who
// submits bounds how much of it there is.
func (p *pool) submit(work func()) { p.push(job{work: work}) }

func (p *pool) push(j job) {
	p.mu.Lock()
	p.mu.queue = append(p.mu.queue, j)
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default: // every worker has a wake-up pending
	}
}

// step works on one request.
func (p *pool) step() (time.Duration, error) {
	p.mu.Lock()
	if len(p.mu.queue) == 0 {
		p.mu.Unlock()
		return -1, nil
	}
	j := p.mu.queue[0]
	p.mu.queue[0] = job{}
	p.mu.queue = p.mu.queue[1:]
	p.mu.Unlock()
	if j.work != nil {
		j.work()
	} else {
		p.broker.runJob(j)
	}
	return 0, nil
}

// runJob decodes and handles a pooled request and completes its slot.
func (b *Broker) runJob(j job) {
	done := netloop.Completion{Conn: j.session.conn, Slot: j.slot, Close: true}
	h, err := wire.ParseHeader(j.frame)
	if err == nil {
		r := request{session: j.session, slot: j.slot, key: h.Key, version: h.Version,
			correlationID: h.CorrelationID, clientID: h.ClientID, pooled: true, pace: b.newPace(), frame: j.frame}
		r.mono, r.wall = b.time.now()
		if r.message, err = wire.Decode(h); err == nil {
			out, verdict := b.table[h.Key].handle(b, &r, nil)
			if b.tellsRequests {
				b.tellRequest(&r, verdict)
			}
			switch verdict {
			case netloop.Later, netloop.Hold:
				return // whoever has the waiter completes it
			case netloop.Answered:
				b.observe(&b.metrics.waited, h.Key, j.arrived)
				done.Answer, done.Close = out, false
			default:
				done.Answer = out
			}
		}
	}
	if err != nil {
		b.malformed(j.session, err)
	}
	if done.Answer == nil {
		done.Answer = []byte{} // nothing is owed but the end
	}
	b.release.complete(done)
}

// A budget bounds the bytes in use by those who take from it. More than all of
// it is given to one alone.
type budget struct {
	size int
	mu   sync.Mutex
	room *sync.Cond
	used int
}

func newBudget(size int) *budget {
	b := &budget{size: size}
	b.room = sync.NewCond(&b.mu)
	return b
}

// take waits until n bytes are free, or until nobody has any if n is more than
// there is.
func (b *budget) take(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.used > 0 && b.used+n > b.size {
		b.room.Wait()
	}
	b.used += n
}

func (b *budget) give(n int) {
	b.mu.Lock()
	b.used -= n
	b.mu.Unlock()
	b.room.Broadcast()
}
