package coordinator

import (
	"math"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/coordinator/records"
)

// A commitSender is who sent an OffsetCommit.
type commitSender struct {
	generation int32 // of the member's group, or its member epoch
	memberID   string
	instanceID *string
}

// offsetCommit handles OffsetCommit v2-10.
func (s *Shard) offsetCommit(r *kmsg.OffsetCommitRequest) {
	resp := &s.out.commit
	resp.Version, resp.ThrottleMillis = r.Version, 0
	todo, refused := s.filterCommit(r, resp)
	if todo == 0 { // nobody is asked
		orderCommit(r, resp)
		s.reply(s.ev.Token, resp, NoDependency)
		return
	}
	g := s.group(r.Group)
	code := codeInvalidGroupID
	if len(r.Group) <= maxString {
		code = s.commitError(r, g)
	}
	if code == codeNone && !s.commitFits(r, resp) {
		code = codeUnknownServerError
	}
	if code == codeNone {
		g = s.commit(r, resp, g)
	} else {
		setPending(resp, code)
	}
	if refused {
		orderCommit(r, resp)
	}
	depends := s.offsetsDependency(g)
	if g != nil {
		depends = max(depends, g.membershipOffset) // it told of the membership
	}
	s.reply(s.ev.Token, resp, depends)
}

// orderCommit puts an answer of which the filter refused something into Apache
// Kafka's order: topics with something refused come first, and in them what was
// refused. A topic that was named without partitions is there only if it does not
// exist.
func orderCommit(r *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse) {
	type key struct {
		name string
		id   [16]byte
	}
	at := map[key]int{}
	var topics []kmsg.OffsetCommitResponseTopic
	add := func(t *kmsg.OffsetCommitResponseTopic, p kmsg.OffsetCommitResponseTopicPartition, any bool) {
		k := key{name: t.Topic}
		if r.Version >= 10 {
			k = key{id: t.TopicID}
		}
		i, ok := at[k]
		if !ok {
			i = len(topics)
			at[k] = i
			topics = append(topics, kmsg.OffsetCommitResponseTopic{Topic: t.Topic, TopicID: t.TopicID})
		}
		if any {
			topics[i].Partitions = append(topics[i].Partitions, p)
		}
	}
	for _, wantRefused := range []bool{true, false} {
		for i := range resp.Topics {
			t := &resp.Topics[i]
			if wantRefused && (t.Topic == "" || t.TopicID == [16]byte{}) {
				add(t, kmsg.OffsetCommitResponseTopicPartition{}, false)
			}
			for _, p := range t.Partitions {
				if (p.ErrorCode == codeUnknownTopicOrPartition || p.ErrorCode == codeUnknownTopicID) == wantRefused {
					add(t, p, true)
				}
			}
		}
	}
	resp.Topics = topics
}

// commitPending marks, until the coordinator has decided, the partitions that the
// filter let pass. No answer has it.
const commitPending int16 = -2

// filterCommit builds the response with the partitions that do not exist refused,
// and returns how many are left for the coordinator, and whether any topic or
// partition was refused or is without partitions. Each topic of the response
// has both its name and its id then, whichever the version encodes.
func (s *Shard) filterCommit(r *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse) (todo int, refused bool) {
	resp.Topics = extend(resp.Topics[:0], len(r.Topics))
	for i := range r.Topics {
		t, out := &r.Topics[i], &resp.Topics[i]
		out.Topic, out.TopicID = t.Topic, t.TopicID
		out.Partitions = extend(out.Partitions[:0], len(t.Partitions))
		code := codeUnknownTopicOrPartition
		var count int32
		var ok bool
		if s.ev.Topics == nil { // see Refuse
			ok, count = true, math.MaxInt32
		} else if r.Version >= 10 {
			out.Topic, count, ok = s.ev.Topics.ByID(t.TopicID)
			if !ok {
				code = codeUnknownTopicID
			}
		} else {
			out.TopicID, count, ok = s.ev.Topics.ByName(t.Topic)
		}
		refused = refused || len(t.Partitions) == 0
		for j := range t.Partitions {
			p := &out.Partitions[j]
			p.Partition, p.ErrorCode = t.Partitions[j].Partition, code
			if ok && p.Partition >= 0 && p.Partition < count {
				p.ErrorCode = commitPending
				todo++
			} else {
				refused = true
			}
		}
	}
	return todo, refused
}

