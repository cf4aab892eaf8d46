// Package record is part of kcoord.
package record
