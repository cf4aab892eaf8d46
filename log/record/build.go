package record

import (
	"encoding/binary"
	"fmt"
	"math"
)

// A Template is what a built batch has besides records. The zero value is not
// it: start from Plain.
type Template struct {
	BaseOffset    int64
	LeaderEpoch   int32
	ProducerID    int64
	ProducerEpoch int16
	BaseSequence  int32
	Transactional bool
	Control       bool
}

// Plain is the template of a batch without producer.
func Plain(baseOffset int64, leaderEpoch int32) Template {
	return Template{
		BaseOffset: baseOffset, LeaderEpoch: leaderEpoch,
		ProducerID: NoProducerID, ProducerEpoch: NoProducerEpoch, BaseSequence: NoSequence,
	}
}

// A Builder appends records to one uncompressed CreateTime batch, straight in
// the buffer that it was given; offsets rise by one. The header's length,
// timestamps, count and checksum are written by Close, so that appending is
// cheap. The zero value is empty; Reset begins a batch.
type Builder struct {
	// Buf is the buffer: what it held at Reset, the header, the records so far.
	Buf []byte

	start    int // where the batch begins in Buf
	count    int32
	baseTime int64 // timestamp of the first record, reference of all deltas
	maxTime  int64
	attrs    byte
	t        Template
}

// Reset begins a batch at the end of buf.
func (b *Builder) Reset(buf []byte, t Template) {
	b.start, b.count, b.baseTime, b.maxTime, b.t = len(buf), 0, NoTimestamp, NoTimestamp, t
	b.attrs = 0
	if t.Transactional {
		b.attrs |= BitTransactional
	}
	if t.Control {
		b.attrs |= BitControl
	}
	var header [HeaderSize]byte
	b.Buf = append(buf, header[:]...)
}

// Count is the number of records so far.
func (b *Builder) Count() int32 { return b.count }

// Size is the batch's size so far, bytes.
func (b *Builder) Size() int { return len(b.Buf) - b.start }

// NextOffset is the offset that the next record gets.
func (b *Builder) NextOffset() int64 { return b.t.BaseOffset + int64(b.count) }

// MaxRecordSize is an upper bound of what a record adds to a batch.
func MaxRecordSize(key, value []byte) int {
	return 3*maxVarintSize + maxVarlongSize + maxVarintSize + 2 + len(key) + len(value)
}

// Append appends a record with timestamp ts (Unix ms) and returns its offset.
// Key nil is null, value nil a tombstone.
func (b *Builder) Append(ts int64, key, value []byte) int64 {
	if b.count == math.MaxInt32 {
		panic("record: batch is full")
	}
	if b.count == 0 {
		b.baseTime, b.maxTime = ts, ts
	} else if ts > b.maxTime {
		b.maxTime = ts
	}
	offset := b.NextOffset()
	b.Buf = appendRecord(b.Buf, ts-b.baseTime, b.count, key, value, 0, nil)
	b.count++
	return offset
}

// AppendRecord appends one encoded record: deltas, key and value (nil: null)
// and headers as encoded.
func appendRecord(dst []byte, timeDelta int64, offsetDelta int32, key, value []byte, headerCount int32, headers []byte) []byte {
	keyLength, valueLength := int32(-1), int32(-1)
	length := 1 + varlongSize(timeDelta) + varintSize(offsetDelta) + varintSize(headerCount) + len(headers)
	if key != nil {
		keyLength = int32(len(key))
	}
	if value != nil {
		valueLength = int32(len(value))
	}
	length += varintSize(keyLength) + len(key) + varintSize(valueLength) + len(value)
	dst = AppendVarint(dst, int32(length))
	dst = append(dst, 0)
	dst = AppendVarlong(dst, timeDelta)
	dst = AppendVarint(dst, offsetDelta)
	dst = AppendVarint(dst, keyLength)
	dst = append(dst, key...)
	dst = AppendVarint(dst, valueLength)
	dst = append(dst, value...)
	dst = AppendVarint(dst, headerCount)
	return append(dst, headers...)
}

