package broker

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kcoord/kcoord/netloop"
	"github.com/kcoord/kcoord/wire"
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
// the bytes to the waiter; r.await and r.awaitAll know both ways. Bulk is
// returned by the dispatcher only.
type handler func(b *Broker, r *request, out []byte) ([]byte, netloop.Verdict)

// An api is one row of the dispatch table.
type api struct {
	class  class
	handle handler
	// early: the handler can serve before the data folder is open. Others wait.
	early bool
}

// maxKey is the largest API key in the table.
const maxKey = 92

// dispatchTable has a row for every key of wire's version table (a test
// compares them).
func dispatchTable() [maxKey + 1]api {
	return [maxKey + 1]api{
		0:  {bulk, (*Broker).produce, false},
		1:  {bulk, (*Broker).fetch, false},
		2:  {pooled, (*Broker).listOffsets, false},
		3:  {inline, (*Broker).metadata, false},
		8:  {inline, (*Broker).groupRequest, true},
		9:  {inline, (*Broker).offsetFetch, true},
		10: {inline, (*Broker).findCoordinator, true},
		11: {inline, (*Broker).groupRequest, true},
		12: {inline, (*Broker).groupRequest, true},
		13: {inline, (*Broker).groupRequest, true},
		14: {inline, (*Broker).groupRequest, true},
		15: {pooled, (*Broker).describeGroups, true},
		16: {pooled, (*Broker).listGroups, true},
		18: {inline, (*Broker).apiVersions, true},
		19: {pooled, (*Broker).createTopics, false},
		20: {pooled, (*Broker).deleteTopics, false},
		21: {pooled, (*Broker).deleteRecords, false},
		22: {inline, (*Broker).initProducerID, false},
		23: {pooled, (*Broker).offsetForLeaderEpoch, false},
		32: {pooled, (*Broker).describeConfigs, false},
		35: {pooled, (*Broker).describeLogDirs, false},
		37: {pooled, (*Broker).createPartitions, false},
		42: {pooled, (*Broker).deleteGroups, true},
		44: {pooled, (*Broker).incrementalAlterConfigs, false},
		47: {pooled, (*Broker).groupRequest, true},
		60: {inline, (*Broker).describeCluster, false},
		74: {pooled, (*Broker).listConfigResources, false},
		75: {pooled, (*Broker).describeTopicPartitions, false},
	}
}

// OnOpen is netloop's.
func (b *Broker) OnOpen(c netloop.Conn) {
	host := ""
	if addr := c.RemoteAddr(); addr != nil {
		host = addr.String()
		if i := strings.LastIndexByte(host, ':'); i >= 0 {
			host = strings.Trim(host[:i], "[]")
		}
	}
	c.SetContext(&session{conn: c, host: "/" + host})
}

// OnClose is netloop's.
func (b *Broker) OnClose(c netloop.Conn, _ error) {
	if s, ok := c.Context().(*session); ok && s.onClose != nil {
		s.onClose()
	}
}

// OnHalfClose is netloop's. A client that has closed its side while it waits for
// records is most likely gone.
func (b *Broker) OnHalfClose(c netloop.Conn) {
	if s, ok := c.Context().(*session); ok && s.onHalfClose != nil {
		s.onHalfClose()
	}
}

// FrameLimit is netloop's.
func (b *Broker) FrameLimit(head [6]byte) int {
	return wire.FrameLimit(head, b.requestMax)
}

// OnPass is netloop's.
func (b *Broker) OnPass(loop int) {
	b.benches[loop].byPass, b.benches[loop].timed = true, false
	b.gather.pass(b)
}

// OnInput is netloop's.
func (b *Broker) OnInput(loop int) {
	b.gather.input(b, loop)
}

