package broker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/kcoord/kcoord/coordinator"
	"github.com/kcoord/kcoord/internal/config"
	"github.com/kcoord/kcoord/internal/meta"
	"github.com/kcoord/kcoord/log"
	"github.com/kcoord/kcoord/log/vfs"
	"github.com/kcoord/kcoord/netloop"
)

// ErrStopped is what Start returns when Stop came first.
var ErrStopped = errors.New("broker: stopped")

// A Broker serves Kafka's protocol from one data folder.
//
// Owners of what changes: each event loop its bench; each connection's callbacks
// its session; each shard's lock its coordinator, tokens and timers; the store
// its logs; the metadata state its snapshots, which are immutable. Counters are
// atomic. See locks.go for the order of locks.
type Broker struct {
	options Options
	logger  zerolog.Logger
	time    *timekeeper
	table   [maxKey + 1]api

	// config and groupConfig are immutable values; a change at run time replaces them.
	static      *config.Config // as given at the start
	config      atomic.Pointer[config.Config]
	groupConfig atomic.Pointer[coordinator.Config]
	requestMax  int // socket.request.max.bytes

	meta *meta.State
	// store and clusterID are written before shards, which is nil until the folder is
	// open: they are read only by who has seen shards (Broker.isOpen).
	store     *log.Store
	clusterID string
	shards    atomic.Pointer[[]*shard]
	core      coreCalls
	asked     atomic.Int32 // 1 + index of the shard that was last asked for while loading; 0: none
	nodeID    int32

	transport  Transport
	benches    []bench // by event loop
	release    releaser
	gather     gatherer
	data       dataPlane
	configs    configEditor
	timers     *timers
	alarms     alarms
	pool       *pool
	decoding   *budget
	metrics    brokerMetrics
	warnings   warnings
	writesTold writesTold
	rebalances rebalances
	// tellsRequests: each request is a line of the log.
	tellsRequests bool

	listeners []boundListener
	httpAddr  string
	versions  atomic.Pointer[versionAnswers]

	stop   chan struct{} // closed when the loops have to end
	opened chan struct{} // closed when shards is there
	ready  chan struct{} // closed when every shard has been loaded
	ended  chan struct{} // closed by the first failure, or when Stop is done

	mu struct {
		sync.Mutex
		started, stopping bool
		err               error // the first failure
		atStop, atEnd     []func()
	}
}

// New checks the options and makes a Broker. It starts nothing and touches no
// file.
func New(o Options) (*Broker, error) {
	c, err := o.configure()
	if err != nil {
		return nil, err
	}
	o.fillDefaults(c)
	b := &Broker{options: o, logger: *o.Logger, time: &timekeeper{clock: o.Clock}, table: dispatchTable(),
		requestMax: c.Values().SocketRequestMaxBytes, meta: meta.New(),
		core: coreCalls{step: (*coordinator.Shard).Step, replay: (*coordinator.Shard).Replay},
		stop: make(chan struct{}), opened: make(chan struct{}), ready: make(chan struct{}), ended: make(chan struct{})}
	b.nodeID = c.Values().NodeID
	b.setVersions(c.Values().ClusterID)
	b.static = c
	b.config.Store(c)
	b.groupConfig.Store(coordinatorConfig(c.Values()))
	b.decoding = newBudget(decodeBudget)
	b.timers = newTimers(b)
	b.alarms.timers = b.timers
	b.pool = newPool(b)
	b.data.init(b)
	if b.transport, err = b.newTransport(); err != nil {
		return nil, err
	}
	b.release.transport, b.release.time, b.release.waited = b.transport, b.time, &b.metrics.waited
	b.release.gather = &b.gather
	b.tellsRequests = b.logger.GetLevel() <= zerolog.DebugLevel
	return b, nil
}

