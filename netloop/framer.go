package netloop

import (
	"encoding/binary"
	"fmt"
)

const (
	prefixBytes = 4
	// headBytes of a frame are looked at before its length is trusted.
	headBytes = prefixBytes + 2
	// firstGrow is the first size of a buffer for an unfinished frame; it doubles as
	// bytes really come, so announcing a long frame costs nothing.
	firstGrow = 4 << 10
)

// frameSize returns the length of the frame that b begins with, prefix included;
// zero: more bytes are needed to know.
func (c *conn) frameSize(b []byte) (int, error) {
	if len(b) < prefixBytes {
		return 0, nil
	}
	n := int(int32(binary.BigEndian.Uint32(b)))
	if n < c.server.limits.MinFrameBytes {
		return 0, refuseFrame(ErrFrameTooShort, b[:prefixBytes])
	}
	if len(b) < headBytes {
		return 0, nil
	}
	switch limit := c.server.options.Handler.FrameLimit([headBytes]byte(b)); {
	case limit <= 0:
		return 0, refuseFrame(ErrFrameRefused, b)
	case n > limit:
		return 0, refuseFrame(ErrFrameTooLong, b)
	}
	return prefixBytes + n, nil
}

// A FrameError says that a frame was refused by its first bytes: ErrFrameTooShort,
// ErrFrameTooLong or ErrFrameRefused.
type FrameError struct {
	// Head is the length prefix and the next two bytes, which are zero if the frame is
	// too short.
	Head [headBytes]byte
	// Err is the reason.
	Err error
}

// Error says it in one line.
func (e *FrameError) Error() string { return fmt.Sprintf("%v (it begins with %x)", e.Err, e.Head) }

// Unwrap gives the reason.
func (e *FrameError) Unwrap() error { return e.Err }

// Length is what the length prefix says.
func (e *FrameError) Length() int32 { return int32(binary.BigEndian.Uint32(e.Head[:])) }

func refuseFrame(why error, b []byte) error {
	e := &FrameError{Err: why}
	copy(e.Head[:], b)
	return e
}

// input keeps what was read and not applied yet. It has one owner at a time.
type input struct {
	// b holds the bytes; those before at have been applied.
	// Invariant: at <= len(b).
	b  []byte
	at int
	// size is the whole length of the frame that begins at at, zero if not known.
	size int
	// fromKept: the last frame came out of b.
	fromKept bool
}

func (i *input) waiting() int { return len(i.b) - i.at }

// whole reports whether a whole frame, or one that will be refused, is kept.
func (i *input) whole(c *conn) bool {
	size, err := c.frameSize(i.b[i.at:])
	return err != nil || size > 0 && i.waiting() >= size
}

// next returns the next whole frame, without its prefix, from what is kept and then
// from fresh; more is what is left of fresh. ok is false if no frame is whole: then
// nothing is left of fresh unless nothing is kept. The frame is valid until the
// next call of any method.
func (i *input) next(c *conn, fresh []byte) (frame, more []byte, ok bool, err error) {
	pools := &c.server.buffers
	if i.waiting() == 0 {
		size, err := c.frameSize(fresh)
		if err != nil || size == 0 || len(fresh) < size {
			return nil, fresh, false, err
		}
		i.fromKept = false
		return fresh[prefixBytes:size], fresh[size:], true, nil
	}
	if i.size == 0 {
		fresh = i.top(pools, headBytes, fresh)
		if i.size, err = c.frameSize(i.b[i.at:]); err != nil || i.size == 0 {
			return nil, fresh, false, err
		}
	}
	if fresh = i.top(pools, i.size, fresh); i.waiting() < i.size {
		return nil, fresh, false, nil
	}
	frame = i.b[i.at+prefixBytes : i.at+i.size]
	i.at += i.size
	i.size, i.fromKept = 0, true
	return frame, fresh, true, nil
}

// undo makes next return frame again. before and fresh are what was fresh before
// and after the call of next that returned it; the result takes their place.
func (i *input) undo(frame, before, fresh []byte) []byte {
	if !i.fromKept {
		return before
	}
	i.size = prefixBytes + len(frame)
	i.at -= i.size
	return fresh
}

// top moves bytes from fresh until want bytes are kept, and returns the rest.
func (i *input) top(pools *buffers, want int, fresh []byte) []byte {
	n := min(want-i.waiting(), len(fresh))
	if n <= 0 {
		return fresh
	}
	i.keep(pools, fresh[:n])
	return fresh[n:]
}

// keep appends bytes. The buffer doubles as needed.
func (i *input) keep(pools *buffers, p []byte) {
	if len(p) == 0 {
		return
	}
	i.room(pools, len(p))
	i.b = append(i.b, p...)
}

// room makes place for n more bytes.
func (i *input) room(pools *buffers, n int) {
	if len(i.b)+n <= cap(i.b) {
		return
	}
	if i.at >= i.waiting() { // moving costs no more than what was applied since the last time
		i.b = append(i.b[:0], i.b[i.at:]...)
		i.at = 0
	}
	want, double := len(i.b)+n, 2*cap(i.b)
	if i.size > 0 {
		double = min(max(double, firstGrow), i.at+i.size)
	}
	i.b = pools.grow(i.b, max(want, double))
}

// settle gives the buffer back if nothing is kept.
func (i *input) settle(pools *buffers) {
	if i.waiting() == 0 {
		pools.put(i.b)
		*i = input{}
	}
}
