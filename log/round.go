package log

import (
	"sync"

	"github.com/kcoord/kcoord/log/journal"
	"github.com/kcoord/kcoord/log/record"
)

const (
	// maxRoundBytes bounds the open round; beyond it writes are refused.
	maxRoundBytes = 16 << 20
	// maxBehindBytes bounds what is durable but not yet in partition logs.
	maxBehindBytes = 64 << 20
	// keptBatchBytes is the largest buffer that is kept for use again, and
	// keptBytes bounds all kept ones.
	keptBatchBytes = 1<<20 + 4096
	keptBytes      = 4 << 20
	// roundOverhead is what an item adds to a round besides its data, about.
	roundOverhead = 28
)

// A batch is one record batch on its way: in the open round (records are still
// added), in flight, durable and waiting to be written to the partition log.
type batch struct {
	p *Partition
	// build is in use while the batch is built from records; then data is unset.
	build    record.Builder
	building bool
	data     []byte // the whole batch, base offset and epoch stamped
	kept     bool   // data is not in build's buffer and stays as it is
	// Invariant: first <= next-1, and next is the next batch's first.
	first, next int64
	// at is where the journal entry begins that holds the batch, or an earlier
	// place: a replay from there finds it. Set when the round is in flight.
	at journal.Position
}

// close makes data of what was built. It is called once, by the flusher.
func (b *batch) close() []byte {
	if b.building {
		b.data = b.build.Close()
		b.building = false
	}
	return b.data
}

// An item of a round is a batch or a metadata record.
type item struct {
	batch *batch
	meta  []byte
}

// A round is what becomes durable together.
type round struct {
	number  Position
	items   []item
	waiters []Waiter
	bytes   int // of all items, about
	produce int // of those that clients produced
	at      journal.Position
}

// wait attaches w.
func (r *round) wait(w *Waiter) {
	if n := len(r.waiters); n == 0 || !r.waiters[n-1].takesIn(w) {
		r.waiters = append(r.waiters, *w)
	}
}

func (r *round) reset() {
	clear(r.items)
	clear(r.waiters)
	*r = round{items: r.items[:0], waiters: r.waiters[:0]}
}

// rounds is what the journal lock guards. The lock is held for copying and
// bookkeeping, never across I/O. It comes after every partition's log lock and
// every lock of the caller; nothing is locked under it.
type rounds struct {
	sync.Mutex
	// Invariant: open.number is one more than the number of the round in flight,
	// or of the last durable one if none is.
	open     *round
	inflight *round // nil: none; replaced by the flusher only
	spare    *round // for use as open
	free     []*batch
	freed    int // bytes of free's buffers
	queued   writeQueue
	behind   int              // bytes durable and not in partition logs
	cut      journal.Position // everything before is published to the partitions
	// idle: the flusher found nothing to do and has to be woken for the next item.
	idle bool
}

// newBatch takes a batch from the free list.
func (r *rounds) newBatch(p *Partition) *batch {
	n := len(r.free)
	if n == 0 {
		return &batch{p: p}
	}
	b := r.free[n-1]
	r.free[n-1] = nil
	r.free = r.free[:n-1]
	r.freed -= cap(b.build.Buf)
	b.p = p
	return b
}

// release gives batches back that were durable and whose data nobody needs any
// more.
func (r *rounds) release(bs []*batch) {
	for _, b := range bs {
		r.behind -= len(b.data)
		r.release1(b)
	}
}

func (r *rounds) release1(b *batch) {
	buf := b.build.Buf
	*b = batch{}
	if cap(buf) <= keptBatchBytes && r.freed+cap(buf) <= keptBytes {
		b.build.Buf = buf[:0]
		r.free = append(r.free, b)
		r.freed += cap(buf)
	}
}

// AppendRecords appends records of a coordinator to the open round's batch of
// this partition and returns the first one's offset; records are copied, and
// all get wallMillis as timestamp. The caller holds the owner's lock, has asked
// Admit under it, and is the only one to append to this partition. What one call
// appends is in one batch, so that no crash tears it apart; calls share a batch up
// to max.message.bytes. That one call stays below it is the caller's business (the
// topic's properties may change at any moment); ErrTooLarge, with nothing
// appended, comes only if the records fit into no batch at all.
func (p *Partition) AppendRecords(wallMillis int64, recs []Record) (base int64, err error) {
	return p.appendRecords(wallMillis, record.Plain(0, 0), recs, nil)
}

// AppendAwaited is AppendRecords of at least one record and, unless it fails, Await of
// the last one: w is attached to the round that holds it.
func (p *Partition) AppendAwaited(wallMillis int64, recs []Record, w *Waiter) (base int64, err error) {
	return p.appendRecords(wallMillis, record.Plain(0, 0), recs, w)
}

