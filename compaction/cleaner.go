package compaction

import (
	"errors"
	"io/fs"
	"time"

	"github.com/kcoord/kcoord/log"
)

const (
	// DefaultMapBytes is log.cleaner.dedupe.buffer.size.
	DefaultMapBytes = 128 << 20
	// DefaultIOBufferBytes is log.cleaner.io.buffer.size.
	DefaultIOBufferBytes = 512 << 10
	// DefaultLoadFactor is log.cleaner.io.buffer.load.factor.
	DefaultLoadFactor = 0.9
	// DefaultBackoff is log.cleaner.backoff.ms: the pause between two looks at
	// topics that follow the dirty ratio.
	DefaultBackoff = 15 * time.Second

	// stepBytes is about how much one step reads and writes.
	stepBytes = 512 << 10
	// lookPause is the time between two looks at partitions with counted bytes.
	lookPause = time.Second
	// waitPause is the same while a checkpoint is awaited.
	waitPause = 100 * time.Millisecond
	// quietAfter is how long nothing must have been written for the stricter rule.
	quietAfter = 2 * time.Second
	// rollBytes is the least size of an active segment that is closed for cleaning.
	rollBytes = 64 << 10
	// busySlack and quietSlack are dead bytes that are left alone.
	busySlack, quietSlack = 4 << 20, 64 << 10
	// firstPause and longestPause bound the pause after errors.
	firstPause, longestPause = 15 * time.Second, 10 * time.Minute
	// day is how long an expired delete horizon is left alone at most, ms.
	day = 24 * 60 * 60 * 1000
)

// Live is what a partition's owner knows about it.
type Live struct {
	// Counted: Bytes is known. Otherwise the dirty ratio decides.
	Counted bool
	// Bytes of the newest values and the tombstones, without batch headers.
	Bytes int64
	// NotReady: the partition is being loaded and must not be cleaned.
	NotReady bool
}

// Options are what a Cleaner needs. Partitions is required.
type Options struct {
	// Partitions calls f for every partition until f returns false.
	Partitions func(f func(p *log.Partition) bool)
	// Live tells what the owner of a partition knows; nil: nobody counts.
	Live func(p *log.Partition) Live
	// Done is told the outcome of each round; nil: nobody is.
	Done func(r Result)

	Tuning
}

// Tuning are the settings that may change while a Cleaner works.
type Tuning struct {
	MapBytes       int           // log.cleaner.dedupe.buffer.size; 0: DefaultMapBytes
	LoadFactor     float64       // log.cleaner.io.buffer.load.factor, how full the map gets; 0: DefaultLoadFactor
	IOBufferBytes  int           // log.cleaner.io.buffer.size, half of it for reading; 0: DefaultIOBufferBytes
	BytesPerSecond int64         // log.cleaner.io.max.bytes.per.second, reads and writes; 0: unlimited
	Backoff        time.Duration // log.cleaner.backoff.ms; 0: DefaultBackoff
}

func (t Tuning) withDefaults() Tuning {
	if t.MapBytes == 0 {
		t.MapBytes = DefaultMapBytes
	}
	if t.LoadFactor <= 0 {
		t.LoadFactor = DefaultLoadFactor
	}
	if t.IOBufferBytes <= 0 {
		t.IOBufferBytes = DefaultIOBufferBytes
	}
	if t.Backoff == 0 {
		t.Backoff = DefaultBackoff
	}
	return t
}

// Result is the outcome of a round.
type Result struct {
	Partition *log.Partition
	// From is where the part that no round had covered began, End where this one
	// ended.
	From, End                     int64
	BytesBefore, BytesAfter       int64 // of the segments looked at
	SegmentsBefore, SegmentsAfter int
	Replaced                      int // outputs that were installed
	Stats
	Took time.Duration
	// Err: the round was given up. The partition is tried again after a pause.
	// log.ErrChanged is no fault: it was deleted or shortened meanwhile.
	Err error
}

