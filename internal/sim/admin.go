package sim

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// An admin makes a topic, changes and deletes it, and asks about everything. When
// a change stays without an answer, which may be carried out at any time, it goes
// on with another topic.
type admin struct {
	world    *World
	client   *client
	topic    string
	topics   int
	there    int32    // partitions of the topic, 0 if it is not there
	id       [16]byte // zero: not known
	dead     [16]byte // of the topic of that name before
	retained string   // retention.ms, if it was set
	queries  []func(done func())

	commits   int64 // so far
	committed int64 // the offset of this topic; 0: none
	deleted   bool  // a topic of this name was deleted, perhaps with an offset
}

func newAdmin(w *World, n int) *admin {
	a := &admin{world: w, client: newClient(w, fmt.Sprintf("admin-%d", n))}
	a.another()
	w.after(w.pause(), a.act)
	a.queries = []func(func()){a.apiVersions, a.findCoordinator, a.describeCluster, a.describeLogDirs, a.listConfigResources, a.leaderEpoch, a.deleteRecords}
	return a
}

func (a *admin) act() {
	w := a.world
	again := func() { w.after(w.pause(), a.act) }
	switch n := w.random.IntN(20); {
	case n == 16 || n == 17:
		a.committedOffset(again)
	case n > 17 && a.there > 0:
		a.commit(again)
	case n < 6:
		a.queries[w.random.IntN(len(a.queries))](again)
	case n < 9:
		a.metadata(again)
	case n == 9:
		a.describePartitions(again)
	case a.there == 0:
		a.create(again)
	case n < 12:
		a.alter(again)
	case n == 12:
		a.describe(again)
	case n < 15:
		a.grow(again)
	default:
		a.remove(again)
	}
}

// another goes on with another topic.
func (a *admin) another() {
	a.topics++
	a.topic = fmt.Sprintf("%s-topic-%d", a.client.name, a.topics)
	a.there, a.id, a.dead, a.retained = 0, [16]byte{}, [16]byte{}, ""
	a.committed, a.deleted = 0, false
}

// refused reports whether a change was not carried out, or may not have been.
func (a *admin) refused(what string, code int16) bool {
	switch err := kerr.ErrorForCode(code); {
	case err == nil:
		a.world.succeed(what)
		return false
	case err == kerr.RequestTimedOut, err == kerr.CoordinatorNotAvailable, err == kerr.KafkaStorageError && a.world.machine.troubled():
		a.another()
	default:
		a.world.violated(checkErrors, "%s of %s: %v", what, a.topic, err)
	}
	return true
}

func (a *admin) create(done func()) {
	w := a.world
	req := kmsg.NewPtrCreateTopicsRequest()
	w.anyVersion(req)
	req.TimeoutMillis = 5000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = a.topic, int32(1+w.random.IntN(3)), 1
	req.Topics = append(req.Topics, t)
	a.client.call(req, func(resp kmsg.Response) {
		defer done()
		if resp == nil {
			a.another()
			return
		}
		r := resp.(*kmsg.CreateTopicsResponse).Topics[0]
		if !a.refused("CreateTopics", r.ErrorCode) {
			a.there, a.id, a.retained = t.NumPartitions, r.TopicID, ""
		}
	})
}

func (a *admin) grow(done func()) {
	req := kmsg.NewPtrCreatePartitionsRequest()
	a.world.anyVersion(req)
	req.TimeoutMillis = 5000
	t := kmsg.NewCreatePartitionsRequestTopic()
	t.Topic, t.Count = a.topic, a.there+1
	req.Topics = append(req.Topics, t)
	a.client.call(req, func(resp kmsg.Response) {
		defer done()
		if resp == nil {
			a.another()
			return
		}
		if !a.refused("CreatePartitions", resp.(*kmsg.CreatePartitionsResponse).Topics[0].ErrorCode) {
			a.there = t.Count
		}
	})
}

