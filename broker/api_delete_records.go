package broker

import (
	"errors"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/log"
	"github.com/kcoord/kcoord/netloop"
)

// deleteRecords serves DeleteRecords (0 to 2): it raises log starts, and answers
// when that is durable.
func (b *Broker) deleteRecords(r *request, out []byte) ([]byte, netloop.Verdict) {
	req := r.message.(*kmsg.DeleteRecordsRequest)
	resp := kmsg.NewPtrDeleteRecordsResponse()
	resp.Topics = make([]kmsg.DeleteRecordsResponseTopic, len(req.Topics))
	snapshot := b.meta.Load()
	all := b.newJoint(r)
	for i := range req.Topics {
		rt, at := &req.Topics[i], &resp.Topics[i]
		at.Topic = rt.Topic
		at.Partitions = make([]kmsg.DeleteRecordsResponseTopicPartition, len(rt.Partitions))
		t := snapshot.Topic(rt.Topic)
		for j := range rt.Partitions {
			ap := &at.Partitions[j]
			*ap = kmsg.NewDeleteRecordsResponseTopicPartition()
			ap.Partition, ap.LowWatermark = rt.Partitions[j].Partition, -1
			p, code := b.partitionOf(t, ap.Partition)
			if code == 0 && isInternal(rt.Topic) {
				code = codeInvalidTopic
			}
			if code == 0 {
				ap.LowWatermark, code = all.deleteRecords(p, rt.Partitions[j].Offset)
				if code == 0 && b.tellsRequests {
					b.logger.Debug().Str("topic", rt.Topic).Int32("partition", ap.Partition).Int64("low", ap.LowWatermark).
						Str("client", r.clientID).Str("peer", r.session.host).Msg("records deleted")
				}
			}
			ap.ErrorCode = code
		}
	}
	return all.answer(r, r.respond(out, resp))
}

func (j *joint) deleteRecords(p *log.Partition, offset int64) (low int64, code int16) {
	if catchUp(p) != nil {
		return -1, codeStorageError
	}
	w := j.waiter()
	low, durable, err := p.DeleteRecords(offset, &w)
	if err != nil || durable {
		j.unneeded()
	}
	switch {
	case err == nil:
		return low, 0
	case errors.Is(err, log.ErrOffsetOutOfRange):
		return -1, codeOffsetOutOfRange
	case errors.Is(err, log.ErrPolicy):
		return -1, codePolicyViolation
	case errors.Is(err, log.ErrDeleted):
		return -1, codeUnknownTopicOrPartition
	}
	return -1, codeStorageError
}

// A joint lets one answer go when several waiters have been released.
type joint struct {
	b          *Broker
	completion netloop.Completion
	// remaining counts the waiters not yet released, and one more until the answer
	// is there.
	remaining atomic.Int32
}

func (b *Broker) newJoint(r *request) *joint {
	j := &joint{b: b, completion: netloop.Completion{Conn: r.session.conn, Slot: r.slot}}
	j.remaining.Store(1)
	return j
}

// waiter is one more to wait for.
func (j *joint) waiter() log.Waiter {
	j.remaining.Add(1)
	return log.Waiter{At: neverLate, Conn: wakeUp(func() {
		if j.remaining.Add(-1) == 0 {
			j.b.release.complete(j.completion)
		}
	})}
}

// unneeded takes back a waiter that was not kept.
func (j *joint) unneeded() { j.remaining.Add(-1) }

// answer gives the answer that all waiters let go.
func (j *joint) answer(r *request, out []byte) ([]byte, netloop.Verdict) {
	j.completion.Answer = r.travelling(out)
	if j.remaining.Add(-1) == 0 {
		return out, netloop.Answered
	}
	return out, netloop.Later
}
