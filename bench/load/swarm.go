package load

import "time"

// A Return is what a swarm met.
type Return struct {
	// Codes are the error codes of the members' heartbeats by how many had them.
	Codes map[int16]int
	// Again counts the answers that asked to be asked again.
	Again int
	// Opened is when the last connection was begun, Answered when the last member had
	// its answer.
	Opened, Answered time.Time
}