// Cleaner cleans the logs of a store, one at a time. It has one owner.
type Cleaner struct {
	o      Options
	states map[*log.Partition]*state
	round  *round
	begun  time.Duration // monotonic clock when the round began
	ratio  time.Duration // when topics with a dirty ratio are looked at again
}

// state is what is remembered of a partition.
type state struct {
	seen bool // in the present look
	// end and written tell since when nothing was written.
	end     int64
	written time.Duration
	// waitFor is the offset that the recovery point must reach first, 0: none.
	waitFor int64
	// floor are dead bytes that the last round could not remove.
	floor int64
	// tombstones are those that the last round kept; nil: not known yet.
	tombstones Tombstones
	retry      time.Duration // not before
	pause      time.Duration // after the last error; 0: none
}

// New returns a cleaner.
func New(o Options) *Cleaner {
	o.Tuning = o.withDefaults()
	if o.Live == nil {
		o.Live = func(*log.Partition) Live { return Live{} }
	}
	return &Cleaner{o: o, states: map[*log.Partition]*state{}}
}

// Tune changes the settings; a round that is under way keeps its map and buffer.
func (c *Cleaner) Tune(t Tuning) { c.o.Tuning = t.withDefaults() }

// Step does a piece of work: chooses a partition, or goes on with the round that
// is under way. next says when to call again (0: at once). mono is the monotonic
// clock, wall the time in Unix ms. An error must end the process; whatever else
// goes wrong is in a Result.
func (c *Cleaner) Step(mono time.Duration, wall int64) (next time.Duration, err error) {
	if c.round == nil {
		if next, err = c.choose(mono, wall); err != nil || c.round == nil {
			return next, err
		}
	}
	r := c.round
	before := r.work
	done, err := r.step(c.budget())
	if done || err != nil {
		c.close(mono, err)
	}
	if err != nil && log.IsFinal(err) {
		return 0, err
	}
	if c.o.BytesPerSecond > 0 {
		return time.Duration(float64(r.work-before) / float64(c.o.BytesPerSecond) * float64(time.Second)), nil
	}
	return 0, nil
}

// budget is the size of a step: under a throttle at most 300 ms' worth.
func (c *Cleaner) budget() int64 {
	if limit := c.o.BytesPerSecond * 3 / 10; limit > 0 {
		return min(stepBytes, limit)
	}
	return stepBytes
}

// close ends the round under way.
func (c *Cleaner) close(mono time.Duration, err error) {
	r := c.round
	r.close()
	c.round = nil
	st := c.states[r.p]
	r.result.Took, r.result.Err = mono-c.begun, err
	switch {
	case isGone(err):
		st.retry = mono + firstPause
		r.result.Err = log.ErrChanged
	case err != nil:
		st.pause = min(max(2*st.pause, firstPause), longestPause)
		st.retry = mono + st.pause
	default:
		st.pause = 0
		st.tombstones = r.result.Tombstones
		if r.survey {
			return
		}
		st.floor = 0
		if r.result.Replaced == 0 && r.result.End <= r.result.From {
			st.retry = mono + c.o.Backoff
		}
	}
	if c.o.Done != nil {
		c.o.Done(r.result)
	}
	if live := c.o.Live(r.p); err == nil && live.Counted {
		// What is left counts as dead, though no round can remove it now. Done may
		// have told the owner which tombstones are gone.
		st.floor = max(0, r.p.Size()-live.Bytes)
	}
}

// isGone reports whether a round ended because its partition was deleted or
// shortened meanwhile: nothing is wrong then.
func isGone(err error) bool {
	return errors.Is(err, log.ErrChanged) || errors.Is(err, fs.ErrNotExist)
}

// Close gives up the round under way. Nothing of it stays but what was installed.
func (c *Cleaner) Close() {
	if c.round != nil {
		c.round.close()
		c.round = nil
	}
}
