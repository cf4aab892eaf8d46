package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/netloop"
)

// A class says where a request is handled.
type class uint8

const (
	// inline: on the event loop, to completion, in well under 1 ms: no file, no
	// wait.
	inline class = iota
	// pooled: on a pool worker, from a copy of the frame; the connection is held
	// meanwhile. May read files, never waits for a sync.
	pooled
	// bulk: on the connection's own goroutine (the connection moves there first).
	// May read files and block briefly.
	bulk
)

// A handler serves one API. It appends the whole answer to out (r.respond) and
// says by the verdict when it may go:
//
//	Answered  now
//	Later     when a log.Waiter made by r.waiter(nil) is released; frames behind go on
//	Hold      as Later, nothing behind it is applied until then
//	None      there is no answer
//	Close     the answer in out, if any, is sent, then the connection is closed
//
// A pooled handler has no slot bytes: out is its own, and for Later it gives
// the bytes to the waiter (r.waiter(answer)). Bulk is returned by the dispatcher
// only.
type handler func(b *Broker, r *request, out []byte) ([]byte, netloop.Verdict)

// An api is one row of the dispatch table.
type api struct {
	key    kmsg.Key
	class  class
	handle handler
}

// apis is the dispatch table: every key that wire's version table advertises
// has one row here (a test compares them).
var apis = [...]api{}
