// Package wire is part of kcoord.
package wire
