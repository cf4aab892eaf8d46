package broker

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestRepeatedInAnAnswer: what a request names many times is answered as often,
// but not without a limit.
func TestRepeatedInAnAnswer(t *testing.T) {
	const times, size = 40, 100_000
	b, tr := startTest(t, Options{})
	c := tr.open(0)
	createTopic(t, c, "t", 100)
	join := at(joinRequest("g", ""), 3) // gets its member id at once
	join.Protocols[0].Metadata = []byte(strings.Repeat("m", size))
	joined := ask[*kmsg.JoinGroupResponse](t, c, join)
	if joined.ErrorCode != 0 {
		t.Fatalf("JoinGroup: %d", joined.ErrorCode)
	}
	if s := ask[*kmsg.SyncGroupResponse](t, c, syncRequest("g", joined.MemberID, joined.Generation, "a")); s.ErrorCode != 0 {
		t.Fatalf("SyncGroup: %d", s.ErrorCode)
	}
	partitions := make([]int32, 100)
	for i := range partitions {
		partitions[i] = int32(i)
	}
	commit := commitRequest("h", "", -1, "t", 5, partitions...)
	text := strings.Repeat("x", 1000)
	for i := range commit.Topics[0].Partitions {
		commit.Topics[0].Partitions[i].Metadata = &text
	}
	if code := commitCode(t, c, commit); code != 0 {
		t.Fatalf("OffsetCommit: %d", code)
	}

	describe := at(kmsg.NewPtrDescribeGroupsRequest(), 5)
	fetchAll := at(kmsg.NewPtrOffsetFetchRequest(), 8)
	configs := at(kmsg.NewPtrDescribeConfigsRequest(), 3)
	configs.IncludeDocumentation, configs.IncludeSynonyms = true, true
	for range times {
		describe.Groups = append(describe.Groups, "g")
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = "h"
		fetchAll.Groups = append(fetchAll.Groups, g)
		one := kmsg.NewDescribeConfigsRequestResource()
		one.ResourceType, one.ResourceName = onBroker, fmt.Sprint(b.nodeID)
		configs.Resources = append(configs.Resources, one)
	}
	var described, fetched, configured []int16
	for _, g := range ask[*kmsg.DescribeGroupsResponse](t, c, describe).Groups {
		described = append(described, g.ErrorCode)
		if g.ErrorCode == 0 && (len(g.Members) != 1 || len(g.Members[0].ProtocolMetadata) != size) {
			t.Errorf("described: %d members", len(g.Members))
		}
	}
	for _, g := range ask[*kmsg.OffsetFetchResponse](t, c, fetchAll).Groups {
		fetched = append(fetched, g.ErrorCode)
		if g.ErrorCode == 0 && (len(g.Topics) != 1 || len(g.Topics[0].Partitions) != len(partitions)) {
			t.Errorf("fetched: %d topics", len(g.Topics))
		}
	}
	all := 0
	for i, r := range ask[*kmsg.DescribeConfigsResponse](t, c, configs).Resources {
		configured = append(configured, r.ErrorCode)
		if all = max(all, len(r.Configs)); i > 0 && r.ErrorCode == 0 && len(r.Configs) != all {
			t.Errorf("%d properties, at first %d", len(r.Configs), all)
		}
	}
	for what, codes := range map[string][]int16{"14 DescribeGroups": described, "14 OffsetFetch": fetched, "7 DescribeConfigs": configured} {
		good := 0
		for _, code := range codes {
			if code == 0 {
				good++
			} else if !strings.HasPrefix(what, fmt.Sprint(code)+" ") {
				t.Errorf("%s: error %d", what, code)
			}
		}
		if len(codes) != times || codes[0] != 0 || codes[1] != 0 || good < 5 || good > times-5 {
			t.Errorf("%s: %d answers, %d good ones: %v", what, len(codes), good, codes)
		}
	}

	// One partition many times, in a version without a place for a group's error.
	same := at(kmsg.NewPtrOffsetFetchRequest(), 7)
	same.Group = "h"
	topic := kmsg.NewOffsetFetchRequestTopic()
	topic.Topic, topic.Partitions = "t", make([]int32, 15_000)
	same.Topics = append(same.Topics, topic)
	if resp := ask[*kmsg.OffsetFetchResponse](t, c, same); resp.ErrorCode != 14 || len(resp.Topics) != 0 {
		t.Errorf("one partition 15,000 times: error %d, %d topics", resp.ErrorCode, len(resp.Topics))
	}
	topic.Partitions = make([]int32, 900)
	same.Topics[0] = topic
	if resp := ask[*kmsg.OffsetFetchResponse](t, c, same); resp.ErrorCode != 0 || len(resp.Topics[0].Partitions) != 900 {
		t.Errorf("one partition 900 times: error %d", resp.ErrorCode)
	}
	if left := b.data.answers.take(1 << 40); int64(left) != b.memoryBudget() {
		t.Errorf("%d bytes of %d were given back", left, b.memoryBudget())
	}
}
