package broker

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/log"
	"github.com/kcoord/kcoord/netloop"
)

// A session is what the broker knows of one connection. It is the connection's
// Context. Fields are written in callbacks of the connection only.
type session struct {
	conn netloop.Conn
	// host is the peer's address as Kafka prints it in group descriptions:
	// "/192.0.2.1".
	host string
	// software is what the client said of itself (ApiVersions v3+).
	software, softwareVersion string
	// onClose, if set, is called once when the connection is gone: a parked Fetch
	// sets it to be cancelled. Written while a request of the connection is being
	// applied.
	onClose func()
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

	// mono and wall (Unix milliseconds) were read once for the pass that the
	// request is part of.
	mono time.Duration
	wall int64

	// pooled: the handler runs on a pool worker. Its answer travels by value.
	pooled bool
}

// respond appends resp as the request's whole answer.
func (r *request) respond(out []byte, resp kmsg.Response) []byte {
	resp.SetVersion(r.version)
	return appendResponse(out, r.correlationID, resp)
}

// answer appends resp and answers at once: it depends on nothing.
func (r *request) answer(out []byte, resp kmsg.Response) ([]byte, netloop.Verdict) {
	return r.respond(out, resp), netloop.Answered
}

// waiter is the request's place for the store to remember. answer is nil when
// the answer's bytes stay in the slot.
func (r *request) waiter(answer []byte) log.Waiter {
	return log.Waiter{Conn: r.session.conn, Slot: r.slot.Index, Generation: r.slot.Generation,
		Loop: int32(r.session.conn.Loop()), Answer: answer}
}

// appendResponse appends a response frame: length, correlation id, the tag
// section of response header v1 where it has one, body.
func appendResponse(dst []byte, correlationID int32, resp kmsg.Response) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0, byte(correlationID>>24), byte(correlationID>>16), byte(correlationID>>8), byte(correlationID))
	if resp.IsFlexible() && resp.Key() != int16(kmsg.ApiVersions) {
		dst = append(dst, 0)
	}
	dst = resp.AppendTo(dst)
	n := len(dst) - start - 4
	dst[start], dst[start+1], dst[start+2], dst[start+3] = byte(n>>24), byte(n>>16), byte(n>>8), byte(n)
	return dst
}
