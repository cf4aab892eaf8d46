package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	sessionTimeout   = 6 * time.Second
	rebalanceTimeout = 5 * time.Second
	heartbeatPause   = time.Second
	memberPartitions = 6
	memberTopic      = "work"
)

// A member is a consumer of one group: it joins, syncs, heartbeats, commits what
// it owns, leaves or vanishes, and comes again.
type member struct {
	world    *World
	client   *client
	group    string
	instance *string // static membership

	life       int // callbacks of an earlier life are ignored
	id         string
	before     string // the id it had last, when it has forgotten
	generation int32
	stable     bool
	owned      []int32
	// dead is a member id of an earlier life that was replaced or has left, deadSince
	// the process in which that was told: a crash may bring it back.
	dead      string
	deadSince int
}

func newMember(w *World, group string, n int) *member {
	m := &member{world: w, group: group, generation: -1, client: newClient(w, fmt.Sprintf("%s-m%d", group, n))}
	if n%3 == 2 {
		instance := fmt.Sprintf("instance-%d", n)
		m.instance = &instance
	}
	w.after(w.pause(), m.guarded(m.join))
	return m
}

// guarded makes a callback that does nothing once the member has begun anew.
func (m *member) guarded(f func()) func() {
	life := m.life
	return func() {
		if m.life == life {
			f()
		}
	}
}

// restart begins anew after a pause; forget drops the member id.
func (m *member) restart(forget bool) {
	m.life++
	m.stable, m.owned = false, nil
	if forget {
		m.id, m.generation = "", -1
	}
	m.world.after(m.world.pause(), m.guarded(m.join))
}

// failed deals with an error code that every group request may meet. It
// reports whether there was one.
func (m *member) failed(code int16) bool {
	switch err := kerr.ErrorForCode(code); err {
	case nil:
		return false
	case kerr.UnknownMemberID, kerr.FencedInstanceID:
		m.restart(true)
	case kerr.IllegalGeneration, kerr.RebalanceInProgress, kerr.CoordinatorNotAvailable,
		kerr.CoordinatorLoadInProgress, kerr.NotCoordinator:
		m.restart(false)
	default:
		m.world.violated(checkErrors, "%s of %s met %v", m.client.name, m.group, err)
	}
	return true
}

func (m *member) join() {
	w := m.world
	req := kmsg.NewPtrJoinGroupRequest()
	w.anyVersion(req)
	if m.instance != nil {
		w.atVersion(req, 5, never16)
		req.InstanceID = m.instance
	}
	req.Group, req.MemberID, req.ProtocolType = m.group, m.id, "consumer"
	req.SessionTimeoutMillis = int32(sessionTimeout.Milliseconds())
	req.RebalanceTimeoutMillis = int32(rebalanceTimeout.Milliseconds())
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", []byte(m.client.name)
	req.Protocols = append(req.Protocols, p)
	life, synced, sent := m.life, w.group(m.group).synced, w.tick()
	m.client.call(req, func(resp kmsg.Response) {
		if r, ok := resp.(*kmsg.JoinGroupResponse); ok && r.ErrorCode == 0 && m.instance != nil {
			w.group(m.group).claimed(w, *m.instance, r.MemberID, sent)
		}
		if m.life == life {
			m.joined(req.MemberID, synced, resp)
		}
	})
}

// owner is who owns what the member is assigned: a static member is the same one
// in whichever process it runs.
func (m *member) owner() string {
	if m.instance != nil {
		return *m.instance
	}
	return m.client.name
}

func (m *member) joined(asked string, synced int32, resp kmsg.Response) {
	w := m.world
	if resp == nil {
		m.restart(w.chance(3)) // some clients forget, some remember
		return
	}
	r, g := resp.(*kmsg.JoinGroupResponse), w.group(m.group)
	if r.ErrorCode == kerr.MemberIDRequired.Code {
		g.named(w, m, r.MemberID)
		m.id = r.MemberID
		m.restart(false)
		return
	}
	if m.failed(r.ErrorCode) {
		return
	}
	w.succeed("JoinGroup")
	if asked == "" {
		g.named(w, m, r.MemberID)
	}
	if m.instance != nil && m.before != "" && m.before != r.MemberID {
		m.dead, m.deadSince = m.before, w.boots
	}
	m.before = r.MemberID
	g.joined(w, r, synced)
	m.id, m.generation = r.MemberID, r.Generation
	m.sync(r)
}

// sync sends the leader's assignment, or asks for one.
func (m *member) sync(join *kmsg.JoinGroupResponse) {
	req := kmsg.NewPtrSyncGroupRequest()
	m.world.anyVersion(req)
	if m.instance != nil {
		m.world.atVersion(req, 3, never16)
		req.InstanceID = m.instance
	}
	req.Group, req.MemberID, req.Generation = m.group, m.id, m.generation
	req.ProtocolType, req.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
	if join.LeaderID == m.id && !join.SkipAssignment {
		m.world.nextSeq++
		token := fmt.Sprintf("a%d", m.world.nextSeq)
		for i, other := range join.Members {
			var own []string
			for p := range memberPartitions {
				if p%len(join.Members) == i {
					own = append(own, fmt.Sprint(p))
				}
			}
			a := kmsg.NewSyncGroupRequestGroupAssignment()
			a.MemberID, a.MemberAssignment = other.MemberID, []byte(token+":"+strings.Join(own, ","))
			req.GroupAssignment = append(req.GroupAssignment, a)
		}
	}
	life, synced := m.life, m.world.group(m.group).synced
	m.client.call(req, func(resp kmsg.Response) {
		if m.life == life {
			m.synced(synced, resp)
		}
	})
}

