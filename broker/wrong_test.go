package broker_test

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/broker"
	"github.com/kcoord/kcoord/coordinator"
	"github.com/kcoord/kcoord/internal/sim"
	"github.com/kcoord/kcoord/log/record"
	"github.com/kcoord/kcoord/log/vfs"
)

// wrong are brokers that are wrong in one way each, and the checkers of the
// simulator one of which has to notice before all others do.
var wrong = []struct {
	name     string
	sabotage func() sim.Sabotage
	checkers []string
}{
	{"answers before the sync", early(nil), []string{"offsets", "assignments", "generations", "records", "topics", "members"}},
	{"commits are answered before the sync", early([]int16{8}), []string{"offsets"}},
	{"offsets are shown before they are durable", early([]int16{9}), []string{"offsets"}},
	{"records are acknowledged before they are durable", early([]int16{0}), []string{"records"}},
	{"the disk only says that it has synced", func() sim.Sabotage { return sim.Sabotage{Files: lyingDisk} }, []string{"offsets", "records", "broker", "generations", "topics"}},
	{"answers leave in another order", outgoing(swapped), []string{"order"}},
	{"a request is answered twice", outgoing(doubled), []string{"order"}},
	{"the timers sleep", func() sim.Sabotage { return sim.Sabotage{Asleep: func(loop string) bool { return loop == "timers" }} }, []string{"forgotten", "settling", "sessions"}},
	{"the end of an event loop's input is not told", func() sim.Sabotage { return sim.Sabotage{Untold: true} }, []string{"forgotten", "settling"}},
	{"session timers are lost", step(withoutTimers(coordinator.TimerSession)), []string{"sessions"}},
	{"rebalance timers are lost", step(withoutTimers(coordinator.TimerJoin)), []string{"forgotten", "settling", "sessions"}},
	{"a parked JoinGroup is forgotten", step(forgetJoin), []string{"forgotten", "settling"}},
	{"heartbeats of an old generation are served", step(oldHeartbeat), []string{"generations"}},
	{"commits of an old generation are acknowledged", step(oldCommit), []string{"generations", "offsets"}},
	{"every second rebalance keeps the generation", step(lazyGenerations()), []string{"assignments", "generations", "owners"}},
	{"the assignment changes within a generation", step(rewriteAssignment), []string{"assignments"}},
	{"two members are told the same assignment", step(sameAssignment), []string{"owners"}},
	{"member ids come again", step(sameIDs), []string{"members"}},
	{"a replaced member is still served", step(neverFenced), []string{"members", "generations"}},
	{"offsets of an active group expire", step(expireActive), []string{"offsets"}},
	{"tombstones are not written", step(withoutTombstones), []string{"offsets", "replay"}},
	{"a replay ignores tombstones", func() sim.Sabotage {
		return sim.Sabotage{Made: func(b *broker.Broker) { b.Misreplay(ignoreTombstones) }}
	}, []string{"offsets", "replay"}},
	{"a replay loses some offsets", func() sim.Sabotage {
		return sim.Sabotage{Made: func(b *broker.Broker) { b.Misreplay(loseSome) }}
	}, []string{"offsets", "replay"}},
	{"producers are not told from one another", func() sim.Sabotage { return sim.Sabotage{Incoming: anonymous} }, []string{"records"}},
}

// TestWrongBrokersAreCaught runs seeds on each wrong broker until a checker
// notices.
func TestWrongBrokersAreCaught(t *testing.T) {
	const seeds = 60
	for _, w := range wrong {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			var others []error
			for seed := uint64(1); seed <= seeds; seed++ {
				_, err := sim.Run(sim.Options{Seed: seed, Sabotage: w.sabotage()})
				if err == nil {
					continue
				}
				var v *sim.Violation
				if errors.As(err, &v) && slices.Contains(w.checkers, v.Checker) {
					t.Logf("%v", err)
					return
				}
				others = append(others, err)
			}
			t.Errorf("in %d runs none of %v noticed; others did: %v", seeds, w.checkers, errors.Join(others...))
		})
	}
}

// early sends the answers of some APIs, nil: of all, at once.
func early(keys []int16) func() sim.Sabotage {
	return func() sim.Sabotage {
		return sim.Sabotage{Early: func(key int16) bool { return keys == nil || slices.Contains(keys, key) }}
	}
}

func outgoing(change func(answers [][]byte) [][]byte) func() sim.Sabotage {
	return func() sim.Sabotage { return sim.Sabotage{Outgoing: change} }
}

