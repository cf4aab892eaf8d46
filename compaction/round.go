package compaction

import (
	"github.com/kcoord/kcoord/log"
	"github.com/kcoord/kcoord/log/record"
)

// mergeBytes is the size up to which batches of the offsets log are merged.
const mergeBytes = 32 << 10

// round is one cleaning of one partition, done in steps.
type round struct {
	p        *log.Partition
	c        *log.Cleaning
	internal bool  // the offsets log: batches are merged
	now      int64 // wall clock when the round began, ms

	segs []*log.CleanSegment // those wholly below the first uncleanable offset
	from int64               // cleaner checkpoint
	at   int                 // segment that is read
	r    reader
	m    *mapper // first pass; nil afterwards

	f      *filter // second pass
	groups [][]*log.CleanSegment
	s      sink
	begun  bool // the group groups[0] is being copied

	// survey: only the delete horizons are looked up. survived are batches that
	// have one: about the tombstones that are there.
	survey bool
	result Result
	// work counts the bytes read and written.
	work int64
}

// newRound prepares a round over segs of a cleaning.
func newRound(p *log.Partition, c *log.Cleaning, segs []*log.CleanSegment, internal bool, now int64, tuning Tuning) *round {
	r := &round{p: p, c: c, segs: segs, from: p.CleanerCheckpoint(), internal: internal, now: now}
	r.result = Result{Partition: p, From: r.from, SegmentsBefore: len(segs), SegmentsAfter: len(segs)}
	r.result.Tombstones = Tombstones{}
	for _, s := range segs {
		r.result.BytesBefore += s.Bytes
	}
	r.result.BytesAfter = r.result.BytesBefore
	r.m = newMapper(newOffsetMap(tuning.MapBytes, tuning.LoadFactor), r.from)
	r.r.chunk = max(tuning.IOBufferBytes/2, 1)
	r.s.copy.chunk = r.r.chunk
	r.skipTo(r.from)
	return r
}

// newSurvey prepares a round that only looks the delete horizons up.
func newSurvey(p *log.Partition, c *log.Cleaning, segs []*log.CleanSegment) *round {
	r := &round{p: p, c: c, segs: segs, survey: true}
	r.result.Tombstones = Tombstones{}
	r.skipTo(0)
	return r
}

// skipTo goes to the first segment that does not end at or below an offset.
func (r *round) skipTo(offset int64) {
	for r.at < len(r.segs) && r.segs[r.at].NextOffset <= offset {
		r.at++
	}
	if r.at < len(r.segs) {
		r.r.open(r.segs[r.at])
	}
}

// step works on about budget bytes; done says that the round is over.
func (r *round) step(budget int64) (done bool, err error) {
	for limit := r.work + budget; r.work < limit; {
		switch {
		case r.survey:
			done, err = r.surveyBatch()
		case r.m != nil:
			err = r.mapBatch()
		default:
			done, err = r.copyBatch()
		}
		if done || err != nil {
			return done, err
		}
	}
	return false, nil
}

// surveyBatch counts batches with a delete horizon.
func (r *round) surveyBatch() (done bool, err error) {
	if r.at == len(r.segs) {
		return true, nil
	}
	b, err := r.r.next()
	if err != nil {
		return false, err
	}
	if b == nil {
		if r.at++; r.at < len(r.segs) {
			r.r.open(r.segs[r.at])
		}
		return false, nil
	}
	r.work += b.Size()
	if b.HasDeleteHorizon() {
		r.result.Tombstones.add(b.BaseTimestamp(), b.Size()-record.HeaderSize)
	}
	return false, nil
}

// mapBatch is a step of the first pass.
func (r *round) mapBatch() error {
	if r.at == len(r.segs) {
		r.beginCopy()
		return nil
	}
	b, err := r.r.next()
	if err != nil {
		return err
	}
	if b == nil {
		if r.at++; r.at < len(r.segs) {
			r.r.open(r.segs[r.at])
		}
		return nil
	}
	r.work += b.Size()
	if b.LastOffset() < r.from {
		return nil
	}
	taken, err := r.m.take(b)
	if err == nil && !taken {
		r.beginCopy()
	}
	return err
}

// beginCopy ends the first pass.
func (r *round) beginCopy() {
	end := r.m.end()
	if !r.m.full && len(r.m.open) == 0 && len(r.segs) > 0 {
		end = max(end, r.segs[len(r.segs)-1].NextOffset)
	}
	config := r.p.Topic().Config
	r.f = &filter{
		newest: r.m.newest, end: end, now: r.now, horizon: r.now + config.DeleteRetention,
		aborted: r.m.aborted, last: r.m.last, kept: map[int64]bool{},
		stats: Stats{Tombstones: Tombstones{}},
	}
	if !r.m.partly {
		r.f.alive, r.f.mapped = r.m.newest.sorted(), r.from
	}
	r.groups = groups(r.segs, end, config)
	r.result.End, r.m = end, nil
	if r.internal {
		r.s.mergeBytes = int(min(mergeBytes, config.MaxMessageBytes))
	}
	if end <= r.p.LogStart() {
		r.groups = nil
	}
}

// copyBatch is a step of the second pass.
func (r *round) copyBatch() (done bool, err error) {
	if len(r.groups) == 0 {
		r.finish()
		return true, nil
	}
	group := r.groups[0]
	if !r.begun {
		if err := r.s.begin(r.c, group); err != nil {
			return false, err
		}
		r.begun, r.at = true, 0
		r.r.open(group[0])
	}
	b, err := r.r.next()
	switch {
	case err != nil:
		return false, err
	case b != nil:
		r.work += b.Size()
		return false, r.copyOne(b, group)
	case r.at+1 < len(group):
		r.at++
		r.r.open(group[r.at])
		return false, nil
	}
	return false, r.endGroup(group)
}

func (r *round) copyOne(b record.Batch, group []*log.CleanSegment) error {
	out, err := r.f.batch(b, b.NextOffset() == group[len(group)-1].NextOffset)
	if err != nil {
		return err
	}
	if out == nil {
		return r.s.drop()
	}
	r.work += out.Size()
	return r.s.add(out, &out[0] != &b[0])
}

func (r *round) endGroup(group []*log.CleanSegment) error {
	before := int64(0)
	for _, s := range group {
		before += s.Bytes
	}
	if err := r.s.flush(); err != nil {
		return err
	}
	after := before
	if r.s.out != nil {
		after = r.s.out.Bytes()
	}
	replaced, err := r.s.end()
	if err != nil {
		return err
	}
	if replaced {
		r.result.BytesAfter += after - before
		r.result.SegmentsAfter -= len(group) - 1
		r.result.Replaced++
	}
	r.begun, r.groups = false, r.groups[1:]
	return nil
}

func (r *round) finish() {
	r.result.Stats = r.f.stats
	if r.f.end > r.from {
		r.p.SetCleanerCheckpoint(r.f.end)
	}
}

// close gives everything back, whether the round is over or not.
func (r *round) close() {
	r.s.abandon()
	r.c.End()
}
