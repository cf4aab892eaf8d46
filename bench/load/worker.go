package load

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// correlationAt is where the correlation id stands in a request's frame: after
// the length (4 bytes), the API key and the version (2 each).
const correlationAt = 8

// drainTimeout is how long a worker waits for answers after its last request.
const drainTimeout = 10 * time.Second

// A template is one request as bytes, to be sent many times.
type template struct {
	req       kmsg.Request
	frame     []byte
	offsetsAt []int // where the committed offsets stand in frame
	bare      bool  // answers are not looked into
	good      []byte
}

func heartbeatTemplate(m Member, version int16) *template {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version = version
	req.Group, req.Generation, req.MemberID = m.Group, m.Generation, m.ID
	return &template{req: req, frame: newFormatter().AppendRequest(nil, req, 0)}
}

// commitTemplate finds the offsets in the frame by encoding it with a value
// that occurs nowhere else.
func commitTemplate(group, topic string, partitions int, version int16) *template {
	const marker = 0x7ed1a5c3f00dbabe
	req := NewCommit(group, topic, partitions)
	req.Version = version
	for i := range req.Topics[0].Partitions {
		req.Topics[0].Partitions[i].Offset = marker
	}
	t := &template{req: req, frame: newFormatter().AppendRequest(nil, req, 0)}
	pattern := binary.BigEndian.AppendUint64(nil, marker)
	for at := 0; ; {
		i := bytes.Index(t.frame[at:], pattern)
		if i < 0 {
			break
		}
		t.offsetsAt = append(t.offsetsAt, at+i)
		at += i + len(pattern)
	}
	if len(t.offsetsAt) != partitions {
		panic(fmt.Sprintf("found %d offsets in a commit of %d partitions", len(t.offsetsAt), partitions))
	}
	return t
}

// appendRequest appends the request with the number seq as its correlation id
// and as the offset it commits.
func (t *template) appendRequest(dst []byte, seq int64) []byte {
	start := len(dst)
	dst = append(dst, t.frame...)
	frame := dst[start:]
	binary.BigEndian.PutUint32(frame[correlationAt:], uint32(seq))
	for _, at := range t.offsetsAt {
		binary.BigEndian.PutUint64(frame[at:], uint64(seq))
	}
	return dst
}

// check returns the error codes in an answer's bytes after its correlation id.
func (t *template) check(body []byte) ([]codeError, error) {
	if t.bare || t.good != nil && bytes.Equal(body, t.good) {
		return nil, nil
	}
	resp, err := decodeAnswer(t.req, body)
	if err != nil {
		return nil, err
	}
	codes := errorCodes(resp)
	if len(codes) == 0 {
		t.good = append(t.good[:0], body...)
	}
	return codes, nil
}

// A window is when to count, as times since start.
type window struct {
	start       time.Time
	from, until time.Duration
}

// A worker drives one connection.
type worker struct {
	conn      net.Conn
	templates []*template
	depth     int64
	interval  time.Duration // between requests; 0: closed loop

	// Invariant: got <= sent <= got+depth. Request and answer number n belong
	// to templates[n%len] and sentAt[n%depth].
	sent, got int64
	sentAt    []time.Duration
	due       time.Duration // of the next request, when interval > 0

	out, in []byte // in: unread part of the input
	window  window

	latency Histogram
	failed  int64
	codes   map[codeError]int
	err     error
}

func newWorker(s *Spec, templates []*template) (*worker, error) {
	conn, err := net.DialTimeout("tcp", s.Addr, setupTimeout)
	if err != nil {
		return nil, err
	}
	w := &worker{
		conn: conn, templates: templates, depth: int64(s.Depth),
		sentAt: make([]time.Duration, s.Depth),
		in:     make([]byte, 0, 64<<10), codes: map[codeError]int{},
	}
	if s.Rate > 0 {
		w.interval = time.Duration(float64(time.Second) * float64(s.Conns) / s.Rate)
	}
	return w, nil
}

