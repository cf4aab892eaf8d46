package netloop

// slotState says how far an answer is.
type slotState uint8

const (
	// slotApplying: the handler has the frame. On the goroutine transport a
	// completion can come meanwhile (early).
	slotApplying slotState = iota
	// slotWaiting: the answer comes by Release.
	slotWaiting
	// slotDone: the answer can be sent when those before it have been.
	slotDone
)

// ownSlotBytes is the largest answer that is kept in a buffer of the slot's own,
// which stays with the slot; larger ones borrow from the pools.
const ownSlotBytes = 512

const firstRing = 4

type slot struct {
	// answer is what will be sent. It lies in own, in a pooled buffer (pooled), or
	// came with a completion.
	answer []byte
	own    []byte
	pooled bool
	state  slotState
	// early: the completion came while the handler was still in OnFrame; edit is what
	// it wants done with the answer then.
	early bool
	edit  func([]byte) []byte
	// close: the connection ends when this answer has been sent.
	close bool
}

// slots keeps the answers of one connection in request order. It has one owner at
// a time: the event loop, or whoever holds the stream's lock.
type slots struct {
	pools *buffers
	// head is the next answer to be sent, tail the number of the next frame.
	// Invariant: head <= tail, tail-head <= len(ring) unless ring is nil and head == tail.
	head, tail uint64
	// ring has a power of two elements; number n lives at n & (len-1).
	ring []slot
	// bytes is the sum of the answers' lengths in the ring.
	bytes int
	// held: no frame is applied until slot hold is done.
	hold uint64
	held bool
	// closing: a slot with close set is in the ring or was sent; nothing more is
	// applied.
	closing bool
}

func slotName(number uint64) Slot {
	return Slot{Index: uint32(number), Generation: uint32(number >> 32)}
}

func (s Slot) number() uint64 { return uint64(s.Generation)<<32 | uint64(s.Index) }

func (s *slots) owed() int { return int(s.tail - s.head) }

// ready reports whether the answer that is next in order can be sent.
func (s *slots) ready() bool {
	return s.head != s.tail && s.at(s.head).state == slotDone
}

// nextIsLarge reports whether the next answer can be sent and has at least size bytes.
func (s *slots) nextIsLarge(size int) bool {
	return s.ready() && len(s.at(s.head).answer) >= size
}

func (s *slots) at(number uint64) *slot {
	return &s.ring[number&uint64(len(s.ring)-1)]
}

// open makes a slot for the frame that the handler gets next.
func (s *slots) open() uint64 {
	if s.owed() == len(s.ring) {
		s.growRing()
	}
	number := s.tail
	s.tail++
	e := s.at(number)
	*e = slot{own: e.own[:0], state: slotApplying}
	return number
}

func (s *slots) growRing() {
	bigger := make([]slot, max(firstRing, 2*len(s.ring)))
	for n := s.head; n != s.tail; n++ {
		bigger[n&uint64(len(bigger)-1)] = *s.at(n)
	}
	s.ring = bigger
}

// skip counts a frame that needs no slot: its answer leaves at once. Only when
// nothing is owed.
func (s *slots) skip() {
	s.head++
	s.tail++
}

// passed settles the only open slot: its answer leaves at once.
func (s *slots) passed() {
	if s.owed() != 1 {
		panic("netloop: an answer would leave out of order")
	}
	s.next(s.at(s.head))
}

// fill copies an answer into the slot.
func (s *slots) fill(e *slot, answer []byte) {
	switch n := len(answer); {
	case n == 0:
		e.answer = nil
	case n <= ownSlotBytes:
		if cap(e.own) < n {
			e.own = make([]byte, 0, max(64, n))
		}
		e.own = append(e.own[:0], answer...)
		e.answer = e.own
	default:
		e.answer = append(s.pools.get(n), answer...)
		e.pooled = true
	}
	s.bytes += len(e.answer)
}

// answered settles an open slot whose answer is known; it waits for its turn.
func (s *slots) answered(number uint64, answer []byte, last bool) {
	e := s.at(number)
	s.drop(e) // an early completion of a slot that was answered in the call
	s.fill(e, answer)
	e.state = slotDone
	if last {
		e.close, s.closing = true, true
	}
}

