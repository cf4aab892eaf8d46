package coordinator

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/coordinator/records"
)

// codeNames are Kafka's names of the codes that the scripts print.
var codeNames = map[int16]string{
	codeUnknownServerError: "UNKNOWN_SERVER_ERROR", codeNone: "NONE",
	codeUnknownTopicOrPartition: "UNKNOWN_TOPIC_OR_PARTITION", codeOffsetMetadataTooLarge: "OFFSET_METADATA_TOO_LARGE",
	codeCoordinatorLoadInProgress: "COORDINATOR_LOAD_IN_PROGRESS", codeCoordinatorNotAvailable: "COORDINATOR_NOT_AVAILABLE",
	codeNotCoordinator: "NOT_COORDINATOR", codeIllegalGeneration: "ILLEGAL_GENERATION",
	codeInconsistentGroupProtocol: "INCONSISTENT_GROUP_PROTOCOL", codeInvalidGroupID: "INVALID_GROUP_ID",
	codeUnknownMemberID: "UNKNOWN_MEMBER_ID", codeInvalidSessionTimeout: "INVALID_SESSION_TIMEOUT",
	codeRebalanceInProgress: "REBALANCE_IN_PROGRESS", codeNonEmptyGroup: "NON_EMPTY_GROUP",
	codeGroupIDNotFound: "GROUP_ID_NOT_FOUND", codeMemberIDRequired: "MEMBER_ID_REQUIRED",
	codeGroupMaxSizeReached: "GROUP_MAX_SIZE_REACHED", codeFencedInstanceID: "FENCED_INSTANCE_ID",
	codeGroupSubscribedToTopic: "GROUP_SUBSCRIBED_TO_TOPIC", codeUnknownTopicID: "UNKNOWN_TOPIC_ID",
}

func codeName(code int16) string {
	if n := codeNames[code]; n != "" {
		return n
	}
	return strconv.Itoa(int(code))
}

// text prints a nullable string.
func text(s *string) string {
	if s == nil {
		return "null"
	}
	return plain(*s)
}

// plain prints a string, quoted if it would be hard to read otherwise.
func plain(s string) string {
	if len(s) > 60 {
		return fmt.Sprintf("(%d bytes)", len(s))
	}
	if s == "" || strings.ContainsAny(s, " ,[]") || strconv.Quote(s) != `"`+s+`"` {
		return strconv.Quote(s)
	}
	return short(s)
}

// data prints bytes: a consumer's subscription by its topics.
func data(b []byte) string {
	topics := map[string]struct{}{}
	if len(b) > 6 && b[0] == 0 && subscription(b, topics) {
		names := []string{}
		for i, n := 6, int(b[5]); n > 0; n-- {
			size := int(b[i+1])
			names = append(names, string(b[i+2:i+2+size]))
			i += 2 + size
		}
		return "sub/" + strings.Join(names, "/")
	}
	return plain(string(b))
}

func formatResponse(resp kmsg.Response) string {
	switch r := resp.(type) {
	case *kmsg.JoinGroupResponse:
		return formatJoin(r)
	case *kmsg.SyncGroupResponse:
		if r.ErrorCode != 0 {
			return fmt.Sprintf("%s %s", codeName(r.ErrorCode), data(r.MemberAssignment))
		}
		if r.Version < 5 {
			return fmt.Sprintf("NONE assignment=%s", data(r.MemberAssignment))
		}
		return fmt.Sprintf("NONE type=%s protocol=%s assignment=%s", text(r.ProtocolType), text(r.Protocol), data(r.MemberAssignment))
	case *kmsg.HeartbeatResponse:
		return codeName(r.ErrorCode)
	case *kmsg.LeaveGroupResponse:
		out := codeName(r.ErrorCode)
		for _, m := range r.Members {
			out += fmt.Sprintf(" [%s/%s %s]", plain(m.MemberID), text(m.InstanceID), codeName(m.ErrorCode))
		}
		return out
	case *kmsg.OffsetCommitResponse:
		var parts []string
		for _, t := range r.Topics {
			name := t.Topic
			if r.Version >= 10 {
				name = idName(t.TopicID)
			}
			for _, p := range t.Partitions {
				parts = append(parts, fmt.Sprintf("%s-%d %s", name, p.Partition, codeName(p.ErrorCode)))
			}
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case *kmsg.OffsetFetchResponse:
		return formatFetch(r)
	case *kmsg.OffsetDeleteResponse:
		out := codeName(r.ErrorCode)
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				out += fmt.Sprintf(" %s-%d %s", t.Topic, p.Partition, codeName(p.ErrorCode))
			}
		}
		return out
	case *kmsg.DeleteGroupsResponse:
		var parts []string
		for _, g := range r.Groups {
			parts = append(parts, fmt.Sprintf("%s %s", plain(g.Group), codeName(g.ErrorCode)))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case *kmsg.DescribeGroupsResponse:
		return formatDescribe(r)
	case *kmsg.ListGroupsResponse:
		out := codeName(r.ErrorCode)
		for _, g := range r.Groups {
			out += fmt.Sprintf(" [%s type=%s state=%s kind=%s]", plain(g.Group), plain(g.ProtocolType), plain(g.GroupState), plain(g.GroupType))
		}
		return out
	}
	return fmt.Sprintf("%T", resp)
}