// swapped lets the newest answer overtake the one before.
func swapped(answers [][]byte) [][]byte {
	if n := len(answers); n > 1 {
		answers[n-2], answers[n-1] = answers[n-1], answers[n-2]
	}
	return answers
}

// doubled repeats an answer that has not been read yet.
func doubled(answers [][]byte) [][]byte {
	return append(answers, answers[len(answers)-1])
}

// lyingDisk does not sync files.
func lyingDisk(fs vfs.FS) vfs.FS { return liar{fs} }

type liar struct{ vfs.FS }

func (l liar) Open(name string, flag vfs.OpenFlag) (vfs.File, error) {
	f, err := l.FS.Open(name, flag)
	return lyingFile{f}, err
}

type lyingFile struct{ vfs.File }

func (lyingFile) Sync() error     { return nil }
func (lyingFile) Datasync() error { return nil }

// anonymous takes the producer's id out of a batch that is produced, wherever
// that is in the request, and makes its checksum right again.
func anonymous(key int16, frame []byte) {
	if key != 0 {
		return
	}
	for at := 0; at+record.HeaderSize <= len(frame); at++ {
		b := record.Batch(frame[at:])
		if b.Magic() != 2 || b.Size() < record.HeaderSize || b.Size() > int64(len(b)) {
			continue
		}
		if b = b[:b.Size()]; b.CRC() != b.ComputeCRC() {
			continue
		}
		const producerID, producerEpoch, baseSequence = 43, 51, 53
		binary.BigEndian.PutUint64(b[producerID:], 1<<64-1)
		binary.BigEndian.PutUint16(b[producerEpoch:], 1<<16-1)
		binary.BigEndian.PutUint32(b[baseSequence:], 1<<32-1)
		b.SetCRC()
		return
	}
}

// A misstep is what is wrong with a coordinator's steps.
type misstep func(right broker.Step) broker.Step

func step(wrong misstep) func() sim.Sabotage {
	return func() sim.Sabotage {
		return sim.Sabotage{Made: func(b *broker.Broker) { b.Misstep(wrong) }}
	}
}

// after changes what comes out of a step.
func after(change func(ev *coordinator.Event, out *coordinator.Result)) misstep {
	return func(right broker.Step) broker.Step {
		return func(core *coordinator.Shard, ev *coordinator.Event, out *coordinator.Result) {
			right(core, ev, out)
			change(ev, out)
		}
	}
}

// withoutTimers never sets timers of a kind.
func withoutTimers(kind coordinator.TimerKind) misstep {
	return after(func(_ *coordinator.Event, out *coordinator.Result) {
		out.Timers = slices.DeleteFunc(out.Timers, func(t coordinator.Timer) bool { return t.Key.Kind == kind && !t.Cancel })
	})
}

// forgetJoin leaves one of several members that wait for a rebalance waiting.
func forgetJoin(right broker.Step) broker.Step {
	return after(func(_ *coordinator.Event, out *coordinator.Result) {
		joins := 0
		for i := range out.Replies {
			if _, ok := out.Replies[i].Response.(*kmsg.JoinGroupResponse); !ok {
				continue
			}
			if joins++; joins == 2 {
				out.Replies = slices.Delete(out.Replies, i, i+1)
				return
			}
		}
	})(right)
}

func oldHeartbeat(right broker.Step) broker.Step {
	return after(func(_ *coordinator.Event, out *coordinator.Result) {
		for i := range out.Replies {
			if r, ok := out.Replies[i].Response.(*kmsg.HeartbeatResponse); ok && r.ErrorCode == kerr.IllegalGeneration.Code {
				r.ErrorCode = 0
			}
		}
	})(right)
}

func neverFenced(right broker.Step) broker.Step {
	return after(func(_ *coordinator.Event, out *coordinator.Result) {
		for i := range out.Replies {
			r, ok := out.Replies[i].Response.(*kmsg.HeartbeatResponse)
			if ok && (r.ErrorCode == kerr.FencedInstanceID.Code || r.ErrorCode == kerr.UnknownMemberID.Code) {
				r.ErrorCode = 0
			}
		}
	})(right)
}

func oldCommit(right broker.Step) broker.Step {
	return after(func(_ *coordinator.Event, out *coordinator.Result) {
		for i := range out.Replies {
			r, ok := out.Replies[i].Response.(*kmsg.OffsetCommitResponse)
			if ok && r.Topics[0].Partitions[0].ErrorCode == kerr.IllegalGeneration.Code {
				r.Topics[0].Partitions[0].ErrorCode = 0
			}
		}
	})(right)
}

