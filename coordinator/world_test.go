package coordinator

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// startWall is the wall clock, in Unix milliseconds, at monotonic time 0.
const startWall = 1_700_000_000_000

// world is a shard with everything around it: clock, timers, log and metadata.
// Beside the shard runs a twin that gets the same events; after every step both
// must have done the same, and a third that replays the log must be what they are.
type world struct {
	t       testing.TB
	shard   *Shard
	twin    *Shard
	out     Result
	twinOut Result

	mono   time.Duration
	ids    uint64 // of generated member ids
	config *Config
	topics *fakeTopics
	log    []logRecord
	timers map[TimerKey]time.Duration
	tokens Token
	parked map[Token]kmsg.Request

	pieces      bool // work is left to settle
	replayEvery int  // steps between comparisons with a replay
	steps       int
}

type logRecord struct {
	offset     int64
	key, value []byte
}

// answer is a reply as the client decodes it.
type answer struct {
	token     Token
	resp      kmsg.Response
	dependsOn int64
}

func newWorld(t testing.TB) *world {
	w := &world{
		t:           t,
		config:      DefaultConfig(),
		topics:      &fakeTopics{},
		timers:      map[TimerKey]time.Duration{},
		parked:      map[Token]kmsg.Request{},
		replayEvery: 1,
	}
	w.restart()
	return w
}

// event fills in what every event has.
func (w *world) event(kind EventKind) Event {
	ev := Event{Kind: kind, Mono: w.mono, Wall: w.wall(), Config: w.config, Topics: w.topics}
	binary.BigEndian.PutUint64(ev.Entropy[8:], w.ids)
	return ev
}

func (w *world) wall() int64 { return startWall + w.mono.Milliseconds() }

// request sends a request through its encoding and returns what it caused to be
// answered. The bytes that the core saw are overwritten afterwards.
func (w *world) request(client Client, req kmsg.Request) (Token, []answer) {
	w.tokens++
	token := w.tokens
	if req.Key() == kmsg.JoinGroup.Int16() {
		w.ids++
	}
	wire := req.AppendTo(nil)
	one, frame := decode(w.t, req, wire)
	two, frame2 := decode(w.t, req, wire)
	ev := w.event(EventRequest)
	ev.Token = token
	ev.Client, ev.Request = scratchClient(client, frame), one
	ev2 := ev
	ev2.Request = two
	w.parked[token] = req
	answers := w.both(&ev, &ev2)
	scribble(frame)
	scribble(frame2)
	if !w.pieces {
		answers = append(answers, w.settle()...)
	}
	return token, answers
}

// refuse answers a request for a shard that cannot serve.
func (w *world) refuse(req kmsg.Request, code int16) []answer {
	one, frame := decode(w.t, req, req.AppendTo(nil))
	ev := w.event(EventRequest)
	ev.Request = one
	Refuse(&ev, code, &w.out)
	answers := w.answers(&w.out)
	scribble(frame)
	return answers
}

// scratchClient puts the client id into the frame's spare room, so that it is
// overwritten with it.
func scratchClient(c Client, frame []byte) Client {
	spare := frame[len(frame) : len(frame)+len(c.ID)]
	copy(spare, c.ID)
	return Client{ID: unsafeString(spare), Host: c.Host}
}

func decode(t testing.TB, req kmsg.Request, wire []byte) (kmsg.Request, []byte) {
	t.Helper()
	frame := append(make([]byte, 0, len(wire)+64), wire...)
	out := kmsg.RequestForKey(req.Key())
	out.SetVersion(req.GetVersion())
	if err := out.(interface{ UnsafeReadFrom([]byte) error }).UnsafeReadFrom(frame); err != nil {
		t.Fatalf("decoding %T v%d: %v", req, req.GetVersion(), err)
	}
	return out, frame
}

func scribble(frame []byte) {
	frame = frame[:cap(frame)]
	for i := range frame {
		frame[i] = 0xdb
	}
}

// both gives an event to the shard and its twin and takes up what it did.
func (w *world) both(ev, twin *Event) []answer {
	w.t.Helper()
	w.shard.Step(ev, &w.out)
	w.twin.Step(twin, &w.twinOut)
	return w.took()
}

func (w *world) step(ev *Event) []answer {
	twin := *ev
	return w.both(ev, &twin)
}

