package meta

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// Kind is the first byte of a metadata record.
type Kind int8

// The kinds of metadata records that this package keeps. The store owns the
// kinds 6 to 8.
const (
	KindTopic       Kind = 1 // a topic with all its properties
	KindDeleted     Kind = 2 // a topic is gone
	KindPartitions  Kind = 3 // a topic's partition count
	KindConfigs     Kind = 4 // all properties set on a resource
	KindProducerIDs Kind = 5 // the first producer id that is not reserved yet
)

// ResourceType is Kafka's number for what a property was set on.
type ResourceType int8

// The resource types that can have properties of their own.
const (
	ResourceTopic  ResourceType = 2
	ResourceBroker ResourceType = 4
	ResourceGroup  ResourceType = 32
)

// A Config is one property as it was set, by Kafka's name.
type Config struct {
	Name, Value string
}

// ErrUnknownKind is wrapped by Apply for a record that a newer kcoord wrote.
var ErrUnknownKind = errors.New("metadata record of an unknown kind, written by a newer kcoord")

// errMalformed is wrapped by Apply for a record whose fields do not fill it.
var errMalformed = errors.New("malformed metadata record")

// AppendTopic appends a record that creates t, or sets all its fields again.
func AppendTopic(dst []byte, t *Topic) []byte {
	dst = append(dst, byte(KindTopic))
	dst = append(dst, t.ID[:]...)
	dst = appendString(dst, t.Name)
	dst = binary.BigEndian.AppendUint32(dst, uint32(t.Partitions))
	dst = binary.BigEndian.AppendUint64(dst, uint64(t.Created))
	return appendConfigs(dst, t.Configs)
}

// AppendDeleted appends a record that deletes the topic with this id.
func AppendDeleted(dst []byte, id [16]byte) []byte {
	return append(append(dst, byte(KindDeleted)), id[:]...)
}

// AppendPartitions appends a record that sets a topic's partition count.
func AppendPartitions(dst []byte, id [16]byte, count int32) []byte {
	dst = append(append(dst, byte(KindPartitions)), id[:]...)
	return binary.BigEndian.AppendUint32(dst, uint32(count))
}

// AppendConfigs appends a record that sets all properties of a resource; an
// empty list says that none is left.
func AppendConfigs(dst []byte, typ ResourceType, name string, configs []Config) []byte {
	dst = append(dst, byte(KindConfigs), byte(typ))
	return appendConfigs(appendString(dst, name), configs)
}

// AppendProducerIDs appends a record that says that all producer ids below
// next are reserved.
func AppendProducerIDs(dst []byte, next int64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, byte(KindProducerIDs)), uint64(next))
}

// appendString panics if s is longer than the format can say: names and values
// are limited where they come in.
func appendString(dst []byte, s string) []byte {
	if len(s) > math.MaxInt16 {
		panic(fmt.Sprintf("meta: string of %d bytes in a metadata record", len(s)))
	}
	return append(binary.BigEndian.AppendUint16(dst, uint16(len(s))), s...)
}

func appendConfigs(dst []byte, configs []Config) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(configs)))
	for _, c := range configs {
		dst = appendString(appendString(dst, c.Name), c.Value)
	}
	return dst
}

// A reader takes fields from a record. After the first field that does not fit
// bad is set and everything reads as zero.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if r.bad || n < 0 || n > len(r.b) {
		r.bad = true
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) int16() int16 {
	if b := r.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *reader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *reader) id() (id [16]byte) {
	copy(id[:], r.take(16))
	return id
}

func (r *reader) string() string {
	b := r.take(int(r.int16()))
	if !utf8.Valid(b) {
		r.bad = true
	}
	return string(b)
}

func (r *reader) configs() []Config {
	n := r.int32()
	if r.bad || n < 0 || int(n) > len(r.b)/4 { // each has two lengths
		r.bad = true
		return nil
	}
	var list []Config
	for range n {
		list = append(list, Config{Name: r.string(), Value: r.string()})
	}
	return list
}

// done reports whether the record was read completely and without a fault.
func (r *reader) done() bool { return !r.bad && len(r.b) == 0 }
