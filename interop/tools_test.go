package interop

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kcoord/kcoord/interop/broker"
	"github.com/kcoord/kcoord/interop/goclients"
)

// Classes of Kafka's command-line tools.
const (
	topicCommand    = "org.apache.kafka.tools.TopicCommand"
	groupCommand    = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
	getOffsetShell  = "org.apache.kafka.tools.GetOffsetShell"
	consoleProducer = "org.apache.kafka.tools.ConsoleProducer"
	consoleConsumer = "org.apache.kafka.tools.consumer.ConsoleConsumer"
	dumpLogSegments = "org.apache.kafka.tools.DumpLogSegments"
	configCommand   = "org.apache.kafka.tools.ConfigCommand"
	versionsCommand = "org.apache.kafka.tools.BrokerApiVersionsCommand"
)

func javaTool(t *testing.T, class string, args ...string) *exec.Cmd {
	t.Helper()
	cmd, err := broker.Java(class, args...)
	if err != nil {
		t.Fatal(err)
	}
	return cmd
}

// expect fails the test unless every pattern is found in text. Blanks in a
// pattern stand for any number of blanks.
func expect(t *testing.T, what, text string, patterns ...string) {
	t.Helper()
	for _, p := range patterns {
		if !regexp.MustCompile(strings.ReplaceAll(p, " ", `\s+`)).MatchString(text) {
			t.Errorf("%s: no %q in\n%s", what, p, text)
		}
	}
}

