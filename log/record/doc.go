// Package record is Kafka's record batch v2 (KIP-98) as bytes: a view with
// accessors and validation, iteration with bounded decompression, a builder
// that appends records to one growing batch, and the checks for batches that
// clients send.
package record
