//go:build !unix

package broker

import "testing"

// cpuPerOp reports nothing here.
func cpuPerOp(*testing.B) func() { return func() {} }
