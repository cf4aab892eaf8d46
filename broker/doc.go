// Package broker is part of kcoord.
package broker
