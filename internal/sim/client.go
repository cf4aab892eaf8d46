package sim

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A client is an actor's connection: requests with their callbacks. An answer
// calls back with the response, a lost connection with nil.
type client struct {
	world     *World
	name      string
	conn      *conn
	formatter *kmsg.RequestFormatter
	next      int32
	pending   []call
	deaf      bool // the process is paused: nothing is read
}

type call struct {
	request       kmsg.Request
	correlationID int32
	done          func(resp kmsg.Response)
}

func newClient(w *World, name string) *client {
	c := &client{world: w, name: name, formatter: kmsg.NewRequestFormatter(kmsg.FormatterClientID(name))}
	w.clients = append(w.clients, c)
	return c
}

// call sends a request on the client's connection, which is made if need be.
func (c *client) call(req kmsg.Request, done func(resp kmsg.Response)) {
	w := c.world
	w.trace("%s asks %s %d", c.name, kmsg.NameForKey(req.Key()), req.GetVersion())
	if w.process == nil { // connection refused
		w.after(w.pause(), func() { done(nil) })
		return
	}
	if c.conn == nil {
		c.conn = w.process.network.connect()
	}
	c.next++
	c.pending = append(c.pending, call{req, c.next, done})
	if c.conn.open {
		c.conn.send(c.formatter.AppendRequest(nil, req, c.next))
	}
}

// readable reports whether the client has something to read: an answer, or the
// end of the connection.
func (c *client) readable() bool {
	return c.conn != nil && !c.deaf && (len(c.conn.outbound) > 0 || !c.conn.open)
}

// read takes one answer, or notices that the connection is gone.
func (c *client) read() {
	if len(c.conn.outbound) == 0 {
		lost := c.pending
		c.world.trace("%s has lost its connection, %d requests on the way", c.name, len(lost))
		c.conn, c.pending = nil, nil
		for _, p := range lost {
			p.done(nil)
		}
		return
	}
	frame := c.conn.outbound[0]
	c.conn.outbound = c.conn.outbound[1:]
	if len(c.pending) == 0 {
		c.world.violated("%s got an answer to nothing", c.name)
	}
	p := c.pending[0]
	c.pending = c.pending[1:]
	resp, err := decode(p, frame[4:])
	if err != nil {
		c.world.violated("%s: %v", c.name, err)
	}
	c.world.answered[p.request.Key()]++
	if c.world.options.Trace != nil {
		c.world.trace("%s is told %s %+v", c.name, kmsg.NameForKey(p.request.Key()), resp)
	}
	p.done(resp)
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