func (m *member) synced(before int32, resp kmsg.Response) {
	if resp == nil {
		m.restart(false)
		return
	}
	r, g := resp.(*kmsg.SyncGroupResponse), m.world.group(m.group)
	if m.failed(r.ErrorCode) {
		return
	}
	m.world.succeed("SyncGroup")
	g.served(m.world, "SyncGroup", m.generation, before)
	m.owned = g.assigned(m.world, m, r.MemberAssignment)
	m.stable = true
	if m.dead != "" && m.world.chance(2) {
		m.heartbeat(m.dead, m.generation) // of who does not know yet that it was replaced
		return
	}
	m.world.after(m.world.pause(), m.guarded(m.work))
}

// die ends the member for good, without a word.
func (m *member) die() {
	m.life++
	m.client.disconnect()
}

// work is what a stable member does, again and again.
func (m *member) work() {
	w := m.world
	switch n := w.random.IntN(100); {
	case n < 40 || len(m.owned) == 0:
		m.heartbeat(m.id, m.generation)
	case n < 75:
		m.commit(m.generation)
	case n < 85 || w.calm:
		m.fetch()
	case n < 87: // a late message of a generation that is over
		m.heartbeat(m.id, m.generation-1)
	case n < 89:
		m.commit(m.generation - 1)
	case n < 91: // and of one who is no member any more
		m.heartbeat(m.dead, m.generation)
	case n < 94:
		m.leave()
	case n == 94 && m.instance != nil:
		m.startTwin()
		m.heartbeat(m.id, m.generation)
	case n < 97: // vanish: the process is killed
		m.client.disconnect()
		m.life++
		w.after(w.upTo(12*time.Second), m.guarded(func() { m.restart(true) }))
	default:
		m.restart(false) // a rejoin out of the blue
	}
}

func (m *member) heartbeat(id string, generation int32) {
	w := m.world
	req := kmsg.NewPtrHeartbeatRequest()
	w.anyVersion(req)
	req.Group, req.MemberID, req.Generation = m.group, id, generation
	if m.instance != nil {
		w.atVersion(req, 3, never16)
		req.InstanceID = m.instance
	}
	life, synced, sent := m.life, w.group(m.group).synced, w.tick()
	m.client.call(req, func(resp kmsg.Response) {
		ok := resp != nil && resp.(*kmsg.HeartbeatResponse).ErrorCode == 0
		if ok {
			w.succeed("Heartbeat")
		}
		// While a group loads every heartbeat is answered so, as in Kafka.
		if ok = ok && w.loaded >= 0 && sent > w.loaded; ok {
			w.group(m.group).served(w, "Heartbeat", generation, synced)
			if m.instance != nil {
				w.group(m.group).fenced(w, "Heartbeat", *m.instance, id, sent)
			}
		}
		if ok && id != m.id && id == m.dead && m.deadSince == w.boots {
			w.violated(checkMembers, "%s: %s was served although it is no member any more", m.group, id)
		}
		switch {
		case m.life != life:
		case resp == nil:
			w.after(w.pause(), m.guarded(func() { m.heartbeat(m.id, m.generation) }))
		case id != m.id || generation != m.generation:
			w.after(w.pause(), m.guarded(m.work))
		case !m.failed(resp.(*kmsg.HeartbeatResponse).ErrorCode):
			w.after(heartbeatPause/2+w.pause(), m.guarded(m.work))
		}
	})
}

// commit commits one owned partition.
func (m *member) commit(generation int32) {
	w := m.world
	reg := w.register(registerKey{m.group, memberTopic, m.owned[w.random.IntN(len(m.owned))]})
	a := reg.propose(w, m.client)
	req := commitRequest(w, reg.key, a.value)
	req.Generation, req.MemberID = generation, m.id
	if generation < 0 {
		req.MemberID = "" // what has no generation is no member's
	} else if m.instance != nil {
		w.atVersion(req, 7, never16)
		req.InstanceID = m.instance
	}
	life, synced, sent := m.life, w.group(m.group).synced, w.tick()
	m.client.call(req, func(resp kmsg.Response) {
		code := reg.committed(w, a, resp)
		if resp != nil && code == 0 {
			w.group(m.group).served(w, "OffsetCommit", generation, synced)
			if m.instance != nil && generation >= 0 {
				w.group(m.group).fenced(w, "OffsetCommit", *m.instance, req.MemberID, sent)
			}
		}
		switch {
		case m.life != life:
		case resp == nil, generation != m.generation, !m.failed(code):
			w.after(w.pause(), m.guarded(m.work))
		}
	})
}

// fetch reads an owned partition's committed offset.
func (m *member) fetch() {
	w := m.world
	key := registerKey{m.group, memberTopic, m.owned[w.random.IntN(len(m.owned))]}
	readRegister(w, m.client, key, m.guarded(func() {
		w.after(w.pause(), m.guarded(m.work))
	}))
}

func (m *member) leave() {
	w := m.world
	req := kmsg.NewPtrLeaveGroupRequest()
	w.anyVersion(req)
	req.Group, req.MemberID = m.group, m.id
	l := kmsg.NewLeaveGroupRequestMember()
	l.MemberID, l.InstanceID = m.id, m.instance
	if m.instance != nil {
		w.atVersion(req, 3, never16)
	}
	req.Members = append(req.Members, l)
	m.life++
	m.stable = false
	life := m.life
	m.client.call(req, func(resp kmsg.Response) {
		if m.life != life {
			return
		}
		if r, ok := resp.(*kmsg.LeaveGroupResponse); ok && r.ErrorCode == 0 && (len(r.Members) == 0 || r.Members[0].ErrorCode == 0) {
			w.succeed("LeaveGroup")
			m.dead, m.deadSince = l.MemberID, w.boots
		}
		w.after(w.upTo(3*time.Second), m.guarded(func() { m.restart(true) }))
	})
}
