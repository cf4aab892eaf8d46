package netloop

import (
	"cmp"
	"slices"
	"time"
)

// crowdGrace is how long a budget may be nearly used up before the connections that
// keep it so are closed, and how long such a connection must have been at it: at one
// write; at one frame twice as long.
const crowdGrace = 2 * time.Second

// A relief makes room when slow peers have used up a budget. It belongs to the reaper.
type relief struct {
	// Since when the budgets are crowded; zero: they are not.
	outputSince, inputSince int64
	slow                    []slowStream
}

// A slowStream is a connection that may be closed to make room.
type slowStream struct {
	st    *stream
	held  int64
	worse float64 // than one with less
}

// relieve closes the slowest connections when a budget has been crowded for a while,
// until half of it is free.
func (r *relief) relieve(s *Server, streams []*stream, now int64) {
	if since(&r.outputSince, s.output.crowded(), now) >= crowdGrace {
		for _, st := range streams {
			if began := st.writeBegan.Load(); began == 0 || now-began < int64(crowdGrace) {
				continue
			}
			st.mu.Lock()
			held := int64(st.mu.sending + st.c.slots.bytes)
			st.mu.Unlock()
			// About how long it will take to send what is held.
			r.slow = append(r.slow, slowStream{st, held, float64(held) / float64(st.lately+1)})
		}
		r.close(s.output.used.Load() - s.output.limit/2)
	}
	if since(&r.inputSince, s.input.crowded() || s.large.over(), now) >= crowdGrace {
		for _, st := range streams {
			began, held := st.frameBegan.Load(), st.counted.Load()
			if began == 0 || now-began < int64(2*crowdGrace) || held == 0 {
				continue
			}
			r.slow = append(r.slow, slowStream{st, held, float64(held) * float64(now-began)})
		}
		r.close(max(s.input.used.Load()-s.input.limit/2, s.large.used.Load()-s.large.limit/2))
	}
}

// close closes the worst until they have given back so many bytes.
func (r *relief) close(bytes int64) {
	slices.SortFunc(r.slow, func(a, b slowStream) int { return cmp.Compare(b.worse, a.worse) })
	for i := range r.slow {
		if bytes <= 0 {
			break
		}
		bytes -= r.slow[i].held
		r.slow[i].st.kill(ErrCrowded)
	}
	clear(r.slow)
	r.slow = r.slow[:0]
}

// since keeps in *at since when something has been so, and returns for how long.
func since(at *int64, so bool, now int64) time.Duration {
	switch {
	case !so:
		*at = 0
		return -1
	case *at == 0:
		*at = now
	}
	return time.Duration(now - *at)
}
