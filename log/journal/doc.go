// Package journal is part of kcoord.
package journal
