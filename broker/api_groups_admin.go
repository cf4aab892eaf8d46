package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/coordinator"
	"github.com/kcoord/kcoord/log"
	"github.com/kcoord/kcoord/netloop"
	"github.com/kcoord/kcoord/wire"
)

const (
	// listPiece and describePiece are how many groups and members are visited under
	// a shard's lock at a time: well under 100 µs.
	listPiece     = 250
	describePiece = 200
)

// listGroups serves ListGroups (16). Shards that cannot serve are left out; one
// that still loads makes the whole answer an error, as in Kafka.
func (b *Broker) listGroups(r *request, out []byte) ([]byte, netloop.Verdict) {
	req := r.message.(*kmsg.ListGroupsRequest)
	shards := b.allShards()
	if shards == nil {
		return r.refuse(out, codeCoordinatorLoadInProgress)
	}
	pass := coordinator.NewListPass(req.StatesFilter, req.TypesFilter)
	list := wire.NewGroupList(r.version)
	var newest log.Position
	for i, sh := range shards {
		pos, code := sh.list(r.pace, pass, list)
		if code == codeCoordinatorLoadInProgress {
			return r.refuse(out, code)
		}
		newest = max(newest, pos)
		list.Expect(list.Len() / (i + 1) * (len(shards) - i - 1)) // the others have about as many
	}
	answer := list.Frame(r.correlationID)
	if len(out) > 0 {
		answer = append(out, answer...)
	}
	return r.awaitPosition(b.store, newest, answer)
}

// list adds the shard's groups to the list, encoded without the lock. The position is
// what the answer depends on; the code tells why they are left out.
func (sh *shard) list(pace *pace, pass *coordinator.ListPass, list *wire.GroupList) (newest log.Position, code int16) {
	pass.Next()
	for done := false; !done && code == codeNone; {
		done, code = sh.onePiece(func(core *coordinator.Shard) (done bool) {
			done = core.ListGroups(pass, listPiece)
			newest = max(newest, positionOf(sh.partition, pass.DependsOn))
			return done
		})
		list.Add(pass.Groups)
		pass.Groups = pass.Groups[:0]
		pace.step()
	}
	return newest, code
}

// describeGroups serves DescribeGroups (15). A group that is named again is
// described once and answered again; what would make the answer too long is
// refused so that clients ask for it separately.
func (b *Broker) describeGroups(r *request, out []byte) ([]byte, netloop.Verdict) {
	req := r.message.(*kmsg.DescribeGroupsRequest)
	resp := kmsg.NewPtrDescribeGroupsResponse()
	size := b.answerSize()
	defer size.done()
	first := make(map[string]int, len(req.Groups)) // places in the answer
	var newest log.Position
	for i, group := range req.Groups {
		place, repeated := first[group]
		var one kmsg.DescribeGroupsResponseGroup
		if repeated {
			one = resp.Groups[place]
		} else {
			first[group] = i
			var pos log.Position
			r.pace.step()
			one, pos = b.describeGroup(r, group, req.IncludeAuthorizedOperations)
			newest = max(newest, pos)
		}
		if !size.fits(describedSize(&one), repeated) {
			one = kmsg.NewDescribeGroupsResponseGroup()
			one.Group, one.ErrorCode, one.AuthorizedOperations = group, codeCoordinatorLoadInProgress, noOperations
		}
		resp.Groups = append(resp.Groups, one)
	}
	return r.awaitPosition(b.store, newest, r.respond(slices.Grow(out, size.total), resp))
}

// describeGroup describes one group in pieces.
func (b *Broker) describeGroup(r *request, group string, operations bool) (_ kmsg.DescribeGroupsResponseGroup, newest log.Position) {
	sh := b.shardFor(group)
	pass := coordinator.DescribePass{Group: group, Version: r.version}
	code := sh.inPieces(r.pace, func(core *coordinator.Shard) (done bool) {
		done = core.DescribeGroup(&pass, describePiece)
		newest = max(newest, positionOf(sh.partition, pass.DependsOn))
		return done
	})
	if code != codeNone {
		pass.Response = kmsg.NewDescribeGroupsResponseGroup()
		pass.Response.Group, pass.Response.ErrorCode = group, code
	}
	if !operations || pass.Response.ErrorCode != codeNone {
		pass.Response.AuthorizedOperations = noOperations
	} else {
		pass.Response.AuthorizedOperations = groupOperations
	}
	return pass.Response, newest
}

// noOperations says that authorized operations were not asked for.
const noOperations int32 = -2147483648

// groupOperations are the operations on a group that somebody without
// restrictions has, as a bit field of AclOperation: READ, DELETE, DESCRIBE,
// DESCRIBE_CONFIGS, ALTER_CONFIGS.
const groupOperations int32 = 1<<3 | 1<<6 | 1<<8 | 1<<10 | 1<<11
