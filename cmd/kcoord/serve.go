package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/kcoord/kcoord/broker"
	"github.com/kcoord/kcoord/internal/config"
)

// stopTimeout bounds a clean stop; peers that do not read are cut off then.
const stopTimeout = 5 * time.Second

// A plan is what serve was asked to do.
type plan struct {
	config   *config.Loaded
	dataDir  string
	topics   []broker.Topic
	flags    map[string]*flagValue
	warnings []string
}

func (p *plan) flag(name string) string { return p.flags[name].get() }

// serve runs a broker until it is told to stop.
func serve(args, environ []string, stdout, stderr io.Writer) int {
	signals := []os.Signal{syscall.SIGTERM, os.Interrupt}
	if !signal.Ignored(syscall.SIGHUP) { // it is ignored under nohup
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	defer stop()
	flags, err := parseFlags(args, environ, stdout)
	if errors.Is(err, errHelp) {
		return exitOK
	}
	if err != nil {
		return fail(stderr, exitUsage, "%v", err)
	}
	p, err := makePlan(ctx, flags, environ, stderr)
	if errors.Is(err, context.Canceled) {
		return exitOK // told to stop while it waited for a file
	}
	if err != nil {
		return fail(stderr, exitUsage, "%v", err)
	}
	b, err := broker.New(p.options(stderr))
	if err != nil {
		return fail(stderr, exitUsage, "%v", err)
	}
	return serveUntil(ctx, func() { time.AfterFunc(oneSignal, stop) }, b, p, stdout, stderr)
}

// oneSignal is how long signals after the first are taken for the same one: timeout(1)
// and terminals signal the process and then its group. A clean stop takes less.
const oneSignal = time.Second

// serveUntil starts a broker, tells that it is ready, and stops it when ctx ends.
func serveUntil(ctx context.Context, release func(), b *broker.Broker, p *plan, stdout, stderr io.Writer) int {
	err := b.Start(ctx)
	code := exitOK
	if err == nil {
		fmt.Fprintln(stdout, p.readyLine(b))
		if p.flag("log-marker") == "kafka" {
			fmt.Fprint(stdout, kafkaMarker)
		}
		failed := make(chan error, 1)
		go func() { failed <- b.Wait() }()
		select {
		case <-ctx.Done():
		case err = <-failed:
		}
	}
	if err != nil && ctx.Err() == nil {
		code = fail(stderr, exitFailed, "%v%s", err, startHint(err))
	}
	release() // another signal kills
	end, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := b.Stop(end); err != nil && code == exitOK {
		code = fail(stderr, exitFailed, "%v", err)
	}
	return code
}

// startHint says what to change after the commonest failures of a start.
func startHint(err error) string {
	var path *fs.PathError
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return "; another program has that port: end it or choose another (--listeners PLAINTEXT://127.0.0.1:PORT, --http HOST:PORT)"
	case errors.Is(err, syscall.ENOSPC):
		return "; make room there or choose another folder (--data-dir DIR)"
	case errors.As(err, &path) && (errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, fs.ErrNotExist)):
		return "; kcoord must be able to write in its data folder: choose another (--data-dir DIR)"
	}
	return ""
}

// kafkaMarker is what tools that start Kafka in a container wait for in its output.
const kafkaMarker = `[KafkaServer id=1] started (kcoord)
Kafka Server started (kcoord)
Transitioning from RECOVERY to RUNNING (kcoord)
`

// readyLine is the one line on standard output: "kcoord ready", then the address
// of each listener, the data folder and the durability, as name=value.
func (p *plan) readyLine(b *broker.Broker) string {
	var listeners []string
	for name, addr := range b.Addrs() {
		listeners = append(listeners, name+"://"+addr)
	}
	sort.Strings(listeners)
	line := fmt.Sprintf("kcoord ready listeners=%s data=%s durability=%s", strings.Join(listeners, ","), p.dataDir, b.Durability())
	if b.HTTPAddr() != "" {
		line += " http=" + b.HTTPAddr()
	}
	return line
}

// makePlan reads everything that says what to do.
func makePlan(ctx context.Context, flags map[string]*flagValue, environ []string, stderr io.Writer) (*plan, error) {
	p := &plan{flags: flags}
	sources := config.Sources{Environ: withoutFlags(environ), FileName: p.flag("config")}
	if sources.FileName != "" {
		var err error
		if sources.File, err = os.ReadFile(sources.FileName); err != nil {
			return nil, fmt.Errorf("%s: %w", flags["config"].origin, err)
		}
	}
	for _, text := range flags["set"].values {
		s, err := config.ParseAssignment(text, flags["set"].origin)
		if err != nil {
			return nil, err
		}
		sources.Flags = append(sources.Flags, s)
	}
	if value := p.flag("listeners"); value != "" {
		sources.Flags = append(sources.Flags, config.Setting{Name: "listeners", Value: value, Origin: flags["listeners"].origin})
	}
	if file := p.flag("advertised-listeners-file"); file != "" {
		value, err := waitForFile(ctx, file, stderr)
		if err != nil {
			return nil, err
		}
		sources.Flags = append(sources.Flags, config.Setting{Name: "advertised.listeners", Value: value, Origin: file})
	}
	if err := p.load(sources); err != nil {
		return nil, err
	}
	if pprof := flags["pprof"]; pprof.get() == "true" && p.flag("http") == "" {
		return nil, fmt.Errorf("%s: needs an address, --http HOST:PORT", pprof.origin)
	}
	if value := p.flag("http"); value != "" {
		_, port, err := net.SplitHostPort(value)
		if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil {
			return nil, fmt.Errorf("%s=%s: must be HOST:PORT", flags["http"].origin, value)
		}
	}
	var err error
	p.topics, err = p.parseTopics()
	return p, err
}