// OnFrame is netloop's: it parses, decodes and handles one request.
func (b *Broker) OnFrame(c netloop.Conn, slot netloop.Slot, frame, out []byte) ([]byte, netloop.Verdict) {
	s := c.Context().(*session)
	h, err := wire.ParseHeader(frame)
	if err != nil {
		return b.badHeader(s, h, err, out)
	}
	a := &b.table[h.Key]
	onGoroutine := c.Bulk()
	w := b.benchOf(s, onGoroutine)
	if !onGoroutine {
		if a.class == bulk || len(frame) > maxLoopFrame {
			return out, netloop.Bulk
		}
		if a.class == pooled || !a.early && !b.isOpen() {
			w.counts.requests[h.Key].Add(1)
			b.pool.add(s, slot, frame) // its workers start when the folder is open
			return out, netloop.Hold
		}
	}
	n := w.counts.requests[h.Key].Add(1)
	r := &w.request
	*r = request{session: s, slot: slot, key: h.Key, version: h.Version, correlationID: h.CorrelationID, clientID: h.ClientID, frame: frame}
	if !a.early && !b.waitOpen() {
		return out, netloop.Close
	}
	r.mono, r.wall = w.now(b.time)
	var verdict netloop.Verdict
	if !onGoroutine || (len(frame) <= maxLoopFrame && a.class != pooled) {
		out, verdict = b.decodeAndHandle(w, h, a.handle, out)
	} else {
		out, verdict = b.handleLarge(w, h, a, len(frame), out)
	}
	if (verdict == netloop.Answered || verdict == netloop.None) && w.times(n) {
		b.observe(&w.counts.latency, h.Key, r.mono)
	}
	if b.tellsRequests {
		b.tellRequest(r, verdict)
	}
	if len(frame) > maxLoopFrame {
		// The connection may wait or be idle for long: nothing is to keep the frame.
		w.decoder, w.request = wire.Decoder{}, request{}
	}
	return out, verdict
}

func (b *Broker) decodeAndHandle(w *bench, h wire.Header, handle handler, out []byte) ([]byte, netloop.Verdict) {
	message, err := w.decoder.Decode(h)
	if err != nil {
		b.malformed(w.request.session, err)
		return out, netloop.Close
	}
	w.request.message = message
	return handle(b, &w.request, out)
}

// handleLarge handles, on the connection's own goroutine, what takes much memory
// once decoded or work of the pool's kind.
func (b *Broker) handleLarge(w *bench, h wire.Header, a *api, size int, out []byte) ([]byte, netloop.Verdict) {
	if size > maxLoopFrame {
		b.decoding.take(size)
	}
	if a.class == bulk {
		// Records are not copied when decoded, and a Produce may wait for room: it
		// must not keep others from decoding.
		message, err := w.decoder.Decode(h)
		if size > maxLoopFrame {
			b.decoding.give(size)
		}
		if err != nil {
			b.malformed(w.request.session, err)
			return out, netloop.Close
		}
		w.request.message = message
		return a.handle(b, &w.request, out)
	}
	if size > maxLoopFrame {
		defer b.decoding.give(size)
	}
	if a.class == pooled {
		b.pool.turns <- struct{}{}
		defer func() { <-b.pool.turns }()
		w.request.pace = b.newPace()
	}
	return b.decodeAndHandle(w, h, a.handle, out)
}

// isOpen reports whether the data folder is open: store and shards are there.
func (b *Broker) isOpen() bool { return b.shards.Load() != nil }

// waitOpen waits until the data folder is open, on a connection's own goroutine;
// false if it is not and the broker ends.
func (b *Broker) waitOpen() bool {
	if b.isOpen() {
		return true
	}
	select {
	case <-b.opened:
		return true
	case <-b.stop:
	case <-b.ended:
	}
	return false
}

// benchOf returns what the calling goroutine may work with.
func (b *Broker) benchOf(s *session, onGoroutine bool) *bench {
	if !onGoroutine {
		return &b.benches[s.conn.Loop()]
	}
	if s.bench == nil {
		s.bench = &bench{counts: b.benches[s.conn.Loop()].counts}
	}
	return s.bench
}

// badHeader treats a frame whose header was refused: the connection is closed
// without an answer, as Kafka does; only ApiVersions at an unknown version is
// answered, so that a newer client learns what to use.
func (b *Broker) badHeader(s *session, h wire.Header, err error, out []byte) ([]byte, netloop.Verdict) {
	if errors.Is(err, wire.ErrUnsupportedVersion) && h.Key == wire.KeyApiVersions {
		return wire.AppendUnsupportedVersion(out, h.CorrelationID), netloop.Answered
	}
	if errors.Is(err, wire.ErrUnsupportedVersion) {
		err = fmt.Errorf("%w: %d of API key %d", err, h.Version, h.Key)
	}
	b.malformed(s, err)
	return out, netloop.Close
}
