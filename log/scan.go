package log

import (
	"errors"
	"fmt"
	"io"

	"github.com/kcoord/kcoord/log/record"
)

// A scanner walks over the batches of a segment from a position on, reading
// pieces of the file into one buffer.
type scanner struct {
	r     io.ReaderAt
	end   int64 // exclusive: batches must end at or before it
	limit int64 // largest batch
	// whole asks for batches with all their bytes; else just the header is read
	// and the rest skipped.
	whole bool

	pos   int64 // of the batch that next returns next
	buf   []byte
	from  int64 // where buf begins in the file
	chunk int64 // what is read at a time: little at first, more if it goes on
}

const (
	scanFirst = 8 << 10
	scanChunk = 64 << 10
	// batchCap bounds the size of a batch on disk, whatever max.message.bytes
	// says now: it may have been larger.
	batchCap = 64<<20 + 1<<20
)

func newScanner(r io.ReaderAt, pos, end int64, whole bool, buf []byte) *scanner {
	return &scanner{r: r, pos: pos, end: end, limit: batchCap, whole: whole, buf: buf[:0], from: pos, chunk: scanFirst}
}

// scanError is a batch that is not as it must be.
type scanError struct {
	pos int64
	err error
}

func (e *scanError) Error() string { return fmt.Sprintf("at byte %d: %v", e.pos, e.err) }
func (e *scanError) Unwrap() error { return e.err }

// next returns the batch at s.pos and moves behind it; io.EOF at the end. The
// batch is valid until the next call. Without whole it is cut to its header.
// *scanError: the bytes there are no batch; other errors are the reader's.
func (s *scanner) next() (record.Batch, error) {
	if s.pos == s.end {
		return nil, io.EOF
	}
	head, err := s.bytes(record.HeaderSize)
	if err != nil {
		return nil, err
	}
	size, err := record.Peek(head, s.limit)
	if err != nil {
		return nil, &scanError{s.pos, err}
	}
	if s.pos+size > s.end {
		return nil, &scanError{s.pos, record.ErrShort}
	}
	b := record.Batch(head)
	if s.whole {
		if b, err = s.bytes(int(size)); err != nil {
			return nil, err
		}
		if err := b.Validate(); err != nil {
			return nil, &scanError{s.pos, err}
		}
	} else if b.LastOffsetDelta() < 0 || b.BaseOffset() < 0 {
		return nil, &scanError{s.pos, record.ErrMalformed}
	}
	s.pos += size
	return b, nil
}

// bytes returns the n bytes at s.pos.
func (s *scanner) bytes(n int) ([]byte, error) {
	if s.pos+int64(n) > s.end {
		return nil, &scanError{s.pos, record.ErrShort}
	}
	at := s.pos - s.from
	if at < 0 || at+int64(n) > int64(len(s.buf)) {
		want := min(max(int64(n), s.chunk), s.end-s.pos)
		s.chunk = min(2*s.chunk, scanChunk)
		if int64(cap(s.buf)) < want {
			s.buf = make([]byte, want)
		}
		s.buf = s.buf[:want]
		if err := readFull(s.r, s.buf, s.pos); err != nil {
			s.buf = s.buf[:0]
			if errors.Is(err, io.ErrUnexpectedEOF) {
				return nil, &scanError{s.pos, fmt.Errorf("%w: the file is shorter", record.ErrShort)}
			}
			return nil, err
		}
		s.from, at = s.pos, 0
	}
	return s.buf[at : at+int64(n) : at+int64(n)], nil
}
