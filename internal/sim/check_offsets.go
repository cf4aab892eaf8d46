package sim

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/internal/history"
)

// A registerKey names one committed offset.
type registerKey struct {
	group, topic string
	partition    int32
}

func (k registerKey) String() string { return fmt.Sprintf("%s %s-%d", k.group, k.topic, k.partition) }

// registers are all committed offsets.
type registers struct {
	byKey map[registerKey]*register
	order []*register
}

// A register is one committed offset as clients know it: what they have tried
// to make of it. Each attempt has a value of its own, but for deletions, whose
// value reads as none.
//
// The checker keeps, for each attempt, from when on nobody can read it any more:
// since an attempt that came after it is known to have been done. An attempt comes
// after another if it was sent when the other had ended, or on the same
// connection later. An attempt without a known outcome ends when nothing can
// carry it out any more.
type register struct {
	key     registerKey
	tried   int64
	byValue map[int64]*attempt
	// live are the attempts that may still be read; among the others are none whose
	// value may be read, but by who asked before they went.
	live    []*attempt
	deleted []*attempt // all attempts whose value is none
}

type attempt struct {
	value      int64
	lane       lane
	start, end int // ticks; end 0: it may still be carried out
	refused    bool
	stale      int // tick since which it cannot be read any more; 0: it can
}

const none = history.None

func (w *World) register(key registerKey) *register {
	r := w.registers.byKey[key]
	if r == nil {
		initial := &attempt{value: none, end: 1, start: 1}
		r = &register{key: key, byValue: map[int64]*attempt{}, live: []*attempt{initial}, deleted: []*attempt{initial}}
		w.registers.byKey[key] = r
		w.registers.order = append(w.registers.order, r)
	}
	return r
}

// propose notes an attempt to commit a new value that c is about to make.
func (r *register) propose(w *World, c *client) *attempt {
	r.tried++
	a := &attempt{value: r.tried, lane: c.lane, start: w.tick()}
	r.byValue[a.value] = a
	r.live = append(r.live, a)
	return a
}

// proposeDelete notes an attempt to delete.
func (r *register) proposeDelete(w *World, c *client) *attempt {
	a := &attempt{value: none, lane: c.lane, start: w.tick()}
	r.deleted = append(r.deleted, a)
	r.live = append(r.live, a)
	return a
}

// ended notes what an answer says of an attempt.
func (r *register) ended(w *World, a *attempt, code int16) {
	outcome := history.Unknown
	now := w.tick()
	switch kerr.ErrorForCode(code) {
	case nil:
		outcome = history.Done
		a.end = now
		r.overwrite(a, 0, now)
	case kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.FencedInstanceID, kerr.RebalanceInProgress, kerr.NonEmptyGroup,
		kerr.GroupIDNotFound, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID:
		outcome = history.Refused
		a.refused, a.stale = true, a.start
		r.forget()
	case kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.NotCoordinator:
		// It may have been applied.
	default:
		w.violated(checkErrors, "%v: %v", r.key, kerr.ErrorForCode(code))
	}
	r.note(w, a, outcome, now)
}

// lost notes that an attempt's answer will not come.
func (r *register) lost(w *World, a *attempt) { r.note(w, a, history.Unknown, w.tick()) }

func (r *register) note(w *World, a *attempt, outcome history.Outcome, now int) {
	if h := w.options.History; h != nil {
		h.Commit(0, r.key.String(), a.value, int64(a.start), int64(now), outcome)
	}
}

// overwrite notes that from now on nobody reads what comes before a, which has
// been done. A reader who asked at a time and saw a tells more: what had ended
// before is gone.
func (r *register) overwrite(a *attempt, asked, now int) {
	for _, k := range r.live {
		before := k.end != 0 && k.end < max(a.start, asked) || k.lane == a.lane && k.start < a.start
		if k != a && before {
			k.stale = now
		}
	}
	r.forget()
}

// forget takes stale attempts out of live.
func (r *register) forget() {
	kept := r.live[:0]
	for _, k := range r.live {
		if k.stale == 0 {
			kept = append(kept, k)
		}
	}
	clear(r.live[len(kept):])
	r.live = kept
}

// observed checks a value that was read by a request sent at tick asked.
func (r *register) observed(w *World, value int64, asked int) {
	now := w.tick()
	if h := w.options.History; h != nil {
		h.Fetch(1, r.key.String(), value, int64(asked), int64(now))
	}
	if value == none {
		r.observedNone(w, asked, now)
		return
	}
	switch a := r.byValue[value]; {
	case a == nil:
		w.violated(checkOffsets, "%v: %d was read, which nobody committed", r.key, value)
	case a.refused:
		w.violated(checkOffsets, "%v: %d was read, whose commit was refused", r.key, value)
	case a.stale != 0 && a.stale < asked:
		w.violated(checkOffsets, "%v: %d was read, which had been overwritten; %s", r.key, value, r.expected())
	default:
		if a.end == 0 {
			a.end = now
		}
		r.overwrite(a, asked, now)
	}
}

