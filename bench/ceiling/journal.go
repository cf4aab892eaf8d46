package ceiling

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"
)

const (
	// journalBytes is the size of the file. It is zeroed before the first frame
	// is taken and then written round and round, so no write changes its size
	// or its layout on disk.
	journalBytes = 64 << 20
	// roundBytes bounds what one round may hold.
	roundBytes = 16 << 20
)

// A round is what came in while the previous one was being synced.
type round struct {
	data   []byte
	pieces []piece
	conns  []*conn // each connection that has pieces, once
}

// A piece is a run of frames of one connection: data[from:to].
type piece struct {
	conn     *conn
	from, to int
}

type journal struct {
	file     *os.File
	position int64
	err      error // set by run, read after it has ended

	mu struct {
		sync.Mutex
		wake     sync.Cond
		open     *round
		spare    []*round
		member   map[*conn]bool // connections of open
		loop     gnet.EventLoop
		stopping bool
	}
}

func openJournal(path string) (*journal, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, err
	}
	zeros := make([]byte, 1<<20)
	for at := int64(0); at < journalBytes; at += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros, at); err != nil {
			return nil, err
		}
	}
	if err := f.Sync(); err != nil {
		return nil, err
	}
	j := &journal{file: f}
	j.mu.wake.L = &j.mu.Mutex
	j.mu.open = &round{}
	j.mu.member = map[*conn]bool{}
	return j, nil
}

// add copies frames into the open round. A round that would grow past its bound
// is refused.
func (j *journal) add(c *conn, frames []byte) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.mu.open
	from := len(r.data)
	if from+len(frames) > roundBytes {
		return false
	}
	r.data = append(r.data, frames...)
	r.pieces = append(r.pieces, piece{c, from, len(r.data)})
	if !j.mu.member[c] {
		j.mu.member[c] = true
		r.conns = append(r.conns, c)
	}
	if j.mu.loop == nil {
		j.mu.loop = c.gnet.EventLoop()
	}
	if from == 0 {
		j.mu.wake.Signal()
	}
	return true
}

// take waits for a round with something in it. It returns nil at the stop.
func (j *journal) take() (*round, gnet.EventLoop) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for len(j.mu.open.data) == 0 && !j.mu.stopping {
		j.mu.wake.Wait()
	}
	r := j.mu.open
	if len(r.data) == 0 {
		return nil, nil
	}
	j.mu.open = &round{}
	if n := len(j.mu.spare); n > 0 {
		j.mu.open, j.mu.spare = j.mu.spare[n-1], j.mu.spare[:n-1]
	}
	clear(j.mu.member)
	return r, j.mu.loop
}

func (j *journal) recycle(r *round) {
	r.data, r.pieces, r.conns = r.data[:0], r.pieces[:0], r.conns[:0]
	j.mu.Lock()
	j.mu.spare = append(j.mu.spare, r)
	j.mu.Unlock()
}

// run writes and syncs round after round and sends each to the event loop.
func (j *journal) run(s *Server) {
	for {
		r, loop := j.take()
		if r == nil {
			return
		}
		if j.position+int64(len(r.data)) > journalBytes {
			j.position = 0
		}
		if _, err := j.file.WriteAt(r.data, j.position); err != nil {
			j.err = err
			return
		}
		if err := unix.Fdatasync(int(j.file.Fd())); err != nil {
			j.err = fmt.Errorf("fdatasync of %s: %w", j.file.Name(), err)
			return
		}
		j.position += int64(len(r.data))
		if err := loop.Execute(context.Background(), releaseTask{s, r}); err != nil {
			j.err = err
			return
		}
	}
}

func (j *journal) stop() {
	j.mu.Lock()
	j.mu.stopping = true
	j.mu.Unlock()
	j.mu.wake.Signal()
}
