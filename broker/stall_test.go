package broker

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/wire"
)

// An answer whose write timed out becomes the same API's answer with an error
// where the API has its place for one, in every version.
func TestTimedOutAnswers(t *testing.T) {
	commit := kmsg.NewPtrOffsetCommitResponse()
	commit.Topics = []kmsg.OffsetCommitResponseTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitResponseTopicPartition{
		{Partition: 0}, {Partition: 1, ErrorCode: 12}}}}
	fetch := kmsg.NewPtrOffsetFetchResponse()
	fetch.Topics = []kmsg.OffsetFetchResponseTopic{{Topic: "t", Partitions: []kmsg.OffsetFetchResponseTopicPartition{{Offset: 7}}}}
	fetch.Groups = []kmsg.OffsetFetchResponseGroup{{Group: "g", Topics: []kmsg.OffsetFetchResponseGroupTopic{{Topic: "t"}}}}
	protocol := "range"
	join := kmsg.NewPtrJoinGroupResponse()
	join.Generation, join.Protocol, join.LeaderID, join.MemberID = 3, &protocol, "m", "m"
	sync := kmsg.NewPtrSyncGroupResponse()
	sync.MemberAssignment = []byte("assignment")
	describe := kmsg.NewPtrDescribeGroupsResponse()
	describe.Groups = []kmsg.DescribeGroupsResponseGroup{{Group: "g", State: "Stable"}}
	del := kmsg.NewPtrDeleteGroupsResponse()
	del.Groups = []kmsg.DeleteGroupsResponseGroup{{Group: "g"}, {Group: "h", ErrorCode: 69}}
	list := kmsg.NewPtrListGroupsResponse()
	list.Groups = []kmsg.ListGroupsResponseGroup{{Group: "g"}}
	leave := kmsg.NewPtrLeaveGroupResponse()
	leave.Members = []kmsg.LeaveGroupResponseMember{{MemberID: "m"}}
	produce := kmsg.NewPtrProduceResponse()
	produce.Topics = []kmsg.ProduceResponseTopic{{Topic: "t", Partitions: []kmsg.ProduceResponseTopicPartition{{BaseOffset: 7}}}}
	create := kmsg.NewPtrCreateTopicsResponse()
	create.Topics = []kmsg.CreateTopicsResponseTopic{{Topic: "t"}}

	for _, resp := range []kmsg.Response{commit, fetch, join, sync, describe, del, list, leave, produce, create,
		kmsg.NewPtrHeartbeatResponse(), kmsg.NewPtrOffsetDeleteResponse(), kmsg.NewPtrInitProducerIDResponse(),
		kmsg.NewPtrDeleteTopicsResponse(), kmsg.NewPtrCreatePartitionsResponse(), kmsg.NewPtrDeleteRecordsResponse(),
		kmsg.NewPtrIncrementalAlterConfigsResponse()} {
		api, ok := wire.Lookup(resp.Key())
		if !ok {
			t.Fatalf("%T is not served", resp)
		}
		for version := api.Min; version <= api.Max; version++ {
			resp.SetVersion(version)
			before := wire.AppendResponse(nil, 0x01020304, resp)
			after := timedOutAnswer(before, api.Key, version)
			got := kmsg.ResponseForKey(api.Key)
			got.SetVersion(version)
			if len(after) < 8 || string(after[4:8]) != "\x01\x02\x03\x04" {
				t.Fatalf("%s v%d: %x", api.Name, version, after)
			}
			body := after[8:]
			if got.IsFlexible() {
				body = body[1:]
			}
			if err := got.ReadFrom(body); err != nil {
				t.Fatalf("%s v%d: %v", api.Name, version, err)
			}
			checkTimedOut(t, got)
		}
	}
}

func checkTimedOut(t *testing.T, resp kmsg.Response) {
	t.Helper()
	ok := true
	switch r := resp.(type) {
	case *kmsg.OffsetCommitResponse:
		p := r.Topics[0].Partitions
		ok = p[0].ErrorCode == 15 && p[1].ErrorCode == 12
	case *kmsg.OffsetFetchResponse:
		switch {
		case r.Version >= 8:
			ok = r.Groups[0].ErrorCode == 15 && len(r.Groups[0].Topics) == 0
		case r.Version >= 2:
			ok = r.ErrorCode == 15 && len(r.Topics) == 0
		default:
			p := r.Topics[0].Partitions[0]
			ok = p.ErrorCode == 15 && p.Offset == -1
		}
	case *kmsg.JoinGroupResponse:
		ok = r.ErrorCode == 15 && r.Generation == -1 && r.LeaderID == "" && r.MemberID == "m"
	case *kmsg.SyncGroupResponse:
		ok = r.ErrorCode == 15 && len(r.MemberAssignment) == 0
	case *kmsg.HeartbeatResponse:
		ok = r.ErrorCode == 15
	case *kmsg.LeaveGroupResponse:
		ok = r.ErrorCode == 15 && len(r.Members) == 0
	case *kmsg.DescribeGroupsResponse:
		ok = r.Groups[0].ErrorCode == 15 && r.Groups[0].State == ""
	case *kmsg.DeleteGroupsResponse:
		ok = r.Groups[0].ErrorCode == 15 && r.Groups[1].ErrorCode == 69
	case *kmsg.ListGroupsResponse:
		ok = r.ErrorCode == 15 && len(r.Groups) == 0
	case *kmsg.ProduceResponse:
		p := r.Topics[0].Partitions[0]
		ok = p.ErrorCode == 7 && p.BaseOffset == -1
	case *kmsg.CreateTopicsResponse:
		ok = r.Topics[0].ErrorCode == 7
	}
	if !ok {
		t.Errorf("%T v%d: %+v", resp, resp.GetVersion(), resp)
	}
}
