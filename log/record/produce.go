package record

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Kafka's error codes that a check of a client's batch can give.
const (
	CodeCorruptMessage     int16 = 2
	CodeMessageTooLarge    int16 = 10
	CodeRecordListTooLarge int16 = 18
	CodeInvalidTimestamp   int16 = 32
	CodeUnsupportedCodec   int16 = 76
	CodeInvalidRecord      int16 = 87
)

// A RecordError names one record that made its batch unacceptable (KIP-467).
type RecordError struct {
	Index   int32
	Message string
}

// A ProduceError is why a client's batch is refused as a whole.
type ProduceError struct {
	Code    int16
	Message string
	// Records are the records at fault, at most MaxRecordErrors; none if the
	// batch itself is.
	Records []RecordError
	// TooLarge: the records inflate to more than Reader.InflateMax.
	TooLarge bool
}

// MaxRecordErrors bounds the records named in one ProduceError.
const MaxRecordErrors = 100

// Error is the message for the client.
func (e *ProduceError) Error() string { return e.Message }

// ProduceOptions is what CheckProduce needs to know of topic and request.
type ProduceOptions struct {
	MaxMessageBytes    int64
	SegmentBytes       int64
	Compacted          bool  // every record needs a key
	LogAppendTime      bool  // message.timestamp.type
	TimestampBeforeMax int64 // ms; negative: unlimited
	TimestampAfterMax  int64 // ms; negative: unlimited
	NowMillis          int64
	NoZstd             bool // Produce below version 7 may not send it (KIP-110)
}

// CheckProduce validates what a client sent for one partition: exactly one
// batch with magic 2, sound in header, checksum and every record. On success
// the batch is ready to be appended: its max timestamp has been corrected in
// place if it was wrong, or set to now for a LogAppendTime topic. Producer ids
// are only checked for consistency; sequence numbers are the log's business.
func (r *Reader) CheckProduce(data []byte, o *ProduceOptions) (Batch, *ProduceError) {
	b, perr := checkProduceHeader(data, o)
	if perr != nil {
		return nil, perr
	}
	if perr := checkProduceFields(b, o); perr != nil {
		return nil, perr
	}
	c := produceCheck{o: o, maxTime: NoTimestamp}
	err := r.Each(b, c.record)
	switch {
	case errors.Is(err, errTooManyRecordErrors):
	case errors.Is(err, ErrInflate):
		return nil, &ProduceError{Code: CodeInvalidRecord, Message: err.Error(), TooLarge: true}
	case errors.Is(err, ErrMalformed):
		return nil, refuse(CodeInvalidRecord, err.Error())
	case err != nil:
		return nil, refuse(CodeCorruptMessage, err.Error())
	}
	if c.err != nil {
		return nil, c.err
	}
	c.stamp(b)
	return b, nil
}

// Compressed reports whether data, which nobody has checked yet, says that it is
// compressed.
func Compressed(data []byte) bool {
	return len(data) > atAttributes+1 && Batch(data).Codec() != CodecNone
}

func refuse(code int16, message string) *ProduceError {
	return &ProduceError{Code: code, Message: message}
}

// checkProduceHeader checks sizes, magic and checksum.
func checkProduceHeader(data []byte, o *ProduceOptions) (Batch, *ProduceError) {
	if len(data) <= atMagic {
		return nil, refuse(CodeInvalidRecord, "the partition's data holds no record batch")
	}
	if data[atMagic] != Magic {
		return nil, refuse(CodeInvalidRecord, fmt.Sprintf("record batches need magic 2, not %d", int8(data[atMagic])))
	}
	size := int64(int32(binary.BigEndian.Uint32(data[atLength:]))) + LengthOverhead
	switch {
	case size < HeaderSize:
		return nil, refuse(CodeCorruptMessage, fmt.Sprintf("batch of %d bytes is shorter than a batch header", size))
	case size != int64(len(data)):
		return nil, refuse(CodeInvalidRecord, fmt.Sprintf("exactly one batch is needed: its header says %d bytes, %d were sent", size, len(data)))
	case size > o.MaxMessageBytes:
		return nil, refuse(CodeMessageTooLarge, fmt.Sprintf("batch of %d bytes exceeds max.message.bytes (%d)", size, o.MaxMessageBytes))
	case size > o.SegmentBytes:
		return nil, refuse(CodeRecordListTooLarge, fmt.Sprintf("batch of %d bytes exceeds segment.bytes (%d)", size, o.SegmentBytes))
	}
	b := Batch(data)
	if got, want := b.CRC(), b.ComputeCRC(); got != want {
		return nil, refuse(CodeCorruptMessage, fmt.Sprintf("record is corrupt (stored crc = %d, computed crc = %d)", got, want))
	}
	return b, nil
}

