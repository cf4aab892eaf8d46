package sim

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/log/record"
)

// inFlight is how many batches of an idempotent producer may be on the way.
const inFlight = 5

// once begins the names of idempotent producers, and so the values they write.
const once = "idempotent"

func idempotent(value string) bool { return strings.HasPrefix(value, once) }

// recordTime is the timestamp of all records: long ago, whatever the wall clock
// jumps to.
const recordTime = 1_500_000_000_000

// A producer writes batches to one partition. An idempotent one sends what it has
// no answer for again, in order; others send it again, too, and may write it twice.
type producer struct {
	world     *World
	client    *client
	name      string
	partition int32
	acks      int16
	pid       int64 // -1: none yet, or not idempotent
	sequence  int32
	count     int

	idempotent bool
	known      bool        // to the log: a batch was acknowledged
	waiting    []*produced // without an answer, in order
	onTheWay   int         // of those
	disturbed  bool        // some of them failed: nothing new before all have an answer
}

type produced struct {
	values   []string
	sequence int32
	data     []byte
	sent     bool
}

func newProducer(w *World, n int) *producer {
	p := &producer{world: w, name: fmt.Sprintf("producer-%d", n), acks: -1, pid: -1}
	if n%3 == 0 {
		p.name = fmt.Sprintf("%s-%d", once, n)
	}
	p.client = newClient(w, p.name)
	switch n % 3 {
	case 0:
		p.idempotent = true
	case 1:
		p.partition = deletedPartition
	case 2:
		p.acks = int16(w.random.IntN(2))
	}
	if p.partition == 0 {
		p.partition = int32(w.random.IntN(deletedPartition))
	}
	w.after(w.pause(), p.act)
	return p
}

func (p *producer) again() { p.world.after(p.world.pause(), p.act) }

func (p *producer) act() {
	w := p.world
	switch {
	case p.idempotent && p.pid < 0:
		p.initialize()
		return
	case p.disturbed && p.onTheWay > 0:
	case p.disturbed:
		p.disturbed = false
		for _, b := range p.waiting {
			p.send(b)
		}
	case w.calm && len(p.waiting) > 0:
	default:
		for range 1 + w.random.IntN(3) {
			if len(p.waiting) < p.window() {
				p.send(p.next())
			}
		}
	}
	p.again()
}

// window is how many batches may be on the way. A log that knows nothing of a
// producer takes any sequence number from it, as Kafka's does: if its very first
// batch were refused and the second taken, the first could never be sent again.
func (p *producer) window() int {
	if p.idempotent && !p.known {
		return 1
	}
	return inFlight
}

// initialize gets a producer id.
func (p *producer) initialize() {
	w := p.world
	req := kmsg.NewPtrInitProducerIDRequest()
	w.anyVersion(req)
	req.TransactionTimeoutMillis = 60_000
	p.client.call(req, func(resp kmsg.Response) {
		defer p.again()
		if resp == nil {
			return
		}
		r := resp.(*kmsg.InitProducerIDResponse)
		switch kerr.ErrorForCode(r.ErrorCode) {
		case nil:
			w.succeed("InitProducerId")
			if w.pids[r.ProducerID] || r.ProducerID < 0 {
				w.violated(checkProducerIDs, "%d was handed out before", r.ProducerID)
			}
			w.pids[r.ProducerID] = true
			p.pid = r.ProducerID
		case kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.RequestTimedOut:
		default:
			w.violated(checkErrors, "InitProducerId: %v", kerr.ErrorForCode(r.ErrorCode))
		}
	})
}

// next makes a batch.
func (p *producer) next() *produced {
	b := &produced{sequence: p.sequence}
	t := record.Plain(0, -1)
	if p.idempotent {
		t.ProducerID, t.ProducerEpoch, t.BaseSequence = p.pid, 0, p.sequence
	}
	var build record.Builder
	build.Reset(nil, t)
	for range 1 + p.world.random.IntN(3) {
		p.count++
		value := fmt.Sprintf("%s:%d", p.name, p.count)
		b.values = append(b.values, value)
		build.Append(recordTime, nil, []byte(value))
	}
	b.data = build.Close()
	p.sequence += int32(len(b.values))
	if p.acks != 0 {
		p.waiting = append(p.waiting, b)
	}
	return b
}

// send sends a batch, for the first time or again.
func (p *producer) send(b *produced) {
	w := p.world
	req := kmsg.NewPtrProduceRequest()
	w.anyVersion(req)
	req.Acks, req.TimeoutMillis = p.acks, 5000
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.TopicID = dataTopic, w.topicIDs[dataTopic]
	tp := kmsg.NewProduceRequestTopicPartition()
	tp.Partition, tp.Records = p.partition, b.data
	t.Partitions = append(t.Partitions, tp)
	req.Topics = append(req.Topics, t)
	if p.acks == 0 {
		p.client.tell(req)
		return
	}
	again := b.sent
	b.sent = true
	p.onTheWay++
	l := w.log(p.partition)
	before := l.bounds()
	p.client.call(req, func(resp kmsg.Response) {
		p.onTheWay--
		if resp == nil {
			p.disturbed = true
			return
		}
		p.answered(b, again, before, &resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0])
	})
}

func (p *producer) answered(b *produced, again bool, before bounds, r *kmsg.ProduceResponseTopicPartition) {
	w, l := p.world, p.world.log(p.partition)
	switch err := kerr.ErrorForCode(r.ErrorCode); {
	case err == nil:
		w.succeed("Produce")
		p.known = true
		for i, v := range b.values {
			l.at(w, r.BaseOffset+int64(i), v)
		}
		if !again && r.BaseOffset < before.end {
			w.violated(checkRecords, "%s-%d: %s got offset %d although the log had %d", dataTopic, p.partition, b.values[0], r.BaseOffset, before.end)
		}
		if p.waiting[0] != b && p.idempotent && !p.disturbed {
			w.violated(checkRecords, "%s: %s was acknowledged before %s", p.name, b.values[0], p.waiting[0].values[0])
		}
		for i := range p.waiting {
			if p.waiting[i] == b {
				p.waiting = append(p.waiting[:i:i], p.waiting[i+1:]...)
				break
			}
		}
	case err == kerr.RequestTimedOut, err == kerr.KafkaStorageError:
		p.disturbed = true
	case err == kerr.OutOfOrderSequenceNumber && p.disturbed: // one before it failed
	case err == kerr.OutOfOrderSequenceNumber:
		w.violated(checkRecords, "Produce of %s: the log does not know what was acknowledged before", b.values[0])
	default:
		w.violated(checkErrors, "Produce of %s: %v", b.values[0], err)
	}
}
