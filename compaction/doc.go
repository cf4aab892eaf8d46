// Package compaction cleans compacted logs in the background: of every key only
// the newest record stays, tombstones stay until readers have had time to see
// them (KIP-534), and what is left is written into fewer, larger segments.
//
// # What is touched
//
// Closed segments wholly below the recovery point. Above it a segment is only a
// copy of the journal, which the next start may cut and write again. A round
// covers everything from the log start to its end E, which lies at or below the
// recovery point, the last stable offset and, for topics with
// min.compaction.lag.ms, the first segment that is too young.
//
// # A round
//
// First pass: the keys of the batches from the cleaner checkpoint to E go into
// an offset map (key to newest offset). Records of aborted transactions and
// control records do not. If the map is full, or a transaction begun below E ends
// above it, E moves down to the last batch that is covered.
//
// Second pass: neighbouring segments that fit into one are a group. Each group is
// copied into an output, in ascending order, and replaced by it before the next
// is begun, so that a tombstone never goes before the value it deletes. A record
// stays if it has a key and no newer one is in the map, and, when it is a
// tombstone, if its batch has no delete horizon yet or the horizon is to come. A
// batch from which nothing is dropped is copied byte for byte. The last batch of
// a group stays, empty if need be, so that the output covers exactly the offsets
// of what it replaces. In the offsets log small batches that are neighbours
// become one.
//
// # When
//
// For a partition whose owner counts its live bytes (the coordinator does, for
// its partition of the offsets log): when dead bytes exceed live ones by 1 MiB,
// or, once it has been quiet for two seconds, half of the live ones by 64 KiB, or
// when delete horizons have passed. Then the active segment is closed if it holds
// 64 KiB, a checkpoint is asked for, and the round begins when the recovery point
// has passed. All other compacted topics follow Kafka's dirty ratio
// (min.cleanable.dirty.ratio, max.compaction.lag.ms).
//
// # Steps
//
// A Cleaner starts no goroutine and reads no clock: Step does a bounded piece of
// work. One round runs at a time; an error costs the partition a pause, doubled
// up to ten minutes, and never the whole cleaner.
package compaction
