package record

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// Sizes and positions in a batch, bytes.
const (
	// HeaderSize is a batch without records.
	HeaderSize = 61
	// LengthOverhead is the part of a batch that its length field does not count.
	LengthOverhead = 12
	// MinLength is the least value of the length field.
	MinLength = HeaderSize - LengthOverhead

	atLength     = 8
	atEpoch      = 12
	atMagic      = 16
	atCRC        = 17
	atAttributes = 21
	atLastDelta  = 23
	atBaseTime   = 27
	atMaxTime    = 35
	atProducer   = 43
	atProdEpoch  = 51
	atSequence   = 53
	atCount      = 57
)

// Attribute bits.
const (
	CodecMask        = 0x07
	BitLogAppendTime = 0x08
	BitTransactional = 0x10
	BitControl       = 0x20
	BitDeleteHorizon = 0x40
	NoTimestamp      = int64(-1)
	NoProducerID     = int64(-1)
	NoProducerEpoch  = int16(-1)
	NoSequence       = int32(-1)
	Magic            = 2
)

// Codec is a compression type.
type Codec uint8

// The codecs of Kafka's attributes.
const (
	CodecNone Codec = iota
	CodecGzip
	CodecSnappy
	CodecLZ4
	CodecZstd
)

// Errors of structure. What wraps them says where.
var (
	// ErrShort: fewer bytes than the header or the length field ask for.
	ErrShort = errors.New("record: batch is cut short")
	// ErrMagic: not magic 2.
	ErrMagic = errors.New("record: magic is not 2")
	// ErrLength: the length field is below MinLength or above the limit.
	ErrLength = errors.New("record: implausible batch length")
	// ErrCRC: the checksum does not match.
	ErrCRC = errors.New("record: checksum mismatch")
	// ErrMalformed: the records cannot be decoded.
	ErrMalformed = errors.New("record: malformed records")
	// ErrInflate: the records inflate beyond the limit.
	ErrInflate = errors.New("record: batch inflates beyond the limit")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A Batch is a view of one record batch: exactly its bytes. Accessors need at
// least HeaderSize bytes; Validate checks that.
type Batch []byte

// BaseOffset is the offset of delta 0.
func (b Batch) BaseOffset() int64 { return int64(binary.BigEndian.Uint64(b)) }

// Length is the length field: the bytes behind it.
func (b Batch) Length() int32 { return int32(binary.BigEndian.Uint32(b[atLength:])) }

// Size is the whole batch in bytes as its header says.
func (b Batch) Size() int64 { return int64(b.Length()) + LengthOverhead }

// LeaderEpoch is the partition leader epoch; -1 unknown.
func (b Batch) LeaderEpoch() int32 { return int32(binary.BigEndian.Uint32(b[atEpoch:])) }

// Magic is the format version.
func (b Batch) Magic() int8 { return int8(b[atMagic]) }

// CRC is the stored checksum.
func (b Batch) CRC() uint32 { return binary.BigEndian.Uint32(b[atCRC:]) }

// Attributes are the attribute bits; only the low byte means anything.
func (b Batch) Attributes() int16 { return int16(binary.BigEndian.Uint16(b[atAttributes:])) }

// LastOffsetDelta is the last offset minus the base offset.
func (b Batch) LastOffsetDelta() int32 { return int32(binary.BigEndian.Uint32(b[atLastDelta:])) }

// BaseTimestamp is the reference of timestamp deltas (ms), or the delete horizon.
func (b Batch) BaseTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[atBaseTime:])) }

// MaxTimestamp is the largest timestamp (ms), -1 if none.
func (b Batch) MaxTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[atMaxTime:])) }

// ProducerID is the producer's id, -1 if none.
func (b Batch) ProducerID() int64 { return int64(binary.BigEndian.Uint64(b[atProducer:])) }

// ProducerEpoch is the producer's epoch, -1 if none.
func (b Batch) ProducerEpoch() int16 { return int16(binary.BigEndian.Uint16(b[atProdEpoch:])) }

// BaseSequence is the sequence number of delta 0, -1 if none.
func (b Batch) BaseSequence() int32 { return int32(binary.BigEndian.Uint32(b[atSequence:])) }

// Count is the number of records present.
func (b Batch) Count() int32 { return int32(binary.BigEndian.Uint32(b[atCount:])) }

// LastOffset is the batch's last offset, whether or not its record is present.
func (b Batch) LastOffset() int64 { return b.BaseOffset() + int64(b.LastOffsetDelta()) }

// NextOffset is the offset behind the batch.
func (b Batch) NextOffset() int64 { return b.LastOffset() + 1 }

// Codec is the compression of the records.
func (b Batch) Codec() Codec { return Codec(b[atAttributes+1] & CodecMask) }

// LogAppendTime says that every record's timestamp is MaxTimestamp.
func (b Batch) LogAppendTime() bool { return b[atAttributes+1]&BitLogAppendTime != 0 }

// Transactional says that the batch belongs to a transaction.
func (b Batch) Transactional() bool { return b[atAttributes+1]&BitTransactional != 0 }

// Control says that the batch holds a control record.
func (b Batch) Control() bool { return b[atAttributes+1]&BitControl != 0 }

// HasDeleteHorizon says that BaseTimestamp is the delete horizon (KIP-534).
func (b Batch) HasDeleteHorizon() bool { return b[atAttributes+1]&BitDeleteHorizon != 0 }

// SetBaseOffset stamps the base offset, which the checksum does not cover.
func (b Batch) SetBaseOffset(offset int64) { binary.BigEndian.PutUint64(b, uint64(offset)) }

// SetLeaderEpoch stamps the leader epoch, which the checksum does not cover.
func (b Batch) SetLeaderEpoch(epoch int32) { binary.BigEndian.PutUint32(b[atEpoch:], uint32(epoch)) }

// ComputeCRC is the checksum that the bytes should have.
func (b Batch) ComputeCRC() uint32 { return crc32.Checksum(b[atAttributes:], castagnoli) }

// SetCRC stores the right checksum.
func (b Batch) SetCRC() { binary.BigEndian.PutUint32(b[atCRC:], b.ComputeCRC()) }
