package broker

import (
	"sort"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/log"
	"github.com/kcoord/kcoord/netloop"
)

// Timestamps of ListOffsets that stand for something else.
const (
	timeLatest         int64 = -1
	timeEarliest       int64 = -2
	timeMax            int64 = -3 // KIP-734, from version 7
	timeEarliestLocal  int64 = -4 // KIP-405, from version 8
	timeLatestTiered   int64 = -5 // KIP-1005, from version 9
	timePendingUpload  int64 = -6 // KIP-1023, from version 11
	lowestListOffsets  int16 = 1
	maxTimeListOffsets int16 = 7
	localListOffsets   int16 = 8
	tieredListOffsets  int16 = 9
	uploadListOffsets  int16 = 11
)

// listOffsets serves ListOffsets (1 to 11). It may read partition logs.
func (b *Broker) listOffsets(r *request, out []byte) ([]byte, netloop.Verdict) {
	req := r.message.(*kmsg.ListOffsetsRequest)
	resp := kmsg.NewPtrListOffsetsResponse()
	resp.Topics = make([]kmsg.ListOffsetsResponseTopic, len(req.Topics))
	snapshot := b.meta.Load()
	seen := map[partitionKey]int{}
	const answered = -1 // a partition that was named more than once is refused once
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			seen[partitionKey{topic: req.Topics[i].Topic, index: req.Topics[i].Partitions[j].Partition}]++
		}
	}
	for i := range req.Topics {
		rt, at := &req.Topics[i], &resp.Topics[i]
		at.Topic = rt.Topic
		at.Partitions = make([]kmsg.ListOffsetsResponseTopicPartition, 0, len(rt.Partitions))
		t := snapshot.Topic(rt.Topic)
		for j := range rt.Partitions {
			rp, key := &rt.Partitions[j], partitionKey{topic: rt.Topic, index: rt.Partitions[j].Partition}
			if seen[key] == answered {
				continue
			}
			at.Partitions = append(at.Partitions, kmsg.NewListOffsetsResponseTopicPartition())
			ap := &at.Partitions[len(at.Partitions)-1]
			ap.Partition, ap.Timestamp, ap.Offset, ap.LeaderEpoch = rp.Partition, -1, -1, -1
			if seen[key] > 1 {
				seen[key], ap.ErrorCode = answered, codeInvalidRequest
				continue
			}
			p, code := b.partitionOf(t, rp.Partition)
			if code == 0 {
				code = epochCode(p, rp.CurrentLeaderEpoch)
			}
			if code == 0 && !timeKnown(rp.Timestamp, r.version) {
				code = codeUnsupportedVersion
			}
			if code == 0 {
				code = offsetAt(p, rp.Timestamp, ap)
			}
			ap.ErrorCode = code
		}
	}
	return r.answer(out, resp)
}

// timeKnown says whether a version knows a timestamp that stands for something
// else.
func timeKnown(ts int64, version int16) bool {
	switch ts {
	case timeLatest, timeEarliest:
		return version >= lowestListOffsets
	case timeMax:
		return version >= maxTimeListOffsets
	case timeEarliestLocal:
		return version >= localListOffsets
	case timeLatestTiered:
		return version >= tieredListOffsets
	case timePendingUpload:
		return version >= uploadListOffsets
	}
	return ts >= 0
}

// offsetAt fills in the offset that a timestamp stands for.
func offsetAt(p *log.Partition, ts int64, at *kmsg.ListOffsetsResponseTopicPartition) int16 {
	if catchUp(p) != nil {
		return codeStorageError
	}
	var err error
	switch ts {
	case timeLatest:
		at.Offset, at.LeaderEpoch = p.HighWatermark(), epochAt(p, p.HighWatermark())
	case timeEarliest, timeEarliestLocal:
		at.Offset, at.LeaderEpoch = p.LogStart(), epochAt(p, p.LogStart())
	case timeLatestTiered, timePendingUpload: // there is no other tier
	case timeMax:
		at.Offset, at.Timestamp, at.LeaderEpoch, err = p.MaxTimestamp()
	default:
		at.Offset, at.Timestamp, at.LeaderEpoch, err = p.OffsetForTimestamp(ts)
	}
	if err != nil {
		return codeStorageError
	}
	return 0
}

// epochAt is the leader epoch of the record at offset; at the log's end that of
// the last record. The present epoch may be newer than all records: it is told
// for an empty log only, because of another one a client would conclude that the
// log was cut.
func epochAt(p *log.Partition, offset int64) int32 {
	present := p.LeaderEpoch()
	// The ends of epochs rise with them; beyond the newest one there are none.
	i := int32(sort.Search(int(present)+1, func(i int) bool {
		epoch, end := p.EndOffsetForEpoch(int32(i))
		return epoch < 0 || end > offset
	}))
	epoch, _ := p.EndOffsetForEpoch(i)
	if epoch < 0 && i > 0 {
		epoch, _ = p.EndOffsetForEpoch(i - 1)
	}
	if epoch < 0 {
		return present
	}
	return epoch
}

// offsetForLeaderEpoch serves OffsetForLeaderEpoch (2 to 4): where a client's log
// may part from this one (KIP-320).
func (b *Broker) offsetForLeaderEpoch(r *request, out []byte) ([]byte, netloop.Verdict) {
	req := r.message.(*kmsg.OffsetForLeaderEpochRequest)
	resp := kmsg.NewPtrOffsetForLeaderEpochResponse()
	resp.Topics = make([]kmsg.OffsetForLeaderEpochResponseTopic, len(req.Topics))
	snapshot := b.meta.Load()
	for i := range req.Topics {
		rt, at := &req.Topics[i], &resp.Topics[i]
		at.Topic = rt.Topic
		at.Partitions = make([]kmsg.OffsetForLeaderEpochResponseTopicPartition, len(rt.Partitions))
		t := snapshot.Topic(rt.Topic)
		for j := range rt.Partitions {
			rp, ap := &rt.Partitions[j], &at.Partitions[j]
			*ap = kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			ap.Partition, ap.LeaderEpoch, ap.EndOffset = rp.Partition, -1, -1
			p, code := b.partitionOf(t, rp.Partition)
			if code == 0 {
				code = epochCode(p, rp.CurrentLeaderEpoch)
			}
			if code == 0 && catchUp(p) != nil {
				code = codeStorageError
			}
			if code == 0 {
				ap.LeaderEpoch, ap.EndOffset = endOfEpoch(p, rp.LeaderEpoch)
			}
			ap.ErrorCode = code
		}
	}
	return r.answer(out, resp)
}

// endOfEpoch is the largest epoch at or below epoch and its end. An epoch that
// has begun but has no records ends where the log does.
func endOfEpoch(p *log.Partition, epoch int32) (int32, int64) {
	known, end := p.EndOffsetForEpoch(epoch)
	if known < 0 && epoch >= 0 && epoch <= p.LeaderEpoch() {
		return epoch, p.HighWatermark()
	}
	return known, end
}
