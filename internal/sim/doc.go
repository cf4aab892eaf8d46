// Package sim runs the whole broker on one goroutine, from a seed: virtual
// time, a disk that loses what was not synced, connections that are delayed and
// cut, clients that retry. The same seed gives the same run, event by event.
//
// The pieces: World draws and carries out events; machine is the computer that
// the broker runs on (clock, executor, disk); network carries frames under
// netloop's contract; the actors are clients; the checkers see every request
// and answer and say what must never happen.
package sim
