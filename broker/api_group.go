package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/coordinator"
	"github.com/kcoord/kcoord/log"
	"github.com/kcoord/kcoord/netloop"
)

// groupRequest serves what the coordinator of one group answers in one step:
// JoinGroup (11), Heartbeat (12), LeaveGroup (13), SyncGroup (14), OffsetCommit
// (8), OffsetDelete (47).
func (b *Broker) groupRequest(r *request, out []byte) ([]byte, netloop.Verdict) {
	group, ok := coordinator.GroupOf(r.message)
	if !ok {
		return out, netloop.Close
	}
	return b.group(r, group, out)
}

const (
	// inlinePartitions is up to how many partitions an OffsetFetch is answered on an
	// event loop.
	inlinePartitions = 1000
	// fetchPiece is how many partitions are read under a shard's lock at a time: well
	// under 100 µs.
	fetchPiece = 1000
)

// offsetFetch serves OffsetFetch (9). One group with few partitions takes one
// step; everything else is read in pieces, and groups that would make the answer
// too long are refused so that clients ask for them separately.
func (b *Broker) offsetFetch(r *request, out []byte) ([]byte, netloop.Verdict) {
	req := r.message.(*kmsg.OffsetFetchRequest)
	group, single := coordinator.GroupOf(req)
	few := fewPartitions(req)
	if single && few {
		return b.group(r, group, out)
	}
	if !few && r.onLoop() {
		return r.toPool(b, out)
	}
	groups := req.Groups
	if r.version < 8 {
		groups = []kmsg.OffsetFetchRequestGroup{fetchGroupOf(req)}
	}
	resp := kmsg.NewPtrOffsetFetchResponse()
	size := b.answerSize()
	defer size.done()
	seen := make(map[string]bool, len(groups))
	full := false // of what is repeated
	var newest log.Position
	for i := range groups {
		g := &groups[i]
		if full && seen[g.Group] {
			resp.Groups = append(resp.Groups, refusedOffsets(r, g, codeCoordinatorLoadInProgress))
			continue
		}
		if i > 0 {
			r.pace.step()
		}
		one, pos := b.fetchOffsets(r, g)
		n, again := fetchedSize(&one, g.Topics != nil)
		if seen[g.Group] {
			again = n
		}
		seen[g.Group] = true
		if !size.fitsPartly(n, again) {
			full = full || again > 0
			one, pos = refusedOffsets(r, g, codeCoordinatorLoadInProgress), 0
		}
		resp.Groups = append(resp.Groups, one)
		newest = max(newest, pos)
	}
	if r.version < 8 {
		toTop(resp)
	}
	return r.awaitPosition(b.store, newest, r.respond(slices.Grow(out, size.total), resp))
}

// fewPartitions reports whether a request names its partitions and they are few.
func fewPartitions(req *kmsg.OffsetFetchRequest) bool {
	n := 0
	if req.Version < 8 {
		if req.Topics == nil {
			return false
		}
		for i := range req.Topics {
			n += len(req.Topics[i].Partitions)
		}
		return n <= inlinePartitions
	}
	for i := range req.Groups {
		if req.Groups[i].Topics == nil {
			return false
		}
		for j := range req.Groups[i].Topics {
			n += len(req.Groups[i].Topics[j].Partitions)
		}
	}
	return n <= inlinePartitions && len(req.Groups) <= inlinePartitions
}

// fetchGroupOf puts a request below version 8 into the form of one group.
func fetchGroupOf(req *kmsg.OffsetFetchRequest) kmsg.OffsetFetchRequestGroup {
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = req.Group
	if req.Topics != nil {
		g.Topics = make([]kmsg.OffsetFetchRequestGroupTopic, 0, len(req.Topics))
	}
	for i := range req.Topics {
		t := kmsg.NewOffsetFetchRequestGroupTopic()
		t.Topic, t.Partitions = req.Topics[i].Topic, req.Topics[i].Partitions
		g.Topics = append(g.Topics, t)
	}
	return g
}

// toTop puts the answer about one group into the form of the versions below 8.
func toTop(resp *kmsg.OffsetFetchResponse) {
	g := &resp.Groups[0]
	resp.ErrorCode = g.ErrorCode
	for i := range g.Topics {
		t := kmsg.NewOffsetFetchResponseTopic()
		t.Topic = g.Topics[i].Topic
		for _, from := range g.Topics[i].Partitions {
			p := kmsg.NewOffsetFetchResponseTopicPartition()
			p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode =
				from.Partition, from.Offset, from.LeaderEpoch, from.Metadata, from.ErrorCode
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	resp.Groups = nil
}

// fetchOffsets answers one group of an OffsetFetch in pieces.
func (b *Broker) fetchOffsets(r *request, g *kmsg.OffsetFetchRequestGroup) (kmsg.OffsetFetchResponseGroup, log.Position) {
	sh := b.shardFor(g.Group)
	pass := coordinator.FetchPass{Group: g, Version: r.version}
	var newest log.Position
	code := sh.inPieces(r.pace, func(core *coordinator.Shard) (done bool) {
		if pass.Topics == nil {
			pass.Topics = b.meta.Load()
		}
		done = core.FetchOffsets(&pass, fetchPiece)
		newest = positionOf(sh.partition, pass.DependsOn)
		return done
	})
	if code == codeNone {
		return pass.Response, newest
	}
	return refusedOffsets(r, g, code), 0
}

// refusedOffsets is the answer about a group that is not read.
func refusedOffsets(r *request, g *kmsg.OffsetFetchRequestGroup, code int16) kmsg.OffsetFetchResponseGroup {
	refused := kmsg.NewOffsetFetchResponseGroup()
	refused.Group, refused.ErrorCode = g.Group, code
	if r.version == 1 {
		// There is no place for a group's error yet: it stands on each partition.
		for i := range g.Topics {
			t := kmsg.NewOffsetFetchResponseGroupTopic()
			t.Topic = g.Topics[i].Topic
			for _, index := range g.Topics[i].Partitions {
				p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
				p.Partition, p.Offset, p.LeaderEpoch, p.ErrorCode = index, -1, -1, code
				t.Partitions = append(t.Partitions, p)
			}
			refused.Topics = append(refused.Topics, t)
		}
	}
	return refused
}

// inPieces calls piece under the shard's lock until it is done, giving others
// the lock in between. A nil shard is one that has not been opened yet. The code
// tells why it was not called.
func (sh *shard) inPieces(pace *pace, piece func(core *coordinator.Shard) (done bool)) int16 {
	if sh == nil {
		return codeCoordinatorLoadInProgress
	}
	for {
		done, code := sh.onePiece(piece)
		if done || code != codeNone {
			return code
		}
		pace.step()
	}
}

func (sh *shard) onePiece(piece func(core *coordinator.Shard) (done bool)) (done bool, code int16) {
	sh.mu.Lock()
	defer sh.unlock()
	if code = sh.admitLocked(false); code != codeNone {
		return false, code
	}
	return piece(sh.mu.core), codeNone
}
