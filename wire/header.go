package wire

import (
	"encoding/binary"
	"errors"
	"unsafe"
)

// Why a frame is refused. Kafka closes the connection without an answer for all
// of them, except that ApiVersions at an unsupported version is answered (see
// AppendUnsupportedVersion).
var (
	ErrUnknownKey         = errors.New("wire: unknown API key")
	ErrUnsupportedVersion = errors.New("wire: unsupported version")
	ErrMalformed          = errors.New("wire: malformed request")
)

// What is wrong with a malformed request.
var (
	errShort    = errors.New("ends too early")
	errNull     = errors.New("is null")
	errLong     = errors.New("is longer than 32767 bytes")
	errElements = errors.New("has more than 1000000 elements")
	errTags     = errors.New("tagged fields are malformed or more than 10000")
)

// A fieldError is what is wrong with one field.
type fieldError struct {
	field *field
	what  error
}

func (e *fieldError) Error() string { return e.field.name + " " + e.what.Error() }
func (e *fieldError) Unwrap() error { return e.what }

// minHeader is the length of the shortest request header: key, version,
// correlation id and the length of a null client id.
const minHeader = 10

// A Header is a request's header and the bytes behind it.
type Header struct {
	Key, Version int16
	// CorrelationID is any 32-bit number; the answer repeats it.
	CorrelationID int32
	// ClientID aliases the frame: what is stored has to be cloned. A null client
	// id is the empty string.
	ClientID string
	// Body is the request itself; it aliases the frame.
	Body []byte
}

// ParseHeader reads a request header (v1, or v2 from an API's first flexible
// version on) from a frame. With ErrUnsupportedVersion the header is filled in as
// far as it could be read; with the other errors it is not to be used.
func ParseHeader(frame []byte) (h Header, err error) {
	if len(frame) < minHeader {
		return h, ErrMalformed
	}
	h.Key = int16(binary.BigEndian.Uint16(frame))
	h.Version = int16(binary.BigEndian.Uint16(frame[2:]))
	h.CorrelationID = int32(binary.BigEndian.Uint32(frame[4:]))
	if uint16(h.Key) >= uint16(len(apis)) {
		return h, ErrUnknownKey
	}
	api := &apis[uint16(h.Key)]
	if api.Name == "" {
		return h, ErrUnknownKey
	}
	n := int(int16(binary.BigEndian.Uint16(frame[8:])))
	h.Body = frame[minHeader:]
	if n > len(h.Body) {
		return h, ErrMalformed
	}
	if n > 0 {
		h.ClientID = unsafe.String(&h.Body[0], n)
		h.Body = h.Body[n:]
	}
	if h.Version >= api.Flexible {
		if len(h.Body) > 0 && h.Body[0] == 0 {
			h.Body = h.Body[1:]
		} else if rest, ok := skipTags(h.Body); ok {
			h.Body = rest
		} else {
			return h, ErrMalformed
		}
	}
	if h.Version < api.Min || h.Version > api.Max {
		return h, ErrUnsupportedVersion
	}
	return h, nil
}

// skipTags returns what follows a section of tagged fields.
func skipTags(b []byte) ([]byte, bool) {
	count, b, ok := uvarint(b)
	if !ok || count > maxTags {
		return nil, false
	}
	for range count {
		var size uint32
		if _, b, ok = uvarint(b); !ok {
			return nil, false
		}
		if size, b, ok = uvarint(b); !ok || uint64(size) > uint64(len(b)) {
			return nil, false
		}
		b = b[size:]
	}
	return b, true
}

// uvarint reads an unsigned variable-length number of at most 32 bits.
func uvarint(b []byte) (uint32, []byte, bool) {
	var x uint32
	for i := 0; i < len(b) && i < 5; i++ {
		x |= uint32(b[i]&0x7f) << (7 * i)
		if b[i] < 0x80 {
			return x, b[i+1:], i < 4 || b[i] < 0x10
		}
	}
	return 0, nil, false
}
