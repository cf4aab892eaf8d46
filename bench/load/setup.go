package load

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const retryPause = 2 * time.Millisecond

// retry calls f until it answers another code than a transient one.
func retry(what string, f func() (codeError, error)) error {
	for end := time.Now().Add(setupTimeout); ; time.Sleep(retryPause) {
		code, err := f()
		switch {
		case err != nil:
			return err
		case code == 0:
			return nil
		case !code.transient() || time.Now().After(end):
			return fmt.Errorf("%s: %w", what, code)
		}
	}
}

// FindCoordinator returns when the broker names itself the coordinator of group.
func (p *Peer) FindCoordinator(group string) error {
	return retry("FindCoordinator of "+group, func() (codeError, error) {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorKeys = []string{group}
		req.CoordinatorKey = group
		resp, err := p.Ask(req, 4, setupTimeout)
		if err != nil {
			return 0, err
		}
		found := resp.(*kmsg.FindCoordinatorResponse)
		if len(found.Coordinators) == 1 {
			return codeError(found.Coordinators[0].ErrorCode), nil
		}
		return codeError(found.ErrorCode), nil
	})
}

// EnsureTopic creates topic, unless it exists, and returns when a commit for
// its last partition cannot fail for want of the topic.
func (p *Peer) EnsureTopic(topic string, partitions int) error {
	err := retry("CreateTopics of "+topic, func() (codeError, error) {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.TimeoutMillis = int32(setupTimeout.Milliseconds())
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = topic, int32(partitions), 1
		req.Topics = append(req.Topics, t)
		resp, err := p.Ask(req, 7, setupTimeout)
		if err != nil {
			return 0, err
		}
		for _, t := range resp.(*kmsg.CreateTopicsResponse).Topics {
			if code := codeError(t.ErrorCode); code != 0 && code != codeTopicAlreadyExists {
				return code, nil
			}
		}
		return 0, nil
	})
	if err != nil {
		return err
	}
	for end := time.Now().Add(setupTimeout); ; time.Sleep(retryPause) {
		n, err := p.partitionsOf(topic)
		if err != nil || n >= partitions {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("topic %s has %d partitions, want %d", topic, n, partitions)
		}
	}
}

func (p *Peer) partitionsOf(topic string) (int, error) {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, t)
	resp, err := p.Ask(req, 9, setupTimeout)
	if err != nil {
		return 0, err
	}
	topics := resp.(*kmsg.MetadataResponse).Topics
	if len(topics) != 1 || topics[0].ErrorCode != 0 {
		return 0, nil
	}
	return len(topics[0].Partitions), nil
}

// A Member is the one member of a group, joined and synced.
type Member struct {
	Group, ID  string
	Generation int32
}

// Join brings a member into group, which must have no other.
func (p *Peer) Join(group, topic string) (Member, error) {
	m := Member{Group: group}
	err := retry("joining "+group, func() (codeError, error) {
		code, err := p.joinOnce(&m, topic)
		if code == codeMemberIDRequired {
			code, err = p.joinOnce(&m, topic)
		}
		if code == codeUnknownMemberID { // the empty group expired in between
			m.ID, code = "", codeNotAvailable
		}
		if err != nil || code != 0 {
			return code, err
		}
		req := kmsg.NewPtrSyncGroupRequest()
		req.Group, req.Generation, req.MemberID = group, m.Generation, m.ID
		req.ProtocolType, req.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		assignment := kmsg.NewConsumerMemberAssignment()
		a.MemberID, a.MemberAssignment = m.ID, assignment.AppendTo(nil)
		req.GroupAssignment = append(req.GroupAssignment, a)
		resp, err := p.Ask(req, 5, setupTimeout)
		if err != nil {
			return 0, err
		}
		code = codeError(resp.(*kmsg.SyncGroupResponse).ErrorCode)
		if code == codeRebalanceInProgress {
			code = codeNotAvailable
		}
		return code, nil
	})
	return m, err
}

func (p *Peer) joinOnce(m *Member, topic string) (codeError, error) {
	joined, err := p.join(m, topic, setupTimeout)
	if err != nil {
		return 0, err
	}
	return codeError(joined.ErrorCode), nil
}

// Leave takes the member out of its group.
func (p *Peer) Leave(m Member) error {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID = m.Group, m.ID
	leaving := kmsg.NewLeaveGroupRequestMember()
	leaving.MemberID = m.ID
	req.Members = append(req.Members, leaving)
	resp, err := p.Ask(req, 5, setupTimeout)
	if err != nil {
		return err
	}
	if code := codeError(resp.(*kmsg.LeaveGroupResponse).ErrorCode); code != 0 {
		return fmt.Errorf("leaving %s: %w", m.Group, code)
	}
	return nil
}

// NewCommit is a commit of offset 0 for every partition of topic, to a group
// without members (generation -1).
func NewCommit(group, topic string, partitions int) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = group, -1
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = topic
	for i := range partitions {
		part := kmsg.NewOffsetCommitRequestTopicPartition()
		part.Partition, part.LeaderEpoch = int32(i), -1
		t.Partitions = append(t.Partitions, part)
	}
	req.Topics = append(req.Topics, t)
	return req
}

// Commit sends req once and returns its first error code as an error. It does
// not ask again: transient tells whether that would make sense.
func (p *Peer) Commit(req *kmsg.OffsetCommitRequest) (transient bool, err error) {
	resp, err := p.Ask(req, maxCommitVersion, setupTimeout)
	if err != nil {
		return false, err
	}
	for _, code := range errorCodes(resp) {
		return code.transient() || code == codeUnknownTopic, code
	}
	return false, nil
}

// maxCommitVersion is the last one that names topics by name, not by id.
const maxCommitVersion = 9

// errorCodes lists the codes other than 0 in the answers this package measures.
func errorCodes(resp kmsg.Response) []codeError {
	var codes []codeError
	switch r := resp.(type) {
	case *kmsg.HeartbeatResponse:
		if r.ErrorCode != 0 {
			codes = append(codes, codeError(r.ErrorCode))
		}
	case *kmsg.OffsetCommitResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 {
					codes = append(codes, codeError(p.ErrorCode))
				}
			}
		}
	default:
		panic(fmt.Sprintf("no error codes known for %T", resp))
	}
	return codes
}
