package sim

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// An admin's topic has a committed offset, too: the deletion of the topic takes it
// along, and a new topic of the same name begins without.

func (a *admin) offset() registerKey {
	return registerKey{group: a.client.name, topic: a.topic}
}

func (a *admin) commit(done func()) {
	w := a.world
	a.commits++
	value := a.commits
	req := commitRequest(w, a.offset(), value)
	if req.Version >= 10 {
		w.atVersion(req, 0, 9) // the topic's id is not always known
	}
	a.client.call(req, func(resp kmsg.Response) {
		defer done()
		if resp == nil {
			a.another()
			return
		}
		code := resp.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
		if code == kerr.CoordinatorLoadInProgress.Code || code == kerr.NotCoordinator.Code {
			return // it was not done
		}
		if !a.refused("OffsetCommit", code) {
			a.committed = value
		}
	})
}

// committedOffset reads the offset. Just after a deletion it may still be there.
func (a *admin) committedOffset(done func()) {
	fetchTopicOffset(a.world, a.client, a.offset(), func(offset int64, ok bool) {
		defer done()
		if ok && a.committed != 0 && offset != a.committed || ok && a.committed == 0 && !a.deleted && offset != none {
			a.world.violated(checkTopics, "%s: offset %d was read, %d had been committed", a.topic, offset, a.committed)
		}
	})
}

// gone reports whether an offset that went with its topic cannot be read any more.
func (a *admin) gone() bool {
	if a.committed != 0 {
		return true
	}
	answered, gone := false, false
	fetchTopicOffset(a.world, newClient(a.world, "gone"), a.offset(), func(offset int64, ok bool) {
		answered, gone = true, ok && offset == none
	})
	a.world.until(checkForgotten, "the fetch is answered", patience, func() bool { return answered })
	a.world.clients = a.world.clients[:len(a.world.clients)-1]
	return gone
}

// fetchTopicOffset is fetchOffset at a version that names topics.
func fetchTopicOffset(w *World, c *client, key registerKey, done func(offset int64, ok bool)) {
	req := kmsg.NewPtrOffsetFetchRequest()
	w.atVersion(req, 1, 7)
	req.Group = key.group
	t := kmsg.NewOffsetFetchRequestTopic()
	t.Topic, t.Partitions = key.topic, []int32{key.partition}
	req.Topics = append(req.Topics, t)
	c.call(req, func(resp kmsg.Response) {
		if resp == nil {
			done(none, false)
			return
		}
		done(fetched(w, key, resp.(*kmsg.OffsetFetchResponse)))
	})
}
