package compaction

import (
	"github.com/kcoord/kcoord/log/record"
)

// mapper is the first pass: it learns the newest offset of every key, which
// transactions were aborted, and each producer's last offset.
type mapper struct {
	newest  *offsetMap
	aborted map[int64][]span
	last    map[int64]int64
	open    map[int64]*openTxn
	reader  record.Reader
	keys    []pendingKey // of the batch being read
	// partly: the keys of a batch are unknown, since it cannot be decoded.
	partly bool
	// covered is the exclusive end of the batches that were taken.
	covered int64
	batches int
	full    bool
}

// openTxn is a transaction whose marker has not come yet.
type openTxn struct {
	first int64
	keys  []pendingKey
}

type pendingKey struct {
	key    keyHash
	offset int64
}

func newMapper(m *offsetMap, from int64) *mapper {
	return &mapper{
		newest: m, covered: from,
		aborted: map[int64][]span{}, last: map[int64]int64{}, open: map[int64]*openTxn{},
	}
}

// take learns from a batch. It reports false when the map is full: then the
// batch was not taken, and the round ends before it. The first batch is always
// taken.
func (m *mapper) take(b record.Batch) (bool, error) {
	if m.batches > 0 && !m.newest.room(int(b.Count())) {
		m.full = true
		return false, nil
	}
	m.batches++
	if id := b.ProducerID(); id >= 0 {
		m.last[id] = b.LastOffset()
	}
	var err error
	if b.Control() {
		err = m.marker(b)
	} else {
		err = m.data(b)
	}
	if err != nil {
		return false, err
	}
	m.covered = b.NextOffset()
	return true, nil
}

// data takes the keys of a batch. If it cannot be decoded none of them count.
func (m *mapper) data(b record.Batch) error {
	m.keys = m.keys[:0]
	err := m.reader.Each(b, func(r record.Record) error {
		if r.Key != nil {
			m.keys = append(m.keys, pendingKey{m.newest.hash(r.Key), r.Offset})
		}
		return nil
	})
	if err != nil {
		if isUnreadable(err) {
			m.partly = true
			return nil
		}
		return err
	}
	if !b.Transactional() {
		m.put(m.keys)
		return nil
	}
	t := m.open[b.ProducerID()]
	if t == nil {
		t = &openTxn{first: b.BaseOffset()}
		m.open[b.ProducerID()] = t
	}
	t.keys = append(t.keys, m.keys...)
	m.newest.extra += len(m.keys)
	return nil
}

func (m *mapper) put(keys []pendingKey) {
	for _, k := range keys {
		m.newest.put(k.key, k.offset)
	}
}

// marker ends its producer's transaction.
func (m *mapper) marker(b record.Batch) error {
	t := m.open[b.ProducerID()]
	if t == nil || b.Count() == 0 {
		return nil
	}
	kind, known := record.ControlType(-1), false
	err := m.reader.Each(b, func(r record.Record) (err error) {
		kind, err = record.ControlKey(r.Key)
		known = kind == record.ControlAbort || kind == record.ControlCommit
		return err
	})
	if err != nil && !isUnreadable(err) {
		return err
	}
	if err != nil || !known {
		return nil
	}
	m.newest.extra -= len(t.keys)
	delete(m.open, b.ProducerID())
	if kind == record.ControlCommit {
		m.put(t.keys)
	} else {
		m.aborted[b.ProducerID()] = append(m.aborted[b.ProducerID()], span{t.first, b.BaseOffset()})
	}
	return nil
}

// end is the exclusive end of what the map covers: before the first batch that
// did not fit, and before every transaction whose outcome is not known.
func (m *mapper) end() int64 {
	end := m.covered
	for _, t := range m.open {
		end = min(end, t.first)
	}
	return end
}
