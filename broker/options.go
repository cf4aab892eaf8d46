package broker

import (
	"context"
	"net"
	"time"

	"github.com/rs/zerolog"

	"github.com/kcoord/kcoord/internal/config"
	"github.com/kcoord/kcoord/log/vfs"
	"github.com/kcoord/kcoord/netloop"
)

// MemoryDir is the data folder's name for a broker that keeps everything in
// memory and loses it when it stops.
const MemoryDir = "memory:"

// Options is what a Broker is made of. The zero value is a broker in memory on
// a free port of 127.0.0.1.
type Options struct {
	// DataDir is the data folder; it is made if missing, with the folders above it.
	// MemoryDir keeps everything in memory. Default: the property log.dirs or log.dir
	// if one of them is set, else MemoryDir.
	DataDir string
	// Properties are settings by Kafka's names, as in server.properties. Unless they
	// say otherwise the broker listens on a free port of 127.0.0.1
	// (listeners=PLAINTEXT://127.0.0.1:0) and new groups need not wait for more
	// members (group.initial.rebalance.delay.ms=0).
	Properties map[string]string
	// Config, if set, replaces Properties: settings with their origin, and nothing
	// but Kafka's defaults where there is none.
	Config *config.Config
	// Topics are created before the broker is ready, if they do not exist.
	Topics []Topic
	// GoroutineOnly serves every connection by a goroutine of its own, without
	// event loops.
	GoroutineOnly bool
	// HTTP, if set, is the address of health checks and metrics, "127.0.0.1:9644".
	HTTP string
	// Profiling serves net/http/pprof under HTTP, too.
	Profiling bool
	// Version is the program's, for the folder's files and the start-up line.
	Version string
	// Logger is told what an operator wants to know. Default: nothing.
	Logger *zerolog.Logger

	// What follows is the outside world; each nil is the real one.

	// Clock is where time is read.
	Clock Clock
	// Random fills b with random bytes.
	Random func(b []byte)
	// FS is where DataDir lies.
	FS vfs.FS
	// Executor runs what works in the background.
	Executor Executor
	// Transport makes what moves bytes for the handler. With one of its own the
	// broker opens no listeners.
	Transport func(h netloop.Handler) (Transport, error)
	// Listen opens a listener.
	Listen func(network, address string) (net.Listener, error)
	// MemoryLimit is the bytes the process may use, 0 if unlimited: budgets are at
	// most a quarter of it. See ContainerMemory.
	MemoryLimit int64
	// StopTimeout bounds how long Stop waits for peers that do not read. Default 5 s.
	StopTimeout time.Duration
}

// A Transport moves frames between connections and a netloop.Handler.
// *netloop.Server is the real one.
type Transport interface {
	netloop.Releaser
	Start() error
	Loops() int
	Serve(name string, l net.Listener) error
	// AfterInput has OnInput called for a loop; see netloop.InputHandler.
	AfterInput(loop int)
	Drain()
	Stop(ctx context.Context) error
}
