package coordinator

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestManyJoinAtOnce has very many members join a new group within its initial delay,
// each asking twice, as clients do that are given a member id first: there is one
// join phase, which ends with the second delay, one generation, and an answer to each.
func TestManyJoinAtOnce(t *testing.T) {
	for _, n := range []int{1_000, 10_000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			s, out := NewShard(0), &Result{}
			config := DefaultConfig()
			config.InitialRebalanceDelay = 200 * time.Millisecond
			ev := Event{Kind: EventRequest, Config: config, Topics: benchTopics(), Mono: time.Hour}
			begun, end := ev.Mono, time.Duration(0)
			var phase TimerKey
			step := func(req kmsg.Request) {
				ev.Request = req
				s.Step(&ev, out)
				for _, timer := range out.Timers {
					if timer.Key.Kind == TimerJoin && !timer.Cancel {
						phase, end = timer.Key, timer.Deadline
					}
				}
			}
			r := kmsg.NewPtrJoinGroupRequest()
			r.Version, r.Group, r.SessionTimeoutMillis, r.RebalanceTimeoutMillis, r.ProtocolType = 9, "group", 45000, 300000, "consumer"
			r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: metadata("sub/t")}}
			for i := range n {
				ev.Mono = begun + time.Duration(i)*150*time.Millisecond/time.Duration(n)
				ev.Entropy = [16]byte{0: byte(i), 1: byte(i >> 8)}
				ev.Token = Token(n + i)
				r.MemberID = ""
				step(r)
				if len(out.Replies) != 1 {
					t.Fatalf("%d replies to a member without an id", len(out.Replies))
				}
				given := out.Replies[0].Response.(*kmsg.JoinGroupResponse)
				if given.ErrorCode != codeMemberIDRequired {
					t.Fatalf("error code %d", given.ErrorCode)
				}
				r.MemberID, ev.Token = given.MemberID, Token(i)
				step(r)
				if len(out.Replies) != 0 {
					t.Fatalf("member %d is answered %+v", i, out.Replies[0].Response)
				}
			}
			phases := 0
			for ev.Kind = EventTimer; s.groups["group"].kind.(*classicGroup).state == statePreparingRebalance; phases++ {
				if ev.Mono, ev.Timer = end, phase; phases == 2 {
					t.Fatal("the phase goes on")
				}
				step(nil)
			}
			if took := ev.Mono - begun; took != 2*config.InitialRebalanceDelay {
				t.Errorf("the phase took %v", took)
			}
			seen := make([]bool, n)
			for _, reply := range out.Replies {
				joined := reply.Response.(*kmsg.JoinGroupResponse)
				if joined.ErrorCode != codeNone || joined.Generation != 1 || seen[reply.Token] {
					t.Fatalf("%d: error code %d, generation %d, answered before: %v", reply.Token, joined.ErrorCode, joined.Generation, seen[reply.Token])
				}
				seen[reply.Token] = true
			}
			if len(out.Replies) != n {
				t.Errorf("%d of %d are answered", len(out.Replies), n)
			}
		})
	}
}
