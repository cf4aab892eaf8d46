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
	generation int32
	stable     bool
	owned      []int32
	joinedAs   int16 // version
}

func newMember(w *World, group string, n int) *member {
	m := &member{world: w, group: group, client: newClient(w, fmt.Sprintf("%s-m%d", group, n))}
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
		m.world.violated("%s of %s met %v", m.client.name, m.group, err)
	}
	return true
}

func (m *member) join() {
	w := m.world
	req := kmsg.NewPtrJoinGroupRequest()
	m.joinedAs = int16(w.random.IntN(10))
	if m.instance != nil {
		m.joinedAs = 5 + m.joinedAs%5
		req.InstanceID = m.instance
	}
	req.SetVersion(m.joinedAs)
	req.Group, req.MemberID, req.ProtocolType = m.group, m.id, "consumer"
	req.SessionTimeoutMillis = int32(sessionTimeout.Milliseconds())
	req.RebalanceTimeoutMillis = int32(rebalanceTimeout.Milliseconds())
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", []byte(m.client.name)
	req.Protocols = append(req.Protocols, p)
	life := m.life
	m.client.call(req, func(resp kmsg.Response) {
		if m.life == life {
			m.joined(resp)
		}
	})
}

func (m *member) joined(resp kmsg.Response) {
	if resp == nil {
		m.restart(m.world.chance(3)) // some clients forget, some remember
		return
	}
	r := resp.(*kmsg.JoinGroupResponse)
	if r.ErrorCode == kerr.MemberIDRequired.Code {
		m.id = r.MemberID
		m.restart(false)
		return
	}
	if m.failed(r.ErrorCode) {
		return
	}
	m.world.succeed("JoinGroup")
	m.id, m.generation = r.MemberID, r.Generation
	m.world.group(m.group).joined(m.world, r)
	m.sync(r)
}

// sync sends the leader's assignment, or asks for one.
func (m *member) sync(join *kmsg.JoinGroupResponse) {
	req := kmsg.NewPtrSyncGroupRequest()
	req.SetVersion(int16(m.world.random.IntN(6)))
	if m.instance != nil {
		req.SetVersion(3 + req.GetVersion()%3)
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
	life := m.life
	m.client.call(req, func(resp kmsg.Response) {
		if m.life == life {
			m.synced(resp)
		}
	})
}

func (m *member) synced(resp kmsg.Response) {
	if resp == nil {
		m.restart(false)
		return
	}
	r := resp.(*kmsg.SyncGroupResponse)
	if m.failed(r.ErrorCode) {
		return
	}
	m.world.succeed("SyncGroup")
	m.owned = m.world.group(m.group).assigned(m.world, m, r.MemberAssignment)
	m.stable = true
	m.world.after(m.world.pause(), m.guarded(m.work))
}

// work is what a stable member does, again and again.
func (m *member) work() {
	w := m.world
	switch n := w.random.IntN(100); {
	case n < 40 || len(m.owned) == 0:
		m.heartbeat()
	case n < 80:
		m.commit()
	case n < 90 || w.calm:
		m.fetch()
	case n < 94:
		m.leave()
	case n < 97: // vanish: the process is killed
		m.client.disconnect()
		m.life++
		w.after(time.Duration(w.random.IntN(12000))*time.Millisecond, m.guarded(func() { m.restart(true) }))
	default:
		m.restart(false) // a rejoin out of the blue
	}
}

func (m *member) heartbeat() {
	req := kmsg.NewPtrHeartbeatRequest()
	req.SetVersion(int16(m.world.random.IntN(5)))
	req.Group, req.MemberID, req.Generation = m.group, m.id, m.generation
	if m.instance != nil {
		req.SetVersion(3 + req.GetVersion()%2)
		req.InstanceID = m.instance
	}
	life := m.life
	m.client.call(req, func(resp kmsg.Response) {
		if m.life != life {
			return
		}
		if resp == nil {
			m.world.after(m.world.pause(), m.guarded(m.heartbeat))
			return
		}
		if code := resp.(*kmsg.HeartbeatResponse).ErrorCode; !m.failed(code) {
			m.world.succeed("Heartbeat")
			m.world.after(heartbeatPause/2+m.world.pause(), m.guarded(m.work))
		}
	})
}

// commit commits one owned partition.
func (m *member) commit() {
	w := m.world
	key := registerKey{m.group, memberTopic, m.owned[w.random.IntN(len(m.owned))]}
	reg := w.register(key)
	value := reg.propose()
	req := commitRequest(w, key, value)
	req.Generation, req.MemberID = m.generation, m.id
	if m.instance != nil {
		req.InstanceID = m.instance
		req.SetVersion(7 + req.GetVersion()%3)
	}
	life := m.life
	m.client.call(req, func(resp kmsg.Response) {
		code := reg.answered(w, value, resp)
		if m.life != life {
			return
		}
		if resp == nil {
			w.after(w.pause(), m.guarded(m.work))
			return
		}
		if !m.failed(code) {
			w.after(w.pause(), m.guarded(m.work))
		}
	})
}

// fetch reads an owned partition's committed offset.
func (m *member) fetch() {
	w := m.world
	key := registerKey{m.group, memberTopic, m.owned[w.random.IntN(len(m.owned))]}
	fetchOffset(w, m.client, key, m.guarded(func() {
		w.after(w.pause(), m.guarded(m.work))
	}))
}

func (m *member) leave() {
	w := m.world
	req := kmsg.NewPtrLeaveGroupRequest()
	req.SetVersion(int16(w.random.IntN(6)))
	req.Group, req.MemberID = m.group, m.id
	l := kmsg.NewLeaveGroupRequestMember()
	l.MemberID, l.InstanceID = m.id, m.instance
	if m.instance != nil {
		req.SetVersion(3 + req.GetVersion()%3)
	}
	req.Members = append(req.Members, l)
	m.life++
	life := m.life
	m.client.call(req, func(resp kmsg.Response) {
		if m.life != life {
			return
		}
		if resp != nil && resp.(*kmsg.LeaveGroupResponse).ErrorCode == 0 {
			w.succeed("LeaveGroup")
		}
		w.after(time.Duration(w.random.IntN(3000))*time.Millisecond, m.guarded(func() { m.restart(true) }))
	})
}
