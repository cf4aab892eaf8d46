package config

import "regexp"

// kcoordProperties are kcoord's own.
var kcoordProperties = []Property{
	{Name: "kcoord.cluster.id", Type: String, Default: "", Doc: "Cluster id of a new data folder, made at random if not set."},
	{Name: "kcoord.durability", Type: String, Default: "sync", Allowed: oneOf("sync", "interval", "os"), Doc: "When a write is answered: sync, after it is on disk; interval, at once and synced every kcoord.durability.interval.ms; os, at once and left to the operating system."},
	{Name: "kcoord.durability.interval.ms", Type: Long, Default: "1000", Allowed: atLeast(1), Doc: "Time between syncs under kcoord.durability=interval."},
	{Name: "kcoord.checkpoint.interval.ms", Type: Long, Default: "10000", Allowed: atLeast(1), Doc: "Longest time between checkpoints, which bound the time that recovery takes."},
	{Name: "kcoord.checkpoint.bytes", Type: Long, Default: "33554432", Allowed: atLeast(1 << 20), Doc: "Bytes of journal after which a checkpoint is made before its time."},
	{Name: "kcoord.journal.max.bytes", Type: Long, Default: "268435456", Allowed: atLeast(64 << 20), Doc: "Size of the journal at which writes are refused until a checkpoint has freed some of it."},
	{Name: "kcoord.journal.file.bytes", Type: Long, Default: "16777216", Allowed: between(65536, 1073741824), Internal: true, Doc: "Size of one journal file, rounded down to a multiple of 4096; it may change after a clean stop only."},
	{Name: "kcoord.segment.write.delay.ms", Type: Long, Default: "5", Allowed: atLeast(0), Doc: "How long durable batches may wait to be written to their partition's log together; forty times as long if it was written just before and nobody reads."},
	{Name: "kcoord.disk.reserve.bytes", Type: Long, Default: "67108864", Allowed: atLeast(0), Doc: "Free space below which writes are refused."},
	{Name: "kcoord.inflate.max.bytes", Type: Long, Default: "67108864", Allowed: atLeast(1 << 20), Doc: "Size up to which a compressed batch is decompressed."},
	{Name: "kcoord.metrics.groups", Type: String, Default: "", Allowed: Allowed{Check: checkPattern}, Doc: "Regular expression of the groups that have metrics of their own; if not set, all have while there are at most 1,000."},
	{Name: "kcoord.offsets.max.message.bytes", Type: Int, Default: "8388608", Allowed: atLeast(1 << 20), Doc: "Largest batch of the offsets topic (its max.message.bytes) in a new data folder, which bounds the size of a group."},
}

func checkPattern(value string) string {
	if _, err := regexp.Compile(value); err != nil {
		return "a regular expression"
	}
	return ""
}
