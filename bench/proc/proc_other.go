//go:build !linux

package proc

import (
	"errors"
	"time"
)

// CPUTime is known on Linux only.
func CPUTime(int) (time.Duration, error) { return 0, errors.ErrUnsupported }

// MemoryOf is known on Linux only.
func MemoryOf(int) (Memory, error) { return Memory{}, errors.ErrUnsupported }
