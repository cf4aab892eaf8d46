// Package metrics is part of kcoord.
package metrics