func formatJoin(r *kmsg.JoinGroupResponse) string {
	if r.ErrorCode != 0 {
		out := fmt.Sprintf("%s gen=%d member=%s", codeName(r.ErrorCode), r.Generation, plain(r.MemberID))
		if r.LeaderID != "" || len(r.Members) > 0 || r.ProtocolType != nil || r.Version >= 7 && r.Protocol != nil || r.Version < 7 && *r.Protocol != "" {
			out += fmt.Sprintf(" leader=%s protocol=%s", plain(r.LeaderID), text(r.Protocol))
		}
		return out
	}
	out := fmt.Sprintf("NONE gen=%d protocol=%s leader=%s member=%s", r.Generation, text(r.Protocol), plain(r.LeaderID), plain(r.MemberID))
	if r.Version >= 7 {
		out += " type=" + text(r.ProtocolType)
	}
	if r.SkipAssignment {
		out += " skip-assignment"
	}
	for _, m := range r.Members {
		out += fmt.Sprintf(" [%s/%s %s]", plain(m.MemberID), text(m.InstanceID), data(m.ProtocolMetadata))
	}
	return out
}

func formatFetch(r *kmsg.OffsetFetchResponse) string {
	out := ""
	line := func(name string, p kmsg.OffsetFetchResponseGroupTopicPartition) {
		out += fmt.Sprintf(" %s-%d=%d", name, p.Partition, p.Offset)
		if p.LeaderEpoch != -1 {
			out += fmt.Sprintf("@%d", p.LeaderEpoch)
		}
		if p.Metadata == nil || *p.Metadata != "" {
			out += ":" + text(p.Metadata)
		}
		if p.ErrorCode != 0 {
			out += " " + codeName(p.ErrorCode)
		}
	}
	if r.Version < 8 {
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				line(t.Topic, kmsg.OffsetFetchResponseGroupTopicPartition(p))
			}
		}
		return codeName(r.ErrorCode) + out
	}
	for i, g := range r.Groups {
		if i > 0 {
			out += "; "
		}
		out += g.Group + " " + codeName(g.ErrorCode)
		for _, t := range g.Topics {
			name := t.Topic
			if r.Version >= 10 {
				name = idName(t.TopicID)
			}
			for _, p := range t.Partitions {
				line(name, p)
			}
		}
	}
	return out
}

// idName prints the ids of fakeTopics.
func idName(id [16]byte) string { return fmt.Sprintf("id%d", id[15]) }

func formatDescribe(r *kmsg.DescribeGroupsResponse) string {
	var lines []string
	for _, g := range r.Groups {
		out := fmt.Sprintf("%s %s state=%s type=%s protocol=%s", plain(g.Group), codeName(g.ErrorCode), plain(g.State), plain(g.ProtocolType), plain(g.Protocol))
		if g.ErrorMessage != nil {
			out += fmt.Sprintf(" message=%q", *g.ErrorMessage)
		}
		for _, m := range g.Members {
			out += fmt.Sprintf("\n  %s/%s client=%s%s metadata=%s assignment=%s", plain(m.MemberID), text(m.InstanceID),
				plain(m.ClientID), m.ClientHost, data(m.ProtocolMetadata), data(m.MemberAssignment))
		}
		lines = append(lines, out)
	}
	return strings.Join(lines, "\n")
}

func formatRecord(t testing.TB, r Record) string {
	k, err := records.DecodeKey(r.Key)
	if err != nil {
		t.Fatal(err)
	}
	name := "group " + plain(k.Group)
	if k.Type == records.OffsetCommit {
		name = fmt.Sprintf("offset %s %s-%d", plain(k.Group), k.Name, k.Partition)
	}
	if r.Value == nil {
		return name + " tombstone"
	}
	if k.Type == records.OffsetCommit {
		v, err := records.DecodeOffsetCommitValue(r.Value)
		if err != nil {
			t.Fatal(err)
		}
		out := fmt.Sprintf("%s = %d epoch=%d metadata=%s", name, v.Offset, v.LeaderEpoch, plain(v.Metadata))
		if v.ExpireTimestamp != records.NoTimestamp {
			out += fmt.Sprintf(" expires=+%dms", v.ExpireTimestamp-v.CommitTimestamp)
		}
		return out
	}
	v, err := records.DecodeGroupMetadataValue(r.Value)
	if err != nil {
		t.Fatal(err)
	}
	out := fmt.Sprintf("%s gen=%d type=%s protocol=%s leader=%s", name, v.Generation, plain(v.ProtocolType), text(v.Protocol), text(v.Leader))
	for _, m := range v.Members {
		out += fmt.Sprintf(" [%s/%s %s -> %s]", plain(m.MemberID), text(m.GroupInstanceID), data(m.Subscription), data(m.Assignment))
	}
	return out
}
