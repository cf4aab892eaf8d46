package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/internal/meta"
	"github.com/kcoord/kcoord/netloop"
)

// deleteTopics serves DeleteTopics (1 to 6), from version 6 on also by id.
func (b *Broker) deleteTopics(r *request, out []byte) ([]byte, netloop.Verdict) {
	req := r.message.(*kmsg.DeleteTopicsRequest)
	resp := kmsg.NewPtrDeleteTopicsResponse()
	topics := req.Topics
	if r.version < 6 {
		topics = make([]kmsg.DeleteTopicsRequestTopic, len(req.TopicNames))
		for i := range req.TopicNames {
			topics[i].Topic = &req.TopicNames[i]
		}
	}
	change := b.data.topics.begin(b)
	d := deleting{b: b, change: change, snapshot: b.meta.Load(), names: map[string]int{}, ids: map[[16]byte]int{}}
	for i := range topics {
		if topics[i].Topic != nil {
			d.names[*topics[i].Topic]++
		} else {
			d.ids[topics[i].TopicID]++
		}
	}
	for i := range topics {
		if d.again(&topics[i]) {
			continue
		}
		at := kmsg.NewDeleteTopicsResponseTopic()
		at.Topic, at.TopicID = topics[i].Topic, topics[i].TopicID
		if refused := d.one(&topics[i], &at); refused != nil {
			at.ErrorCode, at.ErrorMessage = refused.code, &refused.message
		}
		resp.Topics = append(resp.Topics, at)
	}
	return r.commit(b, change, out, resp, true, func(code int16) {
		for i := range resp.Topics {
			if resp.Topics[i].ErrorCode == 0 {
				resp.Topics[i].ErrorCode = code
			}
		}
	})
}

// deleting is one DeleteTopics at work.
type deleting struct {
	b        *Broker
	change   *topicChange
	snapshot *meta.Snapshot
	names    map[string]int // how often each is in the request
	ids      map[[16]byte]int
}

// again says whether a topic that is in the request more than once has been
// answered.
func (d *deleting) again(rt *kmsg.DeleteTopicsRequestTopic) bool {
	switch {
	case rt.Topic != nil && d.names[*rt.Topic] > 1:
		d.names[*rt.Topic] = -1
	case rt.Topic != nil:
		return d.names[*rt.Topic] < 0
	case d.ids[rt.TopicID] > 1:
		d.ids[rt.TopicID] = -1
	default:
		return d.ids[rt.TopicID] < 0
	}
	return false
}

func (d *deleting) one(rt *kmsg.DeleteTopicsRequestTopic, at *kmsg.DeleteTopicsResponseTopic) *topicError {
	byID := rt.TopicID != [16]byte{}
	var t *meta.Topic
	switch {
	case byID && rt.Topic != nil:
		return refusal(codeInvalidRequest, "You may not specify both topic name and topic id.")
	case !byID && rt.Topic == nil:
		return refusal(codeInvalidRequest, "Neither topic name nor id were specified.")
	case byID && d.ids[rt.TopicID] < 0:
		return refusal(codeInvalidRequest, "Duplicate topic id.")
	case rt.Topic != nil && d.names[*rt.Topic] < 0:
		return refusal(codeInvalidRequest, "Duplicate topic name.")
	case byID:
		if t = d.snapshot.TopicByID(rt.TopicID); t == nil {
			return refusal(codeUnknownTopicID, "This server does not host this topic ID.")
		}
	default:
		if t = d.snapshot.Topic(*rt.Topic); t == nil {
			return refusal(codeUnknownTopicOrPartition, "This server does not host this topic-partition.")
		}
		if d.ids[t.ID] != 0 {
			return refusal(codeInvalidRequest, "The provided topic name maps to an ID that was already supplied.")
		}
	}
	switch {
	case !d.b.values().DeleteTopics:
		return refusal(codeTopicDeletionDisabled, "Topic deletion is disabled.")
	case isInternal(t.Name):
		return refusal(codeInvalidRequest, "The internal topic %s cannot be deleted.", t.Name)
	}
	at.Topic, at.TopicID = &t.Name, t.ID
	if !d.change.delete(t.ID) { // somebody else's deletion is on its way
		if byID {
			return refusal(codeUnknownTopicID, "This server does not host this topic ID.")
		}
		return refusal(codeUnknownTopicOrPartition, "This server does not host this topic-partition.")
	}
	return nil
}
