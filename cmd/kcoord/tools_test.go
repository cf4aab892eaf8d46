package main

import (
	"bytes"
	"net"
	"regexp"
	"strings"
	"testing"
)

// TestTools calls kcoord by the names of Kafka's scripts, as container tooling
// does, with a broker that runs.
func TestTools(t *testing.T) {
	at := start(t, t.TempDir(), nil, "--data-dir", "memory:", "--listeners", "PLAINTEXT://127.0.0.1:0", "--topics", "there:2").ready(t)["PLAINTEXT"]
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		t.Fatal(err)
	}
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody.Close()
	fill := strings.NewReplacer("AT", at, "HOST", host, "PORT", port, "NOBODY", nobody.Addr().String())
	for _, tt := range []struct {
		command string
		code    int
		output  string // a pattern of both outputs
	}{
		{"kafka-topics.sh --bootstrap-server AT --list", 0, `(?m)^there$`},
		{"/opt/kafka/bin/kafka-topics.sh --bootstrap-server AT --create --topic made --partitions 3 --replication-factor 1 --config cleanup.policy=compact", 0, `^Created topic made\.\n$`},
		{"kafka-topics --bootstrap-server AT --create --topic made", 1, `^kafka-topics: create made: .*\(error code 36\)\n$`},
		{"kafka-topics --bootstrap-server AT --create --topic made --if-not-exists", 0, `^$`},
		{"kafka-topics --bootstrap-server AT --describe --topic made", 0, `^Topic: made\tPartitionCount: 3\t`},
		{"kafka-topics --bootstrap-server AT --describe --topic missing", 1, `"missing" does not exist`},
		{"kafka-topics --bootstrap-server AT --delete --topic made", 0, `^$`},
		{"kafka-topics --bootstrap-server AT --delete --topic made", 1, `\(error code 3\)`},
		{"kafka-topics --bootstrap-server AT --delete --topic made --if-exists", 0, `^$`},
		{"kafka-topics --bootstrap-server AT", 2, `one of --list`},
		{"kafka-topics --list", 2, `--bootstrap-server HOST:PORT is missing`},
		{"kafka-topics --bootstrap-server NOBODY --list", 1, `^kafka-topics: .*refused\n$`},
		{"kafka-broker-api-versions.sh --bootstrap-server NOBODY,AT", 0, `OffsetCommit\(8\): up to \d+`},
		{"kafka-cluster cluster-id --bootstrap-server AT", 0, `^Cluster ID: \S{22}\n$`},
		{"kafka-cluster unregister", 2, `only cluster-id`},
		{"kafka-consumer-groups --bootstrap-server AT --list", 0, `^$`},
		{"kafka-consumer-groups --bootstrap-server AT --describe", 2, `^kafka-consumer-groups: flag provided but not defined: --describe; Kafka's own .*\n$`},
		{"kafka-consumer-groups --bootstrap-server AT", 2, `only --list`},
		{"kafka-storage random-uuid", 0, `^[A-Za-z0-9_][A-Za-z0-9_-]{21}\n$`},
		{"kafka-storage format --ignore-formatted -t x -c y", 0, `when it starts`},
		{"kafka-storage", 2, `expected`},
		{"kafka-console-producer --bootstrap-server AT", 1, `--topic is missing`},
		{"kafka-configs.sh --alter", 1, `no Java`},
		{"cub kafka-ready -b AT 1 20", 0, `^$`},
		{"cub kafka-ready 1 20 -b PLAINTEXT://AT -c client.properties", 0, `^$`},
		{"cub kafka-ready -b NOBODY 1 0", 1, `^cub: not ready within 0 s: .*refused\n$`},
		{"cub kafka-ready -b AT 3 20", 2, `there is one`},
		{"cub kafka-ready -b AT 1", 2, `expected`},
		{"cub zk-ready zookeeper:2181 20", 0, `^$`},
		{"nc -z HOST PORT", 0, `^$`},
		{"nc -zv -w 5 HOST PORT", 0, `^$`},
		{"nc -z -w x HOST PORT", 2, `number of seconds`},
		{"nc HOST PORT", 2, `only nc -z`},
		{"nc -lz HOST PORT", 2, `not -l`},
	} {
		words := strings.Fields(fill.Replace(tt.command))
		tool, ok := toolFor(words[0])
		if !ok {
			t.Errorf("%s: not known", words[0])
			continue
		}
		var out bytes.Buffer
		if code := tool(words[1:], &out, &out); code != tt.code || !regexp.MustCompile(tt.output).MatchString(out.String()) {
			t.Errorf("%s: exit code %d, output\n%swant %d and %s", tt.command, code, &out, tt.code, tt.output)
		}
	}
	if _, ok := toolFor("kcoord"); ok {
		t.Error("kcoord itself is no tool")
	}
}
