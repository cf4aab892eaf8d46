// Package broker runs the broker that clients are tried against: kcoord, or a
// real Apache Kafka to prove that a test asks for the right thing.
package broker

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	readyTimeout = 60 * time.Second
	stopTimeout  = 20 * time.Second
)

// A Broker is a broker process on 127.0.0.1 that keeps its data over restarts.
type Broker struct {
	// Addr is host:port, the same after a restart.
	Addr string
	// DataDir holds one folder per partition, named TOPIC-PARTITION.
	DataDir string

	command func() *exec.Cmd
	output  *os.File

	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// Start starts the broker that the environment names, with its data in dir, and
// waits until it coordinates groups:
//
//	INTEROP_BROKER=kcoord   (default) the program INTEROP_KCOORD, or one built from ../cmd/kcoord
//	INTEROP_TRANSPORT=net   kcoord without event loops
//	INTEROP_BROKER=kafka    Apache Kafka, from the jars that install.sh has fetched
func Start(dir string) (*Broker, error) {
	return start(dir, os.Getenv("INTEROP_BROKER"))
}

// StartKcoord starts kcoord, whatever the environment says, with further flags of
// kcoord serve.
func StartKcoord(dir string, flags ...string) (*Broker, error) { return start(dir, "kcoord", flags...) }

// StartKafka starts Apache Kafka, whatever the environment says.
func StartKafka(dir string) (*Broker, error) { return start(dir, "kafka") }

// Again starts a broker that was stopped.
func (b *Broker) Again() error { return b.run() }

func start(dir, kind string, flags ...string) (*Broker, error) {
	port, controllerPort, err := freePorts()
	if err != nil {
		return nil, err
	}
	b := &Broker{Addr: fmt.Sprintf("127.0.0.1:%d", port), DataDir: filepath.Join(dir, "data")}
	if b.output, err = os.Create(filepath.Join(dir, "broker.out")); err != nil {
		return nil, err
	}
	switch kind {
	case "", "kcoord":
		err = b.useKcoord(flags)
	case "kafka":
		err = b.useKafka(dir, port, controllerPort)
	default:
		err = fmt.Errorf("INTEROP_BROKER=%s: want kcoord or kafka", kind)
	}
	if err != nil {
		return nil, err
	}
	return b, b.run()
}

// freePorts returns two ports that were free just now.
func freePorts() (int, int, error) {
	var ports [2]int
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, 0, err
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports[0], ports[1], nil
}

// buildKcoord builds the program once per test process.
var buildKcoord = sync.OnceValues(func() (string, error) {
	dir, err := CacheDir("bin")
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "kcoord")
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("finding the module: %w", err)
	}
	cmd := exec.Command("go", "build", "-o", program, "./cmd/kcoord")
	cmd.Dir = filepath.Join(string(root[:len(root)-1]), "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building kcoord: %w\n%s", err, out)
	}
	return program, nil
})

// CacheDir returns a folder, made if need be, for what outlives a run.
func CacheDir(name string) (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(base, "kcoord-interop", name)
	return dir, os.MkdirAll(dir, 0o755)
}

func (b *Broker) useKcoord(flags []string) error {
	program := os.Getenv("INTEROP_KCOORD")
	if program == "" {
		var err error
		if program, err = buildKcoord(); err != nil {
			return err
		}
	}
	b.command = func() *exec.Cmd {
		return exec.Command(program, append([]string{"serve",
			"--transport", cmp.Or(os.Getenv("INTEROP_TRANSPORT"), "auto"),
			"--listeners", "PLAINTEXT://" + b.Addr,
			"--data-dir", b.DataDir,
			"--http", "127.0.0.1:0",
			"--set", "group.initial.rebalance.delay.ms=0"}, flags...)...)
	}
	return nil
}

func (b *Broker) run() error {
	b.cmd, b.done = b.command(), make(chan struct{})
	b.cmd.Stdout, b.cmd.Stderr = b.output, b.output
	if err := b.cmd.Start(); err != nil {
		return err
	}
	go func() {
		b.err = b.cmd.Wait()
		close(b.done)
	}()
	return b.waitReady()
}

// waitReady asks for a coordinator and for an offset until there is no error.
func (b *Broker) waitReady() error {
	end := time.Now().Add(readyTimeout)
	for {
		err := b.askCoordinator()
		if err == nil {
			return nil
		}
		select {
		case <-b.done:
			return fmt.Errorf("the broker ended: %w: %s", b.err, b.Output())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(end) {
			return fmt.Errorf("the broker is not ready: %w: %s", err, b.Output())
		}
	}
}

func (b *Broker) askCoordinator() error {
	c, err := net.DialTimeout("tcp", b.Addr, time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.Version = 4
	find.CoordinatorKeys = []string{"ready"}
	found := kmsg.NewPtrFindCoordinatorResponse()
	if err := roundTrip(c, find, found); err != nil {
		return err
	}
	if len(found.Coordinators) != 1 || found.Coordinators[0].ErrorCode != 0 {
		return fmt.Errorf("FindCoordinator answers %+v", found.Coordinators)
	}
	fetch := kmsg.NewPtrOffsetFetchRequest()
	fetch.Version = 7
	fetch.Group = "ready"
	fetched := kmsg.NewPtrOffsetFetchResponse()
	if err := roundTrip(c, fetch, fetched); err != nil {
		return err
	}
	if fetched.ErrorCode != 0 {
		return fmt.Errorf("OffsetFetch answers error code %d", fetched.ErrorCode)
	}
	return nil
}

// Restart kills the broker as kill -9 does, starts it again on the same folder
// and waits until it is ready.
func (b *Broker) Restart() error {
	if err := b.Kill(); err != nil {
		return err
	}
	return b.run()
}

// Kill ends the broker as kill -9 does.
func (b *Broker) Kill() error {
	if err := b.cmd.Process.Kill(); err != nil {
		return err
	}
	<-b.done
	return nil
}

// Stop ends the broker as SIGTERM does and fails when it does not end well.
func (b *Broker) Stop() error {
	if err := b.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("%w: %s", err, b.Output())
	}
	select {
	case <-b.done:
	case <-time.After(stopTimeout):
		err := b.cmd.Process.Kill()
		<-b.done
		return errors.Join(fmt.Errorf("the broker does not stop within %v", stopTimeout), err)
	}
	var exit *exec.ExitError
	if errors.As(b.err, &exit) && exit.ExitCode() == 143 { // a JVM's answer to SIGTERM
		return nil
	}
	return b.err
}

// Output returns the end of what the broker has printed.
func (b *Broker) Output() string {
	text, _ := os.ReadFile(b.output.Name())
	return string(text[max(0, len(text)-4000):])
}
