package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/log/vfs"
)

// populate makes the topics and then the actors.
func (w *World) populate() {
	first := newClient(w, "first")
	makeTopic(w, first, memberTopic, memberPartitions)
	makeTopic(w, first, dataTopic, dataPartitions)
	w.until(checkForgotten, "the topics are there", 5*time.Minute, func() bool { return len(w.topicIDs) == 2 })
	for g := range w.mix.groups {
		for n := range w.mix.members {
			w.members = append(w.members, newMember(w, fmt.Sprintf("group-%d", g), n))
		}
	}
	for n := range w.mix.writers {
		newWriter(w, n)
	}
	for n := range w.mix.producers {
		newProducer(w, n)
	}
	for n := range w.mix.consumers {
		newConsumer(w, n)
	}
	for n := range w.mix.admins {
		w.admins = append(w.admins, newAdmin(w, n))
	}
}

// calmDown stops the faults: from here on every group has to settle, and every
// request to be answered.
func (w *World) calmDown() {
	w.calm, w.calmSince = true, w.machine.clock.mono
	w.machine.fuse, w.machine.syncFuse = -1, -1
	w.machine.letGo()
	for _, c := range w.clients {
		c.deaf = false
	}
	for _, t := range w.twins {
		t.die()
	}
	w.until(checkSettling, "every group settles", 3*time.Minute, w.everybodyStable)
	w.bury()
	w.until(checkSettling, "every group settles without them", 3*time.Minute, w.everybodyStable)
	asked := w.machine.clock.mono
	w.until(checkForgotten, "every request is answered", 2*patience, func() bool {
		for _, c := range w.clients {
			if len(c.pending) > 0 && c.pending[0].sent <= asked {
				return false
			}
		}
		return true
	})
}

// bury lets the last member of each group die and waits until groups have no
// members but those that are there: the sessions of all others have to end.
func (w *World) bury() {
	var living []*member
	for i, m := range w.members {
		if i+1 == len(w.members) || w.members[i+1].group != m.group {
			m.die()
			continue
		}
		living = append(living, m)
	}
	w.members = living
	var ghosts []string
	for end := w.machine.clock.mono + patience; w.machine.clock.mono < end; {
		if ghosts = w.ghosts(); len(ghosts) == 0 {
			return
		}
		again := w.machine.clock.mono + time.Second
		w.until(checkForgotten, "a second has passed", patience, func() bool { return w.machine.clock.mono >= again })
	}
	w.violated(checkSessions, "still in their groups: %v", ghosts)
}

// ghosts are members, as groups are described, of whom nobody is left.
func (w *World) ghosts() []string {
	alive := map[string]bool{}
	for _, m := range w.members {
		alive[m.id] = true
	}
	var ghosts []string
	for _, g := range w.ask(w.describeGroups()).(*kmsg.DescribeGroupsResponse).Groups {
		if g.ErrorCode != 0 && g.ErrorCode != kerr.GroupIDNotFound.Code {
			ghosts = append(ghosts, "perhaps some in "+g.Group) // it is loading
		}
		for _, m := range g.Members {
			if !alive[m.MemberID] {
				ghosts = append(ghosts, m.MemberID)
			}
		}
	}
	return ghosts
}

func (w *World) describeGroups() *kmsg.DescribeGroupsRequest {
	req := kmsg.NewPtrDescribeGroupsRequest()
	w.anyVersion(req)
	for g := range w.mix.groups {
		req.Groups = append(req.Groups, fmt.Sprintf("group-%d", g))
	}
	return req
}

// everybodyStable reports whether all members of each group are in the same,
// newest generation.
func (w *World) everybodyStable() bool {
	if w.process == nil {
		return false
	}
	generations := map[string]int32{}
	for _, m := range w.members {
		if !m.stable {
			return false
		}
		if g, seen := generations[m.group]; seen && g != m.generation {
			return false
		}
		generations[m.group] = m.generation
	}
	return true
}

