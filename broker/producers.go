package broker

import (
	"sync"

	"github.com/kcoord/kcoord/internal/meta"
	"github.com/kcoord/kcoord/log"
)

// producerIDBlock is how many producer ids one metadata record reserves: a
// crash wastes at most as many.
const producerIDBlock = 1000

// producerIDs hands out producer ids, each once over the life of the folder.
type producerIDs struct {
	mu struct {
		sync.Mutex
		next int64
		// Ids below end are in a reservation that was appended.
		end int64
	}
}

// take returns an id. If its reservation is not durable yet, w is released when
// it is, and durable is false. The error is the store's reason to refuse writes.
func (p *producerIDs) take(store *log.Store, state *meta.State, w log.Waiter) (id int64, durable bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	reserved := state.Load().NextProducerID()
	if p.mu.end == 0 { // the first since the start: what was reserved before may be in use
		p.mu.next, p.mu.end = reserved, reserved
	}
	end := p.mu.end
	if p.mu.next == end {
		end += producerIDBlock
	}
	if p.mu.next >= reserved {
		if err := store.Admit(); err != nil {
			return -1, false, err
		}
		// While a reservation is on its way it is repeated: this round, too, makes
		// it durable.
		if err := store.AppendMetadata([][]byte{meta.AppendProducerIDs(nil, end)}, &w, false); err != nil {
			return -1, false, err
		}
	} else {
		durable = true
	}
	id = p.mu.next
	p.mu.next++
	p.mu.end = end
	return id, durable, nil
}
