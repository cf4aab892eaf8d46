package load

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// clientID names this generator to the broker.
	clientID = "kcoord-bench"
	// maxAnswerBytes bounds what an answer's length prefix may announce.
	maxAnswerBytes = 64 << 20
	// setupTimeout bounds one request of the set-up and one wait for the broker.
	setupTimeout = 15 * time.Second
)

// A Peer is one connection used synchronously: one request, then its answer.
// It is not safe for concurrent use.
type Peer struct {
	conn        net.Conn
	in          *bufio.Reader
	out         []byte
	scratch     []byte // for answers that are not looked into
	correlation int32
	maxVersions map[int16]int16
}

// Dial connects to addr and learns the broker's versions by ApiVersions v3.
func Dial(addr string, timeout time.Duration) (*Peer, error) {
	conn, err := net.DialTimeout("tcp", addr, timeout)
	if err != nil {
		return nil, err
	}
	p := newPeer(conn, nil)
	if err := p.negotiate(timeout); err != nil {
		conn.Close()
		return nil, fmt.Errorf("ApiVersions of %s: %w", addr, err)
	}
	return p, nil
}

func newPeer(conn net.Conn, maxVersions map[int16]int16) *Peer {
	return &Peer{conn: conn, in: bufio.NewReader(conn), maxVersions: maxVersions}
}

// Close closes the connection.
func (p *Peer) Close() error { return p.conn.Close() }

func (p *Peer) negotiate(timeout time.Duration) error {
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version = 3
	req.ClientSoftwareName, req.ClientSoftwareVersion = clientID, "1"
	p.maxVersions = map[int16]int16{req.Key(): req.Version}
	resp, err := p.Ask(req, req.Version, timeout)
	if err != nil {
		return err
	}
	versions := resp.(*kmsg.ApiVersionsResponse)
	if versions.ErrorCode != 0 {
		return codeError(versions.ErrorCode)
	}
	for _, k := range versions.ApiKeys {
		p.maxVersions[k.ApiKey] = k.MaxVersion
	}
	return nil
}

// Ask sends req in the highest version that the broker has, at most limit, and
// returns the decoded answer. Error codes inside it are the caller's affair.
func (p *Peer) Ask(req kmsg.Request, limit int16, timeout time.Duration) (kmsg.Response, error) {
	highest, ok := p.maxVersions[req.Key()]
	if !ok {
		return nil, fmt.Errorf("the broker does not offer %s", kmsg.NameForKey(req.Key()))
	}
	req.SetVersion(min(highest, limit, req.MaxVersion()))
	resp, err := p.roundTrip(req, timeout)
	if err != nil {
		return nil, fmt.Errorf("%s v%d: %w", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	return resp, nil
}

func (p *Peer) roundTrip(req kmsg.Request, timeout time.Duration) (kmsg.Response, error) {
	if err := p.send(req, timeout); err != nil {
		return nil, err
	}
	return p.answer(req, p.correlation)
}

func (p *Peer) send(req kmsg.Request, timeout time.Duration) error {
	p.correlation++
	p.out = newFormatter().AppendRequest(p.out[:0], req, p.correlation)
	if err := p.conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	_, err := p.conn.Write(p.out)
	return err
}

func newFormatter() *kmsg.RequestFormatter {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID))
}

// decodeAnswer decodes what follows the correlation id of the answer to req.
// A flexible answer's header ends in tagged fields, except ApiVersions'.
func decodeAnswer(req kmsg.Request, b []byte) (kmsg.Response, error) {
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if resp.IsFlexible() && req.Key() != kmsg.ApiVersions.Int16() {
		if len(b) == 0 || b[0] != 0 {
			return nil, errors.New("the answer's header has tagged fields, which no broker sends")
		}
		b = b[1:]
	}
	if err := resp.ReadFrom(b); err != nil {
		return nil, fmt.Errorf("cannot decode the answer: %w", err)
	}
	return resp, nil
}

// codeError is a protocol error code as an error.
type codeError int16

const (
	codeLoadInProgress      = codeError(14)
	codeNotAvailable        = codeError(15)
	codeNotCoordinator      = codeError(16)
	codeUnknownMemberID     = codeError(25)
	codeTopicAlreadyExists  = codeError(36)
	codeMemberIDRequired    = codeError(79)
	codeUnknownTopic        = codeError(3)
	codeRebalanceInProgress = codeError(27)
)

func (c codeError) Error() string { return fmt.Sprintf("error code %d", int16(c)) }

// transient tells that the broker asks to be asked again.
func (c codeError) transient() bool {
	return c == codeLoadInProgress || c == codeNotAvailable || c == codeNotCoordinator
}
