// Package records encodes and decodes the records that a group coordinator keeps
// in __consumer_offsets, with the schemas of Apache Kafka.
//
// A key is an int16 record type and the key's fields in the encoding without
// tagged fields. A value is an int16 version and the value's fields; a tombstone
// has no value. Strings and byte slices that a decoder returns alias its input.
package records
