// Package log is the store: one journal in front of many partition logs. What
// is appended, to any partition, during the sync of one round becomes the next
// round: one write and one fdatasync of one file, whatever was written. The
// partition logs are Kafka's own format and follow behind without syncs.
//
// The package does not know what a record means and starts no goroutine: its
// loops are step functions that the broker runs.
//
// # The way of a record
//
// AppendRecords or AppendBatch copies it into the open round (round.go). The
// flusher takes the round, builds and syncs its journal entries, publishes the
// partitions' durable ends and releases the waiters (flusher.go). A few
// milliseconds later, or when a reader asks, the writer puts the batches into
// the partition log and moves the high watermark (writebehind.go). A checkpoint
// syncs the partition logs, replaces the snapshot by one rename, which moves the
// recovery points and the place where replay begins together, and frees the
// journal below (checkpoint.go). After a crash every partition log is cut to its
// recovery point and the journal is replayed (recover.go); after a clean stop the
// journal is gone and the folder is a plain one (cleanstop.go, plain.go).
//
// # Locks
//
// In this order; whoever holds one may take those below it:
//
//	the caller's own locks (a shard's)
//	Store.check          one checkpoint at a time; held across I/O
//	Partition.disk       one partition's log: files, list of segments; held across
//	                     I/O. Never two at once, but for a deleted partition's
//	                     under that of its successor of the same name
//	Store.mu             the journal lock: open round, log ends, queues; copying
//	                     and bookkeeping only, never I/O
//	leaves               segment.mu, epochCache.mu, gonePartitions.mu, retention.mu,
//	                     checkpointer.mu, Store.infos; nothing is taken under them, but
//	                     for Metadata's own locks under the last
//
// A caller that appends (under its own lock) takes Store.mu only, so it never
// waits for a disk. Readers take no lock but a segment's for its index; what they
// read is published by atomics, the list of segments as an immutable slice whose
// members are counted while in use. The table of topics is replaced as a whole by
// the flusher.
package log
