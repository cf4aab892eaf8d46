package journal

import (
	"encoding/binary"
	"fmt"
)

// joiner puts items together from the pieces of several entries.
type joiner struct {
	pending bool // an item goes on in the next entry
	item    Item // its kind, topic and partition
	size    int  // bytes of it so far; also when nobody asks for them
	buf     []byte
	loose   bool // the first piece seen may continue one that was not
	broken  bool // it does, and is not handed out
}

// items checks an entry's items and hands them out. All are checked before the
// first is handed out.
func (s *walk) items(e *entry) error {
	if e.kind != Items && e.kind != Start {
		return s.newer(fmt.Sprintf("entry kind %d", e.kind))
	}
	if e.raw[25]&^flagSynced != 0 || e.raw[26] != 0 || e.raw[27] != 0 {
		return s.newer(fmt.Sprintf("entry flags %x", e.raw[25:28]))
	}
	count := int64(int32(binary.BigEndian.Uint32(e.raw[28:])))
	if err := s.checkItems(e, count); err != nil {
		return err
	}
	if e.kind == Start {
		s.join.pending = false // what was unfinished before a start is void
	}
	b := e.raw[entryHead:]
	for range count {
		n := int(binary.BigEndian.Uint32(b[4:]))
		if err := s.item(e, b[:itemHead+n]); err != nil {
			return err
		}
		b = b[itemHead+n:]
	}
	return nil
}

// checkItems verifies that count items and padding fill the entry exactly.
func (s *walk) checkItems(e *entry, count int64) error {
	b := e.raw[entryHead:]
	if count < 1 || count > int64(len(b))/(itemHead+1) {
		return s.damaged(fmt.Sprintf("%d items in %d bytes", count, len(b)))
	}
	if e.kind == Start && (count != 1 || Kind(b[0]) != Metadata || b[1] != 0) {
		return s.damaged("a start entry that holds something else than one record")
	}
	for i := range count {
		if len(b) <= itemHead {
			return s.damaged(fmt.Sprintf("item %d of %d without room", i, count))
		}
		kind, flags := Kind(b[0]), b[1]
		n := int64(int32(binary.BigEndian.Uint32(b[4:])))
		switch {
		case kind != Batch && kind != Metadata:
			return s.newer(fmt.Sprintf("item kind %d", b[0]))
		case flags&^(flagContinue|flagGoesOn) != 0 || b[2] != 0 || b[3] != 0:
			return s.newer(fmt.Sprintf("item flags %x", b[1:4]))
		case n < 1 || n > int64(len(b)-itemHead):
			return s.damaged(fmt.Sprintf("item %d of %d bytes, %d left", i, n, len(b)-itemHead))
		case flags&flagContinue != 0 && i != 0:
			return s.damaged(fmt.Sprintf("item %d continues another entry", i))
		case flags&flagGoesOn != 0 && i != count-1:
			return s.damaged(fmt.Sprintf("item %d of %d goes on in the next entry", i, count))
		case kind == Batch && flags&flagContinue == 0 && n < minBatch:
			return s.damaged(fmt.Sprintf("a batch of %d bytes", n))
		}
		b = b[itemHead+n:]
	}
	if len(b) >= 8 {
		return s.damaged(fmt.Sprintf("%d bytes behind the last item", len(b)))
	}
	return nil
}

// item joins one item's pieces and hands it out when it is complete.
func (s *walk) item(e *entry, b []byte) error {
	it := Item{Kind: Kind(b[0]), Topic: TopicID(b[8:24]), Partition: int32(binary.BigEndian.Uint32(b[24:]))}
	continues, goesOn, data := b[1]&flagContinue != 0, b[1]&flagGoesOn != 0, b[itemHead:]
	p := &s.join
	if p.loose {
		p.loose = false
		p.pending, p.item, p.size, p.buf = continues, it, 0, p.buf[:0]
		p.broken = continues
	}
	switch {
	case continues != p.pending:
		return s.damaged("an item that continues nothing, or one that does not go on")
	case continues && (it.Kind != p.item.Kind || it.Topic != p.item.Topic || it.Partition != p.item.Partition):
		return s.damaged("a continued item of another partition")
	case continues || goesOn:
		if !continues {
			p.item, p.size, p.buf = it, 0, p.buf[:0]
		}
		if p.size += len(data); p.size > s.j.o.MaxJoinedBytes {
			return s.damaged(fmt.Sprintf("an item of more than %d bytes", s.j.o.MaxJoinedBytes))
		}
		p.pending = goesOn
		if s.visi != nil {
			p.buf = append(p.buf, data...)
		}
		if goesOn {
			return nil
		}
		data = p.buf
		if p.broken {
			p.broken = false
			return nil
		}
	}
	s.tail.Items++
	if s.visi == nil {
		return nil
	}
	it.Data, it.Entry, it.EntryKind = data, s.at, e.kind
	it.Joined, it.Kept = continues, s.w.kept && !continues
	return s.visi(&it)
}

func (s *walk) damaged(found string) error {
	return s.corrupt(s.fl, s.at.Offset, found, fmt.Sprintf("entry %d to be well-formed", s.at.Sequence), nil)
}

func (s *walk) newer(found string) error {
	return &CorruptionError{
		Reason: Newer, Path: s.fl.path, Position: s.at.Offset, Found: found,
		Expected: "what this version knows", Sequence: s.at.Sequence,
	}
}
