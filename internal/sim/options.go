package sim

import (
	"fmt"
	"math/rand/v2"

	"github.com/kcoord/kcoord/broker"
	"github.com/kcoord/kcoord/internal/history"
	"github.com/kcoord/kcoord/log/vfs"
)

// Options say what a run is like.
type Options struct {
	Seed   uint64
	Events int // how many events before the faults stop; default 2000
	// Trace, if set, is told what happens.
	Trace func(line string)
	// History, if set, is told of every commit and fetch of a committed offset.
	History *history.History
	// Sabotage is what is wrong on purpose.
	Sabotage Sabotage
}

// Sabotage makes the broker, or what it stands on, wrong in one way, to see
// whether a checker notices. The zero value changes nothing.
type Sabotage struct {
	// Options changes what the broker is made of.
	Options func(o *broker.Options)
	// Made is given each new broker before it starts.
	Made func(b *broker.Broker)
	// Files wraps the disk.
	Files func(fs vfs.FS) vfs.FS
	// Asleep names a loop that is never called.
	Asleep func(loop string) bool
	// Untold: the broker is never told that an event loop turns to a connection, nor that
	// it has gone through its input.
	Untold bool
	// Early sends answers of an API before what they depend on is durable.
	Early func(key int16) bool
	// Incoming may change a request (without its length prefix).
	Incoming func(key int16, frame []byte)
	// Outgoing may change, repeat or drop answers: it is given all that are on their
	// way to one client, the newest last, each time there is a new one.
	Outgoing func(answers [][]byte) [][]byte
}

// A mix is who takes part in a run and how the broker is set up: drawn from the
// seed, so that runs differ in kind and not only in chance.
type mix struct {
	partitions       int // of the offsets topic: groups share shards
	groups, members  int // groups, and members of each
	writers          int // who commit without membership
	producers        int
	consumers        int
	admins           int
	journalFile      int64 // bytes: small ones are left and recycled within a run
	reserve          int64 // bytes of disk kept free
	calmness         int   // a fault in so many events
	initialDelay     int64 // ms
	checkpointMillis int64
}

func drawMix(r *rand.Rand) mix {
	pick := func(values ...int) int { return values[r.IntN(len(values))] }
	return mix{
		partitions: pick(1, 3, 3, 5),
		groups:     pick(1, 1, 2, 2), members: pick(1, 2, 3, 3, 4),
		writers: pick(0, 1, 1, 2), producers: pick(0, 1, 2, 3), consumers: pick(0, 1, 1, 2), admins: pick(0, 1, 1),
		journalFile: int64(pick(64, 64, 128, 256, 1024)) << 10, reserve: int64(pick(0, 0, 1<<20)),
		calmness: pick(60, 150, 150, 300), initialDelay: int64(pick(0, 0, 0, 300)), checkpointMillis: int64(pick(500, 2000, 2000, 10000)),
	}
}

// properties are the broker's settings.
func (m mix) properties() map[string]string {
	return map[string]string{
		"offsets.topic.num.partitions":     fmt.Sprint(m.partitions),
		"group.initial.rebalance.delay.ms": fmt.Sprint(m.initialDelay),
		"group.min.session.timeout.ms":     "100",
		"kcoord.checkpoint.interval.ms":    fmt.Sprint(m.checkpointMillis),
		"kcoord.journal.file.bytes":        fmt.Sprint(m.journalFile),
		"kcoord.disk.reserve.bytes":        fmt.Sprint(m.reserve),
		"auto.create.topics.enable":        "false",
	}
}
