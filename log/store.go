package log

import (
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kcoord/kcoord/log/journal"
	"github.com/kcoord/kcoord/log/vfs"
)

// A Store is an open data folder.
type Store struct {
	o      Options
	fs     vfs.FS
	lock   io.Closer
	folder FolderInfo
	id     journal.FolderID
	j      *journal.Journal
	// epoch is the leader epoch of all appends; set by Open.
	epoch int32

	// mu is the journal lock and what it guards.
	mu rounds
	// topics is replaced by Open and the flusher only.
	topics atomic.Pointer[topicTable]
	// infos is held from a look at Metadata until what it says of topics is stored, so
	// that nothing older replaces it.
	infos sync.Mutex
	// changed waits for refresh. Owner: Open, then the flusher.
	changed metadataChanges

	flush flusher

	refusals     atomic.Uint32 // bits of admit.go
	outOfSpace   atomic.Int32  // partitions whose last write found no space
	durableRound atomic.Uint64 // number of the newest durable round
	syncing      atomic.Int64  // monotonic ns at which the round in flight was taken; 0: none
	syncWanted   atomic.Bool   // a checkpoint asks for a journal sync (DurabilityOS)
	// waiting: there was no space for a journal when a clean folder was opened. Until
	// it is false nobody but the preparer may touch j. lateAt is where it is to begin.
	waiting        atomic.Bool
	lateAt         journal.Position
	foldersChanged atomic.Bool // partition folders came or went since the data folder was synced

	writeWake      chan struct{} // each with capacity 1
	prepareWake    chan struct{}
	checkpointWake chan struct{}
	retentionWake  chan struct{}
	bufs           sync.Pool // *[]byte for reading and combining writes

	nextFreeCheck time.Duration // owner: PrepareStep
	// freeLeft is what may be written before the free space is looked at again, so
	// that no burst between two looks eats the reserve.
	freeLeft atomic.Int64
	opening  sync.Mutex // leaf: guards folder and epoch while partitions are opened
	// deletedIDs are the topics whose deletion the journal told. Set by Open.
	deletedIDs map[TopicID]bool
	scratch    []byte // for encoding snapshots; owner: Open, then the check lock

	// check is the state of checkpoints. Its lock is held for a whole checkpoint;
	// it comes before all others.
	check checkpointer
	// gone are partitions of deleted topics whose folders are to be removed. Owner:
	// the lock in it, a leaf.
	gone gonePartitions
	keep retention
}

// Folder tells what Open found.
func (s *Store) Folder() FolderInfo { return s.folder }

// Loops are what the caller has to run, each in a goroutine of its own, until
// Close: the flusher, the partition log writer, the checkpointer, the preparer
// of journal files, retention.
func (s *Store) Loops() []Loop {
	return []Loop{
		{"flusher", s.FlushStep, s.flush.wake},
		{"writer", s.WriteStep, s.writeWake},
		{"checkpointer", s.CheckpointStep, s.checkpointWake},
		{"preparer", s.PrepareStep, s.prepareWake},
		{"retention", s.RetentionStep, s.retentionWake},
	}
}

// Syncing is the monotonic time at which the round in flight was taken, 0 if none
// is.
func (s *Store) Syncing() time.Duration { return time.Duration(s.syncing.Load()) }

// JournalSpace are the figures of the journal's files.
type JournalSpace struct {
	Used int64 // bytes between where replay begins and where the next entry goes
	Room int64 // bytes of rounds that fit into prepared files
	// Files is the number of all files, Spares of those prepared behind the one in
	// use.
	Files, Spares int
}

// JournalSpace returns the present figures.
func (s *Store) JournalSpace() JournalSpace {
	if s.refused(refuseStopping) || s.waiting.Load() { // the files are about to be closed, or not there yet
		return JournalSpace{}
	}
	sp := s.j.Space()
	return JournalSpace{Used: sp.Used, Room: sp.Room, Files: sp.Files, Spares: sp.Spares}
}

// Partition returns a partition, nil when it is unknown.
func (s *Store) Partition(id TopicID, n int32) *Partition {
	t := s.topics.Load().byID[id]
	if t == nil || n < 0 || int(n) >= len(t.partitions) {
		return nil
	}
	return t.partitions[n]
}

// EachPartition calls f for every partition, topics by name.
func (s *Store) EachPartition(f func(p *Partition)) {
	table := s.topics.Load()
	for _, id := range table.ids {
		for _, p := range table.byID[id].partitions {
			f(p)
		}
	}
}

// inParallel calls f for every partition, several at a time, and returns the first
// error in their order.
func (s *Store) inParallel(f func(p *Partition) error) error {
	var all []*Partition
	s.EachPartition(func(p *Partition) { all = append(all, p) })
	errs := make([]error, len(all))
	s.several(len(all), func(i int) { errs[i] = f(all[i]) })
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// several calls f for 0 to n-1, as many at a time as RecoveryThreads says.
func (s *Store) several(n int, f func(i int)) {
	threads := 0
	if s.o.RecoveryThreads != nil {
		threads = s.o.RecoveryThreads()
	}
	if threads <= 0 || threads >= n {
		each(s.o.Parallel, n, f)
		return
	}
	var next atomic.Int64
	each(s.o.Parallel, threads, func(int) {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			f(i)
		}
	})
}

