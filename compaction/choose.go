package compaction

import (
	"errors"
	"time"

	"github.com/kcoord/kcoord/log"
)

// surveyAfter is how long a partition must be quiet before its delete horizons
// are looked up for the first time.
const surveyAfter = time.Minute

// choose looks at all partitions and begins a round on the one that needs it
// most, if any does.
func (c *Cleaner) choose(mono time.Duration, wall int64) (next time.Duration, err error) {
	l := look{c: c, mono: mono, wall: wall, next: c.o.Backoff}
	for _, st := range c.states {
		st.seen = false
	}
	c.o.Partitions(func(p *log.Partition) bool {
		l.partition(p)
		return true
	})
	if l.failedRoll != nil {
		return 0, l.failedRoll
	}
	for p, st := range c.states {
		if !st.seen {
			delete(c.states, p)
		}
	}
	if l.best != nil {
		return l.start(l.best)
	}
	if mono < c.ratio {
		return min(l.next, c.ratio-mono), nil
	}
	if err := l.startDirtiest(); err != nil || c.round != nil {
		return 0, err
	}
	c.ratio = mono + c.o.Backoff
	return l.next, nil
}

// look is one pass over all partitions.
type look struct {
	c    *Cleaner
	mono time.Duration
	wall int64

	best   *log.Partition // with counted bytes
	dead   int64          // its dead bytes
	survey bool           // only its delete horizons are to be looked up
	others []*log.Partition
	next   time.Duration
	// failedRoll is a final error of rollOld.
	failedRoll error
}

func (l *look) partition(p *log.Partition) {
	if !p.Topic().Config.Compact || p.Err() != nil {
		return
	}
	st := l.c.states[p]
	if st == nil {
		st = &state{end: -1}
		l.c.states[p] = st
	}
	st.seen = true
	if end := p.LogEnd(); end != st.end {
		st.end, st.written = end, l.mono
	}
	live := l.c.o.Live(p)
	switch {
	case live.NotReady || l.mono < st.retry:
	case !live.Counted:
		l.rollOld(p)
		l.others = append(l.others, p)
		return
	case st.waitFor > p.RecoveryPoint():
		l.next = min(l.next, waitPause)
		return
	default:
		dead := l.wants(p, st, live)
		unknown := st.tombstones == nil && l.mono-st.written >= surveyAfter && p.ActiveSize() < p.Size()
		if dead > l.dead || (l.best == nil && unknown) {
			l.best, l.dead, l.survey = p, dead, dead == 0
		}
	}
	l.next = min(l.next, lookPause)
}

// rollOld closes the active segment of a topic whose records have to be compacted
// by now (max.compaction.lag.ms), so that a round may take them once a checkpoint
// has passed it. Appends roll by the same rule; this is for a log that gets none.
func (l *look) rollOld(p *log.Partition) {
	lag := p.Topic().Config.MaxCompactionLag
	if lag >= l.wall {
		return
	}
	if _, err := p.RollBefore(l.wall - lag); err != nil {
		l.failedRoll = errors.Join(l.failedRoll, l.failed(p, err))
	}
}

// wants returns how many bytes a round would free, about; 0: none is needed.
func (l *look) wants(p *log.Partition, st *state, live Live) int64 {
	if st.waitFor > 0 {
		return max(1, p.Size()-live.Bytes) // it was rolled for this
	}
	all := max(0, p.Size()-live.Bytes)
	st.floor = min(st.floor, all)
	dead, quiet := all-st.floor, l.mono-st.written
	expired, oldest := st.tombstones.expired(l.wall)
	switch {
	case dead > live.Bytes+busySlack,
		quiet >= quietAfter && dead > live.Bytes/2+quietSlack,
		expired > 0 && (expired*4 >= live.Bytes || l.wall-oldest > day):
		return max(dead, 1)
	}
	return 0
}

