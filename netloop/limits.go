package netloop

import (
	"fmt"
	"time"
)

// Limits bounds everything that a peer can make the server hold. Zero means the
// default; negative values are refused by New.
type Limits struct {
	// MinFrameBytes is the smallest length prefix accepted. Default 8.
	MinFrameBytes int
	// PassFrames, PassTime and PassAnswerBytes bound one pass over a connection on an
	// event loop; what is left over comes after the other connections' input.
	// Defaults 64, 1 ms, 256 KiB.
	PassFrames      int
	PassTime        time.Duration
	PassAnswerBytes int
	// ReleaseConns is how many connections one task that releases answers touches
	// before other input has its turn. Default 256.
	ReleaseConns int
	// OwedAnswers is how many answers a connection may be owed before no further
	// frame of it is applied. Default 1024.
	OwedAnswers int
	// KeptBytes is how much input a connection on an event loop may have waiting to be
	// applied, the frame in progress aside; beyond, it moves to a goroutine, where
	// it is not read until there is room. Default 1 MiB.
	KeptBytes int
	// InputBytes and OutputBytes bound, over all connections, the input held and the
	// answers waiting to be sent. Beyond, goroutine connections are not read.
	// Default 256 MiB each; the caller lowers them to a quarter of its memory.
	InputBytes  int64
	OutputBytes int64
	// LargeFrameBytes is what a frame may have for room to be kept for it: longer ones
	// together hold at most half of InputBytes, whatever the others hold: both together
	// may come to half more. The caller sets it to a little more than its largest
	// ordinary request. Default 1 MiB and 64 KiB.
	LargeFrameBytes int
	// FrameStall is how long an unfinished frame may wait for its next byte; the whole
	// frame has four times as long, and a second for every 128 KiB of its length, even
	// if it is this side that does not read. Default 30 s.
	FrameStall time.Duration
	// WriteStall is how long a peer may take no byte of an answer that waits.
	// Default 30 s.
	WriteStall time.Duration
	// Linger is how long a connection that was closed by the handler may stay
	// half-open until the peer has taken the last answer and closed. Default 2 s.
	Linger time.Duration
	// Idle is how long a connection may be without any byte in or out
	// (connections.max.idle.ms). Default 10 min.
	Idle time.Duration
	// Conns and ConnsPerAddress bound the open connections in all and per peer
	// address. Default: unlimited; the caller keeps Conns below the descriptor limit.
	Conns           int
	ConnsPerAddress int
}

const (
	defaultMinFrameBytes   = 8
	defaultPassFrames      = 64
	defaultPassTime        = time.Millisecond
	defaultPassAnswerBytes = 256 << 10
	defaultReleaseConns    = 256
	defaultOwedAnswers     = 1024
	defaultKeptBytes       = 1 << 20
	defaultInputBytes      = 256 << 20
	defaultOutputBytes     = 256 << 20
	defaultLargeFrame      = 1<<20 + 64<<10
	defaultFrameStall      = 30 * time.Second
	defaultWriteStall      = 30 * time.Second
	defaultLinger          = 2 * time.Second
	defaultIdle            = 10 * time.Minute
)

// frameBytesPerSecond is how fast a long frame has to come.
const frameBytesPerSecond = 128 << 10

// frameTime is how long a frame of this length may take.
func (l *Limits) frameTime(size int64) time.Duration {
	return 4*l.FrameStall + time.Duration(size)*time.Second/frameBytesPerSecond
}

func orDefault[T int | int64 | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// withDefaults returns l with every zero replaced.
func (l Limits) withDefaults() Limits {
	orDefault(&l.MinFrameBytes, defaultMinFrameBytes)
	orDefault(&l.PassFrames, defaultPassFrames)
	orDefault(&l.PassTime, defaultPassTime)
	orDefault(&l.PassAnswerBytes, defaultPassAnswerBytes)
	orDefault(&l.ReleaseConns, defaultReleaseConns)
	orDefault(&l.OwedAnswers, defaultOwedAnswers)
	orDefault(&l.KeptBytes, defaultKeptBytes)
	orDefault(&l.InputBytes, defaultInputBytes)
	orDefault(&l.OutputBytes, defaultOutputBytes)
	orDefault(&l.LargeFrameBytes, defaultLargeFrame)
	orDefault(&l.FrameStall, defaultFrameStall)
	orDefault(&l.WriteStall, defaultWriteStall)
	orDefault(&l.Linger, defaultLinger)
	orDefault(&l.Idle, defaultIdle)
	return l
}

// validate reports the first limit that makes no sense.
func (l Limits) validate() error {
	for _, f := range []struct {
		name  string
		value int64
		least int64
	}{
		// Six bytes of a frame are looked at before its length is trusted: the
		// prefix and two of the body.
		{"MinFrameBytes", int64(l.MinFrameBytes), 2},
		{"PassFrames", int64(l.PassFrames), 1},
		{"PassTime", int64(l.PassTime), 1},
		{"PassAnswerBytes", int64(l.PassAnswerBytes), 1},
		{"ReleaseConns", int64(l.ReleaseConns), 1},
		{"OwedAnswers", int64(l.OwedAnswers), 1},
		{"KeptBytes", int64(l.KeptBytes), 1},
		{"InputBytes", l.InputBytes, 1},
		{"OutputBytes", l.OutputBytes, 1},
		{"LargeFrameBytes", int64(l.LargeFrameBytes), 1},
		{"FrameStall", int64(l.FrameStall), 1},
		{"WriteStall", int64(l.WriteStall), 1},
		{"Linger", int64(l.Linger), 1},
		{"Idle", int64(l.Idle), 1},
		{"Conns", int64(l.Conns), 0},
		{"ConnsPerAddress", int64(l.ConnsPerAddress), 0},
	} {
		if f.value < f.least {
			return fmt.Errorf("netloop: limit %s is %d, at least %d is needed", f.name, f.value, f.least)
		}
	}
	return nil
}