func (r *register) observedNone(w *World, asked, now int) {
	var seen []*attempt
	for _, a := range r.deleted {
		if !a.refused && (a.stale == 0 || a.stale >= asked) {
			seen = append(seen, a)
		}
	}
	if len(seen) == 0 {
		w.violated(checkOffsets, "%v: nothing was read; %s", r.key, r.expected())
	}
	if len(seen) == 1 {
		if seen[0].end == 0 {
			seen[0].end = now
		}
		r.overwrite(seen[0], asked, now)
		return
	}
	for _, k := range r.live {
		if k.value != none && k.end != 0 && k.end < asked {
			k.stale = now
		}
	}
	r.forget()
}

func (r *register) expected() string {
	var values []int64
	for _, k := range r.live {
		values = append(values, k.value)
	}
	return fmt.Sprintf("possible were %v", values)
}

// closed notes that a connection is gone: commits that came with it and have
// not been carried out never will be. (A deletion may wait for its worker.)
func (rs *registers) closed(w *World, l lane) {
	now := w.tick()
	for _, r := range rs.order {
		for _, k := range r.live {
			if k.lane == l && k.end == 0 && k.value != none {
				k.end = now
			}
		}
	}
}

// restarted notes that a new process runs: what the old one has not carried out
// never will be.
func (rs *registers) restarted(w *World) {
	now := w.tick()
	for _, r := range rs.order {
		for _, k := range r.live {
			if k.end == 0 {
				k.end = now
			}
		}
	}
}

// commitRequest commits one offset.
func commitRequest(w *World, key registerKey, value int64) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	w.anyVersion(req)
	req.Group, req.Generation = key.group, -1
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.TopicID = key.topic, w.topicIDs[key.topic]
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.Metadata = key.partition, value, kmsg.StringPtr(fmt.Sprint("m", value))
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// committed is what an answer says of one commit.
func (r *register) committed(w *World, a *attempt, resp kmsg.Response) int16 {
	if resp == nil {
		r.lost(w, a)
		return 0
	}
	code := resp.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
	r.ended(w, a, code)
	if code == 0 {
		w.succeed("OffsetCommit")
	}
	return code
}

// fetchOffset reads one committed offset and checks it, then calls done.
func fetchOffset(w *World, c *client, key registerKey, done func(offset int64, ok bool)) {
	req := kmsg.NewPtrOffsetFetchRequest()
	w.anyVersion(req)
	req.Group = key.group
	t := kmsg.NewOffsetFetchRequestTopic()
	t.Topic, t.Partitions = key.topic, []int32{key.partition}
	req.Topics = append(req.Topics, t)
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = key.group
	gt := kmsg.NewOffsetFetchRequestGroupTopic()
	gt.Topic, gt.TopicID, gt.Partitions = key.topic, w.topicIDs[key.topic], []int32{key.partition}
	g.Topics = append(g.Topics, gt)
	req.Groups = append(req.Groups, g)
	c.call(req, func(resp kmsg.Response) {
		if resp == nil {
			done(none, false)
			return
		}
		done(fetched(w, key, resp.(*kmsg.OffsetFetchResponse)))
	})
}

// readRegister is fetchOffset of an offset that is checked.
func readRegister(w *World, c *client, key registerKey, done func()) {
	asked := w.tick()
	fetchOffset(w, c, key, func(offset int64, ok bool) {
		if ok {
			w.register(key).observed(w, offset, asked)
		}
		done()
	})
}

// fetched takes an answer about one offset apart; false if it is an error.
func fetched(w *World, key registerKey, r *kmsg.OffsetFetchResponse) (offset int64, ok bool) {
	var (
		code int16
		meta *string
	)
	if r.GetVersion() >= 8 {
		if code = r.Groups[0].ErrorCode; code == 0 {
			p := r.Groups[0].Topics[0].Partitions[0]
			code, offset, meta = p.ErrorCode, p.Offset, p.Metadata
		}
	} else if code = r.ErrorCode; code == 0 {
		p := r.Topics[0].Partitions[0]
		code, offset, meta = p.ErrorCode, p.Offset, p.Metadata
	}
	switch kerr.ErrorForCode(code) {
	case nil:
		w.succeed("OffsetFetch")
		if want := fmt.Sprint("m", offset); offset != none && (meta == nil || *meta != want) {
			w.violated(checkOffsets, "%v: offset %d came with metadata %v", key, offset, meta)
		}
		return offset, true
	case kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.NotCoordinator:
	default:
		w.violated(checkErrors, "OffsetFetch of %v: %v", key, kerr.ErrorForCode(code))
	}
	return none, false
}