// A Producer is the producer part of a transactional append.
type Producer struct {
	ID    int64
	Epoch int16
}

// AppendTransactional is AppendRecords for pending transactional commits: the
// batch has the producer's id and the transactional bit.
func (p *Partition) AppendTransactional(wallMillis int64, pr Producer, recs []Record) (base int64, err error) {
	t := record.Plain(0, 0)
	t.ProducerID, t.ProducerEpoch, t.Transactional = pr.ID, pr.Epoch, true
	return p.appendRecords(wallMillis, t, recs, nil)
}

func (p *Partition) appendRecords(wallMillis int64, t record.Template, recs []Record, w *Waiter) (int64, error) {
	size := record.HeaderSize
	for i := range recs {
		size += record.MaxRecordSize(recs[i].Key, recs[i].Value)
	}
	limit := int(min(p.topic.Load().Config.MaxMessageBytes, batchCap))
	s := p.s
	s.mu.Lock()
	base := p.end
	if err := p.appendableLocked(); err != nil || len(recs) == 0 {
		s.mu.Unlock()
		return base, err
	}
	b := p.openBatch
	t.LeaderEpoch = s.epoch
	if b == nil || !b.building || !b.build.Continues(&t) || b.build.Size()+size-record.HeaderSize > limit {
		if size > batchCap && recordsSize(recs) > batchCap {
			s.mu.Unlock()
			return -1, ErrTooLarge
		}
		t.BaseOffset = base
		b = s.mu.newBatch(p)
		b.build.Reset(b.build.Buf, t)
		b.building, b.first = true, base
		p.openBatch = b
		s.mu.open.items = append(s.mu.open.items, item{batch: b})
		s.mu.open.bytes += roundOverhead + record.HeaderSize
	}
	before := b.build.Size()
	for i := range recs {
		b.build.Append(wallMillis, recs[i].Key, recs[i].Value)
	}
	p.end = b.build.NextOffset()
	b.next = p.end
	p.logEnd.Store(p.end)
	if w != nil {
		s.mu.open.wait(w)
	}
	wake := s.addedLocked(b.build.Size() - before)
	s.mu.Unlock()
	if wake {
		s.wakeForRound()
	}
	return base, nil
}

// recordsSize is exactly what recs take as a batch of their own.
func recordsSize(recs []Record) int {
	var b record.Builder
	b.Reset(nil, record.Plain(0, 0))
	for i := range recs {
		b.Append(0, recs[i].Key, recs[i].Value)
	}
	return b.Size()
}

// AppendMarker appends an end-transaction marker: a control batch of one record.
func (p *Partition) AppendMarker(wallMillis int64, pr Producer, commit bool, coordinatorEpoch int32) (offset int64, err error) {
	t := record.Template{LeaderEpoch: p.s.epoch, ProducerID: pr.ID, ProducerEpoch: pr.Epoch}
	data, err := record.AppendMarker(nil, t, wallMillis, commit, coordinatorEpoch)
	if err != nil {
		return -1, err
	}
	return p.appendWhole(data, 0)
}

// AppendBatch appends a produce batch that record.CheckProduce accepted; it is
// copied, base offset and leader epoch are stamped in the copy. It returns the
// batch's base offset; for a duplicate of one of the producer's last five
// batches that batch's, with duplicate true. Errors: ErrInvalidProducerEpoch,
// ErrOutOfOrderSequence, ErrTooLarge, ErrStorage, ErrDeleted.
func (p *Partition) AppendBatch(b []byte) (base int64, duplicate bool, err error) {
	if err := p.Err(); err != nil {
		return -1, false, err
	}
	if int64(len(b)) > p.topic.Load().Config.SegmentBytes {
		return -1, false, ErrTooLarge
	}
	if record.Batch(b).ProducerID() >= 0 {
		return p.appendIdempotent(b)
	}
	base, err = p.appendWhole(b, len(b))
	return base, false, err
}

// appendWhole appends a copy of a whole batch.
func (p *Partition) appendWhole(data []byte, produce int) (int64, error) {
	s := p.s
	s.mu.Lock()
	b := s.mu.newBatch(p)
	s.mu.Unlock()
	b.build.Buf = append(b.build.Buf[:0], data...) // may be large: not under the lock
	b.data = b.build.Buf
	v := record.Batch(b.data)
	v.SetLeaderEpoch(s.epoch)

	s.mu.Lock()
	if err := p.appendableLocked(); err != nil {
		s.mu.release1(b)
		s.mu.Unlock()
		return -1, err
	}
	base := p.end
	v.SetBaseOffset(base)
	b.first, b.next = base, v.NextOffset()
	p.end, p.openBatch = b.next, nil
	p.logEnd.Store(p.end)
	r := s.mu.open
	r.items = append(r.items, item{batch: b})
	r.produce += produce
	wake := s.addedLocked(roundOverhead + len(data))
	s.mu.Unlock()
	if wake {
		s.wakeForRound()
	}
	return base, nil
}

