package record

import (
	"encoding/binary"
	"fmt"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// DefaultInflateMax is the default limit for what a batch's records may inflate
// to, bytes.
const DefaultInflateMax = 64 << 20

// A Record is one record of a batch. Key, Value and headers alias the batch or
// the reader's buffer and are valid until the callback returns. A nil Key or
// Value is null; an empty one is not nil.
type Record struct {
	Offset      int64
	OffsetDelta int32
	Timestamp   int64 // ms; in a LogAppendTime batch the batch's MaxTimestamp
	Key, Value  []byte

	headerCount int32
	headers     []byte // encoded, checked when the record was parsed
}

// HeaderCount is the number of headers.
func (r *Record) HeaderCount() int { return int(r.headerCount) }

// Headers are the headers as encoded, without their count.
func (r *Record) Headers() []byte { return r.headers }

// EachHeader calls f for every header, in order.
func (r *Record) EachHeader(f func(key, value []byte)) {
	b := r.headers
	for range r.headerCount {
		key, n, _ := nullable(b)
		value, m, _ := nullable(b[n:])
		f(key, value)
		b = b[n+m:]
	}
}

// A Reader iterates over the records of batches; it keeps its decompressors and
// buffer between batches. The zero value is ready. One goroutine at a time.
type Reader struct {
	// InflateMax bounds what one batch's records may inflate to; 0 means
	// DefaultInflateMax.
	InflateMax int64

	buf  []byte
	gzip *gzip.Reader
	zstd *zstd.Decoder
	// zstdMax is the InflateMax that zstd was made for.
	zstdMax int64
}

// Each calls f for every record of b in order, decompressing if need be. b has
// passed ValidateHeader. The records must fill the batch exactly, their deltas
// rise and stay within the batch; anything else is ErrMalformed, and ErrInflate
// if they inflate beyond the limit. f may have been called for records before
// the error. An error of f is returned as it is.
func (r *Reader) Each(b Batch, f func(rec Record) error) error {
	payload := []byte(b[HeaderSize:])
	if b.Codec() != CodecNone {
		var err error
		if payload, err = r.Inflate(b); err != nil {
			return err
		}
	}
	return eachRecord(b, payload, f)
}

// Each is Reader.Each with a fresh reader and the default limit.
func (b Batch) Each(f func(rec Record) error) error {
	var r Reader
	return r.Each(b, f)
}

func eachRecord(b Batch, payload []byte, f func(rec Record) error) error {
	base, baseTime, last := b.BaseOffset(), b.BaseTimestamp(), b.LastOffsetDelta()
	appendTime, maxTime := b.LogAppendTime(), b.MaxTimestamp()
	previous := int32(-1)
	count := b.Count()
	for i := int32(0); i < count; i++ {
		rec, n, err := parseRecord(payload)
		if err != nil {
			return fmt.Errorf("%w: record %d of %d: %s", ErrMalformed, i, count, err)
		}
		if rec.OffsetDelta <= previous || rec.OffsetDelta > last {
			return fmt.Errorf("%w: record %d of %d has offset delta %d after %d (last %d)",
				ErrMalformed, i, count, rec.OffsetDelta, previous, last)
		}
		previous = rec.OffsetDelta
		rec.Offset = base + int64(rec.OffsetDelta)
		if appendTime {
			rec.Timestamp = maxTime
		} else {
			rec.Timestamp += baseTime
		}
		payload = payload[n:]
		if err := f(rec); err != nil {
			return err
		}
	}
	if len(payload) != 0 {
		return fmt.Errorf("%w: %d bytes behind the last of %d records", ErrMalformed, len(payload), count)
	}
	return nil
}

// parseError is a reason without a position; it is a constant, so that corrupt
// input costs no allocation per record.
type parseError string

func (e parseError) Error() string { return string(e) }

const (
	errRecordLength parseError = "implausible length"
	errField        parseError = "a field does not fit"
	errHeaders      parseError = "implausible headers"
	errTrailing     parseError = "bytes behind the last field"
)

// parseRecord reads the record at the start of b: its Timestamp is still a
// delta, its Offset unset.
func parseRecord(b []byte) (rec Record, size int, err error) {
	length, n := Varint(b)
	if n == 0 || length < 0 || int64(length) > int64(len(b)-n) {
		return rec, 0, errRecordLength
	}
	size = n + int(length)
	b = b[n:size]
	if len(b) < 1 {
		return rec, 0, errField
	}
	b = b[1:] // attributes, unused
	if rec.Timestamp, n = Varlong(b); n == 0 {
		return rec, 0, errField
	}
	b = b[n:]
	if rec.OffsetDelta, n = Varint(b); n == 0 {
		return rec, 0, errField
	}
	b = b[n:]
	var ok bool
	if rec.Key, n, ok = nullable(b); !ok {
		return rec, 0, errField
	}
	b = b[n:]
	if rec.Value, n, ok = nullable(b); !ok {
		return rec, 0, errField
	}
	b = b[n:]
	count, n := Varint(b)
	if n == 0 || count < 0 || int64(count) > int64(len(b)-n)/2 {
		return rec, 0, errHeaders
	}
	b = b[n:]
	rec.headerCount, rec.headers = count, b
	for range count {
		key, n, ok := nullable(b)
		if !ok || key == nil {
			return rec, 0, errHeaders
		}
		b = b[n:]
		if _, n, ok = nullable(b); !ok {
			return rec, 0, errHeaders
		}
		b = b[n:]
	}
	if len(b) != 0 {
		return rec, 0, errTrailing
	}
	return rec, size, nil
}

// nullable reads a varint length and that many bytes; -1 is null.
func nullable(b []byte) (v []byte, size int, ok bool) {
	length, n := Varint(b)
	if n == 0 || length < -1 || int64(length) > int64(len(b)-n) {
		return nil, 0, false
	}
	if length == -1 {
		return nil, n, true
	}
	end := n + int(length)
	return b[n:end:end], end, true
}

// ControlType is the type in a control record's key.
type ControlType int16

// The types of control records (KIP-98, KIP-595, KIP-853).
const (
	ControlAbort          ControlType = 0
	ControlCommit         ControlType = 1
	ControlLeaderChange   ControlType = 2
	ControlSnapshotHeader ControlType = 3
	ControlSnapshotFooter ControlType = 4
	ControlKRaftVersion   ControlType = 5
	ControlKRaftVoters    ControlType = 6
)

// ControlKey reads a control record's key. Unknown types are for the caller to
// skip.
func ControlKey(key []byte) (ControlType, error) {
	if len(key) < 4 {
		return 0, fmt.Errorf("%w: control key of %d bytes", ErrMalformed, len(key))
	}
	if v := int16(binary.BigEndian.Uint16(key)); v < 0 {
		return 0, fmt.Errorf("%w: control key version %d", ErrMalformed, v)
	}
	return ControlType(binary.BigEndian.Uint16(key[2:])), nil
}

// EndTransaction reads the value of an abort or commit marker: the transaction
// coordinator's epoch. Longer values of newer versions are accepted.
func EndTransaction(value []byte) (coordinatorEpoch int32, err error) {
	if len(value) < 6 {
		return 0, fmt.Errorf("%w: marker value of %d bytes", ErrMalformed, len(value))
	}
	if v := int16(binary.BigEndian.Uint16(value)); v < 0 {
		return 0, fmt.Errorf("%w: marker value version %d", ErrMalformed, v)
	}
	return int32(binary.BigEndian.Uint32(value[2:])), nil
}
