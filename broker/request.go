package broker

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/log"
	"github.com/kcoord/kcoord/netloop"
	"github.com/kcoord/kcoord/wire"
)

// A session is what the broker knows of one connection. It is the connection's
// Context. Fields are written in callbacks of the connection only.
type session struct {
	conn netloop.Conn
	// host is the peer's address as Kafka prints it in group descriptions:
	// "/192.0.2.1".
	host string
	// group is the last group that was asked for, and shard its owner: most connections
	// are of a member of one group. Not used by pooled requests.
	group []byte
	shard *shard
	// software is what the client said of itself (ApiVersions v3+).
	software, softwareVersion string
	// onClose, if set, is called once when the connection is gone: a parked Fetch
	// sets it to be cancelled. Written while a request of the connection is being
	// applied.
	onClose func()
	// onHalfClose, if set, is called when the client sends no more: a parked Fetch
	// waits no longer then. Used as onClose is.
	onHalfClose func()
	// waitsSince is when a Produce found no room, 0 if none waits. It is used by
	// whoever handles the connection's one request.
	waitsSince time.Duration
	// bench is what a connection on the goroutine transport works with: it runs
	// beside its loop's others.
	bench *bench
}

// A bench is what one request at a time is worked on with: one per event loop,
// and one per goroutine connection.
type bench struct {
	decoder wire.Decoder
	request request
	counts  *counts

	// byPass: the transport tells of passes (OnPass), and the clock is read once in
	// each. timed: it has been read in this one, and gave mono and wall. first: for the
	// request at hand.
	byPass, timed, first bool
	mono                 time.Duration
	wall                 int64
}

// now is the time at which the frame at hand arrived, or at most one pass earlier.
func (w *bench) now(t *timekeeper) (mono time.Duration, wall int64) {
	if w.first = !w.timed; w.first {
		w.mono, w.wall = t.now()
		w.timed = w.byPass
	}
	return w.mono, w.wall
}

// A request is one request while a handler works on it. It is reused: nothing
// may keep a pointer to it after the handler has returned.
type request struct {
	session *session
	slot    netloop.Slot

	key, version  int16
	correlationID int32
	clientID      string // aliases the frame

	// message is the decoded request. For inline and bulk requests it may alias
	// the frame and is reused: what is kept must be copied. Pooled requests own it.
	message kmsg.Request

	// mono is the broker's monotonic time and wall the wall clock (Unix
	// milliseconds) at the request's arrival.
	mono time.Duration
	wall int64

	// patience is how much longer than offsets.commit.timeout.ms the answer may wait
	// for its sync; a Produce has a time limit of its own.
	patience time.Duration

	// attached: the answer waits already for what it depends on.
	attached bool

	// pooled: the handler runs on a pool worker. Its answer travels by value.
	pooled bool
	// pace is that of the work for the request, nil on an event loop.
	pace *pace
	// frame is the whole request; pooled requests own it.
	frame []byte
}

// onLoop reports whether the handler keeps other connections waiting: long work
// has to go to the pool.
func (r *request) onLoop() bool { return !r.pooled && !r.session.conn.Bulk() }

// toPool has the request handled again by a pool worker, from a copy of its frame.
func (r *request) toPool(b *Broker, out []byte) ([]byte, netloop.Verdict) {
	b.pool.add(r.session, r.slot, r.frame)
	return out, netloop.Hold
}

// respond appends resp as the request's whole answer.
func (r *request) respond(out []byte, resp kmsg.Response) []byte {
	resp.SetVersion(r.version)
	return wire.AppendResponse(out, r.correlationID, resp)
}

// answer appends resp and answers at once: it depends on nothing.
func (r *request) answer(out []byte, resp kmsg.Response) ([]byte, netloop.Verdict) {
	return r.respond(out, resp), netloop.Answered
}

// refuse answers with an error in the place that the API's schema has for it; if
// there is none the connection is closed, as Kafka does.
func (r *request) refuse(out []byte, code int16) ([]byte, netloop.Verdict) {
	resp := wire.ErrorResponse(r.message, code)
	if resp == nil {
		return out, netloop.Close
	}
	return r.answer(out, resp)
}

// waiter is the request's place for the store to remember. answer is nil when
// the answer's bytes stay in the slot.
func (r *request) waiter(answer []byte) log.Waiter {
	return log.Waiter{Conn: r.session.conn, Slot: r.slot.Index, Generation: r.slot.Generation,
		Patience: int32(r.patience.Milliseconds()), Key: r.key, Version: r.version, At: int64(r.mono + r.patience), Answer: answer,
		Joins: answer == nil}
}
