package broker

import (
	"testing"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What administration changes can be read in the log at the level of requests, each
// change once, and nothing that was refused.
func TestAdministrationIsTold(t *testing.T) {
	out := &lines{}
	logger := zerolog.New(out)
	_, tr := startTest(t, Options{Logger: &logger})
	c := tr.open(0)
	for range 2 { // the second time each is refused
		create := kmsg.NewPtrCreateTopicsRequest()
		create.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "t", NumPartitions: 2, ReplicationFactor: 1}}
		ask[*kmsg.CreateTopicsResponse](t, c, at(create, 6))
		grow := kmsg.NewPtrCreatePartitionsRequest()
		grow.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "t", Count: 3}}
		ask[*kmsg.CreatePartitionsResponse](t, c, at(grow, 2))
	}
	name, value := "auto", "1000"
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.AllowAutoTopicCreation = true
	metadata.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
	ask[*kmsg.MetadataResponse](t, c, at(metadata, 9))
	alter := kmsg.NewPtrIncrementalAlterConfigsRequest()
	alter.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "t",
		Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "retention.ms", Value: &value}}}}
	ask[*kmsg.IncrementalAlterConfigsResponse](t, c, at(alter, 1))
	if code := commitCode(t, c, commitRequest("g", "", -1, "t", 7, 0)); code != 0 {
		t.Fatalf("commit: code %d", code)
	}
	forget := kmsg.NewPtrOffsetDeleteRequest()
	forget.Group = "g"
	forget.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}}}
	ask[*kmsg.OffsetDeleteResponse](t, c, at(forget, 0))
	deleteRecords(t, c, "t", 0, -1)
	remove := kmsg.NewPtrDeleteTopicsRequest()
	remove.TopicNames = []string{"t"}
	ask[*kmsg.DeleteTopicsResponse](t, c, at(remove, 5))
	for _, want := range []string{
		`"topic":"t","partitions":2,"configs":"","message":"topic created"`,
		`"topic":"t","before":2,"partitions":3,"message":"partitions added"`,
		`"topic":"auto","partitions":1,"configs":"","message":"topic created"`,
		`"type":"topic","name":"t","changed":"retention.ms=1000","message":"configuration changed"`,
		`"group":"g","partitions":1,"client":"test","host":"/192.0.2.1","message":"offsets altered"`,
		`"group":"g","partitions":1,"client":"test","host":"/192.0.2.1","message":"offsets deleted"`,
		`"topic":"t","partition":0,"low":0,"client":"test","peer":"/192.0.2.1","message":"records deleted"`,
		`"topic":"t","partitions":3,"message":"topic deleted"`,
	} {
		if n := out.await(want, 1); n != 1 {
			t.Errorf("%d lines with %s", n, want)
		}
	}
	if t.Failed() {
		t.Log(out)
	}
}

// A static member that comes back without its member id is told of, whether the group
// stays as it is or not.
func TestReplacementIsTold(t *testing.T) {
	out := &lines{}
	logger := zerolog.New(out)
	_, tr := startTest(t, Options{Logger: &logger})
	c := tr.open(0)
	instance := "i"
	join := func(member string) *kmsg.JoinGroupResponse {
		req := joinRequest("g", member)
		req.InstanceID = &instance
		return ask[*kmsg.JoinGroupResponse](t, c, req)
	}
	first := join("")
	sync := syncRequest("g", first.MemberID, first.Generation, "mine")
	sync.InstanceID = &instance
	ask[*kmsg.SyncGroupResponse](t, c, sync)
	if n := out.count("static member replaced"); n != 0 {
		t.Errorf("%d lines before anybody was replaced", n)
	}
	second := join("")
	if second.ErrorCode != 0 || second.MemberID == first.MemberID {
		t.Fatalf("second join: %+v", second)
	}
	want := `"group":"g","instance":"i","before":"` + first.MemberID + `","member":"` + second.MemberID + `","client":"test","host":"/192.0.2.1","message":"static member replaced by another with its instance id"`
	if n := out.await(want, 1); n != 1 {
		t.Errorf("%d lines with %s:\n%s", n, want, out)
	}
	join(first.MemberID) // fenced
	if n := out.count("static member replaced"); n != 1 {
		t.Errorf("%d lines", n)
	}
}
