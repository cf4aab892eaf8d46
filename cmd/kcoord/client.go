package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxAnswerBytes bounds what the client reads as one answer.
const maxAnswerBytes = 64 << 20

// A client asks one broker one thing at a time: enough for health checks and
// the few administrative commands, without the weight of a full client.
type client struct {
	conn      net.Conn
	formatter *kmsg.RequestFormatter
	versions  map[int16]int16 // highest version that the broker serves, by key
	next      int32
	timeout   time.Duration
}

// dial connects to the first address that answers and learns its versions.
func dial(addrs []string, timeout time.Duration) (*client, error) {
	var errs []error
	for _, addr := range addrs {
		conn, err := net.DialTimeout("tcp", addr, timeout)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", addr, err))
			continue
		}
		c := &client{conn: conn, timeout: timeout,
			formatter: kmsg.NewRequestFormatter(kmsg.FormatterClientID("kcoord"))}
		if err := c.negotiate(); err != nil {
			conn.Close()
			errs = append(errs, fmt.Errorf("%s: %w", addr, err))
			continue
		}
		return c, nil
	}
	return nil, errors.Join(errs...)
}

func (c *client) close() { c.conn.Close() }

func (c *client) negotiate() error {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "kcoord", "1"
	req.SetVersion(3)
	resp, err := c.roundTrip(req)
	if err != nil {
		return err
	}
	answer := resp.(*kmsg.ApiVersionsResponse)
	if answer.ErrorCode != 0 {
		return fmt.Errorf("ApiVersions: error code %d", answer.ErrorCode)
	}
	c.versions = make(map[int16]int16, len(answer.ApiKeys))
	for _, k := range answer.ApiKeys {
		c.versions[k.ApiKey] = k.MaxVersion
	}
	return nil
}

// ask sends a request in the highest version that both sides know.
func (c *client) ask(req kmsg.Request) (kmsg.Response, error) {
	return c.askAtMost(req, req.MaxVersion())
}

// askAtMost is ask with an older version as the highest.
func (c *client) askAtMost(req kmsg.Request, highest int16) (kmsg.Response, error) {
	version, ok := c.versions[req.Key()]
	if !ok {
		return nil, fmt.Errorf("the broker does not serve %s", kmsg.NameForKey(req.Key()))
	}
	req.SetVersion(min(version, req.MaxVersion(), highest))
	return c.roundTrip(req)
}

func (c *client) roundTrip(req kmsg.Request) (kmsg.Response, error) {
	c.next++
	if err := c.conn.SetDeadline(time.Now().Add(c.timeout)); err != nil {
		return nil, err
	}
	if _, err := c.conn.Write(c.formatter.AppendRequest(nil, req, c.next)); err != nil {
		return nil, err
	}
	var head [4]byte
	if _, err := io.ReadFull(c.conn, head[:]); err != nil {
		return nil, fmt.Errorf("%s: no answer: %w", kmsg.NameForKey(req.Key()), err)
	}
	n := binary.BigEndian.Uint32(head[:])
	if n < 4 || n > maxAnswerBytes {
		return nil, fmt.Errorf("%s: an answer of %d bytes: not a Kafka broker", kmsg.NameForKey(req.Key()), n)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(c.conn, body); err != nil {
		return nil, err
	}
	if got := int32(binary.BigEndian.Uint32(body)); got != c.next {
		return nil, fmt.Errorf("%s: correlation id %d, expected %d", kmsg.NameForKey(req.Key()), got, c.next)
	}
	body = body[4:]
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if resp.IsFlexible() && req.Key() != int16(kmsg.ApiVersions) {
		// Response header v1: an empty tag section.
		if len(body) == 0 || body[0] != 0 {
			return nil, fmt.Errorf("%s: a response header with tags", kmsg.NameForKey(req.Key()))
		}
		body = body[1:]
	}
	if err := resp.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("%s: %w", kmsg.NameForKey(req.Key()), err)
	}
	return resp, nil
}