func TestKafkaTools(t *testing.T) {
	b := startBroker(t)
	const topic, group = "tools", "tools-group"
	tool := func(class string, args ...string) *exec.Cmd {
		return javaTool(t, class, append([]string{"--bootstrap-server", b.Addr}, args...)...)
	}
	run := func(class string, args ...string) string {
		t.Helper()
		return output(t, tool(class, args...), "")
	}
	expect(t, "versions", run(versionsCommand), `OffsetCommit\(8\): \d+ to 1\d`, `Fetch\(1\): 4 to 1\d`)
	expect(t, "create", run(topicCommand, "--create", "--topic", topic, "--partitions", "2"), "Created topic tools")
	expect(t, "alter", run(topicCommand, "--alter", "--topic", topic, "--partitions", "4"))
	expect(t, "list", run(topicCommand, "--list"), `(?m)^tools$`)
	expect(t, "describe", run(topicCommand, "--describe", "--topic", topic), "PartitionCount: 4", "Partition: 3 Leader: 1 Replicas: 1 Isr: 1")
	run(configCommand, "--entity-type", "topics", "--entity-name", topic, "--alter", "--add-config", "retention.ms=86400000")
	expect(t, "config", run(configCommand, "--entity-type", "topics", "--entity-name", topic, "--describe"), "retention.ms=86400000")

	output(t, tool(consoleProducer, "--topic", topic, "--producer-property", "acks=all", "--producer-property", "partitioner.class=org.apache.kafka.clients.producer.RoundRobinPartitioner"), lines(0, 100))
	expect(t, "end offsets", run(getOffsetShell, "--topic", topic), "tools:0:", "tools:3:")
	got := run(consoleConsumer, "--topic", topic, "--group", group, "--from-beginning", "--max-messages", "100")
	if !sameValues(valuesIn(got), 0, 100) {
		t.Errorf("the console consumer printed %q", got)
	}

	// A living member for the views of the group command.
	member := startConsumer(t, tool(consoleConsumer, "--topic", topic, "--group", group, "--command-property", "heartbeat.interval.ms=500"))
	franz, err := goclients.NewFranz(b.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer franz.Close()
	waitFor(t, "the console consumer is a member", func() bool {
		state, members, err := franz.DescribeGroup(group)
		return err == nil && state == "Stable" && members == 1
	})
	expect(t, "list groups", run(groupCommand, "--list"), `(?m)^tools-group$`)
	expect(t, "describe group", run(groupCommand, "--describe", "--group", group), `tools-group tools 0 \d+ \d+ 0 console-consumer-\S+ /127.0.0.1 console-consumer`)
	expect(t, "members", run(groupCommand, "--describe", "--members", "--verbose", "--group", group), `console-consumer 4 `, `tools:0,1,2,3`)
	expect(t, "state", run(groupCommand, "--describe", "--state", "--group", group), `range Stable 1`)
	expect(t, "reset of a group with members", mustFail(t, tool(groupCommand, "--reset-offsets", "--to-earliest", "--topic", topic, "--group", group, "--execute")),
		"only be reset if the group|inactive")

	if err := b.Restart(); err != nil {
		t.Fatal(err)
	}
	output(t, tool(consoleProducer, "--topic", topic, "--producer-property", "acks=all"), lines(100, 150))
	member.waitValues(t, "the console consumer goes on after kill -9", 100, 150)
	member.interrupt(t)

	expect(t, "reset", run(groupCommand, "--reset-offsets", "--to-earliest", "--topic", topic, "--group", group, "--execute"), `tools-group tools 0 0`)
	got = run(consoleConsumer, "--topic", topic, "--group", group, "--max-messages", "150")
	if !sameValues(valuesIn(got), 0, 150) {
		t.Errorf("after the reset the console consumer printed %q", got)
	}
	expect(t, "delete offsets", run(groupCommand, "--delete-offsets", "--topic", topic, "--group", group), "Request succeed")
	expect(t, "delete group", run(groupCommand, "--delete", "--group", group), `Deletion of requested consumer groups .*was successful`)
	run(topicCommand, "--delete", "--topic", topic)
	if got := run(topicCommand, "--list"); strings.Contains(got, "tools\n") {
		t.Errorf("the deleted topic is listed: %q", got)
	}
}

// mustFail runs a command that prints an error, with or without an exit code.
func mustFail(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, _ := cmd.CombinedOutput()
	return string(out)
}

// TestDumpLogSegments reads what a cleanly stopped broker leaves behind with
// Kafka's own tool: every batch of every segment, index entry and offsets record must make sense
// to it.
func TestDumpLogSegments(t *testing.T) {
	b, err := broker.StartKcoord(t.TempDir(), "--set", "log.segment.bytes=1048576",
		"--topics", "many:2:compression.type=uncompressed")
	if err != nil {
		t.Fatal(err)
	}
	franz, err := goclients.NewFranz(b.Addr)
	if err != nil {
		t.Fatal(err)
	}
	const topic, group = "dumped", "dumped-group"
	steps := []func() error{
		func() error { return franz.CreateTopic(topic, 1) },
		func() error { return franz.Produce(topic, 0, 1000) },
		func() error { return franz.Produce("many", 0, 150_000) },
		func() error { return franz.SetOffsets(group, topic, map[int32]int64{0: 1}) },
		func() error { return franz.Join("a", group, topic) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	polled := 0
	waitFor(t, "the consumer has all records", func() bool {
		records, _, err := franz.Poll("a", pollMillis)
		polled += len(records)
		return err == nil && polled == 999
	})
	for _, step := range []func() error{
		func() error { return franz.Commit("a") },
		func() error { return franz.Leave("a") },
		franz.Close, b.Stop,
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}

	dump := func(args ...string) string { return output(t, javaTool(t, dumpLogSegments, args...), "") }
	segments := func(folder, ext string) string {
		files, err := filepath.Glob(filepath.Join(b.DataDir, folder, "*"+ext))
		if err != nil || len(files) == 0 {
			t.Fatalf("no %s in %s of %s: %v", ext, folder, b.DataDir, err)
		}
		return strings.Join(files, ",")
	}
	data := dump("--deep-iteration", "--print-data-log", "--files", segments("dumped-0", ".log"))
	expect(t, "data", data, `baseOffset: 0 lastOffset: `, `payload: v0\b`, `payload: v999\b`, `offset: 999 `)
	refuse(t, "data", data)
	if n := strings.Count(segments("many-[0-9]*", ".log"), ",") + 1; n < 4 {
		t.Errorf("two partitions of many have %d segments", n)
	}
	refuse(t, "all data", dump("--deep-iteration", "--files", segments("*-[0-9]*", ".log")))
	for _, ext := range []string{".index", ".timeindex"} {
		refuse(t, ext, dump("--index-sanity-check", "--files", segments("*-[0-9]*", ext)))
		refuse(t, ext, dump("--verify-index-only", "--files", segments("*-[0-9]*", ext)))
	}
	expect(t, "producers", dump("--files", segments("many-[0-9]*", ".snapshot")), `producerId: \d+ producerEpoch: 0 `, `lastSequence: `)
	offsets := dump("--offsets-decoder", "--files", segments("__consumer_offsets-*", ".log"))
	refuse(t, "offsets", offsets)
	expect(t, "offsets", offsets,
		`"type":"1","data":\{"group":"dumped-group","topic":"dumped","partition":0\}`, `"offset":1000,`, `"type":"2","data":\{"group":"dumped-group"\}`)
}

// refuse fails the test when a dump tells of anything wrong.
func refuse(t *testing.T, what, dump string) {
	t.Helper()
	if wrong := regexp.MustCompile(`(?i)(isvalid: false|mismatch|exception|non-consecutive|corrupt|Found timestamp).*`).FindString(dump); wrong != "" {
		t.Errorf("%s: %s in\n%s", what, wrong, dump)
	}
}