// start rolls the active segment of a partition with counted bytes, or begins its
// round.
func (l *look) start(p *log.Partition) (next time.Duration, err error) {
	st := l.c.states[p]
	live := l.c.o.Live(p)
	if st.waitFor == 0 && !l.survey {
		rolled, err := p.RollActive(rollBytes)
		if err != nil {
			return waitPause, l.failed(p, err)
		}
		if rolled {
			st.waitFor = p.HighWatermark()
			return 0, nil // others may want to be rolled before the same checkpoint
		}
	}
	st.waitFor = 0
	cleaning, err := p.BeginCleaning()
	if err != nil || cleaning == nil {
		return waitPause, l.failed(p, err)
	}
	segs := cleanable(p, cleaning.Segments(), l.wall)
	expired, _ := st.tombstones.expired(l.wall)
	if from := p.CleanerCheckpoint(); !l.survey && expired == 0 && (len(segs) == 0 || segs[len(segs)-1].NextOffset <= from) {
		// All that is dead lies in the active segment, which is small.
		cleaning.End()
		st.floor = max(0, p.Size()-live.Bytes)
		return 0, nil
	}
	if l.survey {
		l.begin(newSurvey(p, cleaning, segs))
	} else {
		l.begin(newRound(p, cleaning, segs, true, l.wall, l.c.o.Tuning))
	}
	return 0, nil
}

func (l *look) begin(r *round) { l.c.round, l.c.begun = r, l.mono }

// failed notes that a partition cannot be looked at now; only a final error is
// returned.
func (l *look) failed(p *log.Partition, err error) error {
	if log.IsFinal(err) {
		return err
	}
	st := l.c.states[p]
	st.pause = min(max(2*st.pause, firstPause), longestPause)
	st.retry = l.mono + st.pause
	if err != nil && l.c.o.Done != nil {
		l.c.o.Done(Result{Partition: p, Err: err})
	}
	return nil
}

// startDirtiest begins a round on the topic partition with the highest dirty
// ratio, if one is due (Kafka's rule).
func (l *look) startDirtiest() error {
	var best *log.Cleaning
	var bestOf *log.Partition
	var bestSegs []*log.CleanSegment
	highest := -1.0
	for _, p := range l.others {
		cleaning, err := p.BeginCleaning()
		if err != nil || cleaning == nil {
			if err := l.failed(p, err); err != nil {
				return err
			}
			continue
		}
		segs := cleanable(p, cleaning.Segments(), l.wall)
		ratio, due := dirty(p, segs, l.wall)
		if !due || ratio <= highest {
			cleaning.End()
			continue
		}
		if best != nil {
			best.End()
		}
		best, bestOf, bestSegs, highest = cleaning, p, segs, ratio
	}
	if best != nil {
		l.begin(newRound(bestOf, best, bestSegs, false, l.wall, l.c.o.Tuning))
	}
	return nil
}

// cleanable cuts the segments off that must not be touched yet: from the first
// dirty one on that is younger than min.compaction.lag.ms. (Records of open
// transactions end the round when the first pass meets them.)
func cleanable(p *log.Partition, segs []*log.CleanSegment, wall int64) []*log.CleanSegment {
	from, config := p.CleanerCheckpoint(), p.Topic().Config
	for i, s := range segs {
		if config.MinCompactionLag > 0 && s.NextOffset > from && s.LargestTimestamp > wall-config.MinCompactionLag {
			return segs[:i]
		}
	}
	return segs
}

// dirty returns the dirty ratio and whether a round is due: the ratio exceeds
// min.cleanable.dirty.ratio, or what is dirty is older than
// max.compaction.lag.ms.
func dirty(p *log.Partition, segs []*log.CleanSegment, wall int64) (ratio float64, due bool) {
	from, config := p.CleanerCheckpoint(), p.Topic().Config
	clean, todo, first := int64(0), int64(0), int64(-1)
	for _, s := range segs {
		if s.NextOffset <= from {
			clean += s.Bytes
			continue
		}
		if todo += s.Bytes; first < 0 {
			first = s.FirstTimestamp
		}
	}
	if todo == 0 {
		return 0, false
	}
	ratio = float64(todo) / float64(clean+todo)
	return ratio, ratio > config.MinCleanableRatio || first >= 0 && wall-first > config.MaxCompactionLag
}
