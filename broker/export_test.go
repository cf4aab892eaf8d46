package broker

import "github.com/kcoord/kcoord/coordinator"

// A Step is how the coordinator is given an event, a Replay how it is given a
// record at a start.
type (
	Step   func(core *coordinator.Shard, ev *coordinator.Event, out *coordinator.Result)
	Replay func(core *coordinator.Shard, offset int64, key, value []byte) error
)

// Misstep has every event of a broker that has not started go through wrong.
func (b *Broker) Misstep(wrong func(right Step) Step) { b.core.step = wrong(b.core.step) }

// Misreplay has every replayed record go through wrong.
func (b *Broker) Misreplay(wrong func(right Replay) Replay) { b.core.replay = wrong(b.core.replay) }
