package meta

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
)

func id(n byte) [16]byte { return [16]byte{15: n} }

func topic(n byte, name string, partitions int32, configs ...Config) *Topic {
	return &Topic{ID: id(n), Name: name, Partitions: partitions, Created: 1700000000000, Configs: configs}
}

func apply(t testing.TB, s *State, records ...[]byte) {
	t.Helper()
	for _, r := range records {
		if err := s.Apply(r); err != nil {
			t.Fatalf("Apply(%x): %v", r, err)
		}
	}
}

func dump(s *Snapshot) string {
	var b bytes.Buffer
	for _, t := range s.Topics() {
		fmt.Fprintf(&b, "%d %s %d %v\n", t.ID[15], t.Name, t.Partitions, t.Configs)
	}
	for _, typ := range []ResourceType{ResourceBroker, ResourceGroup} {
		for _, name := range s.Resources(typ) {
			fmt.Fprintf(&b, "%d/%s %v\n", typ, name, s.Configs(typ, name))
		}
	}
	fmt.Fprintf(&b, "next %d\n", s.NextProducerID())
	return b.String()
}

func TestApply(t *testing.T) {
	s := New()
	before := s.Load()
	apply(t, s,
		AppendTopic(nil, topic(2, "b", 3, Config{"retention.ms", "1"}, Config{"cleanup.policy", "compact"})),
		AppendTopic(nil, topic(1, "a", 1)),
		AppendConfigs(nil, ResourceTopic, "a", []Config{{"segment.ms", "5"}}),
		AppendConfigs(nil, ResourceBroker, "", []Config{{"log.retention.ms", "9"}}),
		AppendConfigs(nil, ResourceGroup, "g", []Config{{"consumer.session.timeout.ms", "45000"}}),
		AppendPartitions(nil, id(1), 4),
		AppendPartitions(nil, id(1), 2),
		AppendPartitions(nil, id(9), 4),
		AppendDeleted(nil, id(9)),
		AppendConfigs(nil, ResourceTopic, "none", []Config{{"x", "y"}}),
		AppendProducerIDs(nil, 2000),
	)
	if before.Len() != 0 {
		t.Error("a snapshot changed")
	}
	want := `1 a 4 [{segment.ms 5}]
2 b 3 [{cleanup.policy compact} {retention.ms 1}]
4/ [{log.retention.ms 9}]
32/g [{consumer.session.timeout.ms 45000}]
next 2000
`
	snap := s.Load()
	if got := dump(snap); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	names := 0
	snap.Names(func(string) bool { names++; return true })
	snap.Names(func(string) bool { names++; return false })
	if names != 3 {
		t.Errorf("%d names, want 2 and 1", names)
	}
	if s.Load() != snap {
		t.Error("Load made a snapshot although nothing changed")
	}
	if got, n, ok := snap.ByName("b"); !ok || got != id(2) || n != 3 {
		t.Errorf("ByName: %v %d %v", got, n, ok)
	}
	if name, n, ok := snap.ByID(id(1)); !ok || name != "a" || n != 4 {
		t.Errorf("ByID: %v %d %v", name, n, ok)
	}
	if v, ok := snap.Config(ResourceTopic, "b", "retention.ms"); !ok || v != "1" {
		t.Errorf("Config: %q %v", v, ok)
	}

	// A checkpoint gives the same state and the same bytes.
	again := New()
	records := snap.AppendRecords(nil)
	apply(t, again, records...)
	if got := dump(again.Load()); got != want {
		t.Errorf("after a checkpoint\n%s", got)
	}
	if !slices.EqualFunc(records, again.Load().AppendRecords(nil), bytes.Equal) {
		t.Error("the records of a checkpoint differ")
	}

	// The same name with another id is another topic; nothing is left of the first.
	apply(t, s, AppendTopic(nil, topic(7, "a", 2)), AppendConfigs(nil, ResourceBroker, "", nil))
	if snap := s.Load(); snap.TopicByID(id(1)) != nil || snap.Topic("a").ID != id(7) || snap.Len() != 2 ||
		len(snap.Topic("a").Configs) != 0 || len(snap.Resources(ResourceBroker)) != 0 {
		t.Errorf("after a second topic of the name\n%s", dump(snap))
	}
}