// took compares the two results and stores the records and timers.
func (w *world) took() []answer {
	w.t.Helper()
	answers, twins := w.answers(&w.out), w.answers(&w.twinOut)
	if a, b := fmt.Sprintf("%+v", resultText(&w.out)), fmt.Sprintf("%+v", resultText(&w.twinOut)); a != b {
		w.t.Fatalf("the twin differs:\n%s\n%s", a, b)
	}
	for i := range answers {
		a, b := &answers[i], &twins[i]
		if a.token != b.token || !bytes.Equal(a.resp.AppendTo(nil), b.resp.AppendTo(nil)) || a.dependsOn != b.dependsOn {
			w.t.Fatalf("the twin answers %+v, not %+v", b, a)
		}
		if a.dependsOn >= w.shard.NextOffset() {
			w.t.Fatalf("the answer depends on offset %d of %d", a.dependsOn, w.shard.NextOffset())
		}
		if w.parked[a.token] == nil {
			w.t.Fatalf("token %d is answered again or was never asked: %+v", a.token, a.resp)
		}
		delete(w.parked, a.token)
	}
	base := w.shard.NextOffset() - int64(len(w.out.Records))
	if n := len(w.log); n > 0 && len(w.out.Records) > 0 && w.log[n-1].offset >= base {
		w.t.Fatalf("offset %d follows %d", base, w.log[n-1].offset)
	}
	for i, r := range w.out.Records {
		w.log = append(w.log, logRecord{base + int64(i), bytes.Clone(r.Key), bytes.Clone(r.Value)})
	}
	w.takeTimers()
	w.check()
	return answers
}

func (w *world) takeTimers() {
	for _, t := range w.out.Timers {
		if t.Cancel {
			delete(w.timers, t.Key)
		} else {
			w.timers[t.Key] = t.Deadline
		}
	}
}

// check compares the shard with its own accounts, and with a replay of its log.
func (w *world) check() {
	w.t.Helper()
	for _, s := range []*Shard{w.shard, w.twin} {
		if err := s.Check(); err != nil {
			w.t.Fatal(err)
		}
	}
	parked := 0
	for _, g := range w.shard.groups {
		if c, ok := g.kind.(*classicGroup); ok {
			for m := c.first; m != nil; m = m.next {
				if m.joining.is {
					parked++
				}
				if m.syncing.is {
					parked++
				}
			}
		}
	}
	for _, j := range w.shard.jobs {
		if _, ok := j.(*deletion); ok {
			parked++
		}
	}
	if parked != len(w.parked) {
		w.t.Fatalf("%d requests wait for an answer, the shard knows of %d", len(w.parked), parked)
	}
	if w.steps++; w.steps%w.replayEvery == 0 {
		w.compareReplay()
	}
}

func (w *world) compareReplay() {
	w.t.Helper()
	s := w.replayed()
	live, again := w.shard.DurableState(), s.DurableState()
	if a, b := slices.Sorted(maps.Keys(live)), slices.Sorted(maps.Keys(again)); !slices.Equal(a, b) {
		w.t.Fatalf("groups are %q, after replay %q", a, b)
	}
	for id, text := range live {
		if after := again[id]; text != after && !rebalancing(text, after) {
			w.t.Fatalf("group %q is\n%s\nafter replay\n%s", id, text, after)
		}
	}
	if w.shard.Live() != s.Live() {
		w.t.Fatalf("live bytes are %+v, after replay %+v", w.shard.Live(), s.Live())
	}
}

// rebalancing reports whether two descriptions differ only because the first is of
// a group in the middle of a rebalance.
func rebalancing(live, after string) bool {
	const mark = "rebalancing\n"
	return len(live) >= len(mark) && live[:len(mark)] == mark && offsetsOnly(live) == offsetsOnly(after)
}

func offsetsOnly(text string) (out string) {
	for line := range bytes.Lines([]byte(text)) {
		if bytes.HasPrefix(line, []byte("offset ")) {
			out += string(line)
		}
	}
	return out
}

func (w *world) replayed() *Shard {
	w.t.Helper()
	s := NewShard(0)
	for _, r := range w.log {
		if err := s.Replay(r.offset, r.key, r.value); err != nil {
			w.t.Fatal(err)
		}
	}
	return s
}

