package coordinator

import (
	"bytes"
	"time"

	"github.com/kcoord/kcoord/coordinator/records"
)

// Names of group types as ListGroups shows them, and the protocol type whose
// metadata the coordinator understands.
const (
	typeClassic          = "classic"
	protocolTypeConsumer = "consumer"
)

// A classicState is a state of a classic group, by Kafka's names.
type classicState uint8

const (
	stateEmpty               classicState = iota // no members; may hold offsets
	statePreparingRebalance                      // collecting JoinGroups
	stateCompletingRebalance                     // everybody joined, waiting for the leader's SyncGroup
	stateStable                                  // the assignment is distributed
	stateDead                                    // unloaded
)

func (s classicState) String() string {
	switch s {
	case stateEmpty:
		return "Empty"
	case statePreparingRebalance:
		return "PreparingRebalance"
	case stateCompletingRebalance:
		return "CompletingRebalance"
	case stateStable:
		return "Stable"
	}
	return "Dead"
}

// mayFollow is Kafka's table of transitions.
func (s classicState) mayFollow(from classicState) bool {
	switch s {
	case stateEmpty:
		return from == statePreparingRebalance
	case statePreparingRebalance:
		return from == stateEmpty || from == stateCompletingRebalance || from == stateStable
	case stateCompletingRebalance:
		return from == statePreparingRebalance
	case stateStable:
		return from == stateCompletingRebalance
	}
	return true
}

// A classicGroup is a group of the classic protocol. What of it is not in its
// record (who joined so far, who is parked, the timers) is gone after a restart,
// as in Apache Kafka.
type classicGroup struct {
	state    classicState
	previous classicState // the state before the last transition

	groupProtocolType string
	generation        int32
	hasProtocol       bool
	protocol          string // the selected protocol
	leader            string // member id, "": none
	stateSince        int64  // Unix milliseconds of the last transition, NoTimestamp: unknown

	// Members in the order they came.
	// Invariant: byID holds exactly the list's members, byInstance its static ones.
	first, last *member
	byID        map[string]*member
	byInstance  map[string]*member

	// pending holds ids handed out with MEMBER_ID_REQUIRED.
	// Invariant: no member has one of them.
	pending map[string]*timer

	// Invariant: the number of members with a parked JoinGroup.
	awaitingJoin int
	// Invariant: the number of members whose pendingSync is set.
	pendingSync int

	// protocols counts for each protocol name the members that support it.
	protocols map[string]*protocolCount

	// topics is what the members subscribe to, as of the last join phase; nil if
	// that is unknown.
	topics map[string]struct{}

	// newMemberAdded: somebody came since the initial delay was last prolonged.
	newMemberAdded bool
	delay          time.Duration // of the initial delay's current window
	remaining      time.Duration // what the initial delay may still be prolonged by

	joinSince      time.Duration // start of the join phase, for observations
	join           timer         // ends the join phase
	sync           timer         // ends the wait for SyncGroups
	syncGeneration int32         // the generation that the sync timer is for

	marker uint32 // see applyMembers
	stamp  uint64 // see setProtocols
}

type protocolCount struct {
	name    string
	members int
	votes   int
	stamp   uint64 // see setProtocols
}

// A protocol is one entry of a member's list, in order of preference.
type protocol struct {
	name     string
	metadata []byte // never changed, only replaced
}

// A member is a member of a classic group. Strings and bytes of it are never
// changed, only replaced: reads may hold on to them.
type member struct {
	id         string
	instance   string // if static
	static     bool
	clientID   string
	clientHost string

	sessionTimeout   time.Duration
	rebalanceTimeout time.Duration
	protocols        []protocol
	assignment       []byte

	joining parked // a JoinGroup that waits for the others
	syncing parked // a SyncGroup that waits for the leader's

	// isNew: has not completed a join phase yet.
	isNew bool
	// pendingSync: has not sent SyncGroup since the last join phase.
	pendingSync bool

	session timer
	marker  uint32 // see applyMembers
	place   int32  // in the list that value made last

	prev, next *member
}

// parked is a request that is answered later.
type parked struct {
	is      bool
	version int16
	token   Token
}

func newClassicGroup() *classicGroup {
	return &classicGroup{stateSince: records.NoTimestamp}
}

func (c *classicGroup) typeName() string     { return typeClassic }
func (c *classicGroup) protocolType() string { return c.groupProtocolType }
func (c *classicGroup) stateName() string    { return c.state.String() }
func (c *classicGroup) memberCount() int     { return len(c.byID) }
func (c *classicGroup) collectable() bool    { return c.state == stateEmpty }

func (c *classicGroup) tombstones(s *Shard, g *group) { s.emitGroupTombstone(g) }

// classic returns the group's classic membership. A simple group gets one: it is
// a classic group in state Empty.
func (g *group) classic() *classicGroup {
	switch k := g.kind.(type) {
	case *classicGroup:
		return k
	case simple:
		c := newClassicGroup()
		g.kind = c
		return c
	}
	return nil
}

// insert adds a member at the end of the list.
func (c *classicGroup) insert(m *member, list []protocol) {
	if c.byID == nil {
		c.byID = map[string]*member{}
	}
	c.byID[m.id] = m
	if m.static {
		c.mapInstance(m)
	}
	c.link(m)
	c.setProtocols(m, list)
}

// link puts m at the end of the list.
func (c *classicGroup) link(m *member) {
	m.next = nil
	if m.prev = c.last; m.prev != nil {
		m.prev.next = m
	} else {
		c.first = m
	}
	c.last = m
}

// unlink takes m out of the list.
func (c *classicGroup) unlink(m *member) {
	if m.prev != nil {
		m.prev.next = m.next
	} else {
		c.first = m.next
	}
	if m.next != nil {
		m.next.prev = m.prev
	} else {
		c.last = m.prev
	}
}

