//go:build !linux && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd

package netloop

import "testing"

func loopTransports() []transport { return nil }

// bareEcho is not there without the library's loops.
var bareEcho func(b *testing.B) string
