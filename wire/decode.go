package wire

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Decode returns the request behind a header that ParseHeader accepted, as a
// fresh value. Strings are copies; byte slices and tags alias the frame. Bytes
// behind the request are ignored, as Kafka does. Every error wraps ErrMalformed
// and means that the connection is to be closed.
func Decode(h Header) (kmsg.Request, error) {
	req := kmsg.RequestForKey(h.Key)
	if req == nil {
		return nil, fmt.Errorf("%w: key %d", ErrUnknownKey, h.Key)
	}
	req.SetVersion(h.Version)
	body, err := inspect(h.Key, h.Version, h.Body)
	if err != nil {
		return nil, err
	}
	if err := readCopy(req, body); err != nil {
		return nil, err
	}
	return req, nil
}

// An aliasing request can be read without copies of its strings.
type aliasing interface {
	kmsg.Request
	kmsg.UnsafeReadFrom
}

func readCopy(req kmsg.Request, body []byte) (err error) {
	defer guard(req, &err)
	if err := req.ReadFrom(body); err != nil {
		return malformed(req, err)
	}
	return nil
}

func readAlias(req aliasing, body []byte) (err error) {
	defer guard(req, &err)
	if err := req.UnsafeReadFrom(body); err != nil {
		return malformed(req, err)
	}
	return nil
}

// guard is deferred around kmsg's decoders. They were never seen to panic, but a
// frame comes from outside: should one, that connection is closed and nobody else
// is disturbed.
func guard(req kmsg.Request, err *error) {
	if p := recover(); p != nil {
		*err = malformed(req, fmt.Errorf("decoder panicked: %v", p))
	}
}

func malformed(req kmsg.Request, err error) error {
	return fmt.Errorf("%w: key %d version %d: %w", ErrMalformed, req.Key(), req.GetVersion(), err)
}

// A Decoder decodes like Decode, but keeps the values of the requests that come
// most (Heartbeat, OffsetCommit, OffsetFetch): each is reused by the next request
// of its kind, and its strings alias the frame. So such a request is valid until
// the next call or until the frame is overwritten, whichever comes first, and
// what is kept of it has to be cloned. One goroutine uses a Decoder at a time; the
// zero value is ready.
type Decoder struct {
	heartbeat    kmsg.HeartbeatRequest
	offsetCommit kmsg.OffsetCommitRequest
	offsetFetch  kmsg.OffsetFetchRequest
	quick        quick
}

// maxKept is the number of elements up to which a Decoder keeps a list for the
// next request.
const maxKept = 1024

// Decode returns the request behind a header that ParseHeader accepted. Errors
// are those of the function Decode.
func (d *Decoder) Decode(h Header) (kmsg.Request, error) {
	var req aliasing
	switch h.Key {
	case keyHeartbeat:
		d.heartbeat = kmsg.HeartbeatRequest{Version: h.Version}
		if len(h.Body) <= maxTrusted && d.quick.heartbeat(&d.heartbeat, h.Body) {
			return &d.heartbeat, nil
		}
		d.heartbeat = kmsg.HeartbeatRequest{Version: h.Version}
		req = &d.heartbeat
	case keyOffsetCommit:
		// The fields that a version does not have must not keep what the request
		// before left there.
		d.offsetCommit = kmsg.OffsetCommitRequest{Version: h.Version}
		if len(h.Body) <= maxTrusted && d.quick.commit(&d.offsetCommit, h.Body) {
			return &d.offsetCommit, nil
		}
		d.offsetCommit = kmsg.OffsetCommitRequest{Version: h.Version}
		req = &d.offsetCommit
	case keyOffsetFetch:
		// Topics (below version 8) is not reused: null, which asks for all, would
		// read as the empty list that was kept.
		d.offsetFetch = kmsg.OffsetFetchRequest{Version: h.Version, Groups: kept(d.offsetFetch.Groups)}
		req = &d.offsetFetch
	default:
		return Decode(h)
	}
	if len(h.Body) <= maxTrusted {
		if err := readAlias(req, h.Body); err != nil {
			return nil, err
		}
		if !d.doubtful(h.Key) {
			return req, nil
		}
	}
	body, err := inspect(h.Key, h.Version, h.Body)
	if err != nil {
		return nil, err
	}
	if err := readAlias(req, body); err != nil {
		return nil, err
	}
	return req, nil
}

// maxTrusted is the length of a body up to which a Decoder decodes without a
// walk over it first: no limit on lists, strings or tagged fields can be passed in
// so few bytes, and what kmsg makes of them is small.
const maxTrusted = 4096

// doubtful reports whether the request just decoded has an empty list. kmsg does
// not tell null from empty, and null has to be refused in most lists.
func (d *Decoder) doubtful(key int16) bool {
	switch key {
	case keyOffsetCommit:
		topics := d.offsetCommit.Topics
		for i := range topics {
			if len(topics[i].Partitions) == 0 {
				return true
			}
		}
		return len(topics) == 0
	case keyOffsetFetch:
		topics, groups := d.offsetFetch.Topics, d.offsetFetch.Groups
		for i := range topics {
			if len(topics[i].Partitions) == 0 {
				return true
			}
		}
		for i := range groups {
			for j := range groups[i].Topics {
				if len(groups[i].Topics[j].Partitions) == 0 {
					return true
				}
			}
		}
		return len(topics) == 0 && len(groups) == 0
	}
	return false
}

// kept returns the empty list on the memory of the one before, unless that was
// large.
func kept[T any](list []T) []T {
	if cap(list) > maxKept {
		return nil
	}
	return list[:0]
}
