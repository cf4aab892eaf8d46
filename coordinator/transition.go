package coordinator

import (
	"strconv"
	"strings"
)

// causeKind says what moved a group.
type causeKind uint8

const (
	memberJoined causeKind = iota
	memberRejoined
	memberUpdated
	leaderRejoined
	memberReplaced
	memberLeft
	memberExpired
	pendingExpired
	joinTimedOut
	initialDelayOver
	memberEjected
	syncTimedOut
	allJoinedIn
	leaderSynced
	syncTooLarge
	groupTooLarge
	groupDeleted
	groupCollected
	groupUnloaded
)

// A cause is why a group moves and who made it move. It becomes text only if
// there is a transition to tell of. Its strings are the shard's or the event's.
type cause struct {
	what     causeKind
	member   string
	instance string
	client   Client
	reason   string // the client's words

	waitedFor      []string // see Transition
	waitedForCount int
	removed        int // of those waited for
}

// maxNamed bounds how many ids an observation lists.
const maxNamed = 5

// inVain adds somebody who was waited for and did not come. If it is the only one
// it is who caused what happens.
func (c *cause) inVain(id string, client Client) {
	c.member, c.client = "", Client{}
	if c.waitedForCount == 0 {
		c.member, c.client = id, client
	}
	c.waitedForCount++
	if len(c.waitedFor) < maxNamed {
		c.waitedFor = append(c.waitedFor, strings.Clone(id))
	}
}

func memberCause(what causeKind, m *member) cause {
	return cause{what: what, member: m.id, instance: m.instance, client: Client{m.clientID, m.clientHost}}
}

// because adds what the client gave as its reason, clipped (KIP-800 has clients send
// at most 255 characters): it is kept and logged.
func (c cause) because(reason *string) cause {
	if reason != nil {
		c.reason = clip(*reason)
	}
	return c
}

func (c *cause) text() string {
	var s string
	switch c.what {
	case memberJoined:
		s = "Adding new member " + c.member
	case memberRejoined:
		s = "Member " + c.member + " re-joining"
	case memberUpdated:
		s = "Updating metadata for member " + c.member
	case leaderRejoined:
		s = "Leader " + c.member + " re-joining group"
	case memberReplaced:
		s = "Replacing static member by " + c.member
	case memberLeft:
		s = "Removing member " + c.member + " on LeaveGroup"
	case memberExpired:
		s = "Removing member " + c.member + " on heartbeat expiration"
	case pendingExpired:
		s = "Removing pending member " + c.member + " on expiration"
	case joinTimedOut:
		s = "Join phase timed out"
		if c.removed > 0 {
			s += "; members removed that did not join: " + strconv.Itoa(c.removed)
		}
	case initialDelayOver:
		s = "Initial rebalance delay is over"
	case memberEjected:
		s = "The group has group.max.size members: removing member " + c.member
	case syncTimedOut:
		s = "Removing members on pending sync request expiration: " + strings.Join(c.waitedFor, ", ")
		if more := c.waitedForCount - len(c.waitedFor); more > 0 {
			s += " and " + strconv.Itoa(more) + " more"
		}
	case allJoinedIn:
		s = "All members joined, last member " + c.member
	case leaderSynced:
		s = "Assignment received from leader " + c.member
	case syncTooLarge:
		s = "Group metadata exceeds max.message.bytes in SyncGroup of leader " + c.member
	case groupTooLarge:
		s = "Group has more members than group.max.size"
	case groupDeleted:
		s = "Deleted on request"
	case groupCollected:
		s = "Empty and without committed offsets"
	case groupUnloaded:
		s = "Partition unloaded"
	}
	if c.instance != "" {
		s += " with group instance id " + c.instance
	}
	if c.reason != "" {
		s += "; client reason: " + c.reason
	}
	return s
}

// tell tells of a member that came or went while g stays in its state.
func (s *Shard) tell(g *group, c *classicGroup, why *cause) {
	state := c.state.String()
	s.observeTo(g, state, state, c.generation, why)
}

// observe tells of a transition of g from a state to the one it is in now.
func (s *Shard) observe(g *group, from string, generation int32, why *cause) {
	s.observeTo(g, from, g.kind.stateName(), generation, why)
}

func (s *Shard) observeTo(g *group, from, to string, generation int32, why *cause) {
	t := Transition{
		Group:      g.id,
		From:       from,
		To:         to,
		Generation: generation,
		Reason:     why.text(),
		Member:     strings.Clone(why.member),
		ClientID:   strings.Clone(why.client.ID),
		ClientHost: strings.Clone(why.client.Host),
		Members:    g.kind.memberCount(),

		WaitedFor:      why.waitedFor,
		WaitedForCount: why.waitedForCount,
	}
	if why.what == leaderSynced {
		t.Leader, t.Member, t.ClientID, t.ClientHost = t.Member, "", "", ""
	}
	if c, ok := g.kind.(*classicGroup); ok && from != to && from == statePreparingRebalance.String() {
		t.JoinTook = s.ev.Mono - c.joinSince
	}
	s.out.Transitions = append(s.out.Transitions, t)
}
