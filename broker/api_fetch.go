package broker

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/internal/meta"
	"github.com/kcoord/kcoord/log"
	"github.com/kcoord/kcoord/netloop"
)

const (
	// maxFetchPartitions bounds the partitions of one fetch.
	maxFetchPartitions = maxSessionPartitions
	// freeFetchBytes is how many bytes of records an answer may have in any case;
	// what is beyond comes out of a budget that all answers share.
	freeFetchBytes = 1 << 20
	// fetchBudgetBytes is that budget. When it is used up answers get shorter.
	fetchBudgetBytes = 64 << 20
	// crowdedFetchBytes is what takes the place of both while slow clients have nearly
	// used up the memory for answers.
	crowdedFetchBytes = 64 << 10
	// fewParts is how many partitions are compared one by one, firstParts for how many
	// there is room before any has been seen.
	fewParts, firstParts = 8, 1024
)

// A fetchPosition is what a fetch asks of one partition.
type fetchPosition struct {
	partitionKey
	offset       int64
	maxBytes     int32
	currentEpoch int32 // -1: not compared
	lastEpoch    int32 // of the last record the client has, -1: not compared
}

// A fetchPart is one partition of a fetch at work.
type fetchPart struct {
	fetchPosition
	cached    *sessionPartition // in an incremental fetch
	result    fetchResult
	partition *log.Partition // nil if it cannot be served
	topicID   log.TopicID    // of partition
}

func (p *fetchPart) partitionID() partitionID { return partitionID{p.topicID, p.index} }

// A fetch is one Fetch request, from its arrival to its answer. It refers to
// nothing of the frame.
type fetch struct {
	session       *session
	slot          netloop.Slot
	version       int16
	correlationID int32
	arrived       time.Duration

	minBytes, maxBytes int
	wait               time.Duration
	committed          bool // read_committed

	parts []fetchPart
	// reserved is what a parked fetch has of the budget for them, bytes.
	reserved int
	// incremental: memory is the session it belongs to. offer: memory is a session
	// to be given with the answer. Otherwise memory is nil.
	memory      *fetchSession
	incremental bool
}

// fetch serves Fetch (versions 4 to 18): at once when there is enough to
// give, an error, or no time to wait; else the fetch is parked.
func (b *Broker) fetch(r *request, out []byte) ([]byte, netloop.Verdict) {
	f, code := b.newFetch(r)
	if code != 0 {
		resp := r.message.(*kmsg.FetchRequest).ResponseKind().(*kmsg.FetchResponse)
		resp.ErrorCode = code
		return r.answer(out, resp)
	}
	start := len(out)
	out, ready := f.read(b, out, f.wait <= 0)
	if ready {
		return out, netloop.Answered
	}
	if !b.data.parked.reserve(f) { // the client asks again
		out, _ = f.read(b, out[:start], true)
		return out, netloop.Answered
	}
	b.data.parked.add(b, f)
	return out[:start], netloop.Hold
}

// newFetch makes a fetch of a request, with the session that it names, or says
// with which error to answer it.
func (b *Broker) newFetch(r *request) (*fetch, int16) {
	req := r.message.(*kmsg.FetchRequest)
	f := &fetch{
		session: r.session, slot: r.slot, version: r.version, correlationID: r.correlationID, arrived: r.mono,
		maxBytes: max(0, min(int(req.MaxBytes), b.values().FetchMaxBytes)),
		wait:     time.Duration(req.MaxWaitMillis) * time.Millisecond, committed: req.IsolationLevel == 1,
	}
	f.minBytes = min(int(req.MinBytes), f.maxBytes)
	n := 0
	for i := range req.Topics {
		n += len(req.Topics[i].Partitions)
	}
	if n > maxFetchPartitions {
		return nil, codeInvalidRequest
	}
	if r.version >= 7 && req.SessionEpoch != initialEpoch && req.SessionEpoch != finalEpoch {
		return f, b.data.sessions.join(f, req, r.mono)
	}
	f.setParts(req, n)
	if r.version >= 7 {
		b.data.sessions.remove(req.SessionID)
		if req.SessionEpoch == initialEpoch {
			f.memory = newFetchSession(r.version >= 13)
		}
	}
	return f, 0
}

// setParts takes the n partitions of a request, each once: of those that are named
// again the last counts, in the place of the first, as in Kafka.
func (f *fetch) setParts(req *kmsg.FetchRequest, n int) {
	f.parts = make([]fetchPart, 0, min(n, firstParts))
	var places map[partitionKey]int // not needed for a few
	if n > fewParts {
		places = make(map[partitionKey]int, min(n, firstParts))
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			pos := fetchPositionOf(f.version, t, &t.Partitions[j])
			at := -1
			if places == nil {
				at = slices.IndexFunc(f.parts, func(p fetchPart) bool { return p.partitionKey == pos.partitionKey })
			} else if place, ok := places[pos.partitionKey]; ok {
				at = place
			}
			if at >= 0 {
				f.parts[at].fetchPosition = pos
				continue
			}
			if places != nil {
				places[pos.partitionKey] = len(f.parts)
			}
			f.parts = append(f.parts, fetchPart{fetchPosition: pos})
		}
	}
}

