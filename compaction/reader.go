package compaction

import (
	"fmt"
	"io"
	"slices"

	"github.com/kcoord/kcoord/log"
	"github.com/kcoord/kcoord/log/record"
)

const (
	// leastChunk is the least that is read at a time.
	leastChunk = 4 << 10
	// maxBatch bounds a batch on disk. max.message.bytes may have been larger than
	// it is now, so the present value says nothing.
	maxBatch = 65 << 20
)

// reader walks over the batches of one segment, their checksums checked.
type reader struct {
	chunk int // read at a time; 0: half of DefaultIOBufferBytes
	seg   *log.CleanSegment
	pos   int64 // of the batch that next returns
	buf   []byte
	off   int64 // where buf begins in the segment
}

// open goes to the beginning of a segment.
func (r *reader) open(seg *log.CleanSegment) { r.openAt(seg, 0) }

func (r *reader) openAt(seg *log.CleanSegment, pos int64) {
	r.seg, r.pos, r.off, r.buf = seg, pos, pos, r.buf[:0]
}

// next returns the batch at r.pos and moves behind it; nil at the end. The batch
// is valid until the next call.
func (r *reader) next() (record.Batch, error) {
	if r.pos >= r.seg.Bytes {
		return nil, nil
	}
	head, err := r.bytes(record.HeaderSize)
	if err != nil {
		return nil, err
	}
	size, err := record.Peek(head, maxBatch)
	if err != nil {
		return nil, r.seg.Damaged(r.pos, err)
	}
	b, err := r.bytes(size)
	if err != nil {
		return nil, err
	}
	if err := record.Batch(b).Validate(); err != nil {
		return nil, r.seg.Damaged(r.pos, err)
	}
	r.pos += size
	return b, nil
}

func (r *reader) bytes(n int64) ([]byte, error) {
	if r.pos+n > r.seg.Bytes {
		return nil, r.seg.Damaged(r.pos, record.ErrShort)
	}
	at := r.pos - r.off
	if at+n > int64(len(r.buf)) {
		chunk := int64(r.chunk)
		if chunk == 0 {
			chunk = DefaultIOBufferBytes / 2
		}
		want := int(min(max(n, chunk, leastChunk), r.seg.Bytes-r.pos))
		r.buf = slices.Grow(r.buf[:0], want)[:want]
		r.off, at = r.pos, 0
		if got, err := r.seg.ReadAt(r.buf, r.pos); got < want {
			r.buf = r.buf[:0]
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, fmt.Errorf("compaction: segment %d, byte %d: %w", r.seg.Base, r.pos, err)
		}
	}
	return r.buf[at : at+n : at+n], nil
}
