package broker_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kcoord/kcoord/broker"
)

// deadline bounds every wait in these tests.
const deadline = 30 * time.Second

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	t.Cleanup(cancel)
	return ctx
}

// start runs a broker in this process until the end of the test.
func start(t testing.TB, o broker.Options) *broker.Broker {
	t.Helper()
	b, err := broker.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Start(within(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b
}

func client(t testing.TB, addr string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	opts = append([]kgo.Opt{kgo.SeedBrokers(addr), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.SessionTimeout(6 * time.Second),
		kgo.HeartbeatInterval(100 * time.Millisecond), kgo.FetchMaxWait(100 * time.Millisecond)}, opts...)
	c, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func createTopic(t testing.TB, addr, topic string, partitions int32) {
	t.Helper()
	adm := kadm.NewClient(client(t, addr))
	resp, err := adm.CreateTopic(within(t), partitions, 1, nil, topic)
	if err != nil || resp.Err != nil {
		t.Fatal(err, resp.Err)
	}
}

// produce writes records "0", "1", ... round robin over the partitions.
func produce(t testing.TB, addr, topic string, partitions int32, from, to int) {
	t.Helper()
	c := client(t, addr)
	var records []*kgo.Record
	for i := from; i < to; i++ {
		records = append(records, &kgo.Record{Topic: topic, Partition: int32(i) % partitions, Value: fmt.Append(nil, i)})
	}
	if err := c.ProduceSync(within(t), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// A member consumes and commits what it has seen, until it is stopped.
type member struct {
	client *kgo.Client
	mu     sync.Mutex
	seen   map[string]int
	done   chan struct{}
}

func join(t testing.TB, addr, group, topic string, opts ...kgo.Opt) *member {
	t.Helper()
	opts = append([]kgo.Opt{kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(), kgo.Balancers(kgo.RangeBalancer())}, opts...)
	m := &member{client: client(t, addr, opts...), seen: map[string]int{}, done: make(chan struct{})}
	go m.run()
	return m
}

func (m *member) run() {
	defer close(m.done)
	for {
		fetches := m.client.PollFetches(context.Background())
		if fetches.IsClientClosed() {
			return
		}
		m.mu.Lock()
		fetches.EachRecord(func(r *kgo.Record) { m.seen[string(r.Value)]++ })
		m.mu.Unlock()
		if fetches.NumRecords() > 0 {
			// What cannot be committed is seen again by somebody else: never lost.
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			m.client.CommitRecords(ctx, fetches.Records()...)
			cancel()
		}
		m.client.AllowRebalance()
	}
}

func (m *member) leave() {
	m.client.CloseAllowingRebalance()
	<-m.done
}

// crash disappears without a word: the session has to time out.
func (m *member) crash() {
	m.client.LeaveGroupContext(canceled())
	m.client.CloseAllowingRebalance()
	<-m.done
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// eventually polls until f is true.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); !f(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", deadline, what)
		}
	}
}

func seenAll(n int, members ...*member) bool {
	all := map[string]bool{}
	for _, m := range members {
		m.mu.Lock()
		for v := range m.seen {
			all[v] = true
		}
		m.mu.Unlock()
	}
	return len(all) == n
}

func stableWith(t testing.TB, adm *kadm.Client, group string, members int) func() bool {
	return func() bool {
		groups, err := adm.DescribeGroups(within(t), group)
		if err != nil {
			t.Fatal(err)
		}
		g := groups[group]
		return g.Err == nil && g.State == "Stable" && len(g.Members) == members
	}
}

// onBothTransports runs a test with event loops, as far as the platform has them,
// and with a goroutine for each connection.
func onBothTransports(t *testing.T, test func(t *testing.T, goroutineOnly bool)) {
	t.Run("auto", func(t *testing.T) { test(t, false) })
	t.Run("net", func(t *testing.T) { test(t, true) })
}

// Members come, leave and disappear; every record is seen and the committed
// offsets end at the logs' ends.
func TestGroupOfSeveralMembers(t *testing.T) { onBothTransports(t, testGroupOfSeveralMembers) }

func testGroupOfSeveralMembers(t *testing.T, goroutineOnly bool) {
	b := start(t, broker.Options{GoroutineOnly: goroutineOnly, Properties: map[string]string{
		"listeners": "PLAINTEXT://127.0.0.1:0", "group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "500"}})
	const partitions = 6
	createTopic(t, b.Addr(), "orders", partitions)
	adm := kadm.NewClient(client(t, b.Addr()))
	produce(t, b.Addr(), "orders", partitions, 0, 120)

	short := kgo.SessionTimeout(time.Second)
	one := join(t, b.Addr(), "g", "orders", short)
	eventually(t, "one member has everything", func() bool { return seenAll(120, one) })
	two, three := join(t, b.Addr(), "g", "orders", short), join(t, b.Addr(), "g", "orders", short)
	eventually(t, "three members", stableWith(t, adm, "g", 3))
	produce(t, b.Addr(), "orders", partitions, 120, 240)
	eventually(t, "three members have everything", func() bool { return seenAll(240, one, two, three) })

	two.leave()
	eventually(t, "two members", stableWith(t, adm, "g", 2))
	three.crash()
	produce(t, b.Addr(), "orders", partitions, 240, 360)
	eventually(t, "the survivor has everything", func() bool { return seenAll(360, one, two, three) })
	eventually(t, "one member", stableWith(t, adm, "g", 1))
	one.leave()

	committed, err := adm.FetchOffsets(within(t), "g")
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	committed.Each(func(o kadm.OffsetResponse) { sum += o.At })
	if sum != 360 {
		t.Errorf("committed %d, want 360: %v", sum, committed)
	}
	listed, err := adm.ListGroups(within(t))
	if err != nil || listed["g"].State != "Empty" {
		t.Errorf("ListGroups: %v, %v", listed, err)
	}
	if _, err := adm.DeleteGroups(within(t), "g"); err != nil {
		t.Error(err)
	}
	if after, err := adm.FetchOffsets(within(t), "g"); err != nil || len(after) != 0 {
		t.Errorf("after DeleteGroups: %v, %v", after, err)
	}
}

// Data, groups and offsets are there after a clean stop and a new start.
func TestCleanRestart(t *testing.T) { onBothTransports(t, testCleanRestart) }

func testCleanRestart(t *testing.T, goroutineOnly bool) {
	dir := t.TempDir()
	b := start(t, broker.Options{DataDir: dir, GoroutineOnly: goroutineOnly})
	createTopic(t, b.Addr(), "orders", 2)
	produce(t, b.Addr(), "orders", 2, 0, 50)
	m := join(t, b.Addr(), "g", "orders")
	eventually(t, "everything seen", func() bool { return seenAll(50, m) })
	m.leave()
	begun := time.Now()
	if err := b.Stop(within(t)); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("Stop took %v", took)
	}

	again := start(t, broker.Options{DataDir: dir, GoroutineOnly: goroutineOnly})
	produce(t, again.Addr(), "orders", 2, 50, 60)
	m = join(t, again.Addr(), "g", "orders")
	eventually(t, "the new records seen", func() bool { return seenAll(10, m) })
	m.leave()
}

// A second broker on the same folder is refused.
func TestFolderInUse(t *testing.T) {
	dir := t.TempDir()
	start(t, broker.Options{DataDir: dir})
	second, err := broker.New(broker.Options{Properties: map[string]string{"log.dirs": dir}}) // the other way to name it
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Start(within(t)); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second broker on the folder: %v", err)
	}
	second.Stop(within(t))
}

// childDir and childProperty (name=value) are what a child is started with.
const (
	childDir      = "KCOORD_TEST_CHILD_DIR"
	childProperty = "KCOORD_TEST_CHILD_PROPERTY"
	childNet      = "KCOORD_TEST_CHILD_NET" // not empty: GoroutineOnly
)

// TestMain runs this program as a broker if a test asks for one in a process of
// its own.
func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := runChild(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// runChild serves until its standard input ends.
func runChild(dir string) error {
	o := broker.Options{DataDir: dir, GoroutineOnly: os.Getenv(childNet) != ""}
	if name, value, ok := strings.Cut(os.Getenv(childProperty), "="); ok {
		o.Properties = map[string]string{name: value}
	}
	b, err := broker.New(o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	if err := b.Start(ctx); err != nil {
		return err
	}
	fmt.Println(b.Addr())
	io.Copy(io.Discard, os.Stdin)
	return b.Stop(ctx)
}

// A child is a broker in a process of its own.
type child struct {
	cmd  *exec.Cmd
	addr string
}

func startChild(t testing.TB, dir string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: cmd}
	t.Cleanup(c.kill)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the child said nothing: %v", err)
	}
	c.addr = strings.TrimSpace(line)
	return c
}

// kill is kill -9.
func (c *child) kill() {
	c.cmd.Process.Kill()
	c.cmd.Wait()
}

// What was acknowledged before kill -9 is there afterwards: records, topics and
// commits, again and again on one folder.
func TestKill(t *testing.T) { onBothTransports(t, testKill) }

func testKill(t *testing.T, goroutineOnly bool) {
	if goroutineOnly {
		t.Setenv(childNet, "1")
	}
	dir := t.TempDir()
	ctx := within(t)
	acknowledged := int64(-1)
	for round := range 3 {
		c := startChild(t, dir)
		if round == 0 {
			createTopic(t, c.addr, "orders", 1)
		}
		// An idempotent producer does not give up what it has sent.
		cl := client(t, c.addr, kgo.DisableIdempotentWrite())
		adm := kadm.NewClient(cl)
		if round > 0 {
			committed, err := adm.FetchOffsets(ctx, "g")
			if err != nil {
				t.Fatal(err)
			}
			o, ok := committed.Lookup("orders", 0)
			if !ok || o.At < acknowledged {
				t.Fatalf("round %d: committed %d, acknowledged were %d", round, o.At, acknowledged)
			}
			ends, err := adm.ListEndOffsets(ctx, "orders")
			if err != nil {
				t.Fatal(err)
			}
			if end, _ := ends.Lookup("orders", 0); end.Offset < acknowledged {
				t.Fatalf("round %d: the log ends at %d, acknowledged were %d", round, end.Offset, acknowledged)
			}
		}
		acknowledged = writeUntilKilled(t, c, cl, adm, max(acknowledged, 0))
	}
}

// writeUntilKilled produces a record and commits its end, over and over; in the
// middle of it the broker is killed. It returns the last acknowledged commit.
func writeUntilKilled(t *testing.T, c *child, cl *kgo.Client, adm *kadm.Client, from int64) int64 {
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	var once sync.Once
	last := from
	for i := 0; ; i++ {
		if i == 50 {
			once.Do(func() {
				go func() {
					c.kill()
					cancel()
				}()
			})
		}
		r, err := cl.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: fmt.Append(nil, i)}).First()
		if err != nil {
			if i < 50 {
				t.Fatal(err)
			}
			return last
		}
		var offsets kadm.Offsets
		offsets.AddOffset("orders", 0, r.Offset+1, -1)
		committed, err := adm.CommitOffsets(ctx, "g", offsets)
		if err = errors.Join(err, committed.Error()); err != nil {
			if i < 50 {
				t.Fatal(err)
			}
			return last
		}
		last = r.Offset + 1
	}
}
