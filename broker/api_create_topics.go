package broker

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/internal/meta"
	"github.com/kcoord/kcoord/netloop"
)

// maxNewPartitions is how many partitions one CreateTopics or CreatePartitions
// may make, as in Kafka.
const maxNewPartitions = 10_000

// maxProperty is the longest name or value of a property, bytes.
const maxProperty = 16 << 10

// A topicError is a refusal with Kafka's code and words.
type topicError struct {
	code    int16
	message string
}

func refusal(code int16, format string, args ...any) *topicError {
	return &topicError{code: code, message: fmt.Sprintf(format, args...)}
}

// createTopics serves CreateTopics (2 to 7).
func (b *Broker) createTopics(r *request, out []byte) ([]byte, netloop.Verdict) {
	req := r.message.(*kmsg.CreateTopicsRequest)
	resp := kmsg.NewPtrCreateTopicsResponse()
	change := b.data.topics.begin(b)
	twice := duplicates(req.Topics, func(t *kmsg.CreateTopicsRequestTopic) string { return t.Topic })
	tooMany := b.newPartitions(req) > maxNewPartitions
	var created []int // places in the answer
	for i := range req.Topics {
		rt := &req.Topics[i]
		var t *meta.Topic
		var refused *topicError
		switch count, seen := twice[rt.Topic]; {
		case seen && count == 0:
			continue // answered already
		case seen:
			twice[rt.Topic] = 0
			refused = refusal(codeInvalidRequest, "Duplicate topic name.")
		case tooMany:
			refused = refusal(codePolicyViolation, "Excessively large number of partitions per request.")
		default:
			t, refused = change.newTopic(rt, r.wall, req.ValidateOnly)
		}
		at := kmsg.NewCreateTopicsResponseTopic()
		at.Topic = rt.Topic
		if refused != nil {
			at.ErrorCode, at.ErrorMessage = refused.code, &refused.message
			at.NumPartitions, at.ReplicationFactor = -1, -1
			at.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
		} else {
			b.describeCreated(&at, t)
			created = append(created, len(resp.Topics))
		}
		resp.Topics = append(resp.Topics, at)
	}
	return r.commit(b, change, out, resp, false, func(code int16) {
		for _, i := range created {
			t := &resp.Topics[i]
			*t = kmsg.CreateTopicsResponseTopic{Topic: t.Topic, ErrorCode: code, NumPartitions: -1, ReplicationFactor: -1}
		}
	})
}

// commit ends a change and answers when it is durable. If the store cannot take
// it, failed changes the answer to say so.
func (r *request) commit(b *Broker, change *topicChange, out []byte, resp kmsg.Response, urgent bool, failed func(code int16)) ([]byte, netloop.Verdict) {
	start := len(out)
	out = r.respond(out, resp)
	waits, err := change.commit(r.waiter(r.travelling(out)), urgent)
	if err != nil {
		failed(refusalCode(err))
		return r.answer(out[:start], resp)
	}
	if waits {
		return out, netloop.Later
	}
	return out, netloop.Answered
}

// duplicates returns the names that occur more than once, with their number.
func duplicates[T any, K comparable](list []T, name func(*T) K) map[K]int {
	count := make(map[K]int, len(list))
	for i := range list {
		count[name(&list[i])]++
	}
	for n, c := range count {
		if c == 1 {
			delete(count, n)
		}
	}
	return count
}

// newPartitions is how many partitions a request asks for, where it can.
func (b *Broker) newPartitions(req *kmsg.CreateTopicsRequest) int64 {
	n := int64(0)
	for i := range req.Topics {
		switch t := &req.Topics[i]; {
		case len(t.ReplicaAssignment) > 0:
			n += int64(len(t.ReplicaAssignment))
		case t.NumPartitions == -1:
			n += int64(b.values().NumPartitions)
		case t.NumPartitions > 0:
			n += int64(t.NumPartitions)
		}
	}
	return n
}