// finish compares what is in memory with what a new process makes of the disk,
// and reads everything once more.
func (w *World) finish() {
	w.settleBoot() // members that were there before a restart do not notice the loading
	// Everybody freezes, so that nothing changes while the picture is taken.
	for _, c := range w.clients {
		c.disconnect()
		c.conn, c.pending = nil, nil
		c.lane.number++
	}
	w.timers, w.members, w.clients = nil, nil, nil
	for _, a := range w.admins {
		end := w.machine.clock.mono + patience
		for !a.gone() {
			if w.machine.clock.mono > end {
				w.violated(checkTopics, "%s was deleted, its committed offset is still there", a.topic)
			}
			again := w.machine.clock.mono + time.Second
			w.until(checkForgotten, "a second has passed", patience, func() bool { return w.machine.clock.mono >= again })
		}
	}
	before := w.snapshot()
	w.process = nil
	w.machine.disk = w.machine.disk.Crash(vfs.KeepAll)
	w.boot()
	w.settleBoot()
	w.compare("a kill", before, w.snapshot())
	before = w.snapshot()
	w.stopBroker()
	w.machine.disk = w.machine.disk.Crash(vfs.KeepNone)
	w.settleBoot()
	w.compare("a clean stop", before, w.snapshot())
	for partition := range int32(dataPartitions) {
		c := &consumer{world: w, client: newClient(w, "reader")}
		done := false
		c.list(partition, -2, func() { c.everything(partition, func() { done = true }) })
		w.until(checkForgotten, "the records are read", time.Minute, func() bool { return done })
	}
}

// compare finds out whether a restart has changed anything.
func (w *World) compare(what string, before, after []string) {
	for i := range before {
		// What the rebalance of a group has decided so far is not written down.
		rebalancing := strings.Contains(before[i], "Rebalance") && i < w.mix.groups
		if before[i] != after[i] && !rebalancing {
			w.violated(checkReplay, "after %s: %s, before: %s", what, after[i], before[i])
		}
	}
}

// ask lets one request be answered.
func (w *World) ask(req kmsg.Request) kmsg.Response {
	var answer kmsg.Response
	c := newClient(w, "snapshot")
	c.call(req, func(resp kmsg.Response) { answer = resp })
	w.until(checkForgotten, "the snapshot's request is answered", time.Minute, func() bool { return len(c.pending) == 0 })
	w.clients = w.clients[:len(w.clients)-1]
	if answer == nil {
		w.violated(checkForgotten, "a request without faults was not answered")
	}
	return answer
}

// snapshot describes every group and offset that survives a restart, as text.
func (w *World) snapshot() []string {
	var out []string
	for _, g := range w.ask(w.describeGroups()).(*kmsg.DescribeGroupsResponse).Groups {
		if g.ErrorCode != 0 && g.ErrorCode != kerr.GroupIDNotFound.Code {
			w.violated(checkErrors, "describing %s: error %d", g.Group, g.ErrorCode)
		}
		var members []string
		for _, m := range g.Members {
			members = append(members, fmt.Sprintf("%s=%s", m.MemberID, m.MemberAssignment))
		}
		slices.Sort(members)
		out = append(out, fmt.Sprintf("%s %s %s %v", g.Group, g.State, g.Protocol, members))
	}
	for _, r := range w.registers.order {
		fetch := kmsg.NewPtrOffsetFetchRequest()
		w.atVersion(fetch, 2, 7)
		fetch.Group = r.key.group
		t := kmsg.NewOffsetFetchRequestTopic()
		t.Topic, t.Partitions = r.key.topic, []int32{r.key.partition}
		fetch.Topics = append(fetch.Topics, t)
		asked := w.tick()
		p := w.ask(fetch).(*kmsg.OffsetFetchResponse).Topics[0].Partitions[0]
		r.observed(w, p.Offset, asked)
		out = append(out, fmt.Sprintf("%v %d %s", r.key, p.Offset, *p.Metadata))
	}
	return out
}
