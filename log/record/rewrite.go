package record

import "fmt"

// A Rewriter encodes records that keep their offsets into a new batch, as
// compaction and recompression need it. The zero value is ready; it keeps its
// buffers between batches. One goroutine at a time.
type Rewriter struct {
	Compressor

	t       Template
	codec   Codec
	horizon int64
	// appendTime: the batch is LogAppendTime, its records all read as maxTime.
	appendTime bool
	baseTime   int64
	maxTime    int64
	count      int32
	lastDelta  int32
	records    []byte
}

// NoHorizon says that a batch has no delete horizon.
const NoHorizon = int64(-1)

// Begin starts a batch that takes everything but its records from of: base
// offset, epoch, producer, kind bits, timestamp type and codec. horizon (Unix
// ms) becomes its delete horizon unless it is NoHorizon.
func (w *Rewriter) Begin(of Batch, codec Codec, horizon int64) {
	w.t, w.codec, w.horizon = templateOf(of), codec, horizon
	w.appendTime = of.LogAppendTime()
	w.baseTime, w.maxTime, w.count, w.lastDelta = NoTimestamp, NoTimestamp, 0, -1
	w.records = w.records[:0]
	if w.appendTime {
		w.maxTime = of.MaxTimestamp()
	}
	if horizon != NoHorizon {
		w.baseTime = horizon
	}
}

// Size is about the size of the batch so far, before compression.
func (w *Rewriter) Size() int { return HeaderSize + len(w.records) }

// Count is the number of records so far.
func (w *Rewriter) Count() int32 { return w.count }

// Add appends a record. Its offset must be above that of the previous one and
// not below the base offset, its distance from the base within an int32.
func (w *Rewriter) Add(rec Record) {
	delta := rec.Offset - w.t.BaseOffset
	if delta <= int64(w.lastDelta) || delta > 1<<31-1 {
		panic(fmt.Sprintf("record: offset %d after %d, base %d", rec.Offset, w.t.BaseOffset+int64(w.lastDelta), w.t.BaseOffset))
	}
	ts := rec.Timestamp
	if w.count == 0 && w.horizon == NoHorizon {
		w.baseTime = ts
	}
	if !w.appendTime {
		if w.count == 0 || ts > w.maxTime {
			w.maxTime = ts
		}
	}
	w.lastDelta = int32(delta)
	w.records = appendRecord(w.records, ts-w.baseTime, int32(delta), rec.Key, rec.Value, rec.headerCount, rec.headers)
	w.count++
}

// Append closes the batch, whose last offset is lastOffset, and appends it to
// dst.
func (w *Rewriter) Append(dst []byte, lastOffset int64) ([]byte, error) {
	if w.count == 0 || lastOffset < w.t.BaseOffset+int64(w.lastDelta) || lastOffset-w.t.BaseOffset > 1<<31-1 {
		panic(fmt.Sprintf("record: closing batch at %d with %d records, last offset %d, wanted %d",
			w.t.BaseOffset, w.count, w.t.BaseOffset+int64(w.lastDelta), lastOffset))
	}
	start := len(dst)
	var header [HeaderSize]byte
	dst = append(dst, header[:]...)
	dst, err := w.Compressor.Append(dst, w.records, w.codec)
	if err != nil {
		return dst[:start], err
	}
	attributes := int16(w.codec)
	if w.appendTime {
		attributes |= BitLogAppendTime
	}
	if w.t.Transactional {
		attributes |= BitTransactional
	}
	if w.t.Control {
		attributes |= BitControl
	}
	if w.horizon != NoHorizon {
		attributes |= BitDeleteHorizon
	}
	putHeader(Batch(dst[start:]), w.t, attributes, int32(lastOffset-w.t.BaseOffset), w.count, w.baseTime, w.maxTime)
	return dst, nil
}

// Recompress appends b with its records compressed by codec; everything else
// stays.
func (w *Rewriter) Recompress(dst []byte, r *Reader, b Batch, codec Codec) ([]byte, error) {
	payload, err := r.Inflate(b)
	if err != nil {
		return dst, err
	}
	start := len(dst)
	dst = append(dst, b[:HeaderSize]...)
	if dst, err = w.Compressor.Append(dst, payload, codec); err != nil {
		return dst[:start], err
	}
	out := Batch(dst[start:])
	attributes := b.Attributes()&0xff&^CodecMask | int16(codec)
	putHeader(out, templateOf(b), attributes, b.LastOffsetDelta(), b.Count(), b.BaseTimestamp(), b.MaxTimestamp())
	return dst, nil
}
