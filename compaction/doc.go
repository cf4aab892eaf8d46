// Package compaction is part of kcoord.
package compaction
