package coordinator

import "github.com/twmb/franz-go/pkg/kmsg"

// offsetDelete handles OffsetDelete v0.
func (s *Shard) offsetDelete(r *kmsg.OffsetDeleteRequest) {
	resp := kmsg.NewPtrOffsetDeleteResponse()
	resp.Version = r.Version
	if r.Group == "" {
		resp.ErrorCode = codeInvalidGroupID
		s.reply(s.ev.Token, resp, NoDependency)
		return
	}
	g := s.groups[r.Group]
	switch {
	case g == nil:
		resp.ErrorCode = codeGroupIDNotFound
	case g.deleting:
		resp.ErrorCode = codeCoordinatorLoadInProgress
	default:
		resp.ErrorCode = g.kind.validateOffsetDelete()
	}
	if resp.ErrorCode == codeNone {
		s.deleteOffsets(r, resp, g)
	}
	depends := s.offsetsDependency(g)
	if g != nil {
		depends = max(depends, g.membershipOffset)
	}
	s.reply(s.ev.Token, resp, depends)
}

// deleteOffsets answers in Apache Kafka's order: topics and partitions that do not
// exist first.
func (s *Shard) deleteOffsets(r *kmsg.OffsetDeleteRequest, resp *kmsg.OffsetDeleteResponse, g *group) {
	at := map[string]int{}
	add := func(topic string) *kmsg.OffsetDeleteResponseTopic {
		i, ok := at[topic]
		if !ok {
			i = len(resp.Topics)
			at[topic] = i
			resp.Topics = append(resp.Topics, kmsg.OffsetDeleteResponseTopic{Topic: topic})
		}
		return &resp.Topics[i]
	}
	for i := range r.Topics {
		t := &r.Topics[i]
		_, count, known := s.ev.Topics.ByName(t.Topic)
		if !known {
			add(t.Topic)
		}
		for _, p := range t.Partitions {
			if p.Partition < 0 || p.Partition >= count {
				out := add(t.Topic)
				out.Partitions = append(out.Partitions, kmsg.OffsetDeleteResponseTopicPartition{
					Partition: p.Partition, ErrorCode: codeUnknownTopicOrPartition,
				})
			}
		}
	}
	for i := range r.Topics {
		t := &r.Topics[i]
		_, count, _ := s.ev.Topics.ByName(t.Topic)
		subscribed := g.kind.subscribes(t.Topic)
		for _, p := range t.Partitions {
			if p.Partition < 0 || p.Partition >= count {
				continue
			}
			answer := kmsg.OffsetDeleteResponseTopicPartition{Partition: p.Partition}
			if subscribed {
				answer.ErrorCode = codeGroupSubscribedToTopic
			} else if g.offsets.get(t.Topic, p.Partition) != nil {
				s.emitOffsetTombstone(g, t.Topic, p.Partition)
			}
			out := add(t.Topic)
			out.Partitions = append(out.Partitions, answer)
		}
	}
}

// validateOffsetDelete: see groupKind. Only of consumers is it known which topics
// are in use.
func (c *classicGroup) validateOffsetDelete() int16 {
	switch {
	case c.state == stateDead:
		return codeGroupIDNotFound
	case c.state != stateEmpty && c.groupProtocolType != protocolTypeConsumer:
		return codeNonEmptyGroup
	}
	return codeNone
}

// subscribes: see groupKind. If a subscription could not be parsed every topic
// counts as subscribed.
func (c *classicGroup) subscribes(topic string) bool {
	if c.state == stateEmpty {
		return false
	}
	_, ok := c.topics[topic]
	return ok || c.topics == nil
}
