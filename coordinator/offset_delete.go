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

func (s *Shard) deleteOffsets(r *kmsg.OffsetDeleteRequest, resp *kmsg.OffsetDeleteResponse, g *group) {
	for i := range r.Topics {
		t := &r.Topics[i]
		out := kmsg.NewOffsetDeleteResponseTopic()
		out.Topic = t.Topic
		_, count, _ := s.ev.Topics.ByName(t.Topic)
		subscribed := g.kind.subscribes(t.Topic)
		for _, p := range t.Partitions {
			answer := kmsg.NewOffsetDeleteResponseTopicPartition()
			answer.Partition = p.Partition
			switch {
			case p.Partition < 0 || p.Partition >= count:
				answer.ErrorCode = codeUnknownTopicOrPartition
			case subscribed:
				answer.ErrorCode = codeGroupSubscribedToTopic
			case g.offsets.get(t.Topic, p.Partition) != nil:
				s.emitOffsetTombstone(g, t.Topic, p.Partition)
			}
			out.Partitions = append(out.Partitions, answer)
		}
		resp.Topics = append(resp.Topics, out)
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
