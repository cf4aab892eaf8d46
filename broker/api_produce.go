package broker

import (
	"bytes"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/internal/meta"
	"github.com/kcoord/kcoord/log"
	"github.com/kcoord/kcoord/log/record"
	"github.com/kcoord/kcoord/netloop"
)

// produceRetry is how long a Produce that found no room waits before it looks
// again: a fraction of the time that a full round takes to be written.
const produceRetry = 2 * time.Millisecond

// produce serves Produce (versions 3 to 13). A batch is accepted or refused as a
// whole and each partition for itself; the answer goes when all of them are
// durable. When the open round has no room the connection waits.
func (b *Broker) produce(r *request, out []byte) ([]byte, netloop.Verdict) {
	req := r.message.(*kmsg.ProduceRequest)
	refused := produceRefusal(req)
	if refused == 0 {
		switch err := b.store.AdmitProduce(produceSize(req)); {
		case errors.Is(err, log.ErrRoundFull) && b.waitsForRoom(r, req):
			return out, netloop.Hold
		case errors.Is(err, log.ErrRoundFull):
			refused = codeRequestTimedOut
		case err != nil:
			refused = codeStorageError
		}
		if refused != 0 {
			b.metrics.writesRefused.Add(1)
		}
	}
	r.session.waitsSince = 0
	p := producing{b: b, r: r, req: req, plain: b.data.tools.get(), snapshot: b.meta.Load(), refused: refused}
	resp := p.all()
	b.data.tools.put(p.plain)
	if req.Acks != 0 {
		r.patience = time.Duration(req.TimeoutMillis)*time.Millisecond - b.values().OffsetsCommitTimeout
		return r.awaitPosition(b.store, p.position, r.respond(out, resp))
	}
	switch {
	case p.failed: // nothing else can tell the producer
		return out, netloop.Close
	case r.pooled:
		return out, netloop.Answered
	}
	return out, netloop.None
}

// produceRefusal is what speaks against a request as a whole.
func produceRefusal(req *kmsg.ProduceRequest) int16 {
	switch {
	case req.Acks != 0 && req.Acks != 1 && req.Acks != -1:
		return codeInvalidRequiredAcks
	case req.TransactionID != nil:
		// Transactions do not exist here. This is the code that ends a producer
		// instead of having it try for ever.
		return codeTransactionalIDAuthorization
	}
	return 0
}

func produceSize(req *kmsg.ProduceRequest) int {
	n := 0
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			n += len(req.Topics[i].Partitions[j].Records)
		}
	}
	return n
}

// waitsForRoom has the request handled again a little later, from a copy of its
// frame. It reports false if the request's timeout is over.
func (b *Broker) waitsForRoom(r *request, req *kmsg.ProduceRequest) bool {
	s := r.session
	if s.waitsSince == 0 {
		s.waitsSince = max(1, r.mono)
	}
	if r.mono-s.waitsSince >= time.Duration(req.TimeoutMillis)*time.Millisecond {
		return false
	}
	again := job{session: s, slot: r.slot, frame: r.frame}
	if !r.pooled {
		again.frame = bytes.Clone(r.frame)
	}
	b.alarms.set(&alarm{fire: func() { b.pool.push(again) }}, r.mono+produceRetry)
	return true
}

// producing is one Produce at work.
type producing struct {
	b        *Broker
	r        *request
	req      *kmsg.ProduceRequest
	plain    *plainTools
	tools    *inflateTools // while a batch that needs them is at work
	snapshot *meta.Snapshot
	refused  int16 // every partition's error

	position log.Position // at which the answer may go
	failed   bool         // some partition
}

