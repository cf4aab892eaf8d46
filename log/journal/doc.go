// Package journal is the one file that a commit waits for: everything that a
// data folder's partition logs and its topic metadata gain is written here
// first, one write and one fdatasync per round, and goes to the partition logs
// afterwards. The package knows entries, items and files; what an item means is
// the caller's business.
//
// # Files
//
// The journal is a sequence of files kcoord-journal-<n>.wal, all of the same
// size (16 MiB). The first 4,096 bytes are the header, written when the file is
// prepared and never while it is in use (all integers big-endian):
//
//	 0  8 bytes   "kcjournl"
//	 8  i32       format version, 1
//	12  i32       0
//	16  16 bytes  folder id
//	32  i64       file number, the one in the name
//	40  i64       file size
//	48  12 bytes  0
//	60  u32       CRC-32C of bytes 0..59; zeros up to 4,096
//
// Entries follow, each at a multiple of 8 and never across the end of a file:
//
//	 0  u32       magic "KCJE"
//	 4  i32       length of the whole entry, a multiple of 8, 40..4,194,304
//	 8  i64       sequence, one more than the entry before, over the life of the folder
//	16  u32       crc of the entry before, across files too; 0 for sequence 1
//	20  u32       CRC-32C of the folder id, bytes 0..19 and bytes 24..length
//	24  i8        kind: 1 items, 2 start (first entry after each start)
//	25  i8        bit 0: everything before had been synced when this was written
//	26  i16       0
//	28  i32       number of items
//	32            items, then zeros up to length
//
// An item is
//
//	 0  i8        kind: 1 batch, 2 metadata
//	 1  i8        bit 0: continues the last item of the entry before; bit 1: goes on in the next
//	 2  i16       0
//	 4  i32       n
//	 8  16 bytes  topic id    (batch; else 0)
//	24  i32       partition   (batch; else 0)
//	28  n bytes   a record batch as it will stand in the segment, or one metadata record
//
// The folder id is a salt: bytes that a client chose cannot pass for an entry,
// nor can an entry of another folder's journal.
//
// # Torn, stale or corrupt
//
// At most one entry is unsynced at any time (with PolicySync), so an invalid
// entry with nothing valid behind it is a torn write, which nobody was answered
// for, and the journal ends before it. An invalid entry with a valid one behind
// it is damage to acknowledged data: *CorruptionError, and nothing is changed.
// A recycled file keeps the entries of its earlier life; their lower sequence
// gives them away.
//
// # Owners
//
// A Journal starts no goroutine and reads no clock. One owner (the flusher) calls
// Append, AppendStart and Sync; another (the preparer) calls PrepareStep; Recycle,
// Next and Space may be called by anybody. Scan, Replay, RewriteTail and StartOver
// come before all of these, during recovery.
package journal