func each(parallel func(int, func(int)), n int, f func(i int)) {
	if parallel != nil && n > 1 {
		parallel(n, f)
		return
	}
	for i := range n {
		f(i)
	}
}

// random is a number in [0, n), n > 0.
func (s *Store) random(n int64) int64 {
	var b [8]byte
	s.o.Random(b[:])
	var v uint64
	for _, c := range b {
		v = v<<8 | uint64(c)
	}
	return int64(v & math.MaxInt64 % uint64(n))
}

// applyMetadata applies durable metadata records, in order: all kinds but the
// store's own by Metadata, in one go. What they mean for the store is noted in
// s.changed; refresh does it. Callers: Open and the flusher.
func (s *Store) applyMetadata(records ...[]byte) error {
	var others [][]byte
	for _, m := range records {
		if m[0] == kindLogStart {
			r, err := parseLogStart(m)
			if err != nil {
				return err
			}
			s.changed.logStarts = append(s.changed.logStarts, r)
		}
		if storeKind(m[0]) {
			continue
		}
		others = append(others, m)
		if id, ok := topicOf(m); ok {
			s.changed.topics = append(s.changed.topics, id)
		}
	}
	if len(others) == 0 {
		return nil
	}
	return s.o.Metadata.Apply(others...)
}

// metadataChanges are what applied metadata records have changed and the store
// does not show yet. However many they are, the table is copied once.
type metadataChanges struct {
	topics    []TopicID
	logStarts []logStartRecord
}

// refresh brings the store up to date with the applied metadata.
func (s *Store) refresh() {
	c := s.changed
	s.changed = metadataChanges{}
	if len(c.topics) > 0 {
		for _, t := range s.refreshTopics(c.topics) {
			s.dropTopic(t)
		}
	}
	for _, r := range c.logStarts {
		if p := s.Partition(r.id, r.partition); p != nil {
			p.raiseLogStart(r.offset)
		}
	}
}

// raiseLogStart moves the log start up to offset and notes that it has to be
// kept in the snapshot.
func (p *Partition) raiseLogStart(offset int64) {
	for {
		old := p.logStart.Load()
		if offset <= old || p.logStart.CompareAndSwap(old, offset) {
			break
		}
	}
	p.s.wakeRetention()
}

// refreshTopics makes the table agree with Metadata about some topics, and returns
// those that are gone.
func (s *Store) refreshTopics(ids []TopicID) (gone []*topic) {
	s.infos.Lock()
	defer s.infos.Unlock()
	old := s.topics.Load()
	table := &topicTable{byID: maps.Clone(old.byID)}
	var came []TopicID
	for _, id := range ids {
		info, ok := s.o.Metadata.Topic(id)
		have := table.byID[id]
		switch {
		case ok && have == nil:
			table.byID[id] = s.newTopic(info)
			came = append(came, id)
		case ok:
			have.info.Store(&info)
			table.byID[id] = have.grown(s, info)
		case have != nil:
			delete(table.byID, id)
			gone = append(gone, have)
		}
	}
	table.ids = table.merged(old.ids, came)
	s.topics.Store(table)
	return gone
}

// merged are the ids of old that are still there and those that came, by name.
func (t *topicTable) merged(old, came []TopicID) []TopicID {
	name := func(id TopicID) string { return t.byID[id].info.Load().Name }
	slices.SortFunc(came, func(a, b TopicID) int { return strings.Compare(name(a), name(b)) })
	ids := make([]TopicID, 0, len(t.byID))
	for _, id := range old {
		if t.byID[id] == nil {
			continue
		}
		for len(came) > 0 && name(came[0]) < name(id) {
			ids, came = append(ids, came[0]), came[1:]
		}
		ids = append(ids, id)
	}
	return append(ids, came...)
}

// RefreshConfigs takes all topics' properties anew. Call it when what Metadata says
// of them has changed otherwise than by records about the topics.
func (s *Store) RefreshConfigs() {
	s.infos.Lock()
	defer s.infos.Unlock()
	table := s.topics.Load()
	s.o.Metadata.Topics(func(info TopicInfo) bool {
		if t := table.byID[info.ID]; t != nil {
			t.info.Store(&info)
		}
		return true
	})
	s.wakeRetention()
}

func (s *Store) newTopic(info TopicInfo) *topic {
	t := &topic{info: new(atomic.Pointer[TopicInfo])}
	t.info.Store(&info)
	return t.grown(s, info)
}

// grown returns t with as many partitions as info says.
func (t *topic) grown(s *Store, info TopicInfo) *topic {
	if int(info.Partitions) <= len(t.partitions) {
		return t
	}
	g := &topic{info: t.info, partitions: append([]*Partition(nil), t.partitions...)}
	for n := int32(len(g.partitions)); n < info.Partitions; n++ {
		p := &Partition{s: s, id: info.ID, n: n, topic: g.info}
		p.disk.dir = s.path(partitionDir(info.Name, n))
		g.partitions = append(g.partitions, p)
	}
	return g
}

// dropTopic forgets the partitions of a deleted topic; retention removes the
// folders.
func (s *Store) dropTopic(t *topic) {
	s.mu.Lock()
	for _, p := range t.partitions {
		p.deleted = true
		s.mu.queued.remove(p)
		s.mu.release(p.queue)
		clear(p.queue)
		p.queue, p.queueBytes = p.queue[:0], 0
	}
	s.mu.Unlock()
	s.gone.add(t.partitions)
	s.wakeRetention()
}