// Close writes the header and returns the batch, a part of Buf. An empty batch
// is a programmer's error.
func (b *Builder) Close() Batch {
	if b.count == 0 {
		panic("record: closing a batch without records")
	}
	batch := Batch(b.Buf[b.start:len(b.Buf):len(b.Buf)])
	putHeader(batch, b.t, int16(b.attrs), b.count-1, b.count, b.baseTime, b.maxTime)
	return batch
}

// putHeader writes all header fields of a batch whose records are in place.
func putHeader(b Batch, t Template, attributes int16, lastDelta, count int32, baseTime, maxTime int64) {
	binary.BigEndian.PutUint64(b, uint64(t.BaseOffset))
	binary.BigEndian.PutUint32(b[atLength:], uint32(len(b)-LengthOverhead))
	binary.BigEndian.PutUint32(b[atEpoch:], uint32(t.LeaderEpoch))
	b[atMagic] = Magic
	binary.BigEndian.PutUint16(b[atAttributes:], uint16(attributes))
	binary.BigEndian.PutUint32(b[atLastDelta:], uint32(lastDelta))
	binary.BigEndian.PutUint64(b[atBaseTime:], uint64(baseTime))
	binary.BigEndian.PutUint64(b[atMaxTime:], uint64(maxTime))
	binary.BigEndian.PutUint64(b[atProducer:], uint64(t.ProducerID))
	binary.BigEndian.PutUint16(b[atProdEpoch:], uint16(t.ProducerEpoch))
	binary.BigEndian.PutUint32(b[atSequence:], uint32(t.BaseSequence))
	binary.BigEndian.PutUint32(b[atCount:], uint32(count))
	b.SetCRC()
}

// AppendMarker appends a control batch with one end-transaction marker to dst.
// t must name a producer; its control and transactional bits and sequence are
// set here.
func AppendMarker(dst []byte, t Template, ts int64, commit bool, coordinatorEpoch int32) ([]byte, error) {
	if t.ProducerID < 0 || t.ProducerEpoch < 0 {
		return dst, fmt.Errorf("record: marker without producer: id %d epoch %d", t.ProducerID, t.ProducerEpoch)
	}
	t.Control, t.Transactional, t.BaseSequence = true, true, NoSequence
	var key [4]byte
	if commit {
		key[3] = byte(ControlCommit)
	}
	var value [6]byte
	binary.BigEndian.PutUint32(value[2:], uint32(coordinatorEpoch))
	var b Builder
	b.Reset(dst, t)
	b.Append(ts, key[:], value[:])
	b.Close()
	return b.Buf, nil
}

// AppendEmpty appends what compaction keeps of a batch that lost all records: a
// header with its offsets, producer fields, kind bits and max timestamp.
func AppendEmpty(dst []byte, of Batch) []byte {
	start := len(dst)
	dst = append(dst, of[:HeaderSize]...)
	b := Batch(dst[start:])
	t := templateOf(of)
	attributes := of.Attributes() &^ (CodecMask | BitDeleteHorizon) & 0xff
	putHeader(b, t, attributes, of.LastOffsetDelta(), 0, NoTimestamp, of.MaxTimestamp())
	return dst
}

// templateOf is the template with which b could have been built.
func templateOf(b Batch) Template {
	return Template{
		BaseOffset: b.BaseOffset(), LeaderEpoch: b.LeaderEpoch(),
		ProducerID: b.ProducerID(), ProducerEpoch: b.ProducerEpoch(), BaseSequence: b.BaseSequence(),
		Transactional: b.Transactional(), Control: b.Control(),
	}
}

// Continues reports whether records of template t can be appended: everything
// but the base offset agrees.
func (b *Builder) Continues(t *Template) bool {
	o := &b.t
	return o.LeaderEpoch == t.LeaderEpoch && o.ProducerID == t.ProducerID && o.ProducerEpoch == t.ProducerEpoch &&
		o.BaseSequence == t.BaseSequence && o.Transactional == t.Transactional && o.Control == t.Control
}
