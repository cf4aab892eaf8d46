package broker

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/internal/config"
	"github.com/kcoord/kcoord/internal/meta"
)

// This file tells what administration has changed. The lines are at the level of
// requests, and nothing of it is computed above that level.

// tellMetadata tells what durable records have changed in the metadata that was
// there before. A record may come again: a topic is told of once.
func (b *Broker) tellMetadata(before *meta.Snapshot, records [][]byte) {
	told := map[[16]byte]bool{}
	for _, record := range records {
		c, err := meta.Decode(record)
		if err != nil {
			continue // it has been applied: another kind of news
		}
		switch c.Kind {
		case meta.KindTopic:
			if before.TopicByID(c.Topic.ID) == nil && !told[c.Topic.ID] {
				told[c.Topic.ID] = true
				b.logger.Debug().Str("topic", c.Topic.Name).Int32("partitions", c.Topic.Partitions).
					Str("configs", configWords(meta.ResourceTopic, nil, c.Topic.Configs)).Msg("topic created")
			}
		case meta.KindDeleted:
			if t := before.TopicByID(c.ID); t != nil && !told[c.ID] {
				told[c.ID] = true
				b.logger.Debug().Str("topic", t.Name).Int32("partitions", t.Partitions).Msg("topic deleted")
			}
		case meta.KindPartitions:
			if t := before.TopicByID(c.ID); t != nil && c.Partitions > t.Partitions && !told[c.ID] {
				told[c.ID] = true
				b.logger.Debug().Str("topic", t.Name).Int32("before", t.Partitions).Int32("partitions", c.Partitions).Msg("partitions added")
			}
		case meta.KindConfigs:
			words := configWords(c.Resource, before.Configs(c.Resource, c.Name), c.Configs)
			b.logger.Debug().Str("type", resourceWords[c.Resource]).Str("name", c.Name).Str("changed", words).Msg("configuration changed")
		}
	}
}

var resourceWords = map[meta.ResourceType]string{meta.ResourceTopic: "topic", meta.ResourceBroker: "broker", meta.ResourceGroup: "group"}

// configWords says how now differs from before: "name=value" for what was set, "-name"
// for what was taken away. Values of broker properties that kcoord does not know, or
// that are secret, are left out.
func configWords(typ meta.ResourceType, before, now []meta.Config) string {
	had, has := asMap(before), asMap(now)
	var words []string
	for _, c := range now {
		if value, ok := had[c.Name]; ok && value == c.Value {
			continue
		}
		if p, known := config.Find(c.Name); typ == meta.ResourceBroker && (!known || p.Type == config.Password) {
			words = append(words, c.Name)
			continue
		}
		words = append(words, c.Name+"="+c.Value)
	}
	for _, c := range before {
		if _, ok := has[c.Name]; !ok {
			words = append(words, "-"+c.Name)
		}
	}
	return strings.Join(words, ", ")
}

// offsetsChanged are a group's offsets that somebody changed who is no member.
type offsetsChanged struct {
	message, group, client, host string
	partitions                   int
}

// adminOffsets is what an answer says of offsets that were set without membership, or
// deleted; nil if there were none.
func adminOffsets(r *request, answer kmsg.Response) *offsetsChanged {
	var message, group string
	partitions := 0
	count := func(code int16) {
		if code == codeNone {
			partitions++
		}
	}
	switch req := r.message.(type) {
	case *kmsg.OffsetCommitRequest:
		resp, ok := answer.(*kmsg.OffsetCommitResponse)
		if !ok || req.Generation >= 0 || req.MemberID != "" {
			return nil
		}
		message, group = "offsets altered", req.Group
		for i := range resp.Topics {
			for j := range resp.Topics[i].Partitions {
				count(resp.Topics[i].Partitions[j].ErrorCode)
			}
		}
	case *kmsg.OffsetDeleteRequest:
		resp, ok := answer.(*kmsg.OffsetDeleteResponse)
		if !ok || resp.ErrorCode != codeNone {
			return nil
		}
		message, group = "offsets deleted", req.Group
		for i := range resp.Topics {
			for j := range resp.Topics[i].Partitions {
				count(resp.Topics[i].Partitions[j].ErrorCode)
			}
		}
	}
	if partitions == 0 {
		return nil
	}
	return &offsetsChanged{message: message, group: strings.Clone(group), client: strings.Clone(r.clientID), host: r.session.host, partitions: partitions}
}

func (b *Broker) tellOffsets(c *offsetsChanged) {
	b.logger.Debug().Str("group", c.group).Int("partitions", c.partitions).Str("client", c.client).Str("host", c.host).Msg(c.message)
}
