package coordinator

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/coordinator/records"
)

// What a Result keeps for reuse is bounded, so that one huge step does not hold
// its memory for good.
const (
	maxKeptArena     = 1 << 20
	maxKeptResponses = 256
)

// scratch holds what is reused between steps: the bytes of records and the
// response objects of hot requests.
type scratch struct {
	arena   []byte
	strings []string // what nullable string fields of responses point to

	heartbeat  kmsg.HeartbeatResponse
	commit     kmsg.OffsetCommitResponse
	fetch      kmsg.OffsetFetchResponse
	fetchPass  FetchPass
	fetchGroup kmsg.OffsetFetchRequestGroup
	joins      []*kmsg.JoinGroupResponse
	syncs      []*kmsg.SyncGroupResponse
	usedJoins  int
	usedSyncs  int

	members []records.GroupMetadataMember
}

func (r *Result) reset() {
	r.Records = r.Records[:0]
	r.Replies = r.Replies[:0]
	r.Timers = r.Timers[:0]
	r.Transitions = r.Transitions[:0]
	r.Expiries = r.Expiries[:0]
	r.Replacements = r.Replacements[:0]
	r.Refusals = r.Refusals[:0]
	if cap(r.arena) > maxKeptArena {
		r.arena = nil
	}
	r.arena = r.arena[:0]
	r.strings = r.strings[:0]
	if len(r.joins) > maxKeptResponses {
		r.joins = nil
	}
	if len(r.syncs) > maxKeptResponses {
		r.syncs = nil
	}
	if cap(r.Replies) > 4*maxKeptResponses {
		r.Replies, r.Timers = nil, nil
	}
	if cap(r.members) > maxKeptResponses {
		r.members = nil
	}
	r.usedJoins, r.usedSyncs = 0, 0
}

// str returns a pointer to a copy of v's header that lives as long as the Result.
func (r *Result) str(v string) *string {
	r.strings = append(r.strings, v)
	return &r.strings[len(r.strings)-1]
}

// join returns a cleared JoinGroup response.
func (r *Result) join(version int16) *kmsg.JoinGroupResponse {
	if r.usedJoins == len(r.joins) {
		r.joins = append(r.joins, new(kmsg.JoinGroupResponse))
	}
	resp := r.joins[r.usedJoins]
	r.usedJoins++
	*resp = kmsg.JoinGroupResponse{Version: version, Generation: -1, Members: resp.Members[:0]}
	return resp
}

// sync returns a cleared SyncGroup response.
func (r *Result) sync(version int16) *kmsg.SyncGroupResponse {
	if r.usedSyncs == len(r.syncs) {
		r.syncs = append(r.syncs, new(kmsg.SyncGroupResponse))
	}
	resp := r.syncs[r.usedSyncs]
	r.usedSyncs++
	*resp = kmsg.SyncGroupResponse{Version: version}
	return resp
}

// reply answers a request with a response that depends on the log up to offset.
func (s *Shard) reply(token Token, resp kmsg.Response, offset int64) {
	s.out.Replies = append(s.out.Replies, Reply{Token: token, Response: resp, DependsOn: offset})
}

// lastOffset is what an answer depends on that tells of the whole shard, or of
// something that it does not have: the shard's newest record.
func (s *Shard) lastOffset() int64 { return s.next - 1 }

// membershipDependency is what an answer about g's membership depends on. g may
// be nil: the group does not exist.
func (s *Shard) membershipDependency(g *group) int64 {
	if g == nil {
		return s.lastOffset()
	}
	return g.membershipOffset
}

// offsetsDependency is what an answer about g's committed offsets depends on.
func (s *Shard) offsetsDependency(g *group) int64 {
	if g == nil {
		return s.lastOffset()
	}
	return g.offsetsOffset
}

// finish makes every reply of a step that wrote something wait for what it wrote:
// a reply may have been made before the last record.
func (s *Shard) finish() {
	if len(s.out.Records) == 0 {
		return
	}
	last := s.lastOffset()
	for i := range s.out.Replies {
		if r := &s.out.Replies[i]; r.DependsOn < last {
			r.DependsOn = last
		}
	}
}