// lazyGenerations shows two generations under one number, as if only every second
// rebalance had a new one.
func lazyGenerations() misstep {
	return func(right broker.Step) broker.Step {
		newest := map[string]int32{} // by group: what was handed out last
		groups := map[coordinator.Token]string{}
		return func(core *coordinator.Shard, ev *coordinator.Event, out *coordinator.Result) {
			real := func(group string, shown *int32) {
				if now := newest[group]; *shown > 0 && (now+1)/2 == *shown {
					*shown = now
				}
			}
			if ev.Kind == coordinator.EventRequest {
				switch r := ev.Request.(type) {
				case *kmsg.JoinGroupRequest:
					groups[ev.Token] = string([]byte(r.Group)) // the request's memory is the network's
				case *kmsg.SyncGroupRequest:
					real(r.Group, &r.Generation)
				case *kmsg.HeartbeatRequest:
					real(r.Group, &r.Generation)
				case *kmsg.OffsetCommitRequest:
					real(r.Group, &r.Generation)
				}
			}
			right(core, ev, out)
			for i := range out.Replies {
				if r, ok := out.Replies[i].Response.(*kmsg.JoinGroupResponse); ok && r.Generation > 0 {
					newest[groups[out.Replies[i].Token]] = r.Generation
					r.Generation = (r.Generation + 1) / 2
				}
			}
		}
	}
}

// rewriteAssignment answers some SyncGroups with another leader's assignment.
func rewriteAssignment(right broker.Step) broker.Step {
	n := 0
	return after(func(_ *coordinator.Event, out *coordinator.Result) {
		for i := range out.Replies {
			r, ok := out.Replies[i].Response.(*kmsg.SyncGroupResponse)
			if !ok || len(r.MemberAssignment) == 0 {
				continue
			}
			if n++; n%5 == 0 {
				r.MemberAssignment = append([]byte("b"), r.MemberAssignment[1:]...)
			}
		}
	})(right)
}

// sameAssignment tells two who are answered together what the first one owns.
func sameAssignment(right broker.Step) broker.Step {
	return after(func(_ *coordinator.Event, out *coordinator.Result) {
		var first []byte
		for i := range out.Replies {
			r, ok := out.Replies[i].Response.(*kmsg.SyncGroupResponse)
			switch {
			case !ok || len(r.MemberAssignment) == 0:
			case first == nil:
				first = r.MemberAssignment
			default:
				r.MemberAssignment = first
			}
		}
	})(right)
}

// sameIDs makes ids without chance in them.
func sameIDs(right broker.Step) broker.Step {
	return func(core *coordinator.Shard, ev *coordinator.Event, out *coordinator.Result) {
		ev.Entropy = [16]byte{}
		right(core, ev, out)
	}
}

// expireActive removes the offsets of a topic now and then, whoever uses it.
func expireActive(right broker.Step) broker.Step {
	n := 0
	return func(core *coordinator.Shard, ev *coordinator.Event, out *coordinator.Result) {
		if _, ok := ev.Request.(*kmsg.HeartbeatRequest); ok && ev.Kind == coordinator.EventRequest {
			n++
		}
		if n == 0 || n%8 != 0 {
			right(core, ev, out)
			return
		}
		id, _, _ := ev.Topics.ByName("work")
		expiry := *ev
		expiry.Kind, expiry.Request, expiry.Deleted = coordinator.EventTopicsDeleted, nil, []coordinator.DeletedTopic{{Name: "work", ID: id}}
		var removed coordinator.Result
		right(core, &expiry, &removed)
		right(core, ev, out)
		out.Records = append(slices.Clone(removed.Records), out.Records...)
		out.Timers = append(slices.Clone(removed.Timers), out.Timers...)
	}
}

// unknownKey is the key of a record of a kind that a replay leaves out.
var unknownKey = []byte{0x7f, 0xff, 0, 0}

func withoutTombstones(right broker.Step) broker.Step {
	return after(func(_ *coordinator.Event, out *coordinator.Result) {
		for i := range out.Records {
			if out.Records[i].Value == nil {
				out.Records[i].Key, out.Records[i].Value = unknownKey, []byte{0}
			}
		}
	})(right)
}

func ignoreTombstones(right broker.Replay) broker.Replay {
	return func(core *coordinator.Shard, offset int64, key, value []byte) error {
		if value == nil {
			return nil
		}
		return right(core, offset, key, value)
	}
}

// loseSome leaves out one of five committed offsets.
func loseSome(right broker.Replay) broker.Replay {
	return func(core *coordinator.Shard, offset int64, key, value []byte) error {
		if offset%5 == 4 && len(key) > 1 && key[1] < 2 {
			return nil
		}
		return right(core, offset, key, value)
	}
}
