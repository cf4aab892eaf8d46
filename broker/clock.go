package broker

import "time"

// A Clock is where the broker reads time. Sessions, deadlines and timers use
// Mono, records use Wall.
type Clock interface {
	// Mono is the time since some fixed moment of the process; it never goes back.
	Mono() time.Duration
	// Wall is the wall clock; it may jump.
	Wall() time.Time
	// Wait blocks until Mono reaches deadline or wake is readable. It reports
	// whether the deadline was reached.
	Wait(deadline time.Duration, wake <-chan struct{}) bool
}