// newTopic checks one topic of a CreateTopics and has it created.
func (c *topicChange) newTopic(rt *kmsg.CreateTopicsRequestTopic, wall int64, validateOnly bool) (*meta.Topic, *topicError) {
	if problem := topicNameProblem(rt.Topic); problem != "" {
		return nil, refusal(codeInvalidTopic, "%s", problem)
	}
	if rt.Topic == metadataTopic {
		return nil, refusal(codeInvalidRequest, "Creation of internal topic %s is prohibited.", rt.Topic)
	}
	if old, coming := c.find(rt.Topic); old != nil {
		if coming { // not to be known before it is durable
			c.repeat(meta.AppendTopic(nil, old))
		}
		return nil, refusal(codeTopicAlreadyExists, "Topic '%s' already exists.", rt.Topic)
	}
	if other := c.collision(rt.Topic); other != "" {
		return nil, refusal(codeInvalidTopic, "Topic '%s' collides with existing topic: %s", rt.Topic, other)
	}
	configs, refused := c.b.newConfigs(rt)
	if refused != nil {
		return nil, refused
	}
	partitions, refused := c.b.placement(rt)
	if refused != nil {
		return nil, refused
	}
	if validateOnly {
		return &meta.Topic{ID: c.b.data.newTopicID(), Name: rt.Topic, Partitions: partitions, Configs: configs}, nil
	}
	return c.create(rt.Topic, partitions, wall, configs), nil
}

// newConfigs are a new topic's own properties, checked; of one that is there
// twice the last counts.
func (b *Broker) newConfigs(rt *kmsg.CreateTopicsRequestTopic) ([]meta.Config, *topicError) {
	var configs []meta.Config
	for _, rc := range rt.Configs {
		if rc.Value == nil {
			return nil, refusal(codeInvalidConfig, "Null value not supported for topic configs: %s", rc.Name)
		}
		configs = slices.DeleteFunc(configs, func(c meta.Config) bool { return c.Name == rc.Name })
		configs = append(configs, meta.Config{Name: rc.Name, Value: *rc.Value})
	}
	slices.SortFunc(configs, func(a, b meta.Config) int { return strings.Compare(a.Name, b.Name) })
	for _, c := range configs {
		if len(c.Name) > maxProperty || len(c.Value) > maxProperty {
			return nil, refusal(codeInvalidConfig, "Names and values of topic configs are at most %d bytes long.", maxProperty)
		}
	}
	if problem := topicConfigProblem(b.config.Load(), configs); problem != "" {
		return nil, refusal(codeInvalidConfig, "%s", problem)
	}
	return configs, nil
}

// placement checks partitions and replicas of a new topic and returns the number
// of partitions.
func (b *Broker) placement(rt *kmsg.CreateTopicsRequestTopic) (int32, *topicError) {
	switch {
	case len(rt.ReplicaAssignment) > 0 && rt.ReplicationFactor != -1:
		return 0, refusal(codeInvalidRequest, "A manual partition assignment was specified, but replication factor was not set to -1.")
	case len(rt.ReplicaAssignment) > 0 && rt.NumPartitions != -1:
		return 0, refusal(codeInvalidRequest, "A manual partition assignment was specified, but numPartitions was not set to -1.")
	case len(rt.ReplicaAssignment) > 0:
		return b.manualPlacement(rt)
	case rt.ReplicationFactor < -1 || rt.ReplicationFactor == 0:
		return 0, refusal(codeInvalidReplicationFactor, "Replication factor must be larger than 0, or -1 to use the default value.")
	case rt.NumPartitions < -1 || rt.NumPartitions == 0:
		return 0, refusal(codeInvalidPartitions, "Number of partitions was set to an invalid non-positive value.")
	case rt.ReplicationFactor > 1:
		return 0, refusal(codeInvalidReplicationFactor, "Unable to replicate the partition %d time(s): The target replication factor of %d cannot be reached because only 1 broker(s) are registered or some brokers have all their log directories cordoned.",
			rt.ReplicationFactor, rt.ReplicationFactor)
	case rt.NumPartitions == -1:
		return b.values().NumPartitions, nil
	}
	return rt.NumPartitions, nil
}

func (b *Broker) manualPlacement(rt *kmsg.CreateTopicsRequestTopic) (int32, *topicError) {
	seen := make(map[int32]bool, len(rt.ReplicaAssignment))
	replicas := 0
	for _, a := range rt.ReplicaAssignment {
		if seen[a.Partition] {
			return 0, refusal(codeInvalidReplicaAssignment, "Found multiple manual partition assignments for partition %d", a.Partition)
		}
		seen[a.Partition] = true
		if refused := b.checkReplicas(a.Replicas, replicas); refused != nil {
			return 0, refused
		}
		replicas = len(a.Replicas)
	}
	for i := range int32(len(seen)) {
		if !seen[i] {
			return 0, refusal(codeInvalidReplicaAssignment, "partitions should be a consecutive 0-based integer sequence")
		}
	}
	return int32(len(seen)), nil
}