// appendableLocked is nil or why the partition takes no records. REQUIRES s.mu.
func (p *Partition) appendableLocked() error {
	if p.deleted {
		return ErrDeleted
	}
	return nil
}

// AppendMetadata puts metadata records into the open round; they are copied.
// Metadata.Apply gets them, in order, when the round is durable, before
// w (if not nil) and the round's other waiters are released; the partitions of
// a new topic exist then. urgent records (those that free space) are taken even
// when Admit refuses for space.
func (s *Store) AppendMetadata(records [][]byte, w *Waiter, urgent bool) error {
	if err := s.Admit(); err != nil && !(urgent && s.urgent()) {
		return err
	}
	s.mu.Lock()
	s.appendMetadataLocked(records, w)
	wake := s.addedLocked(0)
	s.mu.Unlock()
	if wake {
		s.wakeForRound()
	}
	return nil
}

func (s *Store) appendMetadataLocked(records [][]byte, w *Waiter) {
	r := s.mu.open
	for _, m := range records {
		r.items = append(r.items, item{meta: append([]byte(nil), m...)})
		r.bytes += roundOverhead + len(m)
	}
	if w != nil {
		r.wait(w)
	}
}

// addedLocked accounts for n bytes added to the open round and reports whether
// the flusher has to be woken: it is if it may be asleep. REQUIRES s.mu.
func (s *Store) addedLocked(n int) (wake bool) {
	r := s.mu.open
	r.bytes += n
	if r.bytes >= maxRoundBytes {
		s.refuse(refuseRound)
	}
	wake, s.mu.idle = s.mu.idle, false
	return wake
}

// A Position stands for a round: what a waiter waits for. Positions of several
// partitions can be compared: the largest one implies the others. 0 is durable.
type Position uint64

// Await reports whether offset is durable already; w is not kept then. Else w
// is attached to the round that holds offset. An offset at or beyond the log's
// end is a programmer's error.
func (p *Partition) Await(offset int64, w Waiter) (durable bool) {
	if offset < p.durable.Load() {
		return true
	}
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attachLocked(p.positionLocked(offset), w)
}

// Position is the position at which offset is durable: 0 if it is already.
func (p *Partition) Position(offset int64) Position {
	if offset < p.durable.Load() {
		return 0
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.positionLocked(offset)
}

func (p *Partition) positionLocked(offset int64) Position {
	switch {
	case offset < p.durable.Load() || p.deleted:
		return 0
	case offset >= p.end:
		panic(badOffset("waiting for", p, offset))
	case offset < p.inflightEnd:
		return p.s.mu.inflight.number
	default:
		return p.s.mu.open.number
	}
}

// AwaitPosition reports whether pos is durable already; w is not kept then. Else
// w is attached to that round.
func (s *Store) AwaitPosition(pos Position, w Waiter) (durable bool) {
	if pos <= Position(s.durableRound.Load()) {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attachLocked(pos, w)
}

// attachLocked keeps w in the round of pos. A round without items is taken by
// the flusher too if somebody waits for it.
func (s *Store) attachLocked(pos Position, w Waiter) (durable bool) {
	switch {
	case pos <= Position(s.durableRound.Load()):
		return true
	case s.mu.inflight != nil && pos == s.mu.inflight.number:
		s.mu.inflight.wait(&w)
	case pos == s.mu.open.number:
		s.mu.open.wait(&w)
	default:
		panic(badPosition(pos, s.mu.open.number))
	}
	return false
}

// OpenPosition is the position of the round that is open now: waiting for it
// means waiting until there is room in a new one.
func (s *Store) OpenPosition() Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.open.number
}

// TakeWaiters removes the waiters with At below before from the round in flight
// and the open one and appends them to dst. What they wait for may still become
// durable.
func (s *Store) TakeWaiters(before int64, dst []Waiter) []Waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range []*round{s.mu.inflight, s.mu.open} {
		if r == nil {
			continue
		}
		kept := r.waiters[:0]
		for _, w := range r.waiters {
			if w.At < before {
				dst = append(dst, w)
			} else {
				kept = append(kept, w)
			}
		}
		clear(r.waiters[len(kept):])
		r.waiters = kept
	}
	return dst
}