// checkProduceFields checks the header's fields against each other.
func checkProduceFields(b Batch, o *ProduceOptions) *ProduceError {
	count, span := int64(b.Count()), int64(b.LastOffsetDelta())+1
	switch {
	case b.BaseOffset() != 0:
		return refuse(CodeInvalidRecord, fmt.Sprintf("the base offset of a produced batch is 0, not %d", b.BaseOffset()))
	case count <= 0 || count != span:
		return refuse(CodeInvalidRecord, fmt.Sprintf("batch has %d records but spans %d offsets", count, span))
	case b.Control():
		return refuse(CodeInvalidRecord, "clients may not write control records")
	case b.HasDeleteHorizon():
		return refuse(CodeInvalidRecord, "clients may not set a delete horizon")
	case b.Codec() > CodecZstd:
		return refuse(CodeInvalidRecord, fmt.Sprintf("unknown compression codec %d", b.Codec()))
	case b.Codec() == CodecZstd && o.NoZstd:
		return refuse(CodeUnsupportedCodec, "zstd needs Produce version 7 or higher")
	case b.LogAppendTime():
		return refuse(CodeInvalidTimestamp, "clients may not set the timestamp type to LogAppendTime")
	case b.ProducerID() >= 0 && (b.ProducerEpoch() < 0 || b.BaseSequence() < 0):
		return refuse(CodeInvalidRecord, fmt.Sprintf("producer %d sent epoch %d and sequence number %d", b.ProducerID(), b.ProducerEpoch(), b.BaseSequence()))
	case b.Transactional() && b.ProducerID() < 0:
		return refuse(CodeInvalidRecord, "transactional batch without producer id")
	}
	return nil
}

// produceCheck looks at the records of one batch.
type produceCheck struct {
	o       *ProduceOptions
	next    int32
	maxTime int64
	err     *ProduceError
}

var errTooManyRecordErrors = errors.New("record: too many record errors")

func (c *produceCheck) record(rec Record) error {
	index := c.next
	c.next++
	if rec.Timestamp > c.maxTime {
		c.maxTime = rec.Timestamp
	}
	switch {
	case rec.OffsetDelta != index:
		return c.fail(CodeInvalidRecord, index, fmt.Sprintf("record %d has offset delta %d", index, rec.OffsetDelta))
	case c.o.Compacted && rec.Key == nil:
		return c.fail(CodeInvalidRecord, index, "Compacted topic cannot accept message without key")
	case !c.o.LogAppendTime && !c.timely(rec.Timestamp):
		return c.fail(CodeInvalidTimestamp, index, fmt.Sprintf("timestamp %d is outside what message.timestamp.before.max.ms and message.timestamp.after.max.ms allow at %d", rec.Timestamp, c.o.NowMillis))
	}
	return nil
}

// timely: a record without timestamp always is, as in Kafka.
func (c *produceCheck) timely(ts int64) bool {
	if ts == NoTimestamp {
		return true
	}
	if ts < 0 {
		return false
	}
	diff := c.o.NowMillis - ts
	if c.o.TimestampBeforeMax >= 0 && diff > c.o.TimestampBeforeMax {
		return false
	}
	return c.o.TimestampAfterMax < 0 || -diff <= c.o.TimestampAfterMax
}

// fail notes a record at fault. The first fault decides the batch's code.
func (c *produceCheck) fail(code int16, index int32, message string) error {
	if c.err == nil {
		c.err = &ProduceError{Code: code, Message: "One or more records have been rejected: " + message}
	}
	if c.err.Code == code {
		c.err.Records = append(c.err.Records, RecordError{Index: index, Message: message})
	}
	if len(c.err.Records) >= MaxRecordErrors {
		return errTooManyRecordErrors
	}
	return nil
}

// stamp makes the batch's timestamps what the log will say.
func (c *produceCheck) stamp(b Batch) {
	switch {
	case c.o.LogAppendTime:
		b[atAttributes+1] |= BitLogAppendTime
		binary.BigEndian.PutUint64(b[atMaxTime:], uint64(c.o.NowMillis))
	case b.MaxTimestamp() != c.maxTime:
		binary.BigEndian.PutUint64(b[atMaxTime:], uint64(c.maxTime))
	default:
		return
	}
	b.SetCRC()
}
