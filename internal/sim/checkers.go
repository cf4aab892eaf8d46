package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The checkers. Each has a name, which a violation tells.
const (
	checkBroker      = "broker"       // it starts, and goes on unless the disk fails
	checkErrors      = "errors"       // no error code that nothing explains
	checkOrder       = "order"        // each request is answered at most once, in order
	checkForgotten   = "forgotten"    // no request is left without an answer
	checkOffsets     = "offsets"      // no acknowledged commit is lost, none invented
	checkAssignments = "assignments"  // one assignment for each generation
	checkOwners      = "owners"       // one owner of a partition in each generation
	checkGenerations = "generations"  // an old generation is not served
	checkMembers     = "members"      // a member id is handed out once, and dead when replaced or gone
	checkSessions    = "sessions"     // who does not come back is removed
	checkSettling    = "settling"     // without faults every group settles
	checkReplay      = "replay"       // memory is what a replay makes of the log
	checkRecords     = "records"      // acknowledged records stay, once, where they are
	checkTopics      = "topics"       // topics are there from creation to deletion
	checkProducerIDs = "producer ids" // a producer id is handed out once
)

// patience is how long a request may be without an answer when there are no
// faults: longer than any wait that a client asks for.
const patience = 30 * time.Second

// checkForgotten looks for requests that nobody will answer.
func (w *World) checkForgotten() {
	if !w.calm {
		return
	}
	late := w.machine.clock.mono - patience
	for _, c := range w.clients {
		if len(c.pending) > 0 && max(c.pending[0].sent, w.calmSince) < late {
			w.violated(checkForgotten, "%s waits since %v for %s", c.name, c.pending[0].sent, kmsg.NameForKey(c.pending[0].request.Key()))
		}
	}
}

// until lets events happen until a condition holds; a checker complains if that
// takes more than a limit of virtual time.
func (w *World) until(checker, what string, limit time.Duration, holds func() bool) {
	end := w.machine.clock.mono + limit
	for !holds() {
		if w.machine.clock.mono > end {
			w.violated(checker, "%v without: %s; %s", limit, what, w.describe())
		}
		w.event()
	}
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
