// Package meta keeps what a broker knows besides its records: topics, the
// properties that were set on topics, brokers and groups, and the producer ids
// handed out. The state changes only by metadata records, which the store keeps
// in its journal and its checkpoint; the same records give the same state, and
// a record always sets a whole value, so that repeating one is harmless.
//
// Readers take a Snapshot, which never changes. The package imports nothing of
// the project: the broker adapts it to the store and to the coordinator.
package meta
