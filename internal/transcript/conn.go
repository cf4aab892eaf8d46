package transcript

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// answerTimeout bounds the wait for one answer.
const answerTimeout = 20 * time.Second

const closedText = "(connection closed)\n"

// A conn is one raw connection with the requests whose answers are due on it.
type conn struct {
	net       net.Conn
	formatter *kmsg.RequestFormatter
	next      int32
	due       []kmsg.Request
}

func connect(addr string) (*conn, error) {
	c, err := net.DialTimeout("tcp", addr, answerTimeout)
	if err != nil {
		return nil, err
	}
	return &conn{net: c, formatter: kmsg.NewRequestFormatter(kmsg.FormatterClientID("transcript"))}, nil
}

func (c *conn) close() { c.net.Close() }

// served waits until the broker answers on the connection: a request that is not
// waited for arrives in time only on one that is known.
func (c *conn) served() error {
	if err := c.send("ApiVersions/0", ""); err != nil {
		return err
	}
	_, _, err := c.receive()
	return err
}

// client sets the client id of the requests to come, a quoted text or null.
func (c *conn) client(text string) error {
	if text == "null" {
		c.formatter = kmsg.NewRequestFormatter()
		return nil
	}
	id, err := strconv.Unquote(text)
	c.formatter = kmsg.NewRequestFormatter(kmsg.FormatterClientID(id))
	return err
}

// requestFor makes the request that head (Name/version) names, with its defaults.
func requestFor(head string) (kmsg.Request, error) {
	name, version, ok := strings.Cut(head, "/")
	v, err := strconv.Atoi(version)
	if !ok || err != nil {
		return nil, fmt.Errorf("%q: Name/version expected", head)
	}
	for key := range kmsg.MaxKey + 1 {
		if req := kmsg.RequestForKey(int16(key)); req != nil && kmsg.NameForKey(int16(key)) == name {
			req.(interface{ Default() }).Default()
			req.SetVersion(int16(v))
			return req, nil
		}
	}
	return nil, fmt.Errorf("no API is called %q", name)
}

func (c *conn) send(head, body string) error {
	req, err := requestFor(head)
	if err != nil {
		return err
	}
	if body = strings.TrimSpace(body); body != "" {
		if err := fill(req, body); err != nil {
			return fmt.Errorf("%s: %w", head, err)
		}
	}
	c.next++
	// A closed connection shows when the answer is read.
	if _, err := c.net.Write(c.formatter.AppendRequest(nil, req, c.next)); err == nil || isClosed(err) {
		c.due = append(c.due, req)
		return nil
	} else {
		return err
	}
}

func isClosed(err error) bool {
	var op *net.OpError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || (errors.As(err, &op) && !op.Timeout())
}

// frame reads one answer's bytes; nil when the connection was closed instead.
func (c *conn) frame(timeout time.Duration) ([]byte, error) {
	if err := c.net.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	var head [4]byte
	if _, err := io.ReadFull(c.net, head[:]); err != nil {
		if isClosed(err) {
			return nil, nil
		}
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:]))
	_, err := io.ReadFull(c.net, body)
	return body, err
}

func (c *conn) receive() (kmsg.Response, string, error) {
	if len(c.due) == 0 {
		return nil, "", errors.New("no answer is due on this connection")
	}
	req := c.due[0]
	c.due = c.due[1:]
	body, err := c.frame(answerTimeout)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", kmsg.NameForKey(req.Key()), err)
	}
	if body == nil {
		return nil, closedText, nil
	}
	want := c.next - int32(len(c.due))
	if got := int32(binary.BigEndian.Uint32(body)); got != want {
		return nil, "", fmt.Errorf("correlation id %d, expected %d", got, want)
	}
	body = body[4:]
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if resp.IsFlexible() && req.Key() != int16(kmsg.ApiVersions) {
		body = body[1:]
	}
	if req.Key() == int16(kmsg.ApiVersions) && binary.BigEndian.Uint16(body) == 35 {
		resp.SetVersion(0)
	}
	if err := resp.ReadFrom(body); err != nil {
		return nil, "", fmt.Errorf("%s: %w", kmsg.NameForKey(req.Key()), err)
	}
	return resp, "", nil
}

// silent tells whether anything arrives within d. What arrives stays unread.
func (c *conn) silent(d time.Duration) string {
	c.net.SetReadDeadline(time.Now().Add(d))
	// A zero-length read does not block, so peek through a syscall-free way: read
	// one byte and give it back.
	var one [1]byte
	n, err := c.net.Read(one[:])
	if n == 1 {
		c.net = &unread{Conn: c.net, b: one[0], have: true}
		return "(an answer)\n"
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return "(nothing)\n"
	}
	return closedText
}

// unread is a connection with one byte put back.
type unread struct {
	net.Conn
	b    byte
	have bool
}

func (u *unread) Read(p []byte) (int, error) {
	if u.have && len(p) > 0 {
		p[0], u.have = u.b, false
		return 1, nil
	}
	return u.Conn.Read(p)
}

// raw sends bytes and tells what came back.
func (c *conn) raw(text string) (string, error) {
	b, err := hex.DecodeString(text)
	if err != nil {
		return "", err
	}
	if _, err := c.net.Write(b); err != nil {
		return closedText, nil
	}
	body, err := c.frame(2 * time.Second)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "(nothing)\n", nil
	case err != nil:
		return "", err
	case body == nil:
		return closedText, nil
	}
	return fmt.Sprintf("(an answer of %d bytes)\n", len(body)), nil
}
