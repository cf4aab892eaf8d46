package sim

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/wire"
)

// A client is an actor's connection: requests with their callbacks. An answer
// calls back with the response, a lost connection with nil.
type client struct {
	world     *World
	name      string
	conn      *conn
	lane      lane
	formatter *kmsg.RequestFormatter
	next      int32
	pending   []call
	deaf      bool // the process is paused: nothing is read
	// refused counts the requests for which there was no connection to be had, and
	// who asked has not been told: it is at refusedAt, and sends nothing else before.
	refused   int
	refusedAt time.Duration
}

// A lane is one connection as the client counts them: what is sent on one lane
// is worked on in that order.
type lane struct {
	client *client
	number int
}

type call struct {
	request       kmsg.Request
	correlationID int32
	sent          time.Duration
	done          func(resp kmsg.Response)
}

func newClient(w *World, name string) *client {
	c := &client{world: w, name: name, formatter: kmsg.NewRequestFormatter(kmsg.FormatterClientID(name))}
	c.lane.client = c
	w.clients = append(w.clients, c)
	return c
}

// call sends a request on the client's connection, which is made if need be.
func (c *client) call(req kmsg.Request, done func(resp kmsg.Response)) {
	w := c.world
	if w.options.Trace != nil {
		w.trace("%s asks %s %d: %+v", c.name, kmsg.NameForKey(req.Key()), req.GetVersion(), req)
	}
	if w.process == nil || c.refused > 0 {
		if c.refused++; c.refused == 1 {
			c.refusedAt = w.machine.clock.mono + w.pause()
		}
		w.after(c.refusedAt-w.machine.clock.mono, func() {
			c.refused--
			done(nil)
		})
		return
	}
	c.send(req)
	c.pending = append(c.pending, call{req, c.next, w.machine.clock.mono, done})
}

// tell sends a request that has no answer.
func (c *client) tell(req kmsg.Request) {
	if c.world.process != nil {
		c.send(req)
	}
}

func (c *client) send(req kmsg.Request) {
	if c.conn == nil {
		c.conn = c.world.process.network.connect(c.lane)
	}
	c.next++
	if c.conn.open {
		c.conn.send(c.formatter.AppendRequest(nil, req, c.next))
	}
}

// readable reports whether the client has something to read: an answer, or the
// end of the connection.
func (c *client) readable(now time.Duration) bool {
	return c.conn != nil && !c.deaf && now >= c.conn.slowUntil && (len(c.conn.outbound) > 0 || !c.conn.open)
}

// read takes one answer, or notices that the connection is gone.
func (c *client) read() {
	if len(c.conn.outbound) == 0 {
		c.lose()
		return
	}
	frame := c.conn.outbound[0]
	c.conn.outbound = c.conn.outbound[1:]
	if len(c.pending) == 0 {
		c.world.violated(checkOrder, "%s got an answer to nothing", c.name)
	}
	p := c.pending[0]
	c.pending = c.pending[1:]
	resp, err := decode(p, frame[4:])
	if err != nil {
		c.world.violated(checkOrder, "%s: %v", c.name, err)
	}
	if c.world.options.Trace != nil {
		c.world.trace("%s is told %s %+v", c.name, kmsg.NameForKey(p.request.Key()), resp)
	}
	p.done(resp)
}

// lose gives the connection up: what was on its way has no known outcome.
func (c *client) lose() {
	lost := c.pending
	c.world.trace("%s has lost its connection, %d requests on the way", c.name, len(lost))
	c.conn, c.pending = nil, nil
	c.lane.number++
	for _, p := range lost {
		p.done(nil)
	}
}

func decode(p call, body []byte) (kmsg.Response, error) {
	name := kmsg.NameForKey(p.request.Key())
	if got := int32(binary.BigEndian.Uint32(body)); got != p.correlationID {
		return nil, fmt.Errorf("%s: answer %d came for request %d", name, got, p.correlationID)
	}
	resp := p.request.ResponseKind()
	resp.SetVersion(p.request.GetVersion())
	body = body[4:]
	if resp.IsFlexible() && p.request.Key() != int16(kmsg.ApiVersions) {
		body = body[1:]
	}
	if err := resp.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("%s v%d: %w", name, p.request.GetVersion(), err)
	}
	return resp, nil
}

// disconnect drops the connection from the client's side.
func (c *client) disconnect() {
	if c.conn != nil {
		c.conn.cut(errCut)
	}
}

// atVersion sets a random version of those that are served, within bounds.
func (w *World) atVersion(req kmsg.Request, lowest, highest int16) {
	api, ok := wire.Lookup(req.Key())
	if !ok {
		panic("sim: " + kmsg.NameForKey(req.Key()) + " is not served")
	}
	lowest, highest = max(lowest, api.Min), min(highest, api.Max, req.MaxVersion())
	req.SetVersion(lowest + int16(w.random.IntN(int(highest-lowest)+1)))
}

// anyVersion sets a random version.
func (w *World) anyVersion(req kmsg.Request) { w.atVersion(req, 0, never16) }

const never16 = 1<<15 - 1