// later settles an open slot whose answer comes by Release; answer is what to send
// if the completion brings none.
func (s *slots) later(number uint64, answer []byte, hold bool) {
	e := s.at(number)
	if !e.early {
		s.fill(e, answer)
		e.state = slotWaiting
		if hold {
			s.hold, s.held = number, true
		}
		return
	}
	if e.answer == nil {
		s.fill(e, answer)
		s.edited(e, e.edit)
	}
	e.edit = nil
	e.state = slotDone
}

// edited replaces the answer by what edit, if there is one, makes of it.
func (s *slots) edited(e *slot, edit func([]byte) []byte) {
	if edit == nil {
		return
	}
	answer := edit(e.answer)
	s.drop(e)
	e.answer = answer
	s.bytes += len(answer)
}

// complete takes a completion; false: it came too late.
func (s *slots) complete(done *Completion) bool {
	number := done.Slot.number()
	if done.More == 0 {
		return s.complete1(number, done)
	}
	if done.Answer != nil || done.Close {
		panic("netloop: a completion of several slots has an answer or closes")
	}
	some := false
	for n := number; n <= number+uint64(done.More); n++ {
		some = s.complete1(n, done) || some
	}
	return some
}

// complete1 applies a completion to one of its slots.
func (s *slots) complete1(number uint64, done *Completion) bool {
	if number < s.head || number >= s.tail {
		return false
	}
	e := s.at(number)
	if e.state == slotDone || e.early {
		return false
	}
	if done.Answer != nil {
		s.drop(e)
		e.answer = done.Answer
		s.bytes += len(e.answer)
	}
	if done.Close {
		e.close, s.closing = true, true
	}
	if e.state == slotApplying {
		e.early, e.edit = true, done.Edit
		return true
	}
	if done.Answer == nil {
		s.edited(e, done.Edit)
	}
	e.state = slotDone
	if s.held && s.hold == number {
		s.held = false
	}
	return true
}

// drop forgets an answer that is in the slot.
func (s *slots) drop(e *slot) {
	s.bytes -= len(e.answer)
	if e.pooled {
		s.pools.put(e.answer)
		e.pooled = false
	}
	e.answer = nil
}

// pop moves ready answers in order to dst, as long as dst stays within limit or
// was empty; last reports that the connection ends behind them.
func (s *slots) pop(dst []byte, limit int) (out []byte, last bool) {
	for s.ready() {
		e := s.at(s.head)
		if len(dst) > 0 && len(dst)+len(e.answer) > limit {
			return dst, false
		}
		dst = append(dst, e.answer...)
		if s.next(e) {
			return dst, true
		}
	}
	return dst, false
}

// popLarge takes the answer that is next in order as it is, if it is ready and has at
// least size bytes; recycle says that the buffer may be given to the pools when it
// has been sent.
func (s *slots) popLarge(size int) (answer []byte, recycle, last, ok bool) {
	if !s.ready() {
		return nil, false, false, false
	}
	e := s.at(s.head)
	if len(e.answer) < size {
		return nil, false, false, false
	}
	answer, recycle = e.answer, e.pooled
	e.pooled = false
	return answer, recycle, s.next(e), true
}

// next leaves the head slot behind; last: the connection ends here, and what is owed
// behind it is forgotten.
func (s *slots) next(e *slot) (last bool) {
	s.drop(e)
	s.head++
	if e.close {
		s.reset()
		return true
	}
	return false
}

// forgotten reports whether the slot was given up while the handler had its frame.
func (s *slots) forgotten(number uint64) bool { return number < s.head }

// reset forgets everything that is owed: late completions find nothing.
func (s *slots) reset() {
	for n := s.head; n != s.tail; n++ {
		s.drop(s.at(n))
	}
	s.head = s.tail
	s.ring, s.held = nil, false
}

// trim gives the ring back while nothing is owed.
func (s *slots) trim() {
	if s.head == s.tail {
		s.ring = nil
	}
}