// checkReplicas checks the replicas given for one partition; before is how many
// the one before had, 0 if there is none.
func (b *Broker) checkReplicas(replicas []int32, before int) *topicError {
	if len(replicas) == 0 {
		return refusal(codeInvalidReplicaAssignment, "The manual partition assignment includes an empty replica list.")
	}
	sorted := slices.Sorted(slices.Values(replicas))
	for i, id := range sorted {
		if id != b.nodeID {
			return refusal(codeInvalidReplicaAssignment, "The manual partition assignment includes broker %d, but no such broker is registered.", id)
		}
		if i > 0 {
			return refusal(codeInvalidReplicaAssignment, "The manual partition assignment includes the broker %d more than once.", id)
		}
	}
	if before > 0 && len(replicas) != before {
		return refusal(codeInvalidReplicaAssignment, "The manual partition assignment includes a partition with %d replica(s), but this is not consistent with previous partitions, which have %d replica(s).",
			len(replicas), before)
	}
	return nil
}

// describeCreated fills in the answer for a topic that is, or would be, created.
func (b *Broker) describeCreated(at *kmsg.CreateTopicsResponseTopic, t *meta.Topic) {
	at.NumPartitions, at.ReplicationFactor, at.TopicID = t.Partitions, 1, t.ID
	at.Configs = b.createdConfigs(t)
}

// createPartitions serves CreatePartitions (0 to 3).
func (b *Broker) createPartitions(r *request, out []byte) ([]byte, netloop.Verdict) {
	req := r.message.(*kmsg.CreatePartitionsRequest)
	resp := kmsg.NewPtrCreatePartitionsResponse()
	change := b.data.topics.begin(b)
	twice := duplicates(req.Topics, func(t *kmsg.CreatePartitionsRequestTopic) string { return t.Topic })
	for i := range req.Topics {
		rt := &req.Topics[i]
		var refused *topicError
		switch count, seen := twice[rt.Topic]; {
		case seen && count == 0:
			continue
		case seen:
			twice[rt.Topic] = 0
			refused = refusal(codeInvalidRequest, "Duplicate topic name.")
		default:
			refused = change.morePartitions(rt, req.ValidateOnly)
		}
		at := kmsg.NewCreatePartitionsResponseTopic()
		at.Topic = rt.Topic
		if refused != nil {
			at.ErrorCode = refused.code
			if refused.message != "" {
				at.ErrorMessage = &refused.message
			}
		}
		resp.Topics = append(resp.Topics, at)
	}
	return r.commit(b, change, out, resp, false, func(code int16) {
		for i := range resp.Topics {
			if resp.Topics[i].ErrorCode == 0 {
				resp.Topics[i].ErrorCode = code
			}
		}
	})
}

// morePartitions checks one topic of a CreatePartitions and has it grow.
func (c *topicChange) morePartitions(rt *kmsg.CreatePartitionsRequestTopic, validateOnly bool) *topicError {
	t, now := c.growing(rt.Topic)
	switch {
	case t == nil:
		return refusal(codeUnknownTopicOrPartition, "")
	case rt.Count == now:
		return refusal(codeInvalidPartitions, "Topic already has %d partition(s).", now)
	case rt.Count < now:
		return refusal(codeInvalidPartitions, "The topic %s currently has %d partition(s); %d would not be an increase.", rt.Topic, now, rt.Count)
	case isInternal(rt.Topic):
		return refusal(codeInvalidRequest, "The partition count of %s is fixed when the data folder is made.", rt.Topic)
	case rt.Count-now > maxNewPartitions:
		return refusal(codePolicyViolation, "Excessively large number of additional partitions per request.")
	case rt.Assignment != nil && len(rt.Assignment) != int(rt.Count-now):
		return refusal(codeInvalidReplicaAssignment, "Attempted to add %d additional partition(s), but only %d assignment(s) were specified.",
			rt.Count-now, len(rt.Assignment))
	}
	for _, a := range rt.Assignment {
		if refused := c.b.checkReplicas(a.Replicas, 1); refused != nil {
			return refused
		}
	}
	if !validateOnly {
		c.grow(t.ID, rt.Count)
	}
	return nil
}