func TestRepeatIsHarmless(t *testing.T) {
	records := [][]byte{
		AppendTopic(nil, topic(1, "a", 1)),
		AppendPartitions(nil, id(1), 3),
		AppendDeleted(nil, id(1)),
		AppendTopic(nil, topic(2, "a", 5)),
		AppendConfigs(nil, ResourceTopic, "a", []Config{{"segment.ms", "5"}}),
		AppendProducerIDs(nil, 1000),
	}
	whole := New()
	apply(t, whole, records...)
	for from := range records {
		s := New()
		apply(t, s, records...)
		apply(t, s, records[from:]...)
		if dump(s.Load()) != dump(whole.Load()) {
			t.Errorf("repeated from %d:\n%s", from, dump(s.Load()))
		}
	}
}

func TestRefused(t *testing.T) {
	good := AppendTopic(nil, topic(1, "a", 1, Config{"x", "y"}))
	for name, record := range map[string][]byte{
		"empty":            {},
		"short":            good[:len(good)-1],
		"long":             append(slices.Clone(good), 0),
		"no partitions":    AppendTopic(nil, topic(1, "a", 0)),
		"many partitions":  AppendTopic(nil, topic(1, "a", MaxPartitions+1)),
		"no name":          AppendTopic(nil, topic(1, "", 1)),
		"no id":            AppendTopic(nil, topic(0, "a", 1)),
		"property twice":   AppendTopic(nil, topic(1, "a", 1, Config{"x", "1"}, Config{"x", "2"})),
		"resource type":    AppendConfigs(nil, 3, "a", nil),
		"negative id":      AppendProducerIDs(nil, -1),
		"partitions zero":  AppendPartitions(nil, id(1), 0),
		"list too long":    append(AppendConfigs(nil, ResourceGroup, "g", nil)[:5], 0x7f, 0xff, 0xff, 0xff),
		"list negative":    append(AppendConfigs(nil, ResourceGroup, "g", nil)[:5], 0xff, 0xff, 0xff, 0xff),
		"name is no UTF-8": AppendTopic(nil, topic(1, "\xff", 1)),
	} {
		s := New()
		if err := s.Apply(record); err == nil || errors.Is(err, ErrUnknownKind) {
			t.Errorf("%s: %v", name, err)
		}
		if s.Load().Len() != 0 {
			t.Errorf("%s: changed the state", name)
		}
	}
	if err := New().Apply([]byte{9}); !errors.Is(err, ErrUnknownKind) {
		t.Errorf("unknown kind: %v", err)
	}
	if err := New().Apply(AppendTopic(nil, topic(1, "a", MaxPartitions))); err != nil {
		t.Errorf("at the limit: %v", err)
	}
}

func TestDerived(t *testing.T) {
	a, calls := topic(1, "a", 1), 0
	compute := func() any { calls++; return calls }
	for _, c := range []struct {
		key  string
		want int
	}{{"x", 1}, {"x", 1}, {"y", 2}, {"y", 2}, {"x", 3}} {
		if got := a.Derived(c.key, compute); got != c.want {
			t.Errorf("key %s: %v, want %d", c.key, got, c.want)
		}
	}
}

func FuzzApply(f *testing.F) {
	f.Add(AppendTopic(nil, topic(1, "a", 1, Config{"x", "y"})))
	f.Add(AppendDeleted(nil, id(1)))
	f.Add(AppendPartitions(nil, id(1), 3))
	f.Add(AppendConfigs(nil, ResourceGroup, "g", []Config{{"a", "b"}, {"c", ""}}))
	f.Add(AppendProducerIDs(nil, 1000))
	f.Fuzz(func(t *testing.T, record []byte) {
		s := New()
		apply(t, s, AppendTopic(nil, topic(1, "old", 1)))
		if s.Apply(record) != nil {
			return
		}
		// What was accepted comes through a checkpoint unchanged.
		again := New()
		apply(t, again, s.Load().AppendRecords(nil)...)
		if a, b := dump(s.Load()), dump(again.Load()); a != b {
			t.Fatalf("before\n%safter\n%s", a, b)
		}
	})
}

func BenchmarkLoad(b *testing.B) {
	s := New()
	apply(b, s, AppendTopic(nil, topic(1, "a", 1)))
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, _, ok := s.Load().ByName("a"); !ok {
				b.Fatal("no topic")
			}
		}
	})
}
