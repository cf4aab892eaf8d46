//go:build !linux

package load

import (
	"errors"
	"time"
)

// A Swarm is known on Linux only.
type Swarm struct{}

// ComeBack works on Linux only.
func ComeBack(string, []Member, bool, time.Duration, time.Duration) (*Swarm, Return, error) {
	return nil, Return{}, errors.ErrUnsupported
}

// Close closes all connections.
func (s *Swarm) Close() {}

// Probe is Run.
func Probe(s Spec) (Report, error) { return Run(s) }