func (a *admin) remove(done func()) {
	req := kmsg.NewPtrDeleteTopicsRequest()
	a.world.anyVersion(req)
	req.TimeoutMillis = 5000
	req.TopicNames = []string{a.topic}
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.Topic = &a.topic
	req.Topics = append(req.Topics, t)
	a.client.call(req, func(resp kmsg.Response) {
		defer done()
		if resp == nil {
			a.another()
			return
		}
		if !a.refused("DeleteTopics", resp.(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode) {
			a.there, a.dead, a.id = 0, a.id, [16]byte{}
			a.committed, a.deleted = 0, true
		}
	})
}

// alter sets a property.
func (a *admin) alter(done func()) {
	w := a.world
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	w.anyVersion(req)
	value := fmt.Sprint((1 + w.random.IntN(1000)) * 3600_000)
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeTopic, a.topic
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Value = "retention.ms", &value
	res.Configs = append(res.Configs, c)
	req.Resources = append(req.Resources, res)
	a.client.call(req, func(resp kmsg.Response) {
		defer done()
		if resp == nil {
			a.another()
			return
		}
		if !a.refused("IncrementalAlterConfigs", resp.(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode) {
			a.retained = value
		}
	})
}

func (a *admin) describe(done func()) {
	w := a.world
	req := kmsg.NewPtrDescribeConfigsRequest()
	w.anyVersion(req)
	res := kmsg.NewDescribeConfigsRequestResource()
	res.ResourceType, res.ResourceName, res.ConfigNames = kmsg.ConfigResourceTypeTopic, a.topic, []string{"retention.ms"}
	req.Resources = append(req.Resources, res)
	a.client.call(req, func(resp kmsg.Response) {
		defer done()
		if resp == nil {
			return
		}
		r := resp.(*kmsg.DescribeConfigsResponse).Resources[0]
		if r.ErrorCode != 0 {
			w.violated(checkTopics, "DescribeConfigs of %s: %v", a.topic, kerr.ErrorForCode(r.ErrorCode))
		}
		w.succeed("DescribeConfigs")
		if a.retained != "" && (r.Configs[0].Value == nil || *r.Configs[0].Value != a.retained) {
			w.violated(checkTopics, "retention.ms of %s is not %s: %v", a.topic, a.retained, r.Configs[0].Value)
		}
	})
}

// metadata compares what is told of the topic with what is known.
func (a *admin) metadata(done func()) {
	w := a.world
	req := kmsg.NewPtrMetadataRequest()
	w.anyVersion(req)
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &a.topic
	req.Topics = append(req.Topics, t)
	a.client.call(req, func(resp kmsg.Response) {
		defer done()
		if resp == nil {
			return
		}
		w.succeed("Metadata")
		r := resp.(*kmsg.MetadataResponse).Topics[0]
		a.seen("Metadata", r.ErrorCode, int32(len(r.Partitions)), r.TopicID)
	})
}

func (a *admin) describePartitions(done func()) {
	w := a.world
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	w.anyVersion(req)
	t := kmsg.NewDescribeTopicPartitionsRequestTopic()
	t.Topic = a.topic
	req.Topics, req.ResponsePartitionLimit = append(req.Topics, t), 100
	a.client.call(req, func(resp kmsg.Response) {
		defer done()
		if resp == nil {
			return
		}
		w.succeed("DescribeTopicPartitions")
		r := resp.(*kmsg.DescribeTopicPartitionsResponse).Topics[0]
		a.seen("DescribeTopicPartitions", r.ErrorCode, int32(len(r.Partitions)), r.TopicID)
	})
}

// seen checks what was told of the topic.
func (a *admin) seen(what string, code int16, partitions int32, id [16]byte) {
	if code == kerr.UnknownTopicOrPartition.Code {
		partitions, code = 0, 0
	}
	if code != 0 {
		a.world.violated(checkErrors, "%s of %s: %v", what, a.topic, kerr.ErrorForCode(code))
	}
	if partitions != a.there {
		a.world.violated(checkTopics, "%s: %s has %d partitions, not %d", what, a.topic, partitions, a.there)
	}
	if id == [16]byte{} {
		return
	}
	if id == a.dead || a.id != [16]byte{} && id != a.id {
		a.world.violated(checkTopics, "%s: %s has id %x, not %x", what, a.topic, id, a.id)
	}
	a.id = id
}

// makeTopic makes a topic that actors work with and learns its id; it goes on
// until it is there.
func makeTopic(w *World, c *client, name string, partitions int32) {
	again := func() { w.after(100*time.Millisecond, func() { makeTopic(w, c, name, partitions) }) }
	req := kmsg.NewPtrCreateTopicsRequest()
	w.anyVersion(req)
	req.TimeoutMillis = 5000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, 1
	forever := kmsg.NewCreateTopicsRequestTopicConfig()
	forever.Name, forever.Value = "retention.ms", kmsg.StringPtr("-1")
	t.Configs = append(t.Configs, forever)
	req.Topics = append(req.Topics, t)
	c.call(req, func(resp kmsg.Response) {
		if resp == nil {
			again()
			return
		}
		switch code := resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode; kerr.ErrorForCode(code) {
		case nil, kerr.TopicAlreadyExists:
			learnTopic(w, c, name, again)
		default:
			again()
		}
	})
}

func learnTopic(w *World, c *client, name string, again func()) {
	req := kmsg.NewPtrMetadataRequest()
	w.atVersion(req, 10, never16)
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &name
	req.Topics = append(req.Topics, t)
	c.call(req, func(resp kmsg.Response) {
		if resp == nil || resp.(*kmsg.MetadataResponse).Topics[0].ErrorCode != 0 {
			again()
			return
		}
		w.topicIDs[name] = resp.(*kmsg.MetadataResponse).Topics[0].TopicID
	})
}
