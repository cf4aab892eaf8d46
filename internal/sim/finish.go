package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/log/vfs"
)

// populate makes the topics and then the actors.
func (w *World) populate() {
	admin := newClient(w, "admin")
	createTopic(w, admin, memberTopic, memberPartitions)
	w.until("the topic is there", time.Minute, func() bool { return w.topics == 1 })
	for g := range w.options.Groups {
		for n := range w.options.Members {
			w.members = append(w.members, newMember(w, fmt.Sprintf("group-%d", g), n))
		}
	}
	for n := range w.options.Writers {
		w.writers = append(w.writers, newWriter(w, n))
	}
}

// until lets events happen until a condition holds, and complains if that takes
// more than a limit of virtual time.
func (w *World) until(what string, limit time.Duration, holds func() bool) {
	end := w.machine.clock.mono + limit
	for !holds() {
		if w.machine.clock.mono > end {
			w.violated("%v without: %s; %s", limit, what, w.describe())
		}
		w.event()
	}
}

// calmDown stops the faults: from here on every group has to settle.
func (w *World) calmDown() {
	w.calm = true
	w.machine.fuse = -1
	for _, c := range w.clients {
		c.deaf = false
	}
	w.until("every group settles", 3*time.Minute, w.everybodyStable)
}

// everybodyStable reports whether all members of each group are in the same,
// newest generation and own something together.
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

// finish compares what is in memory with what a new process makes of the disk.
func (w *World) finish() {
	var quiet bool
	w.until("everything written is durable", time.Minute, func() bool {
		quiet = true
		for _, x := range w.writers {
			quiet = quiet && x.flying == 0
		}
		return quiet && w.process != nil
	})
	// Everybody freezes, so that nothing changes while the picture is taken.
	for _, c := range w.clients {
		c.disconnect()
		c.conn, c.pending = nil, nil
	}
	w.timers, w.members, w.writers = nil, nil, nil
	before := w.snapshot()
	w.process = nil
	w.machine.disk = w.machine.disk.Crash(vfs.KeepAll)
	w.boot()
	after := w.snapshot()
	for i := range before {
		// What the rebalance of a group has decided so far is not written down.
		rebalancing := strings.Contains(before[i], "Rebalance") && i < w.options.Groups
		if before[i] != after[i] && !rebalancing {
			w.violated("after a restart memory differs: %s, was %s", after[i], before[i])
		}
	}
	for _, r := range w.registerOrder {
		done := false
		fetchOffset(w, w.clients[0], r.key, func() { done = true })
		w.until("the last fetch is answered", time.Minute, func() bool { return done })
	}
}

// snapshot describes every group and offset that survives a restart, as text.
func (w *World) snapshot() []string {
	var out []string
	ask := func(req kmsg.Request, each func(resp kmsg.Response)) {
		done := false
		c := newClient(w, "snapshot")
		c.call(req, func(resp kmsg.Response) {
			if resp == nil {
				w.violated("a request without faults was not answered")
			}
			each(resp)
			done = true
		})
		w.until("the snapshot's request is answered", time.Minute, func() bool { return done })
	}
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.SetVersion(5)
	for g := range w.options.Groups {
		describe.Groups = append(describe.Groups, fmt.Sprintf("group-%d", g))
	}
	ask(describe, func(resp kmsg.Response) {
		for _, g := range resp.(*kmsg.DescribeGroupsResponse).Groups {
			var members []string
			for _, m := range g.Members {
				members = append(members, fmt.Sprintf("%s=%s", m.MemberID, m.MemberAssignment))
			}
			slices.Sort(members)
			out = append(out, fmt.Sprintf("%s %s %s %v", g.Group, g.State, g.Protocol, members))
		}
	})
	for _, r := range w.registerOrder {
		fetch := kmsg.NewPtrOffsetFetchRequest()
		fetch.SetVersion(7)
		fetch.Group = r.key.group
		t := kmsg.NewOffsetFetchRequestTopic()
		t.Topic, t.Partitions = r.key.topic, []int32{r.key.partition}
		fetch.Topics = append(fetch.Topics, t)
		ask(fetch, func(resp kmsg.Response) {
			p := resp.(*kmsg.OffsetFetchResponse).Topics[0].Partitions[0]
			r.observed(w, p.Offset, r.floor)
			out = append(out, fmt.Sprintf("%v %d %s", r.key, p.Offset, *p.Metadata))
		})
	}
	return out
}

// describe tells where everybody stands, for a failure's message.
func (w *World) describe() string {
	var b strings.Builder
	for _, m := range w.members {
		fmt.Fprintf(&b, "\n  %s: stable %v, generation %d, id %s", m.client.name, m.stable, m.generation, m.id)
	}
	for _, c := range w.clients {
		if len(c.pending) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n  %s waits for", c.name)
		for _, p := range c.pending {
			fmt.Fprintf(&b, " %s", kmsg.NameForKey(p.request.Key()))
		}
		if c.conn != nil {
			fmt.Fprintf(&b, " (open %v, held %v, sent %d, owed %d, on the way %d)", c.conn.open, c.conn.held, len(c.conn.inbound),
				len(c.conn.slots), len(c.conn.outbound))
		}
	}
	return b.String()
}