func fetchPositionOf(version int16, t *kmsg.FetchRequestTopic, p *kmsg.FetchRequestTopicPartition) fetchPosition {
	pos := fetchPosition{partitionKey: partitionKey{index: p.Partition}, offset: p.FetchOffset, maxBytes: p.PartitionMaxBytes,
		currentEpoch: p.CurrentLeaderEpoch, lastEpoch: p.LastFetchedEpoch}
	if version >= 13 {
		pos.id = t.TopicID
	} else {
		pos.topic = t.Topic
	}
	return pos
}

// join makes f the next fetch of the session that req names.
func (c *fetchSessions) join(f *fetch, req *kmsg.FetchRequest, now time.Duration) int16 {
	s := c.get(req.SessionID, now)
	if s == nil {
		return codeFetchSessionNotFound
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID != (f.version >= 13) {
		return codeFetchSessionTopicID
	}
	if s.mu.epoch != req.SessionEpoch {
		return codeInvalidFetchSessionEpoch
	}
	s.mu.epoch = nextEpoch(s.mu.epoch)
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			s.setLocked(fetchPositionOf(f.version, t, &t.Partitions[j]))
		}
	}
	for i := range req.ForgottenTopics {
		t := &req.ForgottenTopics[i]
		for _, index := range t.Partitions {
			key := partitionKey{topic: t.Topic, index: index}
			if s.byID {
				key = partitionKey{id: t.TopicID, index: index}
			}
			s.forgetLocked(key)
		}
	}
	if !c.resized(s, len(s.mu.partitions)) {
		return codeFetchSessionNotFound
	}
	f.memory, f.incremental = s, true
	f.parts = make([]fetchPart, 0, len(s.mu.partitions))
	for p := s.mu.head.next; p != &s.mu.head; p = p.next {
		f.parts = append(f.parts, fetchPart{fetchPosition: p.fetchPosition, cached: p})
	}
	return 0
}

// read appends the answer as of now and reports whether it may be given before
// the wait is over, or in any case with last; if it may, it has been noted in the
// session.
func (f *fetch) read(b *Broker, out []byte, last bool) ([]byte, bool) {
	if f.memory != nil {
		f.memory.mu.Lock()
		defer f.memory.mu.Unlock()
	}
	snapshot := b.meta.Load()
	w := fetchWriter{out: out, version: f.version, committed: f.committed, nodeID: b.nodeID,
		maxTopics: len(f.parts), maxPartitions: len(f.parts)}
	if !f.incremental {
		w.maxTopics, w.maxPartitions = f.shape()
	}
	w.begin(f.correlationID)
	read := fetchReading{b: b, fetch: f, snapshot: snapshot, w: &w, minOne: true, free: freeFetchBytes}
	if c, ok := f.session.conn.(netloop.CrowdedConn); ok && c.Crowded() {
		read.free, read.crowded = crowdedFetchBytes, true
	}
	for i := range f.parts {
		read.part(&f.parts[i])
	}
	b.data.fetchBudget.give(read.granted)
	if !last && !read.urgent && read.bytes < f.minBytes && read.waitable > 0 {
		return w.out, false
	}
	var id int32
	if f.memory != nil {
		id = f.noteLocked(b)
	}
	var host string
	var port int32
	if w.leaders {
		host, port = b.advertised(f.session)
	}
	return w.end(id, host, port, b.values().Rack), true
}

// bytes is what the last read found.
func (f *fetch) bytes() int {
	n := 0
	for i := range f.parts {
		n += f.parts[i].result.bytes
	}
	return n
}

// shape counts what the answer to a full fetch will have: runs of partitions of
// one topic, and the partitions of the longest.
func (f *fetch) shape() (topics, longest int) {
	run := 0
	for i := range f.parts {
		if i == 0 || f.parts[i].topic != f.parts[i-1].topic || f.parts[i].id != f.parts[i-1].id {
			topics++
			run = 0
		}
		run++
		longest = max(longest, run)
	}
	return topics, longest
}

// noteLocked keeps in the session what the answer says and returns the session's
// id, 0 if there is none to be had.
func (f *fetch) noteLocked(b *Broker) int32 {
	s := f.memory
	if f.incremental {
		for i := range f.parts {
			s.answeredLocked(f.parts[i].cached, &f.parts[i].result)
		}
		return s.id
	}
	for i := range f.parts {
		p := &f.parts[i]
		cached := s.setLocked(p.fetchPosition)
		cached.highWatermark, cached.logStart = p.result.highWatermark, p.result.logStart
	}
	b.data.sessions.add(s, len(s.mu.partitions), f.arrived, b.data.randomInt32)
	return s.id
}

// fetchReading is one pass over the partitions of a fetch.
type fetchReading struct {
	b        *Broker
	fetch    *fetch
	snapshot *meta.Snapshot
	w        *fetchWriter

	bytes    int
	free     int  // bytes that need no budget
	crowded  bool // and there are no others
	granted  int  // of the shared budget
	minOne   bool // no records yet: the first batch is given whatever its size
	urgent   bool // something that ends the wait
	waitable int  // partitions that exist
}

