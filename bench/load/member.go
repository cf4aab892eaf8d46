package load

import (
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// dialAgain is how long a connection is tried again that the kernel or the
// broker refuses for the moment.
const dialAgain = 30 * time.Second

// DialPatient is Dial for one of very many connections at once: it tries again
// until they are taken. The connection has no ApiVersions request of its own but
// the versions of another one, if given.
func DialPatient(addr string, like *Peer) (*Peer, error) {
	for end := time.Now().Add(dialAgain); ; time.Sleep(5 * time.Millisecond) {
		conn, err := net.DialTimeout("tcp", addr, dialAgain)
		if err != nil && time.Now().Before(end) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return newPeer(conn, like.maxVersions), nil
	}
}

// A Joined is a member of a group with others.
type Joined struct {
	Member
	// Rounds is how many assignments the member was given: 1 if the group settled at
	// once.
	Rounds int
}

// JoinOthers brings a member into a group that others join as well, and returns
// when it has an assignment. The leader assigns nothing to anybody.
func (p *Peer) JoinOthers(m *Joined, topic string, timeout time.Duration) error {
	for end := time.Now().Add(timeout); ; {
		if time.Now().After(end) {
			return fmt.Errorf("joining %s: no end after %v", m.Group, timeout)
		}
		joined, err := p.join(&m.Member, topic, timeout)
		if err != nil {
			return err
		}
		switch code := codeError(joined.ErrorCode); {
		case code == codeMemberIDRequired:
			continue
		case code == codeUnknownMemberID: // the empty group expired in between
			m.ID = ""
			continue
		case code.transient():
			time.Sleep(retryPause)
			continue
		case code != 0:
			return fmt.Errorf("joining %s: %w", m.Group, code)
		}
		req := kmsg.NewPtrSyncGroupRequest()
		req.Group, req.Generation, req.MemberID = m.Group, m.Generation, m.ID
		req.ProtocolType, req.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
		assignment := kmsg.NewConsumerMemberAssignment()
		for i := range joined.Members {
			a := kmsg.NewSyncGroupRequestGroupAssignment()
			a.MemberID, a.MemberAssignment = joined.Members[i].MemberID, assignment.AppendTo(nil)
			req.GroupAssignment = append(req.GroupAssignment, a)
		}
		resp, err := p.Ask(req, 5, timeout)
		if err != nil {
			return err
		}
		switch code := codeError(resp.(*kmsg.SyncGroupResponse).ErrorCode); code {
		case 0:
			m.Rounds++
			return nil
		case codeRebalanceInProgress, codeUnknownMemberID:
			m.Rounds++
		default:
			return fmt.Errorf("syncing %s: %w", m.Group, code)
		}
	}
}

func (p *Peer) join(m *Member, topic string, timeout time.Duration) (*kmsg.JoinGroupResponse, error) {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.ProtocolType = m.Group, m.ID, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 60_000, 60_000
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Topics = []string{topic}
	protocol := kmsg.NewJoinGroupRequestProtocol()
	protocol.Name, protocol.Metadata = "range", meta.AppendTo(nil)
	req.Protocols = append(req.Protocols, protocol)
	resp, err := p.Ask(req, 9, timeout)
	if err != nil {
		return nil, err
	}
	joined := resp.(*kmsg.JoinGroupResponse)
	if joined.MemberID != "" {
		m.ID = joined.MemberID
	}
	m.Generation = joined.Generation
	return joined, nil
}

// Beat sends one heartbeat and returns its error code, 0 when all is well.
func (p *Peer) Beat(m Member, timeout time.Duration) (code int16, err error) {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.Generation, req.MemberID = m.Group, m.Generation, m.ID
	resp, err := p.Ask(req, 4, timeout)
	if err != nil {
		return 0, err
	}
	return resp.(*kmsg.HeartbeatResponse).ErrorCode, nil
}

// Rebalancing is the code of a heartbeat that tells the member to join again.
const Rebalancing = int16(codeRebalanceInProgress)

// Transient tells that an error code asks to be asked again.
func Transient(code int16) bool { return codeError(code).transient() }
