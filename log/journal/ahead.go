package journal

import (
	"bytes"
	"encoding/binary"
	"io"
	"sync"
	"sync/atomic"
)

// chunkBytes is what is read ahead at a time.
const chunkBytes = 1 << 20

// ahead is a journal's files as Scan reads them: in chunks that stay in memory,
// read by whoever comes first, the walk or one of its helpers, which run before
// it, see where the journal seems to end, and then look through the files behind.
// What they see only saves time: the walk alone decides.
type ahead struct {
	j      *Journal
	files  []*file  // from where replay begins on
	chunks []*chunk // of the first files, as many as may be kept
	first  []int    // by file: its first chunk

	mu struct {
		sync.Mutex
		next  int // chunk that is read ahead next
		spare int // file that seems to be the first one behind the end, -1: not known
	}
	stop atomic.Bool
	// spares are the files that seem to lie behind the end, by file.
	spares []spareFile
}

type chunk struct {
	file, off int64 // number; position in the file
	taken     atomic.Bool
	done      chan struct{} // closed when buf and err are there
	fl        *file
	buf       []byte
	err       error
}

// A spareFile is what a search for entries from where replay begins on saw.
type spareFile struct {
	taken, clean atomic.Bool
	sum          found
}

func (j *Journal) newAhead(keep int) *ahead {
	a := &ahead{j: j, files: j.mu.files[j.mu.replay.File-j.mu.files[0].number:]}
	a.mu.spare = -1
	a.spares = make([]spareFile, len(a.files))
	for i, fl := range a.files {
		off := int64(0)
		if i == 0 {
			off = j.mu.replay.Offset / chunkBytes * chunkBytes
		}
		a.first = append(a.first, len(a.chunks))
		for ; off < j.o.FileBytes && keep >= chunkBytes; off += chunkBytes {
			a.chunks = append(a.chunks, &chunk{file: fl.number, off: off, fl: fl, done: make(chan struct{})})
			keep -= chunkBytes
		}
	}
	return a
}

// read reads the chunk or waits until it has been read. It reports whether it
// did so itself.
func (c *chunk) read(size int64) (did bool) {
	if !c.taken.CompareAndSwap(false, true) {
		<-c.done
		return false
	}
	defer close(c.done)
	b := make([]byte, min(chunkBytes, size-c.off))
	n, err := c.fl.f.ReadAt(b, c.off)
	if err == io.EOF {
		err = nil
	}
	c.buf, c.err = b[:n], err
	return true
}

// chunk returns the chunk that holds position off of a file, nil if it is not
// kept.
func (a *ahead) chunk(fl *file, off int64) *chunk {
	if a == nil {
		return nil
	}
	i := int(fl.number - a.files[0].number)
	if i < 0 || a.first[i] == len(a.chunks) {
		return nil
	}
	k := a.first[i] + int((off-a.chunks[a.first[i]].off)/chunkBytes)
	if k < a.first[i] || k >= len(a.chunks) || a.chunks[k].file != fl.number {
		return nil
	}
	return a.chunks[k]
}

// bytes returns n bytes at off from the chunks, together with the stretch of the
// file that they are part of; ok is false if they are not kept.
func (a *ahead) bytes(fl *file, off int64, n int) (buf []byte, at int64, ok bool, err error) {
	c := a.chunk(fl, off)
	if c == nil {
		return nil, 0, false, nil
	}
	c.read(a.j.o.FileBytes)
	if c.err != nil || off+int64(n) <= c.off+int64(len(c.buf)) {
		return c.buf, c.off, true, c.err
	}
	joined := make([]byte, 0, n)
	for len(joined) < n {
		next := a.chunk(fl, off+int64(len(joined)))
		if next == nil {
			return nil, 0, false, nil
		}
		next.read(a.j.o.FileBytes)
		if next.err != nil {
			return nil, 0, true, next.err
		}
		from := off + int64(len(joined)) - next.off
		if from >= int64(len(next.buf)) {
			break // the file is shorter
		}
		joined = append(joined, next.buf[from:min(int64(len(next.buf)), from+int64(n-len(joined)))]...)
	}
	return joined, off, true, nil
}

// help reads chunks before the walk comes to them and searches the files behind.
func (a *ahead) help() {
	for !a.stop.Load() {
		c := a.claim()
		if c == nil {
			break
		}
		if c.read(a.j.o.FileBytes) && a.unused(c) {
			a.skip(c)
		}
	}
	a.mu.Lock()
	spare := a.mu.spare
	a.mu.Unlock()
	if spare < 0 {
		return
	}
	for i := spare; i < len(a.files); i++ {
		s := &a.spares[i]
		if !s.taken.CompareAndSwap(false, true) {
			continue
		}
		place, _, err := a.j.search(a.files[i], HeaderBytes, a.j.mu.replay.Sequence, &s.sum)
		s.clean.Store(err == nil && place == nil && s.sum.lost == 0)
	}
}

func (a *ahead) claim() *chunk {
	a.mu.Lock()
	defer a.mu.Unlock()
	for ; a.mu.next < len(a.chunks); a.mu.next++ {
		if c := a.chunks[a.mu.next]; !c.taken.Load() {
			a.mu.next++
			return c
		}
	}
	return nil
}

// unused guesses whether a chunk lies behind the end: it has zeros, or entries
// from before replay begins.
func (a *ahead) unused(c *chunk) bool {
	b := c.buf[min(int64(len(c.buf)), max(0, HeaderBytes-c.off)):]
	i := nextMagic(b)
	if i < 0 || len(b)-i < entryHead {
		return len(b) >= len(zeroBlock) && bytes.Equal(b[len(b)-len(zeroBlock):], zeroBlock[:])
	}
	return int64(binary.BigEndian.Uint64(b[i+8:])) < a.j.mu.replay.Sequence
}

// skip leaves the rest of a file; behind one of which nothing is used there is
// nothing to read.
func (a *ahead) skip(c *chunk) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := int(c.file - a.files[0].number)
	if c.off == 0 {
		a.mu.next = len(a.chunks)
		if a.mu.spare < 0 || i < a.mu.spare {
			a.mu.spare = i
		}
		return
	}
	if i+1 < len(a.first) {
		a.mu.next = max(a.mu.next, a.first[i+1])
	}
}

// searched returns what is known of a file that was looked through already.
func (a *ahead) searched(fl *file) (sum found, ok bool) {
	i := int(fl.number - a.files[0].number)
	if i < 0 || !a.spares[i].clean.Load() {
		return found{}, false
	}
	return a.spares[i].sum, true
}
