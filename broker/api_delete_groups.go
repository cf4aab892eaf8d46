package broker

import (
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/coordinator"
	"github.com/kcoord/kcoord/log"
	"github.com/kcoord/kcoord/netloop"
	"github.com/kcoord/kcoord/wire"
)

// deletePiece is how many groups one step is asked to delete at most: the shard's
// lock is free in between.
const deletePiece = 500

// deleteGroups serves DeleteGroups (42): each shard deletes its groups in steps
// of its own, which may go on in later steps; the last one answers.
func (b *Broker) deleteGroups(r *request, out []byte) ([]byte, netloop.Verdict) {
	req := r.message.(*kmsg.DeleteGroupsRequest)
	g := &gathering{broker: b, version: r.version, correlationID: r.correlationID, waiter: r.waiter(nil),
		results: make(map[string]kmsg.DeleteGroupsResponseGroup)}
	parts := make(map[*shard][]string)
	for _, name := range req.Groups {
		if _, double := g.results[name]; double {
			continue
		}
		g.order = append(g.order, name)
		result := kmsg.NewDeleteGroupsResponseGroup()
		result.Group, result.ErrorCode = name, codeCoordinatorLoadInProgress
		g.results[name] = result
		sh := b.shardFor(name)
		if sh == nil {
			continue
		}
		parts[sh] = append(parts[sh], name)
	}
	g.missing = 1
	for _, names := range parts {
		g.missing += (len(names) + deletePiece - 1) / deletePiece
	}
	for _, sh := range b.allShards() {
		for names := range slices.Chunk(parts[sh], deletePiece) {
			part := kmsg.NewPtrDeleteGroupsRequest()
			part.SetVersion(r.version)
			part.Groups = names
			var after aftermath
			sub := *r
			sub.message = part
			sh.gather(&sub, g, &after)
			b.conclude(&after)
			r.pace.step()
		}
	}
	var after aftermath
	g.add(nil, 0, &after)
	b.conclude(&after)
	return out, netloop.Later
}

// A gathering is a DeleteGroups whose answer is made of several shards' parts.
type gathering struct {
	broker        *Broker
	version       int16
	correlationID int32
	waiter        log.Waiter // without its answer
	order         []string   // the request's groups, each once

	mu      sync.Mutex // a leaf below the shards' locks
	results map[string]kmsg.DeleteGroupsResponseGroup
	newest  log.Position
	missing int // parts to come, and the handler itself
}

// add takes one part; the last one sends the answer when it may go.
func (g *gathering) add(part []kmsg.DeleteGroupsResponseGroup, pos log.Position, after *aftermath) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range part {
		g.results[part[i].Group] = part[i]
	}
	g.newest = max(g.newest, pos)
	if g.missing--; g.missing > 0 {
		return
	}
	resp := kmsg.NewPtrDeleteGroupsResponse()
	resp.SetVersion(g.version)
	for _, name := range g.order {
		resp.Groups = append(resp.Groups, g.results[name])
	}
	g.waiter.Answer = wire.AppendResponse(nil, g.correlationID, resp)
	if g.newest == 0 || g.broker.store.AwaitPosition(g.newest, g.waiter) {
		after.done = append(after.done, netloop.Completion{Conn: g.waiter.Conn.(netloop.Conn),
			Slot: netloop.Slot{Index: g.waiter.Slot, Generation: g.waiter.Generation}, Answer: g.waiter.Answer})
	}
}

// gather steps the core with a part of a request.
func (sh *shard) gather(r *request, g *gathering, after *aftermath) {
	sh.mu.Lock()
	defer sh.unlock()
	part := r.message.(*kmsg.DeleteGroupsRequest)
	if code := sh.admitLocked(true); code != codeNone {
		sh.broker.countRefused(code)
		refused := make([]kmsg.DeleteGroupsResponseGroup, len(part.Groups))
		for i, name := range part.Groups {
			refused[i] = kmsg.NewDeleteGroupsResponseGroup()
			refused[i].Group, refused[i].ErrorCode = name, code
		}
		g.add(refused, 0, after)
		return
	}
	token := sh.reserveLocked()
	sh.mu.parked[token] = parked{gathering: g}
	sh.broker.fillEvent(&sh.mu.event, r, token)
	sh.stepLocked(&sh.mu.event)
	sh.settleLocked(nil, 0, nil, after)
}

// takePart gives a gathering a shard's part of the answer.
func (sh *shard) takePart(g *gathering, reply *coordinator.Reply, after *aftermath) {
	part := reply.Response.(*kmsg.DeleteGroupsResponse)
	g.add(append([]kmsg.DeleteGroupsResponseGroup(nil), part.Groups...), positionOf(sh.partition, reply.DependsOn), after)
}
