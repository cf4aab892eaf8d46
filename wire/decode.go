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
	if err := read(req, h, req.ReadFrom); err != nil {
		return nil, err
	}
	return req, nil
}

// read runs a kmsg decoder. kmsg was never seen to panic, but a frame comes from
// outside: should it, that connection is closed and nobody else is disturbed.
func read(req kmsg.Request, h Header, from func([]byte) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: key %d version %d: decoder panicked: %v", ErrMalformed, h.Key, h.Version, p)
		}
	}()
	if err := from(h.Body); err != nil {
		return fmt.Errorf("%w: key %d version %d: %w", ErrMalformed, h.Key, req.GetVersion(), err)
	}
	return nil
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
}

// maxKept is the number of elements up to which a Decoder keeps a list for the
// next request.
const maxKept = 1024

// Decode returns the request behind a header that ParseHeader accepted. Errors
// are those of the function Decode.
func (d *Decoder) Decode(h Header) (kmsg.Request, error) {
	switch h.Key {
	case 12:
		r := &d.heartbeat
		*r = kmsg.HeartbeatRequest{Version: h.Version}
		return r, read(r, h, r.UnsafeReadFrom)
	case 8:
		r := &d.offsetCommit
		*r = kmsg.OffsetCommitRequest{Version: h.Version, Topics: kept(r.Topics)}
		return r, read(r, h, r.UnsafeReadFrom)
	case 9:
		r := &d.offsetFetch
		*r = kmsg.OffsetFetchRequest{Version: h.Version, Topics: kept(r.Topics), Groups: kept(r.Groups)}
		return r, read(r, h, r.UnsafeReadFrom)
	}
	return Decode(h)
}

// kept returns the empty list on the memory of the one before, unless that was
// large.
func kept[T any](list []T) []T {
	if cap(list) > maxKept {
		return nil
	}
	return list[:0]
}
