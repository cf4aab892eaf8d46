package log

import (
	"fmt"
	"testing"

	"github.com/kcoord/kcoord/log/vfs"
)

// countingMeta counts what the store asks of Metadata.
type countingMeta struct {
	testMeta
	applies, lists, topicCalls int
}

func (m *countingMeta) Apply(records ...[]byte) error {
	m.applies++
	return m.testMeta.Apply(records...)
}

func (m *countingMeta) Topics(f func(TopicInfo) bool) {
	m.lists++
	m.testMeta.Topics(f)
}

func (m *countingMeta) Topic(id TopicID) (TopicInfo, bool) {
	m.topicCalls++
	return m.testMeta.Topic(id)
}

// TestManyTopicsInARound: what a round's metadata costs does not grow with the
// square of its records.
func TestManyTopicsInARound(t *testing.T) {
	const n = 100
	m := &countingMeta{}
	r := newRig(t, vfs.NewMem())
	r.options = func(o *Options) { o.Metadata = m }
	r.open()
	records := make([][]byte, 0, n+1)
	for i := range byte(n) {
		records = append(records, topicRecord(i+1, fmt.Sprintf("t%03d", n-i), 1, 0))
	}
	records = append(records, append([]byte{kindTopicDeleted}, records[0][1:17]...)) // came and went
	m.applies, m.lists, m.topicCalls = 0, 0, 0
	r.meta(records...)
	if m.applies != 1 || m.lists != 0 || m.topicCalls > n+1 {
		t.Errorf("Apply was called %d times, Topics %d, Topic %d", m.applies, m.lists, m.topicCalls)
	}
	last := ""
	count := 0
	r.s.EachPartition(func(p *Partition) {
		if name := p.topic.Load().Name; name <= last {
			t.Errorf("%s comes after %s", name, last)
		}
		last = p.topic.Load().Name
		count++
	})
	if count < n-1 || r.s.Partition(testTopic(1), 0) != nil || r.s.Partition(testTopic(2), 0) == nil {
		t.Errorf("%d partitions", count)
	}
}