// Durability is when an acknowledged write is on the disk: the property
// kcoord.durability, or "none" for a broker that keeps everything in memory.
func (b *Broker) Durability() string {
	if b.options.DataDir == MemoryDir {
		return "none"
	}
	return strings.ToLower(b.values().Durability)
}

func (o *Options) configure() (*config.Config, error) {
	if o.Config != nil {
		return o.Config, nil
	}
	settings := []config.Setting{{Name: "listeners", Value: "PLAINTEXT://127.0.0.1:0", Origin: "default of an embedded broker"},
		{Name: "group.initial.rebalance.delay.ms", Value: "0", Origin: "default of an embedded broker"}}
	for name, value := range o.Properties {
		settings = append(settings, config.Setting{Name: name, Value: value, Origin: "Options.Properties"})
	}
	return config.Static(settings...)
}

func (o *Options) fillDefaults(c *config.Config) {
	for _, name := range []string{"log.dirs", "log.dir"} {
		if _, set := c.Lookup(name); set && o.DataDir == "" {
			o.DataDir = c.Values().LogDirs[0]
		}
	}
	if o.Logger == nil {
		nop := zerolog.Nop()
		o.Logger = &nop
	}
	if o.Clock == nil {
		o.Clock = newRealClock()
	}
	if o.Random == nil {
		o.Random = func(b []byte) { rand.Read(b) } // it never fails
	}
	if o.Executor == nil {
		o.Executor = &goroutines{clock: o.Clock}
	}
	if o.DataDir == "" || o.DataDir == MemoryDir {
		o.DataDir = MemoryDir // the name that logs and DescribeLogDirs tell
		if o.FS == nil {
			o.FS = vfs.NewMem()
		}
	}
	if o.FS == nil {
		o.FS = vfs.OS{}
	}
	if o.Listen == nil {
		o.Listen = net.Listen
	}
	if o.StopTimeout == 0 {
		o.StopTimeout = 5 * time.Second
	}
	if o.Version == "" {
		o.Version = "unknown"
	}
}

func (b *Broker) newTransport() (Transport, error) {
	if b.options.Transport != nil {
		return b.options.Transport(b)
	}
	v := b.values()
	quarter := b.memoryBudget()
	largest := 0 // message
	if topic, err := b.static.Topic(nil); err == nil {
		largest = int(topic.MaxMessageBytes)
	}
	return netloop.New(netloop.Options{Handler: b, GoroutineOnly: b.options.GoroutineOnly, Events: b.transportEvents(), Limits: netloop.Limits{
		Idle: v.ConnectionsMaxIdle, InputBytes: quarter, OutputBytes: quarter,
		LargeFrameBytes: max(1<<20, largest) + maxLoopFrame,
		Conns:           maxConnections(v.MaxConnections, descriptorLimit()), ConnsPerAddress: v.MaxConnectionsPerIP,
	}})
}

// reservedDescriptors are kept free of connections: for segments, the journal,
// listeners, and connections on their way from one transport to the other.
const reservedDescriptors = 512

// maxConnections is max.connections, kept below what the process may open.
func maxConnections(configured, descriptors int) int {
	if descriptors == 0 {
		return configured
	}
	return max(1, min(configured, descriptors-min(reservedDescriptors, descriptors/2)))
}

// values are the typed settings.
func (b *Broker) values() *config.Values { return b.config.Load().Values() }

