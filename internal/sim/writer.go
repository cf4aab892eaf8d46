package sim

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const writerPartitions = 4

// commitRequest commits one offset, at a random version that names topics.
func commitRequest(w *World, key registerKey, value int64) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.SetVersion(int16(2 + w.random.IntN(8)))
	req.Group, req.Generation = key.group, -1
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = key.topic
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.Metadata = key.partition, value, kmsg.StringPtr(fmt.Sprint("m", value))
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// fetchOffset reads one committed offset and checks it, then calls done.
func fetchOffset(w *World, c *client, key registerKey, done func()) {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.SetVersion(int16(1 + w.random.IntN(9)))
	req.Group = key.group
	t := kmsg.NewOffsetFetchRequestTopic()
	t.Topic, t.Partitions = key.topic, []int32{key.partition}
	req.Topics = append(req.Topics, t)
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = key.group
	gt := kmsg.NewOffsetFetchRequestGroupTopic()
	gt.Topic, gt.Partitions = key.topic, []int32{key.partition}
	g.Topics = append(g.Topics, gt)
	req.Groups = append(req.Groups, g)
	floor := w.register(key).floor
	c.call(req, func(resp kmsg.Response) {
		if resp != nil {
			checkFetch(w, key, floor, resp.(*kmsg.OffsetFetchResponse))
		}
		done()
	})
}

func checkFetch(w *World, key registerKey, floor int, r *kmsg.OffsetFetchResponse) {
	var (
		code   int16
		offset int64
		meta   *string
	)
	if r.GetVersion() >= 8 {
		if code = r.Groups[0].ErrorCode; code == 0 {
			p := r.Groups[0].Topics[0].Partitions[0]
			code, offset, meta = p.ErrorCode, p.Offset, p.Metadata
		}
	} else if code = r.ErrorCode; code == 0 {
		p := r.Topics[0].Partitions[0]
		code, offset, meta = p.ErrorCode, p.Offset, p.Metadata
	}
	switch kerr.ErrorForCode(code) {
	case nil:
		w.succeed("OffsetFetch")
		w.register(key).observed(w, offset, floor)
		if want := fmt.Sprint("m", offset); offset != none && (meta == nil || *meta != want) {
			w.violated("%v: offset %d came with metadata %v", key, offset, meta)
		}
	case kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.NotCoordinator:
	default:
		w.violated("OffsetFetch of %v: %v", key, kerr.ErrorForCode(code))
	}
}

// A writer commits without membership, several requests on the way at once,
// and sometimes deletes its offsets or its whole group.
type writer struct {
	world  *World
	client *client
	reader *client
	group  string
	flying int
}

func newWriter(w *World, n int) *writer {
	name := fmt.Sprintf("writer-%d", n)
	x := &writer{world: w, group: name, client: newClient(w, name), reader: newClient(w, name+"-reader")}
	w.after(w.pause(), x.act)
	w.after(w.pause(), x.read)
	return x
}

func (x *writer) key() registerKey {
	return registerKey{x.group, memberTopic, int32(x.world.random.IntN(writerPartitions))}
}

// act sends a burst of commits, or a deletion when nothing is on the way: the
// outcome of a deletion among commits on the way could not be told.
func (x *writer) act() {
	w := x.world
	again := func() { w.after(w.pause(), x.act) }
	if x.flying > 0 {
		again()
		return
	}
	switch n := w.random.IntN(20); {
	case n == 0:
		x.deleteOffset(again)
	case n == 1:
		x.deleteGroup(again)
	case n == 2:
		x.look(again)
	default:
		for range 1 + w.random.IntN(4) {
			x.commit()
		}
		again()
	}
}

func (x *writer) commit() {
	key := x.key()
	reg := x.world.register(key)
	value := reg.propose()
	x.flying++
	x.client.call(commitRequest(x.world, key, value), func(resp kmsg.Response) {
		x.flying--
		reg.answered(x.world, value, resp)
	})
}

func (x *writer) read() {
	fetchOffset(x.world, x.reader, x.key(), func() {
		x.world.after(x.world.pause(), x.read)
	})
}

func (x *writer) deleteOffset(done func()) {
	w := x.world
	key := x.key()
	reg := w.register(key)
	index := reg.proposeDelete()
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = x.group
	t := kmsg.NewOffsetDeleteRequestTopic()
	t.Topic = key.topic
	p := kmsg.NewOffsetDeleteRequestTopicPartition()
	p.Partition = key.partition
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	x.client.call(req, func(resp kmsg.Response) {
		defer done()
		if resp == nil {
			return
		}
		r := resp.(*kmsg.OffsetDeleteResponse)
		code := r.ErrorCode
		if code == 0 {
			code = r.Topics[0].Partitions[0].ErrorCode
		}
		reg.outcome(w, index, code)
		if code == 0 {
			w.succeed("OffsetDelete")
		}
	})
}

func (x *writer) deleteGroup(done func()) {
	w := x.world
	regs := make([]*register, writerPartitions)
	indexes := make([]int, writerPartitions)
	for i := range regs {
		regs[i] = w.register(registerKey{x.group, memberTopic, int32(i)})
		indexes[i] = regs[i].proposeDelete()
	}
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.SetVersion(int16(w.random.IntN(3)))
	req.Groups = []string{x.group}
	x.client.call(req, func(resp kmsg.Response) {
		defer done()
		if resp == nil {
			return
		}
		code := resp.(*kmsg.DeleteGroupsResponse).Groups[0].ErrorCode
		for i, reg := range regs {
			reg.outcome(w, indexes[i], code)
		}
		if code == 0 {
			w.succeed("DeleteGroups")
		}
	})
}

// look lists and describes groups.
func (x *writer) look(done func()) {
	w := x.world
	list := kmsg.NewPtrListGroupsRequest()
	list.SetVersion(int16(w.random.IntN(6)))
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.SetVersion(int16(w.random.IntN(7)))
	describe.Groups = []string{x.group, "group-0"}
	x.reader.call(list, func(resp kmsg.Response) {
		if resp != nil && resp.(*kmsg.ListGroupsResponse).ErrorCode == 0 {
			w.succeed("ListGroups")
		}
	})
	x.reader.call(describe, func(resp kmsg.Response) {
		if resp != nil && resp.(*kmsg.DescribeGroupsResponse).Groups[1].ErrorCode == 0 {
			w.succeed("DescribeGroups")
		}
		done()
	})
}

// createTopic makes the topic that everybody commits to; it goes on until it is
// there.
func createTopic(w *World, c *client, name string, partitions int32) {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.SetVersion(5)
	req.TimeoutMillis = 5000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, 1
	req.Topics = append(req.Topics, t)
	c.call(req, func(resp kmsg.Response) {
		if resp != nil {
			switch code := resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode; kerr.ErrorForCode(code) {
			case nil, kerr.TopicAlreadyExists:
				w.succeed("CreateTopics")
				w.topics++
				return
			}
		}
		w.after(100*time.Millisecond, func() { createTopic(w, c, name, partitions) })
	})
}