func (c *classicGroup) mapInstance(m *member) {
	if c.byInstance == nil {
		c.byInstance = map[string]*member{}
	}
	c.byInstance[m.instance] = m
}

// remove takes a member out, whatever is parked on it forgotten, and makes the
// first of the others leader if it was the leader.
func (c *classicGroup) remove(m *member) {
	c.setProtocols(m, nil)
	delete(c.byID, m.id)
	if m.static && c.byInstance[m.instance] == m {
		delete(c.byInstance, m.instance)
	}
	c.unlink(m)
	c.setPendingSync(m, false)
	if m.joining.is {
		m.joining.is = false
		c.awaitingJoin--
	}
	if c.leader == m.id {
		c.leader = ""
		if c.first != nil {
			c.leader = c.first.id
		}
	}
	if len(c.byID) == 0 { // a map does not shrink by itself
		c.byID, c.byInstance, c.protocols = nil, nil, nil
	}
}

// rekey gives a member another id.
func (c *classicGroup) rekey(m *member, id string) {
	if c.leader == m.id {
		c.leader = id
	}
	delete(c.byID, m.id)
	m.id = id
	c.byID[id] = m
}

// setProtocols replaces a member's protocol list and keeps the counts. A name
// twice in a list counts once.
func (c *classicGroup) setProtocols(m *member, list []protocol) {
	c.stamp++
	for i := range m.protocols {
		n := c.protocols[m.protocols[i].name]
		if n == nil || n.stamp == c.stamp {
			continue
		}
		n.stamp = c.stamp
		if n.members--; n.members == 0 {
			delete(c.protocols, n.name)
		}
	}
	m.protocols = list
	c.stamp++
	for i := range list {
		p := &list[i]
		n := c.protocols[p.name]
		if n == nil {
			if c.protocols == nil {
				c.protocols = map[string]*protocolCount{}
			}
			n = &protocolCount{name: p.name}
			c.protocols[p.name] = n
		}
		p.name = n.name // one copy of the name for all members
		if n.stamp != c.stamp {
			n.stamp = c.stamp
			n.members++
		}
	}
}

// find returns the member's entry for a protocol, or nil.
func (m *member) find(name string) *protocol {
	for i := range m.protocols {
		if m.protocols[i].name == name {
			return &m.protocols[i]
		}
	}
	return nil
}

// metadata returns the member's metadata for a protocol.
func (m *member) metadata(name string) []byte {
	if p := m.find(name); p != nil {
		return p.metadata
	}
	return nil
}

// instancePtr returns the member's instance id as nullable field.
func (m *member) instancePtr() *string {
	if !m.static {
		return nil
	}
	return &m.instance
}

// is reports whether the member has the instance id, or none if that is nil.
func (m *member) is(instanceID *string) bool {
	if instanceID == nil {
		return !m.static
	}
	return m.static && m.instance == *instanceID
}

// supported reports whether every member supports the protocol: any, while the
// last member has left and the rebalance that ends it is still under way.
func (c *classicGroup) supported(name string) bool {
	if n := c.protocols[name]; n != nil {
		return n.members == len(c.byID)
	}
	return len(c.byID) == 0
}

// vote selects the protocol: each member votes for the first of its list that all
// support. Of the names with most votes the smallest is taken (Apache Kafka takes
// any).
func (c *classicGroup) vote() string {
	for _, n := range c.protocols {
		n.votes = 0
	}
	for m := c.first; m != nil; m = m.next {
		for i := range m.protocols {
			if n := c.protocols[m.protocols[i].name]; n.members == len(c.byID) {
				n.votes++
				break
			}
		}
	}
	var best *protocolCount
	for _, n := range c.protocols {
		if best == nil || n.votes > best.votes || n.votes == best.votes && n.name < best.name {
			best = n
		}
	}
	if best == nil {
		return ""
	}
	return best.name
}

// rebalanceTimeout is the longest of the members', at least 0.
func (c *classicGroup) rebalanceTimeout() time.Duration {
	var t time.Duration
	for m := c.first; m != nil; m = m.next {
		t = max(t, m.rebalanceTimeout)
	}
	return t
}

func (c *classicGroup) setPendingSync(m *member, pending bool) {
	if m.pendingSync == pending {
		return
	}
	m.pendingSync = pending
	if pending {
		c.pendingSync++
	} else {
		c.pendingSync--
	}
}

// computeSubscription works out which topics the members subscribe to.
func (c *classicGroup) computeSubscription() {
	c.topics = nil
	if c.groupProtocolType != protocolTypeConsumer || (!c.hasProtocol && c.first != nil) {
		return
	}
	topics := map[string]struct{}{}
	var last []byte
	for m := c.first; m != nil; m = m.next {
		b := m.metadata(c.protocol)
		if m != c.first && bytes.Equal(b, last) {
			continue // most members subscribe to the same
		}
		last = b
		if !subscription(b, topics) {
			return
		}
	}
	c.topics = topics
}

// millis converts a protocol field of milliseconds.
func millis(ms int32) time.Duration { return time.Duration(ms) * time.Millisecond }

// check validates a member id and instance id: UNKNOWN_MEMBER_ID or
// FENCED_INSTANCE_ID if they are not those of a member.
func (c *classicGroup) check(memberID string, instanceID *string) (*member, int16) {
	if instanceID != nil {
		switch m := c.byInstance[*instanceID]; {
		case m == nil:
			return nil, codeUnknownMemberID
		case m.id != memberID:
			return nil, codeFencedInstanceID
		}
	}
	m := c.byID[memberID]
	if m == nil {
		return nil, codeUnknownMemberID
	}
	return m, codeNone
}
