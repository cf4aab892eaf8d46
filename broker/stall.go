package broker

import (
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/log"
	"github.com/kcoord/kcoord/netloop"
	"github.com/kcoord/kcoord/wire"
)

// neverLate is the Waiter.At of what has no time limit.
const neverLate = math.MaxInt64

// answerStalled answers what has waited for its sync longer than
// offsets.commit.timeout.ms, while the disk stalls: the write may still succeed,
// memory keeps it, and the client is told to try again, as in Kafka. It returns
// when to look again.
func (b *Broker) answerStalled(now time.Duration) (next time.Duration) {
	if !b.isOpen() {
		return never
	}
	raw, _ := b.options.Clock.Now()
	timeout := b.values().OffsetsCommitTimeout
	since := b.store.Syncing()
	if since == 0 {
		return never
	}
	if wait := since + timeout - raw; wait > 0 {
		return now + wait
	}
	late := b.store.TakeWaiters(int64(now-timeout), nil)
	requests := 0
	for i := range late {
		requests += 1 + int(late[i].More)
	}
	b.metrics.stalled.Add(uint64(requests)) // before anybody knows
	for i := range late {
		b.timedOut(&late[i])
	}
	if requests > 0 {
		if e := b.warn("stalled sync"); e != nil {
			e.Int("requests", requests).Stringer("sync_for", (raw - since).Round(time.Millisecond)).Msg("the disk stalls; requests were told to try again")
		}
	}
	return now + tickInterval
}

// timedOut completes one waiter with its API's error.
func (b *Broker) timedOut(w *log.Waiter) {
	conn, ok := w.Conn.(netloop.Conn)
	if !ok {
		panic("broker: a waiter that is no request must have At: neverLate")
	}
	done := netloop.Completion{Conn: conn, Slot: netloop.Slot{Index: w.Slot, Generation: w.Generation}, More: w.More}
	key, version := w.Key, w.Version
	if w.Answer != nil {
		done.Answer = timedOutAnswer(w.Answer, key, version)
	} else {
		done.Edit = func(answer []byte) []byte { return timedOutAnswer(answer, key, version) }
	}
	b.release.complete(done)
}

// timedOutAnswer turns an answer that must not be given into the one that says
// that its write timed out. An answer that cannot be turned is an empty one: the
// client's own time limit takes care of it.
func timedOutAnswer(answer []byte, key, version int16) []byte {
	resp := kmsg.ResponseForKey(key)
	if resp == nil || len(answer) < 8 {
		return nil
	}
	resp.SetVersion(version)
	body := answer[8:]
	if resp.IsFlexible() {
		body = body[1:]
	}
	if err := resp.ReadFrom(body); err != nil {
		return nil
	}
	correlationID := int32(uint32(answer[4])<<24 | uint32(answer[5])<<16 | uint32(answer[6])<<8 | uint32(answer[7]))
	return wire.AppendResponse(nil, correlationID, timedOutResponse(resp))
}

// timedOutResponse puts the code for a write that timed out into an answer:
// REQUEST_TIMED_OUT for Produce and admin calls, which Kafka maps to
// COORDINATOR_NOT_AVAILABLE for coordinator requests.
func timedOutResponse(resp kmsg.Response) kmsg.Response {
	const code = codeCoordinatorNotAvailable
	switch resp := resp.(type) {
	case *kmsg.JoinGroupResponse:
		failed := kmsg.NewPtrJoinGroupResponse()
		failed.Version, failed.ErrorCode, failed.Generation, failed.MemberID = resp.Version, code, -1, resp.MemberID
		if resp.Version < 7 {
			failed.Protocol = new(string)
		}
		return failed
	case *kmsg.SyncGroupResponse:
		resp.ErrorCode, resp.ProtocolType, resp.Protocol, resp.MemberAssignment = code, nil, nil, []byte{}
	case *kmsg.HeartbeatResponse:
		resp.ErrorCode = code
	case *kmsg.LeaveGroupResponse:
		resp.ErrorCode, resp.Members = code, nil
	case *kmsg.OffsetCommitResponse:
		for i := range resp.Topics {
			for j := range resp.Topics[i].Partitions {
				if p := &resp.Topics[i].Partitions[j]; p.ErrorCode == codeNone {
					p.ErrorCode = code
				}
			}
		}
	case *kmsg.OffsetFetchResponse:
		return timedOutFetch(resp)
	case *kmsg.ListGroupsResponse:
		resp.ErrorCode, resp.Groups = code, nil
	case *kmsg.DescribeGroupsResponse:
		for i, g := range resp.Groups {
			failed := kmsg.NewDescribeGroupsResponseGroup()
			failed.Group, failed.ErrorCode, failed.AuthorizedOperations = g.Group, code, noOperations
			resp.Groups[i] = failed
		}
	case *kmsg.DeleteGroupsResponse:
		for i := range resp.Groups {
			if resp.Groups[i].ErrorCode == codeNone {
				resp.Groups[i].ErrorCode = code
			}
		}
	case *kmsg.OffsetDeleteResponse:
		resp.ErrorCode, resp.Topics = code, nil
	default:
		return timedOutAdmin(resp)
	}
	return resp
}

func timedOutFetch(resp *kmsg.OffsetFetchResponse) kmsg.Response {
	const code = codeCoordinatorNotAvailable
	if resp.Version >= 2 {
		resp.ErrorCode, resp.Topics = code, nil
	}
	for i := range resp.Topics { // version 1
		for j := range resp.Topics[i].Partitions {
			p := &resp.Topics[i].Partitions[j]
			p.Offset, p.Metadata, p.ErrorCode = -1, new(string), code
		}
	}
	for i := range resp.Groups {
		resp.Groups[i].ErrorCode, resp.Groups[i].Topics = code, nil
	}
	return resp
}

// timedOutAdmin is for what waits for metadata or data.
func timedOutAdmin(resp kmsg.Response) kmsg.Response {
	const code = codeRequestTimedOut
	switch resp := resp.(type) {
	case *kmsg.ProduceResponse:
		for i := range resp.Topics {
			for j := range resp.Topics[i].Partitions {
				if p := &resp.Topics[i].Partitions[j]; p.ErrorCode == codeNone {
					p.ErrorCode, p.BaseOffset = code, -1
				}
			}
		}
	case *kmsg.CreateTopicsResponse:
		for i := range resp.Topics {
			if resp.Topics[i].ErrorCode == codeNone {
				resp.Topics[i].ErrorCode = code
			}
		}
	case *kmsg.DeleteTopicsResponse:
		for i := range resp.Topics {
			if resp.Topics[i].ErrorCode == codeNone {
				resp.Topics[i].ErrorCode = code
			}
		}
	case *kmsg.CreatePartitionsResponse:
		for i := range resp.Topics {
			if resp.Topics[i].ErrorCode == codeNone {
				resp.Topics[i].ErrorCode = code
			}
		}
	case *kmsg.DeleteRecordsResponse:
		for i := range resp.Topics {
			for j := range resp.Topics[i].Partitions {
				if p := &resp.Topics[i].Partitions[j]; p.ErrorCode == codeNone {
					p.ErrorCode, p.LowWatermark = code, -1
				}
			}
		}
	case *kmsg.IncrementalAlterConfigsResponse:
		for i := range resp.Resources {
			if resp.Resources[i].ErrorCode == codeNone {
				resp.Resources[i].ErrorCode = code
			}
		}
	case *kmsg.InitProducerIDResponse:
		resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch = code, -1, -1
	}
	return resp
}
