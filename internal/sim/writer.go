package sim

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const writerPartitions = 4

// A writer commits without membership, several requests on the way at once,
// and sometimes deletes its offsets or its whole group.
type writer struct {
	world  *World
	client *client
	reader *client
	group  string
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

// act sends a burst of commits, or a deletion.
func (x *writer) act() {
	w := x.world
	again := func() { w.after(w.pause(), x.act) }
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
	reg := x.world.register(x.key())
	a := reg.propose(x.world, x.client)
	x.client.call(commitRequest(x.world, reg.key, a.value), func(resp kmsg.Response) {
		reg.committed(x.world, a, resp)
	})
}

func (x *writer) read() {
	readRegister(x.world, x.reader, x.key(), func() {
		x.world.after(x.world.pause(), x.read)
	})
}

func (x *writer) deleteOffset(done func()) {
	w := x.world
	reg := w.register(x.key())
	a := reg.proposeDelete(w, x.client)
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = x.group
	t := kmsg.NewOffsetDeleteRequestTopic()
	t.Topic = reg.key.topic
	p := kmsg.NewOffsetDeleteRequestTopicPartition()
	p.Partition = reg.key.partition
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	x.client.call(req, func(resp kmsg.Response) {
		defer done()
		if resp == nil {
			reg.lost(w, a)
			return
		}
		r := resp.(*kmsg.OffsetDeleteResponse)
		code := r.ErrorCode
		if code == 0 {
			code = r.Topics[0].Partitions[0].ErrorCode
		}
		reg.ended(w, a, code)
		if code == 0 {
			w.succeed("OffsetDelete")
		}
	})
}

func (x *writer) deleteGroup(done func()) {
	w := x.world
	regs := make([]*register, writerPartitions)
	attempts := make([]*attempt, writerPartitions)
	for i := range regs {
		regs[i] = w.register(registerKey{x.group, memberTopic, int32(i)})
		attempts[i] = regs[i].proposeDelete(w, x.client)
	}
	req := kmsg.NewPtrDeleteGroupsRequest()
	w.anyVersion(req)
	req.Groups = []string{x.group}
	x.client.call(req, func(resp kmsg.Response) {
		defer done()
		for i, reg := range regs {
			if resp == nil {
				reg.lost(w, attempts[i])
				continue
			}
			reg.ended(w, attempts[i], resp.(*kmsg.DeleteGroupsResponse).Groups[0].ErrorCode)
		}
		if resp != nil && resp.(*kmsg.DeleteGroupsResponse).Groups[0].ErrorCode == 0 {
			w.succeed("DeleteGroups")
		}
	})
}

// look lists and describes groups.
func (x *writer) look(done func()) {
	w := x.world
	list := kmsg.NewPtrListGroupsRequest()
	w.anyVersion(list)
	describe := kmsg.NewPtrDescribeGroupsRequest()
	w.anyVersion(describe)
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