func (p *producing) all() *kmsg.ProduceResponse {
	resp := kmsg.NewPtrProduceResponse()
	resp.Topics = make([]kmsg.ProduceResponseTopic, len(p.req.Topics))
	for i := range p.req.Topics {
		rt, at := &p.req.Topics[i], &resp.Topics[i]
		at.Topic, at.TopicID = rt.Topic, rt.TopicID
		at.Partitions = make([]kmsg.ProduceResponseTopicPartition, len(rt.Partitions))
		t, unknown := p.snapshot.Topic(rt.Topic), codeUnknownTopicOrPartition
		if p.r.version >= 13 {
			t, unknown = p.snapshot.TopicByID(rt.TopicID), codeUnknownTopicID
		}
		for j := range rt.Partitions {
			ap := &at.Partitions[j]
			*ap = kmsg.NewProduceResponseTopicPartition()
			ap.Partition, ap.BaseOffset, ap.LogAppendTime, ap.LogStartOffset = rt.Partitions[j].Partition, -1, -1, -1
			switch {
			case p.refused != 0:
				ap.ErrorCode = p.refused
			case t == nil:
				ap.ErrorCode = unknown
			case isInternal(t.Name):
				ap.ErrorCode = codeInvalidTopic
			default:
				p.one(t, &rt.Partitions[j], ap)
			}
			p.failed = p.failed || ap.ErrorCode != 0
		}
	}
	return resp
}

// one checks and appends one partition's batch.
func (p *producing) one(t *meta.Topic, from *kmsg.ProduceRequestTopicPartition, to *kmsg.ProduceResponseTopicPartition) {
	part, code := p.b.partitionOf(t, from.Partition)
	if part == nil {
		to.ErrorCode = code
		return
	}
	config := p.b.topicConfig(t)
	p.plain.options = record.ProduceOptions{
		MaxMessageBytes: config.MaxMessageBytes, SegmentBytes: config.SegmentBytes,
		Compacted: config.Compact, LogAppendTime: config.LogAppendTime,
		TimestampBeforeMax: config.TimestampBeforeMax, TimestampAfterMax: config.TimestampAfterMax,
		NowMillis: p.r.wall, NoZstd: p.r.version < 7,
	}
	defer p.giveTools()
	batch, refused := p.check(from.Records, config.CompressionType)
	if refused != nil {
		refuseBatch(to, refused, part.LogStart())
		return
	}
	if batch.Transactional() {
		to.ErrorCode = codeTransactionalIDAuthorization
		return
	}
	if code = p.compress(&batch, config.CompressionType); code != 0 {
		to.ErrorCode = code
		return
	}
	base, duplicate, err := part.AppendBatch(batch)
	if err != nil {
		to.ErrorCode = appendCode(err)
		if to.ErrorCode == codeOutOfOrderSequence || to.ErrorCode == codeInvalidProducerEpoch {
			to.LogStartOffset = part.LogStart()
		}
		return
	}
	to.BaseOffset, to.LogStartOffset = base, part.LogStart()
	if config.LogAppendTime || duplicate {
		to.LogAppendTime = batch.MaxTimestamp() // of a duplicate Kafka tells the batch's time in any case
	}
	p.position = max(p.position, part.Position(base+int64(batch.LastOffsetDelta())))
}

// refuseBatch tells what is wrong with a batch, record by record where records
// are at fault (KIP-467).
func refuseBatch(to *kmsg.ProduceResponseTopicPartition, why *record.ProduceError, logStart int64) {
	to.ErrorCode = why.Code
	if why.Code == record.CodeInvalidRecord || why.Code == record.CodeInvalidTimestamp {
		to.LogStartOffset = logStart
	}
	if len(why.Records) == 0 {
		return
	}
	to.ErrorMessage = &why.Message
	for i := range why.Records {
		bad := kmsg.NewProduceResponseTopicPartitionErrorRecord()
		bad.RelativeOffset, bad.ErrorMessage = why.Records[i].Index, &why.Records[i].Message
		to.ErrorRecords = append(to.ErrorRecords, bad)
	}
}

// appendCode is the error code for what the log refused.
func appendCode(err error) int16 {
	switch {
	case errors.Is(err, log.ErrInvalidProducerEpoch):
		return codeInvalidProducerEpoch
	case errors.Is(err, log.ErrOutOfOrderSequence):
		return codeOutOfOrderSequence
	case errors.Is(err, log.ErrTooLarge):
		return codeMessageTooLarge
	case errors.Is(err, log.ErrDeleted):
		return codeUnknownTopicOrPartition
	}
	return codeStorageError
}
