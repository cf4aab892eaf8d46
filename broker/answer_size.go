package broker

import "github.com/twmb/franz-go/pkg/kmsg"

const (
	// maxAnswer is the most bytes of an answer whose length the request does not bound.
	maxAnswer = 100 << 20
	// maxRepeated is the most bytes of an answer that say again what it said before,
	// because the request named it again. Apache Kafka repeats without a limit.
	maxRepeated = 1 << 20
)

// An answerSize counts the bytes of an answer that is being built. What does not
// fit is refused in the answer, with a retriable error.
type answerSize struct {
	shared          *byteBudget // of all answers being built
	total, repeated int
}

func (b *Broker) answerSize() *answerSize { return &answerSize{shared: &b.data.answers} }

// fits counts n more bytes, unless that is too much.
func (a *answerSize) fits(n int, repeated bool) bool {
	again := 0
	if repeated {
		again = n
	}
	return a.fitsPartly(n, again)
}

// fitsPartly counts n more bytes, again of which repeat others, unless that is
// too much.
func (a *answerSize) fitsPartly(n, again int) bool {
	if a.total+n > maxAnswer || a.repeated+again > maxRepeated {
		return false
	}
	if got := a.shared.take(n); got < n {
		a.shared.give(got)
		return false
	}
	a.total += n
	a.repeated += again
	return true
}

// done ends the building: the answer has been encoded.
func (a *answerSize) done() { a.shared.give(a.total) }

// entrySize is about what an entry of an answer takes besides its texts.
const entrySize = 32

func describedSize(g *kmsg.DescribeGroupsResponseGroup) int {
	n := entrySize + len(g.Group) + len(g.Protocol) + len(g.ProtocolType)
	for i := range g.Members {
		m := &g.Members[i]
		n += entrySize + len(m.MemberID) + len(m.ClientID) + len(m.ClientHost) + len(m.ProtocolMetadata) + len(m.MemberAssignment)
		if m.InstanceID != nil {
			n += len(*m.InstanceID)
		}
	}
	return n
}

// fetchedSize is about the size of a group's offsets, and how much of it is about
// partitions that stand there before, which only happens if they were named.
func fetchedSize(g *kmsg.OffsetFetchResponseGroup, named bool) (n, again int) {
	type partition struct {
		topic string
		id    [16]byte
		index int32
	}
	seen := map[partition]bool{}
	n = entrySize + len(g.Group)
	for i := range g.Topics {
		t := &g.Topics[i]
		n += entrySize + len(t.Topic)
		for j := range t.Partitions {
			size := entrySize
			if text := t.Partitions[j].Metadata; text != nil {
				size += len(*text)
			}
			n += size
			if !named {
				continue
			}
			p := partition{t.Topic, t.TopicID, t.Partitions[j].Partition}
			if seen[p] {
				again += size
			}
			seen[p] = true
		}
	}
	return n, again
}

func configsSize(configs []kmsg.DescribeConfigsResponseResourceConfig) int {
	n := entrySize
	text := func(s *string) int {
		if s == nil {
			return 0
		}
		return len(*s)
	}
	for i := range configs {
		c := &configs[i]
		n += entrySize + len(c.Name) + text(c.Value) + text(c.Documentation)
		for j := range c.ConfigSynonyms {
			n += entrySize + len(c.ConfigSynonyms[j].Name) + text(c.ConfigSynonyms[j].Value)
		}
	}
	return n
}
