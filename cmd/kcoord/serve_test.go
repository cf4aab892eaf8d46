package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// asKcoord makes the test binary behave as kcoord, so that tests can start it as a
// process of its own.
const asKcoord = "KCOORD_TEST_AS_KCOORD"

func TestMain(m *testing.M) {
	if os.Getenv(asKcoord) != "" {
		os.Unsetenv(asKcoord)
		main()
	}
	os.Exit(m.Run())
}

// A process is a kcoord that was started.
type process struct {
	*exec.Cmd
	lines  chan string // of standard output
	stderr *lockedBuffer
	wait   func() error // Cmd.Wait, which may be called once only
}

// A lockedBuffer is written by the process's copier and read by the test.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// start runs kcoord in a folder.
func start(t *testing.T, dir string, environ []string, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.CommandContext(t.Context(), os.Args[0], args...), lines: make(chan string, 100), stderr: &lockedBuffer{}}
	p.Dir, p.Env, p.Stderr = dir, append([]string{asKcoord + "=1"}, environ...), p.stderr
	p.wait = sync.OnceValue(p.Wait)
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			p.lines <- scanner.Text()
		}
	}()
	t.Cleanup(func() {
		p.Process.Kill()
		p.wait()
	})
	return p
}

// line is the next line of standard output.
func (p *process) line(t *testing.T) string {
	t.Helper()
	select {
	case line, ok := <-p.lines:
		if !ok {
			p.wait()
			t.Fatalf("kcoord ended (%v):\n%s", p.ProcessState, p.stderr)
		}
		return line
	case <-time.After(30 * time.Second):
		t.Fatalf("no line in 30 s:\n%s", p.stderr)
	}
	return ""
}

// ready waits for the ready line and returns the addresses in it by name.
func (p *process) ready(t *testing.T) map[string]string {
	t.Helper()
	line := p.line(t)
	found := regexp.MustCompile(`^kcoord ready listeners=(\S+) data=(\S+) durability=(\S+)( http=(\S+))?$`).FindStringSubmatch(line)
	if found == nil {
		t.Fatalf("ready line %q", line)
	}
	addresses := map[string]string{"data": found[2], "durability": found[3], "http": found[5]}
	for _, listener := range strings.Split(found[1], ",") {
		name, address, _ := strings.Cut(listener, "://")
		addresses[name] = address
	}
	return addresses
}

// end waits for the process and returns its exit code.
func (p *process) end(t *testing.T) int {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- p.wait() }()
	select {
	case <-done:
		return p.ProcessState.ExitCode()
	case <-time.After(30 * time.Second):
		t.Fatalf("kcoord does not end:\n%s", p.stderr)
	}
	return -1
}

// topics lists what a broker has, as name:partitions.
func topics(t *testing.T, address string) string {
	t.Helper()
	c, err := dial([]string{address}, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	resp, err := c.ask(kmsg.NewPtrMetadataRequest())
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, topic := range resp.(*kmsg.MetadataResponse).Topics {
		if !topic.IsInternal {
			list = append(list, fmt.Sprintf("%s:%d", *topic.Topic, len(topic.Partitions)))
		}
	}
	return strings.Join(list, " ")
}

// TestServe starts, asks, stops by a signal, and starts again in the same folder.
func TestServe(t *testing.T) {
	dir := t.TempDir()
	for round, transport := range []string{"auto", "net", "auto"} {
		p := start(t, dir, []string{"KAFKA_NUM_PARTITIONS=4", "KAFKA_NUM_PARTITION=3"}, "serve",
			"--listeners", "PLAINTEXT://127.0.0.1:0,INSIDE://127.0.0.1:0", "--set", "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT",
			"--http", "127.0.0.1:0", "--topics", "orders:6,events:3:cleanup.policy=compact,plain", "--log-format", "json", "--log-marker", "kafka", "--transport", transport)
		at := p.ready(t)
		if at["data"] != "kcoord-data" || at["durability"] != "sync" || at["INSIDE"] == "" || at["http"] == "" {
			t.Errorf("ready with %v", at)
		}
		for _, want := range strings.Split(strings.TrimSpace(kafkaMarker), "\n") {
			if got := p.line(t); got != want {
				t.Errorf("marker %q, want %q", got, want)
			}
		}
		if got := topics(t, at["INSIDE"]); got != "events:3 orders:6 plain:4" {
			t.Errorf("round %d: topics %s", round, got)
		}
		var stdout, stderr bytes.Buffer
		if code := health([]string{at["PLAINTEXT"]}, nil, &stdout, &stderr); code != exitOK || stdout.String() != "ok\n" {
			t.Errorf("health: exit code %d, %s%s", code, &stdout, &stderr)
		}
		second := start(t, dir, nil, "--listeners", "PLAINTEXT://127.0.0.1:0")
		if code := second.end(t); code != exitFailed || strings.Count(second.stderr.String(), "\n") != 1 {
			t.Errorf("a second process in the folder: exit code %d\n%s", code, second.stderr)
		}
		if !strings.Contains(p.stderr.String(), "KAFKA_NUM_PARTITION=3: no property num.partition is known") {
			t.Errorf("no warning about a variable:\n%s", p.stderr)
		}
		stop := []os.Signal{syscall.SIGTERM, os.Interrupt, syscall.SIGHUP}[round]
		if signal.Ignored(stop) { // SIGHUP, when the tests run under nohup
			stop = syscall.SIGTERM
		}
		p.Process.Signal(stop)
		p.Process.Signal(stop) // as timeout(1) does: to the process and to its group
		if code := p.end(t); code != exitOK || !strings.Contains(p.stderr.String(), "stopped, folder clean") {
			t.Errorf("exit code %d after a signal:\n%s", code, p.stderr)
		}
		if code := health([]string{at["PLAINTEXT"]}, nil, &stdout, &stderr); code != exitFailed {
			t.Errorf("health of nobody: exit code %d", code)
		}
	}
}

// TestMemoryFolder: the data folder memory: is none, whoever names it.
func TestMemoryFolder(t *testing.T) {
	for _, args := range [][]string{{"--data-dir", "memory:"}, {"--set", "log.dirs=memory:"}, {"--set", "log.dir=memory:"}} {
		dir := t.TempDir()
		p := start(t, dir, nil, append(args, "--listeners", "PLAINTEXT://127.0.0.1:0")...)
		if at := p.ready(t); at["data"] != "memory:" || at["durability"] != "none" {
			t.Errorf("%q: ready with %v", args, at)
		}
		p.Process.Signal(syscall.SIGTERM)
		p.end(t)
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Errorf("%q: on disk are %v, %v", args, left, err)
		}
	}
}

