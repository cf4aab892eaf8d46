// Package meta is part of kcoord.
package meta