// part reads one partition into the answer.
func (r *fetchReading) part(p *fetchPart) {
	res := &p.result
	*res = fetchResult{highWatermark: -1, logStart: -1}
	p.partition = nil
	r.check(p)
	r.w.sameTopic(p.partitionKey)
	m := r.w.mark()
	at := r.w.header(p.partitionKey)
	if p.partition != nil {
		r.waitable++
		if res.code == 0 && !res.diverging {
			r.records(p)
		} else {
			r.urgent = true
		}
	}
	if p.partition == nil || res.bytes == 0 {
		r.w.out = appendEmptyRecords(r.w.out, r.w.flexible)
	}
	r.w.fields(at, p.index, res)
	r.w.tags(res)
	if r.fetch.incremental && !p.cached.changed(res) {
		r.w.rollback(m)
	}
}

func appendEmptyRecords(out []byte, flexible bool) []byte {
	if flexible {
		return append(out, 1)
	}
	return append(out, 0, 0, 0, 0)
}

// check finds the partition and what speaks against reading it.
func (r *fetchReading) check(p *fetchPart) {
	res, unknown := &p.result, codeUnknownTopicOrPartition
	t := r.snapshot.Topic(p.topic)
	if r.fetch.version >= 13 {
		t, unknown = r.snapshot.TopicByID(p.id), codeUnknownTopicID
	}
	if t == nil {
		res.code = unknown
		return
	}
	if p.partition, res.code = r.b.partitionOf(t, p.index); p.partition == nil {
		return
	}
	p.topicID = log.TopicID(t.ID)
	r.w.epoch = p.partition.LeaderEpoch()
	if res.code = epochCode(p.partition, p.currentEpoch); res.code != 0 {
		return
	}
	if r.fetch.version < 10 && r.b.topicConfig(t).CompressionType == "zstd" {
		res.code = codeUnsupportedCompression
		return
	}
	if catchUp(p.partition) != nil {
		res.code = codeStorageError
		return
	}
	res.logStart, res.highWatermark = p.partition.LogStart(), p.partition.HighWatermark()
	if r.diverges(p) {
		return
	}
	if p.offset < res.logStart || p.offset > res.highWatermark {
		res.code, res.logStart, res.highWatermark = codeOffsetOutOfRange, -1, -1 // as Kafka: an error tells nothing else
	}
}

// diverges compares the epoch of the client's last record with this log's.
func (r *fetchReading) diverges(p *fetchPart) bool {
	if p.lastEpoch < 0 || r.fetch.version < 12 {
		return false
	}
	epoch, end := endOfEpoch(p.partition, p.lastEpoch)
	if epoch < p.lastEpoch || end < p.offset {
		p.result.diverging, p.result.divergingEpoch, p.result.divergingEnd = true, epoch, end
	}
	return p.result.diverging
}

// records appends what may be given of a partition, with its length in front.
func (r *fetchReading) records(p *fetchPart) {
	res := &p.result
	if p.offset >= res.highWatermark {
		return
	}
	limit := r.limit(p)
	if limit <= 0 && !r.minOne {
		return
	}
	w := r.w
	c := w.reserve(min(max(limit, 0), int(p.partition.Size())))
	from := len(w.out)
	out, err := p.partition.Read(p.offset, limit, r.minOne, w.out)
	if err != nil {
		w.out = out[:c.at]
		res.code = codeStorageError
		if errors.Is(err, log.ErrOffsetOutOfRange) {
			res.code = codeOffsetOutOfRange
		}
		r.urgent = true
		return
	}
	w.out = out
	res.bytes = len(out) - from
	if res.bytes == 0 {
		w.out = out[:c.at]
		return
	}
	w.fill(c.at, c.room, res.bytes)
	r.bytes += res.bytes
	r.minOne = false
	// Reading may have moved the high watermark: never show records beyond it.
	res.highWatermark = p.partition.HighWatermark()
}

// limit is how many bytes of a partition may be read.
func (r *fetchReading) limit(p *fetchPart) int {
	want := min(int(p.maxBytes), r.fetch.maxBytes-r.bytes)
	room := r.free + r.granted - r.bytes
	if want > room && !r.crowded {
		more := min(want, int(p.partition.Size())) - max(room, 0)
		r.granted += r.b.data.fetchBudget.take(more)
		room = r.free + r.granted - r.bytes
	}
	return min(want, room)
}

// A byteBudget is memory that answers share. Unlike budget it never makes
// anybody wait: it gives what is left.
type byteBudget struct {
	mu struct {
		sync.Mutex
		left int
	}
}

// take returns how many of n bytes may be used; they are given back by give.
func (b *byteBudget) take(n int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n = max(0, min(n, b.mu.left))
	b.mu.left -= n
	return n
}

func (b *byteBudget) give(n int) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	b.mu.left += n
	b.mu.Unlock()
}