func (w *worker) run(win window, s *Spec, index int) {
	defer w.conn.Close()
	w.window = win
	// Connections at a fixed rate take turns instead of sending at once.
	w.due = w.interval * time.Duration(index) / time.Duration(s.Conns)
	if w.err = w.conn.SetDeadline(win.start.Add(win.until + drainTimeout)); w.err != nil {
		return
	}
	w.err = w.loop()
	if errors.Is(w.err, os.ErrDeadlineExceeded) {
		w.err = fmt.Errorf("%d answers did not come within %v of the end", w.sent-w.got, drainTimeout)
	}
}

func (w *worker) loop() error {
	for {
		now := time.Since(w.window.start)
		if now >= w.window.until {
			if w.sent == w.got {
				return nil
			}
		} else if err := w.send(now); err != nil {
			return err
		}
		if w.sent == w.got { // only at a fixed rate: nothing is due yet
			time.Sleep(min(w.due, w.window.until) - now)
			continue
		}
		if err := w.receive(now); err != nil {
			return err
		}
	}
}

// send writes what may be sent now in one write.
func (w *worker) send(now time.Duration) error {
	w.out = w.out[:0]
	for w.sent-w.got < w.depth && (w.interval == 0 || w.due <= now) {
		at := now
		if w.interval > 0 {
			at = w.due
			w.due += w.interval
		}
		w.sentAt[w.sent%w.depth] = at
		w.out = w.templates[w.sent%int64(len(w.templates))].appendRequest(w.out, w.sent)
		w.sent++
	}
	if len(w.out) == 0 {
		return nil
	}
	_, err := w.conn.Write(w.out)
	return err
}

// receive reads once and takes every whole answer. At a fixed rate it comes
// back without an answer when the next request is due.
func (w *worker) receive(now time.Duration) error {
	wake := w.interval > 0 && w.sent-w.got < w.depth && now < w.window.until
	if w.interval > 0 {
		deadline := w.window.start.Add(w.window.until + drainTimeout)
		if wake {
			deadline = w.window.start.Add(max(w.due, now+time.Microsecond))
		}
		if err := w.conn.SetReadDeadline(deadline); err != nil {
			return err
		}
	}
	n, err := w.conn.Read(w.in[len(w.in):cap(w.in)])
	if n == 0 && err != nil {
		switch {
		case wake && errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case errors.Is(err, io.EOF):
			return errors.New("the server closed the connection")
		}
		return err
	}
	w.in = w.in[:len(w.in)+n]
	return w.takeAnswers(time.Since(w.window.start))
}

func (w *worker) takeAnswers(now time.Duration) error {
	rest := w.in
	for len(rest) >= 4 {
		size := int64(binary.BigEndian.Uint32(rest))
		if size < 4 || size > maxAnswerBytes {
			return fmt.Errorf("an answer of %d bytes", size)
		}
		if int64(len(rest)) < 4+size {
			if need := 4 + int(size); need > cap(w.in) {
				w.in = append(make([]byte, 0, 2*need), rest...)
				return nil
			}
			break
		}
		if err := w.takeAnswer(rest[4:4+size], now); err != nil {
			return err
		}
		rest = rest[4+size:]
	}
	w.in = w.in[:copy(w.in[:cap(w.in)], rest)]
	return nil
}

func (w *worker) takeAnswer(answer []byte, now time.Duration) error {
	if w.got == w.sent {
		return errors.New("an answer without a request")
	}
	if id := binary.BigEndian.Uint32(answer); id != uint32(w.got) {
		return fmt.Errorf("correlation id %d where %d was due", id, uint32(w.got))
	}
	codes, err := w.templates[w.got%int64(len(w.templates))].check(answer[4:])
	if err != nil {
		return err
	}
	at := w.sentAt[w.got%w.depth]
	w.got++
	if now < w.window.from || now >= w.window.until {
		return nil
	}
	w.latency.Record(int64(now - at))
	if len(codes) > 0 {
		w.failed++
	}
	for _, code := range codes {
		w.codes[code]++
	}
	return nil
}
