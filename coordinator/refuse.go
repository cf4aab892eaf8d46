package coordinator

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// GroupOf returns the one group that a request is about. Requests that may name
// several (DescribeGroups, DeleteGroups, OffsetFetch from v8 on) are about one if
// they name exactly one; ListGroups is about none.
func GroupOf(req kmsg.Request) (group string, ok bool) {
	switch r := req.(type) {
	case *kmsg.HeartbeatRequest:
		return r.Group, true
	case *kmsg.OffsetCommitRequest:
		return r.Group, true
	case *kmsg.OffsetFetchRequest:
		if r.Version < 8 {
			return r.Group, true
		}
		if len(r.Groups) == 1 {
			return r.Groups[0].Group, true
		}
	case *kmsg.JoinGroupRequest:
		return r.Group, true
	case *kmsg.SyncGroupRequest:
		return r.Group, true
	case *kmsg.LeaveGroupRequest:
		return r.Group, true
	case *kmsg.OffsetDeleteRequest:
		return r.Group, true
	case *kmsg.DeleteGroupsRequest:
		if len(r.Groups) == 1 {
			return r.Groups[0], true
		}
	case *kmsg.DescribeGroupsRequest:
		if len(r.Groups) == 1 {
			return r.Groups[0], true
		}
	}
	return "", false
}

// MayWrite reports whether a request can make its Step emit records. Heartbeats
// and reads cannot.
func MayWrite(req kmsg.Request) bool {
	switch req.(type) {
	case *kmsg.HeartbeatRequest, *kmsg.OffsetFetchRequest, *kmsg.DescribeGroupsRequest, *kmsg.ListGroupsRequest:
		return false
	}
	return true
}

// Refuse answers a request for a shard that cannot serve it now with what Apache
// Kafka would: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS (a Heartbeat is then
// answered NONE) or COORDINATOR_NOT_AVAILABLE. What Kafka checks before it looks
// for the shard comes first; ev.Topics nil: it is not known which topics there
// are, and none is refused for that. The answer depends on nothing.
func Refuse(ev *Event, code int16, out *Result) {
	out.reset()
	s := Shard{ev: ev, out: out}
	switch r := ev.Request.(type) {
	case *kmsg.HeartbeatRequest:
		s.refuseHeartbeat(r, code)
	case *kmsg.OffsetCommitRequest:
		resp := &out.commit
		resp.Version, resp.ThrottleMillis = r.Version, 0
		_, refused := s.filterCommit(r, resp)
		setPending(resp, code)
		if refused {
			orderCommit(r, resp)
		}
		s.reply(ev.Token, resp, NoDependency)
	case *kmsg.OffsetFetchRequest:
		s.refuseFetch(r, code)
	case *kmsg.JoinGroupRequest:
		id := ""
		if check := checkJoin(r, ev.Config); check != codeNone {
			code, id = check, r.MemberID
		}
		s.refuseJoin(r, code, id, NoDependency)
	case *kmsg.SyncGroupRequest:
		if check := checkSync(r); check != codeNone {
			code = check
		}
		s.refuseSync(r, code, NoDependency)
	case *kmsg.LeaveGroupRequest:
		resp := kmsg.NewPtrLeaveGroupResponse()
		resp.Version, resp.ErrorCode = r.Version, orInvalid(r.Group, code)
		s.reply(ev.Token, resp, NoDependency)
	case *kmsg.OffsetDeleteRequest:
		resp := kmsg.NewPtrOffsetDeleteResponse()
		resp.Version, resp.ErrorCode = r.Version, orInvalid(r.Group, code)
		s.reply(ev.Token, resp, NoDependency)
	default:
		s.refuseAdmin(ev.Request, code)
	}
}

func orInvalid(group string, code int16) int16 {
	if group == "" {
		return codeInvalidGroupID
	}
	return code
}

func (s *Shard) refuseHeartbeat(r *kmsg.HeartbeatRequest, code int16) {
	resp := &s.out.heartbeat
	*resp = kmsg.HeartbeatResponse{Version: r.Version, ErrorCode: orInvalid(r.Group, code)}
	if resp.ErrorCode == codeCoordinatorLoadInProgress {
		resp.ErrorCode = codeNone // the member goes on; it is told later if that was wrong
	}
	s.reply(s.ev.Token, resp, NoDependency)
}

func (s *Shard) refuseFetch(r *kmsg.OffsetFetchRequest, code int16) {
	resp := kmsg.NewPtrOffsetFetchResponse()
	resp.Version = r.Version
	switch {
	case r.Version >= 8:
		for i := range r.Groups {
			resp.Groups = append(resp.Groups, RefusedFetch(&r.Groups[i], code))
		}
	case r.Version >= 2:
		resp.ErrorCode = code
	default:
		resp.Topics = refusedTopics(r, code)
	}
	s.reply(s.ev.Token, resp, NoDependency)
}

// RefusedFetch is the answer for one group of an OffsetFetch from v8 on.
func RefusedFetch(r *kmsg.OffsetFetchRequestGroup, code int16) kmsg.OffsetFetchResponseGroup {
	g := kmsg.NewOffsetFetchResponseGroup()
	g.Group, g.ErrorCode = r.Group, code
	return g
}

// refusedTopics is how OffsetFetch v1 tells of an error: on each partition.
func refusedTopics(r *kmsg.OffsetFetchRequest, code int16) (topics []kmsg.OffsetFetchResponseTopic) {
	for i := range r.Topics {
		t := kmsg.NewOffsetFetchResponseTopic()
		t.Topic = r.Topics[i].Topic
		for _, partition := range r.Topics[i].Partitions {
			p := kmsg.NewOffsetFetchResponseTopicPartition()
			empty := ""
			p.Partition, p.Offset, p.Metadata, p.ErrorCode = partition, -1, &empty, code
			t.Partitions = append(t.Partitions, p)
		}
		topics = append(topics, t)
	}
	return topics
}

func (s *Shard) refuseAdmin(req kmsg.Request, code int16) {
	switch r := req.(type) {
	case *kmsg.DeleteGroupsRequest:
		resp := kmsg.NewPtrDeleteGroupsResponse()
		resp.Version = r.Version
		for _, id := range r.Groups {
			g := kmsg.NewDeleteGroupsResponseGroup()
			g.Group, g.ErrorCode = id, code
			resp.Groups = append(resp.Groups, g)
		}
		s.reply(s.ev.Token, resp, NoDependency)
	case *kmsg.DescribeGroupsRequest:
		resp := kmsg.NewPtrDescribeGroupsResponse()
		resp.Version = r.Version
		for _, id := range r.Groups {
			g := kmsg.NewDescribeGroupsResponseGroup()
			g.Group, g.ErrorCode = id, code
			resp.Groups = append(resp.Groups, g)
		}
		s.reply(s.ev.Token, resp, NoDependency)
	case *kmsg.ListGroupsRequest:
		resp := kmsg.NewPtrListGroupsResponse()
		resp.Version = r.Version
		if code == codeCoordinatorLoadInProgress { // otherwise the shard just has nothing to list
			resp.ErrorCode = code
		}
		s.reply(s.ev.Token, resp, NoDependency)
	}
}
