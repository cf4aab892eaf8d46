package load

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Pipeline sends the requests that next returns, nil after the last, with up to
// depth of them on the way, and hands each answer to got, in order. A request may
// be changed and used again when next is called again, but for its version, which
// is the highest that the broker has, at most limit.
func (p *Peer) Pipeline(depth int, limit int16, timeout time.Duration, next func() kmsg.Request, got func(kmsg.Response) error) error {
	formatter := newFormatter()
	var frame []byte
	var waiting []int32
	var req kmsg.Request
	for sent := true; sent || len(waiting) > 0; {
		p.out = p.out[:0]
		for sent && len(waiting) < depth {
			r := next()
			if sent = r != nil; !sent {
				break
			}
			r.SetVersion(min(p.maxVersions[r.Key()], limit, r.MaxVersion()))
			p.correlation++
			frame = formatter.AppendRequest(frame[:0], r, p.correlation) // it begins at the slice's beginning
			p.out = append(p.out, frame...)
			waiting = append(waiting, p.correlation)
			req = r
		}
		if err := p.conn.SetDeadline(time.Now().Add(timeout)); err != nil {
			return err
		}
		if _, err := p.conn.Write(p.out); err != nil {
			return err
		}
		for range (len(waiting) + 1) / 2 {
			resp, err := p.answer(req, waiting[0])
			if err == nil {
				err = got(resp)
			}
			if err != nil {
				return err
			}
			waiting = waiting[1:]
		}
	}
	return nil
}

// AskSize is Ask for answers that are not looked into: their size in bytes.
func (p *Peer) AskSize(req kmsg.Request, limit int16, timeout time.Duration) (int, error) {
	req.SetVersion(min(p.maxVersions[req.Key()], limit, req.MaxVersion()))
	if err := p.send(req, timeout); err != nil {
		return 0, err
	}
	size, err := p.head(p.correlation)
	if err != nil {
		return 0, err
	}
	if p.scratch == nil {
		p.scratch = make([]byte, 128<<10)
	}
	for left := size; left > 0; {
		n, err := p.in.Read(p.scratch[:min(left, len(p.scratch))])
		if err != nil {
			return 0, err
		}
		left -= n
	}
	return size, nil
}

// answer reads one answer.
func (p *Peer) answer(req kmsg.Request, correlation int32) (kmsg.Response, error) {
	size, err := p.head(correlation)
	if err != nil {
		return nil, err
	}
	answer := make([]byte, size)
	if _, err := io.ReadFull(p.in, answer); err != nil {
		return nil, err
	}
	return decodeAnswer(req, answer)
}

// head reads an answer up to behind its correlation id, and returns how many bytes
// follow.
func (p *Peer) head(correlation int32) (int, error) {
	var head [8]byte
	if _, err := io.ReadFull(p.in, head[:]); err != nil {
		return 0, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size < 4 || size > maxAnswerBytes {
		return 0, fmt.Errorf("an answer of %d bytes", size)
	}
	if got := int32(binary.BigEndian.Uint32(head[4:])); got != correlation {
		return 0, fmt.Errorf("correlation id %d, want %d", got, correlation)
	}
	return int(size) - 4, nil
}

// CommitMany commits offset for every partition of topic to each of the groups
// that name returns for first to last-1, 32 requests at a time.
func (p *Peer) CommitMany(topic string, partitions, first, last int, offset int64, name func(i int) string) error {
	req := NewCommit("", topic, partitions)
	for i := range req.Topics[0].Partitions {
		req.Topics[0].Partitions[i].Offset = offset
	}
	i := first
	next := func() kmsg.Request {
		if i == last {
			return nil
		}
		req.Group = name(i)
		i++
		return req
	}
	var again []int // groups whose partition of __consumer_offsets was refused for the moment
	at := first
	err := p.Pipeline(32, maxCommitVersion, setupTimeout, next, func(resp kmsg.Response) error {
		for _, code := range errorCodes(resp) {
			if !code.transient() {
				return fmt.Errorf("commit to %s: %w", name(at), code)
			}
			again = append(again, at)
			break
		}
		at++
		return nil
	})
	for _, i := range again {
		if err == nil {
			req.Group = name(i)
			err = retry("commit to "+req.Group, func() (codeError, error) {
				resp, err := p.Ask(req, maxCommitVersion, setupTimeout)
				if err != nil {
					return 0, err
				}
				for _, code := range errorCodes(resp) {
					return code, nil
				}
				return 0, nil
			})
		}
	}
	return err
}

// FetchOffset asks for the committed offset of partition 0 of topic until the
// group's coordinator answers.
func (p *Peer) FetchOffset(group, topic string) (offset int64, err error) {
	err = retry("OffsetFetch of "+group, func() (codeError, error) {
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Group = group
		t := kmsg.NewOffsetFetchRequestTopic()
		t.Topic, t.Partitions = topic, []int32{0}
		req.Topics = append(req.Topics, t)
		resp, err := p.Ask(req, 7, setupTimeout)
		if err != nil {
			return 0, err
		}
		r := resp.(*kmsg.OffsetFetchResponse)
		if r.ErrorCode != 0 {
			return codeError(r.ErrorCode), nil
		}
		part := r.Topics[0].Partitions[0]
		offset = part.Offset
		return codeError(part.ErrorCode), nil
	})
	return offset, err
}
