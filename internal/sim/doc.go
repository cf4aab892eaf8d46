// Package sim runs the whole broker on one goroutine, from a seed: virtual
// time, a disk that loses what was not synced, connections that are delayed and
// cut, clients that retry. The same seed gives the same run, event by event.
//
// The pieces: World draws and carries out events, and faults among them; process
// and machine are the computer that the broker runs on (clock, executor, disk);
// network carries frames under netloop's contract. The actors are clients: members
// of groups, writers that commit without one, producers, consumers, admins. The
// checkers (check_*.go, and those that checkers.go names) hold every answer
// against what was asked and answered before, and say what must never happen.
// Options.Sabotage makes the broker wrong on purpose, for tests of the checkers.
package sim
