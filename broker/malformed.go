package broker

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/kcoord/kcoord/netloop"
	"github.com/kcoord/kcoord/wire"
)

// malformed notes a request that closes its connection.
func (b *Broker) malformed(s *session, err error) {
	cause := "malformed request"
	switch {
	case errors.Is(err, wire.ErrUnsupportedVersion):
		cause = "unsupported version"
	case errors.Is(err, wire.ErrUnknownKey):
		cause = "unknown API key"
	}
	b.tellMalformed(s.conn, cause, "", err)
}

// refusedFrame notes a connection that was closed for the first bytes of a frame.
func (b *Broker) refusedFrame(c netloop.Conn, refused *netloop.FrameError) {
	cause, guess := guessPeer(refused)
	b.tellMalformed(c, cause, guess, refused)
}

// tellMalformed counts a connection that is closed for what its peer sent, and warns
// once per cause and minute. guess, if not empty, says what the peer may be.
func (b *Broker) tellMalformed(c netloop.Conn, cause, guess string, err error) {
	b.metrics.malformed.Add(1)
	e := b.warn(cause)
	if e == nil {
		return
	}
	if addr := c.RemoteAddr(); addr != nil {
		e = e.Stringer("peer", addr)
	}
	if guess != "" {
		e = e.Str("guess", guess)
	}
	e.Str("listener", c.Listener()).Err(err).Msg("request refused, connection closed")
}

// httpBegins are the first four bytes of HTTP requests.
var httpBegins = map[string]bool{"GET ": true, "HEAD": true, "POST": true, "PUT ": true, "DELE": true, "OPTI": true, "PATC": true, "CONN": true, "PRI ": true}

// guessPeer tells from the first bytes of a frame what speaks there. Causes are
// constants.
func guessPeer(refused *netloop.FrameError) (cause, guess string) {
	head := refused.Head
	switch {
	case head[0] == 0x16 && head[1] == 3: // a handshake record of TLS 1.x
		return "TLS client", "TLS client on a PLAINTEXT listener"
	case httpBegins[string(head[:4])]:
		return "HTTP client", "HTTP client on a listener of Kafka's protocol"
	case errors.Is(refused, netloop.ErrFrameTooLong):
		return "frame too long", fmt.Sprintf("a request of %d bytes, more than its API or socket.request.max.bytes allows, or not Kafka's protocol", refused.Length())
	case errors.Is(refused, netloop.ErrFrameTooShort):
		return "frame too short", "not Kafka's protocol"
	}
	return "unknown API key", fmt.Sprintf("a request of API key %d, which is not served here, or not Kafka's protocol", int16(binary.BigEndian.Uint16(head[4:])))
}