// restart is a crash: what is not in the log is gone, clients included.
func (w *world) restart() {
	w.t.Helper()
	clear(w.timers)
	clear(w.parked)
	w.shard, w.twin = w.replayed(), w.replayed()
	if n := len(w.log); n > 0 {
		w.shard.SetNextOffset(w.log[n-1].offset + 1)
		w.twin.SetNextOffset(w.log[n-1].offset + 1)
	}
	ev, ev2 := w.event(EventTimer), w.event(EventTimer)
	w.shard.Loaded(&ev, &w.out)
	w.twin.Loaded(&ev2, &w.twinOut)
	w.took()
}

// compact drops records that a later one of the same key supersedes, and
// tombstones.
func (w *world) compact() {
	newest := map[string]int64{}
	for _, r := range w.log {
		newest[string(r.key)] = r.offset
	}
	w.log = slices.DeleteFunc(w.log, func(r logRecord) bool {
		return newest[string(r.key)] != r.offset || r.value == nil
	})
}

// settle does the work that is due at once.
func (w *world) settle() []answer {
	var all []answer
	for n := 0; ; n++ {
		key := TimerKey{Kind: TimerWork}
		if _, ok := w.timers[key]; !ok {
			return all
		}
		if n > 100_000 {
			w.t.Fatal("work does not end")
		}
		delete(w.timers, key)
		ev := w.event(EventTimer)
		ev.Timer = key
		all = append(all, w.step(&ev)...)
	}
}

// fire lets a timer fire.
func (w *world) fire(key TimerKey) []answer {
	delete(w.timers, key)
	ev := w.event(EventTimer)
	ev.Timer = key
	return w.step(&ev)
}

// nextTimer returns the timer that is due first.
func (w *world) nextTimer() (key TimerKey, at time.Duration, ok bool) {
	for k, d := range w.timers {
		if !ok || d < at || d == at && lessKey(k, key) {
			key, at, ok = k, d, true
		}
	}
	return key, at, ok
}

func lessKey(a, b TimerKey) bool {
	if a.Kind != b.Kind {
		return a.Kind < b.Kind
	}
	if a.Group != b.Group {
		return a.Group < b.Group
	}
	return a.Member < b.Member
}

// answers encodes and decodes the replies of a result.
func (w *world) answers(out *Result) []answer {
	w.t.Helper()
	var list []answer
	for _, r := range out.Replies {
		list = append(list, answer{r.Token, redecode(w.t, r.Response), r.DependsOn})
	}
	return list
}

func redecode(t testing.TB, resp kmsg.Response) kmsg.Response {
	t.Helper()
	wire := resp.AppendTo(nil)
	copied := kmsg.ResponseForKey(resp.Key())
	copied.SetVersion(resp.GetVersion())
	if err := copied.ReadFrom(wire); err != nil {
		t.Fatalf("decoding %T v%d: %v", resp, resp.GetVersion(), err)
	}
	return copied
}

// resultText is all of a result but its replies.
func resultText(r *Result) string {
	return fmt.Sprintf("%q\n%+v\n%+v\n%+v\n%+v", r.Records, r.Timers, r.Transitions, r.Expiries, r.Refusals)
}

// fakeTopics is topic metadata.
type fakeTopics struct {
	list    []fakeTopic
	created byte
}

type fakeTopic struct {
	name  string
	id    [16]byte
	count int32
}

func (f *fakeTopics) create(name string, count int32) {
	f.created++
	f.list = append(f.list, fakeTopic{name, [16]byte{0: 0x70, 15: f.created}, count})
}

func (f *fakeTopics) remove(name string) (id [16]byte) {
	f.list = slices.DeleteFunc(f.list, func(t fakeTopic) bool {
		if t.name == name {
			id = t.id
		}
		return t.name == name
	})
	return id
}

func (f *fakeTopics) ByName(name string) ([16]byte, int32, bool) {
	for i := range f.list {
		if f.list[i].name == name {
			return f.list[i].id, f.list[i].count, true
		}
	}
	return [16]byte{}, 0, false
}

func (f *fakeTopics) ByID(id [16]byte) (string, int32, bool) {
	for i := range f.list {
		if f.list[i].id == id {
			return f.list[i].name, f.list[i].count, true
		}
	}
	return "", 0, false
}