// load makes the configuration: what was set, and what kcoord does differently from
// Kafka when nothing was.
func (p *plan) load(sources config.Sources) error {
	loaded, err := config.Load(sources)
	if err != nil {
		return err
	}
	var more []config.Setting
	isSet := func(name string) bool { _, ok := loaded.Lookup(name); return ok }
	if !isSet("listeners") && !isSet("advertised.listeners") {
		more = append(more, config.Setting{Name: "listeners", Value: "PLAINTEXT://127.0.0.1:9092", Origin: "default of kcoord"})
	}
	if len(p.flags["set"].values) == 0 && len(loaded.Settings()) == flagSettings(sources.Flags) {
		more = append(more, config.Setting{Name: "group.initial.rebalance.delay.ms", Value: "0", Origin: "default of kcoord without configuration"})
	}
	if p.dataDir, err = p.chooseDataDir(loaded); err != nil {
		return err
	}
	more = append(more, config.Setting{Name: "log.dirs", Value: p.dataDir, Origin: "--data-dir"})
	// The first two are added only where nobody said otherwise, and the folder was
	// chosen from all that was said.
	sources.Flags = append(sources.Flags, more...)
	if p.config, err = config.Load(sources); err != nil {
		return err
	}
	p.warnings = append(p.warnings, p.config.Warnings...)
	return nil
}

// flagSettings counts the properties that flags set.
func flagSettings(flags []config.Setting) int {
	names := make(map[string]bool)
	for _, s := range flags {
		names[s.Name] = true
	}
	return len(names)
}

// chooseDataDir is --data-dir, else the property log.dirs or log.dir if somebody
// set it, else KCOORD_DATA_DIR, else ./kcoord-data. KCOORD_DATA_DIR is what an
// image sets for its volume: it also stands in for a log.dirs that cannot be made
// there, such as the one that a compose file for another image carries.
func (p *plan) chooseDataDir(c *config.Loaded) (string, error) {
	given := p.flags["data-dir"]
	if given.origin == "--data-dir" {
		return given.get(), nil
	}
	for _, name := range []string{"log.dirs", "log.dir"} {
		s, ok := c.Lookup(name)
		if !ok {
			continue
		}
		dir := c.Values().LogDirs[0]
		if dir == broker.MemoryDir {
			return dir, nil
		}
		err := os.MkdirAll(filepath.Dir(dir), 0o755)
		if err == nil {
			err = os.MkdirAll(dir, 0o755)
		}
		if err == nil {
			return dir, nil
		}
		if given.get() == "" {
			return "", fmt.Errorf("%s=%s: %w, set by %s", s.Name, s.Value, err, s.Origin)
		}
		p.warnings = append(p.warnings, fmt.Sprintf("%s=%s: %v; data goes to %s (%s)", s.Name, s.Value, err, given.get(), given.origin))
	}
	if given.get() != "" {
		return given.get(), nil
	}
	return "kcoord-data", nil
}

// waitForFile waits until a file is there and not empty, and returns its lines
// joined by commas. That it has to wait is told.
func waitForFile(ctx context.Context, name string, stderr io.Writer) (string, error) {
	const pause = 20 * time.Millisecond
	for first := true; ; first = false {
		content, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("--advertised-listeners-file: %w", err)
		}
		if lines := strings.Fields(strings.ReplaceAll(string(content), ",", " ")); len(lines) > 0 && strings.HasSuffix(string(content), "\n") {
			return strings.Join(lines, ","), nil
		}
		if first {
			fmt.Fprintf(stderr, "kcoord: waiting for %s\n", name)
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(pause):
		}
	}
}

// options are the broker's.
func (p *plan) options(stderr io.Writer) broker.Options {
	logger := newLogger(stderr, p.flag("log-level"), p.flag("log-format"))
	for _, line := range p.warnings {
		logger.Warn().Msg(line)
	}
	var names []string
	for _, s := range p.config.WithoutEffect() {
		names = append(names, s.Name)
	}
	if len(names) > 0 {
		logger.Info().Strs("properties", names).Msg("properties without effect in kcoord")
	}
	memory := broker.ContainerMemory()
	broker.LimitMemory(memory)
	broker.SpareProcessor()
	return broker.Options{
		Config:    p.config.Config,
		DataDir:   p.dataDir,
		Topics:    p.topics,
		HTTP:      p.flag("http"),
		Profiling: p.flag("pprof") == "true",
		Version:   version,

		GoroutineOnly: p.flag("transport") == "net",
		Logger:        &logger,
		MemoryLimit:   memory,
		StopTimeout:   stopTimeout,
	}
}

// logTime is RFC 3339 with milliseconds.
const logTime = "2006-01-02T15:04:05.000Z07:00"

// newLogger writes to standard error: lines for people, or JSON.
func newLogger(w io.Writer, level, format string) zerolog.Logger {
	if format == "text" {
		w = textLog{out: w}
	}
	parsed, err := zerolog.ParseLevel(level)
	if err != nil {
		panic("kcoord: log level " + level + " is in the table of flags: " + err.Error())
	}
	// zerolog's own timestamp has the seconds only, unless the whole process says
	// otherwise.
	stamp := zerolog.HookFunc(func(e *zerolog.Event, _ zerolog.Level, _ string) {
		e.Str(zerolog.TimestampFieldName, time.Now().Format(logTime))
	})
	return zerolog.New(w).Level(parsed).Hook(stamp)
}