// A disk without room is not healthy, though the broker lives.
func TestHealthOnFullDisk(t *testing.T) {
	p := start(t, t.TempDir(), nil, "serve", "--listeners", "PLAINTEXT://127.0.0.1:0", "--set", "kcoord.disk.reserve.bytes=4611686018427387904")
	at := p.ready(t)
	var stdout, stderr bytes.Buffer
	code := -1
	for deadline := time.Now().Add(10 * time.Second); code != exitFailed && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		code = health([]string{at["PLAINTEXT"]}, nil, &stdout, &stderr)
	}
	if code != exitFailed || !strings.Contains(stderr.String(), "writes to kcoord-data are refused") {
		t.Errorf("health: exit code %d, %s%s", code, &stdout, &stderr)
	}
	p.Process.Signal(os.Interrupt)
	p.end(t)
	if n := strings.Count(p.stderr.String(), "writes are refused until there is some"); n != 1 {
		t.Errorf("%d lines about the disk:\n%s", n, p.stderr)
	}
}

// TestAdvertisedFileOfServe waits for a file, can be stopped meanwhile, and tells
// clients what stands in it.
func TestAdvertisedFileOfServe(t *testing.T) {
	dir := t.TempDir()
	args := []string{"--data-dir", "memory:", "--listeners", "PLAINTEXT://127.0.0.1:0", "--advertised-listeners-file", "advertised"}
	waiting := start(t, dir, nil, args...)
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(waiting.stderr.String(), "waiting for advertised"); {
		if time.Now().After(deadline) {
			t.Fatalf("kcoord does not wait:\n%s", waiting.stderr)
		}
		time.Sleep(5 * time.Millisecond)
	}
	waiting.Process.Signal(syscall.SIGTERM)
	if code := waiting.end(t); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	p := start(t, dir, nil, args...)
	if err := os.WriteFile(filepath.Join(dir, "advertised"), []byte("PLAINTEXT://example.org:32768\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := p.ready(t)
	c, err := dial([]string{at["PLAINTEXT"]}, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	resp, err := c.ask(kmsg.NewPtrMetadataRequest())
	if err != nil {
		t.Fatal(err)
	}
	if b := resp.(*kmsg.MetadataResponse).Brokers[0]; b.Host != "example.org" || b.Port != 32768 {
		t.Errorf("clients are sent to %s:%d", b.Host, b.Port)
	}
}

// TestStartErrors: one line for what a start meets.
func TestStartErrors(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	newer := filepath.Join(dir, "newer")
	if err := os.Mkdir(newer, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(newer, "kcoord.properties"), []byte("format.version=999\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		args string
		want string // a pattern of the line
	}{
		"port in use":         {"--data-dir memory: --listeners PLAINTEXT://" + taken.Addr().String(), `address already in use; .*--listeners`},
		"http port in use":    {"--data-dir memory: --listeners PLAINTEXT://127.0.0.1:0 --http " + taken.Addr().String(), `address already in use; .*--http`},
		"folder below a file": {"--listeners PLAINTEXT://127.0.0.1:0 --data-dir " + filepath.Join(file, "x"), regexp.QuoteMeta(file) + `.*; .*--data-dir`},
		"no such address":     {"--data-dir memory: --listeners PLAINTEXT://192.0.2.1:0", `192\.0\.2\.1`},
		"folder is a file":    {"--listeners PLAINTEXT://127.0.0.1:0 --data-dir " + file, regexp.QuoteMeta(file)},
		"folder of tomorrow":  {"--listeners PLAINTEXT://127.0.0.1:0 --data-dir " + newer, regexp.QuoteMeta(newer)},
	} {
		p := start(t, dir, nil, strings.Fields(tt.args)...)
		code := p.end(t)
		told := p.stderr.String()
		if code != exitFailed || strings.Count(told, "\n") != 1 || !strings.HasPrefix(told, "kcoord: ") || !regexp.MustCompile(tt.want).MatchString(told) {
			t.Errorf("%s: exit code %d\n%s", name, code, told)
		} else {
			t.Logf("%s: %s", name, told)
		}
	}
}