// extend grows s to n elements and keeps what they held before.
func extend[T any](s []T, n int) []T {
	if n <= cap(s) {
		return s[:n]
	}
	return append(s[:cap(s)], make([]T, n-cap(s))...)
}

func setPending(resp *kmsg.OffsetCommitResponse, code int16) {
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			if p := &resp.Topics[i].Partitions[j]; p.ErrorCode == commitPending {
				p.ErrorCode = code
			}
		}
	}
}

// commitError judges the request as a whole.
func (s *Shard) commitError(r *kmsg.OffsetCommitRequest, g *group) int16 {
	if g == nil {
		switch {
		case r.Generation < 0:
			return codeNone // the commit makes a simple group
		case r.Version >= 9:
			return codeGroupIDNotFound
		}
		return codeIllegalGeneration
	}
	if g.deleting {
		return codeCoordinatorLoadInProgress
	}
	return g.kind.validateCommit(s, g, commitSender{r.Generation, r.MemberID, r.InstanceID})
}

// validateCommit: see groupKind. In PreparingRebalance a member still commits in
// the old generation: that is how consumers flush when partitions are revoked.
func (c *classicGroup) validateCommit(s *Shard, g *group, sender commitSender) int16 {
	if c.state == stateDead {
		return codeCoordinatorNotAvailable
	}
	if c.state == stateEmpty && sender.generation < 0 {
		return codeNone
	}
	if sender.generation < 0 && sender.memberID == "" && sender.instanceID == nil {
		return codeUnknownMemberID
	}
	m, code := c.check(sender.memberID, sender.instanceID)
	switch {
	case code != codeNone:
		return code
	case sender.generation != c.generation:
		return codeIllegalGeneration
	case c.state == stateCompletingRebalance:
		return codeRebalanceInProgress
	}
	s.restartSession(g, m)
	return codeNone
}

// commitFits reports whether the request's records fit into one batch.
func (s *Shard) commitFits(r *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse) bool {
	limit := s.ev.Config.MaxMessageBytes
	n := batchOverhead
	for i := range r.Topics {
		t := &r.Topics[i]
		for j := range t.Partitions {
			if resp.Topics[i].Partitions[j].ErrorCode != commitPending {
				continue
			}
			n += len(r.Group) + len(resp.Topics[i].Topic) + 64
			if m := t.Partitions[j].Metadata; m != nil {
				n += len(*m)
			}
		}
	}
	return n <= limit
}

// commit writes the partitions that are left. The same partition twice is written
// twice: the last wins.
func (s *Shard) commit(r *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, g *group) *group {
	v := records.OffsetCommitValue{CommitTimestamp: s.ev.Wall, ExpireTimestamp: records.NoTimestamp}
	if r.Version <= 4 && r.RetentionTimeMillis != -1 {
		v.ExpireTimestamp = s.ev.Wall + r.RetentionTimeMillis
	}
	for i := range r.Topics {
		t, name := &r.Topics[i], resp.Topics[i].Topic
		v.TopicID = resp.Topics[i].TopicID
		for j := range t.Partitions {
			p, out := &t.Partitions[j], &resp.Topics[i].Partitions[j]
			if out.ErrorCode != commitPending {
				continue
			}
			v.Metadata = ""
			if p.Metadata != nil {
				v.Metadata = *p.Metadata
			}
			if longerThan(v.Metadata, s.ev.Config.OffsetMetadataMaxBytes) || v.Version() == 1 && len(v.Metadata) > maxString {
				out.ErrorCode = codeOffsetMetadataTooLarge
				continue
			}
			v.Offset = p.Offset
			v.LeaderEpoch = -1
			if r.Version >= 6 {
				v.LeaderEpoch = p.LeaderEpoch
			}
			g = s.emitOffset(g, r.Group, name, p.Partition, &v)
			out.ErrorCode = codeNone
		}
	}
	return g
}

// longerThan reports whether a string has more than limit UTF-16 code units.
func longerThan(v string, limit int) bool {
	if len(v) <= limit { // no character has more code units than bytes
		return false
	}
	n := 0
	for _, r := range v {
		n++
		if r >= 0x10000 && r <= utf8.MaxRune {
			n++
		}
	}
	return n > limit
}
