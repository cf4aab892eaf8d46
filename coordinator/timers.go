package coordinator

import "time"

// A timer is a deadline and what is known of the owner's timer for it. Moving the
// deadline back, as every heartbeat does, costs nothing: the timer fires early and
// is then set again.
type timer struct {
	deadline time.Duration // if wanted
	armed    time.Duration // when the owner's timer fires, if isArmed
	wanted   bool
	isArmed  bool
}

// setTimer wants t to fire at deadline.
func (s *Shard) setTimer(t *timer, kind TimerKind, group, member string, deadline time.Duration) {
	t.deadline, t.wanted = deadline, true
	if t.isArmed && t.armed <= deadline {
		return
	}
	t.armed, t.isArmed = deadline, true
	s.out.Timers = append(s.out.Timers, Timer{Key: TimerKey{kind, group, member}, Deadline: deadline})
}

// clearTimer no longer wants t to fire.
func (s *Shard) clearTimer(t *timer, kind TimerKind, group, member string) {
	t.wanted = false
	if t.isArmed {
		t.isArmed = false
		s.out.Timers = append(s.out.Timers, Timer{Key: TimerKey{kind, group, member}, Cancel: true})
	}
}

// due tells of a fired timer whether its time has come; if it fired early it is
// set again.
func (s *Shard) due(t *timer, kind TimerKind, group, member string) bool {
	t.isArmed = false
	if !t.wanted {
		return false
	}
	if s.ev.Mono < t.deadline {
		s.setTimer(t, kind, group, member, t.deadline)
		return false
	}
	t.wanted = false
	return true
}

// timer handles a fired timer. Its group or member may be gone, or it may be from
// before something moved its deadline.
func (s *Shard) timer(key TimerKey) {
	switch key.Kind {
	case TimerSweep:
		if s.due(&s.sweep, TimerSweep, "", "") {
			s.startSweep()
		}
		return
	case TimerWork:
		s.runJobs()
		return
	}
	g := s.groups[key.Group]
	if g == nil {
		return
	}
	c, ok := g.kind.(*classicGroup)
	if !ok {
		return
	}
	switch key.Kind {
	case TimerSession:
		if m := c.byID[key.Member]; m != nil && s.due(&m.session, TimerSession, g.id, m.id) {
			s.sessionExpired(g, c, m)
		}
	case TimerPending:
		if t := c.pending[key.Member]; t != nil && s.due(t, TimerPending, g.id, key.Member) {
			delete(c.pending, key.Member)
			s.maybeCompleteJoin(g, c, cause{what: pendingExpired, member: key.Member})
		}
	case TimerJoin:
		if s.due(&c.join, TimerJoin, g.id, "") {
			s.joinTimeout(g, c)
		}
	case TimerSync:
		if s.due(&c.sync, TimerSync, g.id, "") {
			s.syncTimeout(g, c)
		}
	}
}

// restartSession gives a member its session timeout from now on.
func (s *Shard) restartSession(g *group, m *member) {
	s.setTimer(&m.session, TimerSession, g.id, m.id, s.ev.Mono+m.sessionTimeout)
}

// sessionExpired removes a member that was not heard of. One with a parked request
// is alive: its timer starts again with the answer. Only a new member is not
// parked for ever.
func (s *Shard) sessionExpired(g *group, c *classicGroup, m *member) {
	if !m.isNew && (m.joining.is || m.syncing.is) {
		return
	}
	why := memberCause(memberExpired, m)
	s.removeMember(g, c, m)
	switch c.state {
	case stateStable, stateCompletingRebalance:
		s.startRebalance(g, c, why)
	case statePreparingRebalance:
		s.tell(g, c, &why)
		// Unlike a join or a leave, also within the initial delay.
		if c.allJoined() {
			s.completeJoin(g, c, why)
		}
	}
}