// Start opens the listeners, then the data folder, and returns when every group
// is served or ctx is done. Clients that come before are told that the
// coordinator loads. After an error, Stop frees what was begun.
func (b *Broker) Start(ctx context.Context) error {
	b.mu.Lock()
	if b.mu.started {
		b.mu.Unlock()
		return errors.New("broker: started twice")
	}
	b.mu.started = true
	b.mu.Unlock()
	if err := b.transport.Start(); err != nil {
		return fmt.Errorf("starting the event loops: %w", err)
	}
	b.benches = make([]bench, b.transport.Loops())
	b.metrics.byLoop = make([]counts, len(b.benches))
	for i := range b.benches {
		b.benches[i].counts = &b.metrics.byLoop[i]
	}
	if err := b.listen(); err != nil {
		return err
	}
	if err := b.serveHTTP(); err != nil {
		return err
	}
	b.options.Executor.Go("open", b.open)
	select {
	case <-b.ready:
		return nil
	case <-b.ended:
		if err := b.Err(); err != nil {
			return err
		}
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Ready reports whether the groups have been loaded. What is not served all the
// same is in Problems.
func (b *Broker) Ready() bool {
	select {
	case <-b.ready:
		return b.Err() == nil
	default:
		return false
	}
}

// Err is why the broker ended or cannot go on, nil while it is well and after
// a clean stop.
func (b *Broker) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.err
}

// Wait blocks until the broker has stopped or cannot go on (a storage error
// that leaves durability in doubt), and tells why.
func (b *Broker) Wait() error {
	<-b.ended
	return b.Err()
}

// fail notes that the broker cannot go on. The process has to end: what was
// acknowledged is on disk, what is in flight was not.
func (b *Broker) fail(err error) {
	b.mu.Lock()
	first := b.mu.err == nil
	if first {
		b.mu.err = err
		closeOnce(b.ended)
	}
	stopping := b.mu.stopping
	b.mu.Unlock()
	select {
	case <-b.ready: // before that, Start returns the error
	default:
		return
	}
	if first && !stopping {
		b.logger.Error().Err(err).Msg("cannot go on")
	}
}

// closeOnce closes c if it is open; the caller holds the lock that guards it.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// Stop stops in order: no new requests, parked ones answered, the last round
// made durable and answered, the folder left clean. With nobody stuck it takes
// well under a second; peers that do not read are waited for until ctx is done,
// at most Options.StopTimeout.
func (b *Broker) Stop(ctx context.Context) error {
	b.mu.Lock()
	if b.mu.stopping {
		b.mu.Unlock()
		<-b.ended
		return b.Err()
	}
	b.mu.stopping = true
	atStop := b.mu.atStop
	b.mu.Unlock()
	begun, _ := b.options.Clock.Now()
	b.transport.Drain()
	for _, sh := range b.allShards() {
		sh.event(coordinator.Event{Kind: coordinator.EventUnload})
	}
	b.gather.end(b)
	b.data.stop()
	for _, end := range atStop {
		end()
	}
	ctx, cancel := context.WithTimeout(ctx, b.options.StopTimeout)
	defer cancel()
	stuck := b.transport.Stop(ctx)
	err := b.closeStore()
	took, _ := b.options.Clock.Now()
	switch {
	case err != nil:
		b.fail(err)
	case b.Err() == nil && b.isOpen():
		b.logger.Info().Stringer("took", (took-begun).Round(10*time.Microsecond)).AnErr("peers", stuck).Msg("stopped, folder clean")
	}
	b.mu.Lock()
	closeOnce(b.ended)
	b.mu.Unlock()
	return b.Err()
}

// closeStore ends the loops and leaves the folder clean.
func (b *Broker) closeStore() error {
	if b.isOpen() {
		b.store.BeginStop()
	}
	close(b.stop)
	b.options.Executor.Wait()
	b.mu.Lock()
	atEnd := b.mu.atEnd
	b.mu.Unlock()
	for _, end := range atEnd {
		end()
	}
	if b.store == nil { // never opened: whoever opens has ended by now
		return nil
	}
	if err := b.store.Close(); err != nil {
		return fmt.Errorf("clean stop: %w", err)
	}
	return nil
}

// onStop registers what is called when the broker stops, before the transport does.
func (b *Broker) onStop(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.atStop = append(b.mu.atStop, f)
}

// onEnd registers what is called when the broker stops, after the loops have
// ended and before the store is closed.
func (b *Broker) onEnd(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.atEnd = append(b.mu.atEnd, f)
}
