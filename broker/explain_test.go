package broker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The log says of a rebalance who came and went during it, who came last, who leads,
// how long it took; and of a deleted group who deleted it.
func TestRebalanceIsExplained(t *testing.T) {
	out := &lines{}
	logger := zerolog.New(out).Level(zerolog.InfoLevel)
	_, tr := startTest(t, Options{Logger: &logger})
	one, two, three := tr.open(0), tr.open(0), tr.open(0)
	m1, generation := stableMember(t, one, "g")
	id := func(c *testConn) string { return ask[*kmsg.JoinGroupResponse](t, c, joinRequest("g", "")).MemberID }
	m2, m3 := id(two), id(three)
	two.send(frame(joinRequest("g", m2), 42))
	three.send(frame(joinRequest("g", m3), 42))
	joined := ask[*kmsg.JoinGroupResponse](t, one, joinRequest("g", m1))
	if joined.ErrorCode != 0 || joined.Generation != generation+1 || len(joined.Members) != 3 {
		t.Fatalf("JoinGroup: %+v", joined)
	}
	out.await(`"to":"CompletingRebalance","generation":2`, 1) // lines of one request after the other
	ask[*kmsg.SyncGroupResponse](t, one, syncRequest("g", m1, joined.Generation, "a"))
	out.await(`"to":"Stable","generation":2`, 1)
	leave := at(kmsg.NewPtrLeaveGroupRequest(), 5)
	leave.Group = "g"
	for _, m := range []string{m3, m2, m1} {
		leave.Members = append(leave.Members, kmsg.LeaveGroupRequestMember{MemberID: m})
	}
	ask[*kmsg.LeaveGroupResponse](t, one, leave)
	out.await(`"to":"Empty"`, 1)
	remove := at(kmsg.NewPtrDeleteGroupsRequest(), 2)
	remove.Groups = []string{"g"}
	ask[*kmsg.DeleteGroupsResponse](t, one, remove)
	out.await(`"to":"Dead"`, 1)

	const who = `"client":"test","host":"/192.0.2.1"`
	rest := out.String()
	for _, want := range [][]string{
		{`"from":"Stable","to":"PreparingRebalance","generation":1,"members":2,"member":"` + m2 + `",` + who, `Adding new member ` + m2},
		{`"state":"PreparingRebalance","generation":1,"members":3,"member":"` + m3 + `",` + who, `Adding new member ` + m3},
		{`"to":"CompletingRebalance","generation":2,"members":3,"member":"` + m1 + `",` + who, `"join_took":"`, `All members joined, last member ` + m1},
		{`"to":"Stable","generation":2,"members":3,"leader":"` + m1 + `","rebalance_took":"`},
		{`"state":"Stable","generation":2,"members":2,"member":"` + m3 + `",` + who, `Removing member ` + m3},
		{`"state":"Stable","generation":2,"members":1,"member":"` + m2 + `",` + who, `Removing member ` + m2},
		{`"from":"Stable","to":"PreparingRebalance","generation":2,"members":0,"member":"` + m1 + `",` + who},
		{`"from":"PreparingRebalance","to":"Empty"`},
		{`"from":"Empty","to":"Dead"`, who, `Deleted on request`},
	} {
		found := false
		for line := ""; !found && rest != ""; {
			line, rest, _ = strings.Cut(rest, "\n")
			found = line != ""
			for _, part := range want {
				found = found && strings.Contains(line, part)
			}
		}
		if !found {
			t.Fatalf("no line with %s, in this order:\n%s", want, out)
		}
	}
}

// Joins that are refused for good are warned of: once per group and minute, with who
// asked and why; however many groups are named.
func TestRefusedJoinsAreTold(t *testing.T) {
	out := &lines{}
	logger := zerolog.New(out).Level(zerolog.WarnLevel)
	clock := &jumpingClock{Clock: newRealClock()}
	_, tr := startTest(t, Options{Logger: &logger, Clock: clock})
	c := tr.open(0)
	join := func(group string) {
		t.Helper()
		req := joinRequest(group, "")
		req.SessionTimeoutMillis = 5
		if resp := ask[*kmsg.JoinGroupResponse](t, c, req); resp.ErrorCode != 26 {
			t.Fatalf("JoinGroup: %+v", resp)
		}
	}
	join("g")
	join("g")
	join("h")
	want := `{"level":"warn","cause":"join refused","group":"g","error":"INVALID_SESSION_TIMEOUT","client":"test","host":"/192.0.2.1",` +
		`"reason":"session.timeout.ms=5 is not between group.min.session.timeout.ms=6000 and group.max.session.timeout.ms=1800000","message":"a client may not join its group"}`
	if n, all := out.await(want, 1), out.await("join refused", 2); n != 1 || all != 2 {
		t.Fatalf("%d lines with %s, %d in all:\n%s", n, want, all, out)
	}
	clock.jump(warnInterval + time.Second)
	join("g")
	if n := out.await(`"cause":"join refused","not_shown":1,"group":"g"`, 1); n != 1 {
		t.Fatalf("%d lines a minute later:\n%s", n, out)
	}
	for i := range maxWarnings + 10 {
		join(fmt.Sprint("many-", i))
	}
	if n := out.await("join refused", maxWarnings); n < maxWarnings || n > maxWarnings+3 {
		t.Errorf("%d lines for %d groups", n, maxWarnings+10)
	}
}
