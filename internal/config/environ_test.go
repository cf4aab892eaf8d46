package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A composeStyle is an environment and what comes out of it.
type composeStyle struct {
	name string
	// file is one of docker/styles, which docker/test.sh starts with a real engine.
	file    string
	environ string
	// listeners are NAME bind address > advertised address.
	listeners string
	// properties are name=value lines.
	properties string
	topics     string
	warnings   []string
}

// composeStyles are environments in the ways that public compose files and test
// runners write them.
var composeStyles = []composeStyle{
	{
		name:       "apache/kafka, one listener",
		file:       "apache-kafka",
		listeners:  "PLAINTEXT 0.0.0.0:9092 > localhost:9092",
		properties: "node.id=1 num.partitions=3 group.initial.rebalance.delay.ms=0",
	},
	{
		name:       "apache/kafka, host and network",
		file:       "apache-kafka-two-listeners",
		listeners:  "PLAINTEXT_HOST :9092 > localhost:9092, PLAINTEXT :19092 > broker:19092",
		properties: "kcoord.cluster.id=4L6g3nShT-eMCtK--X86sw log.dirs=/tmp/kraft-combined-logs",
	},
	{
		name:       "cp-kafka without ZooKeeper",
		file:       "cp-kafka",
		listeners:  "PLAINTEXT broker:29092 > broker:29092, PLAINTEXT_HOST 0.0.0.0:9092 > localhost:9092",
		properties: "kcoord.cluster.id=MkU3OEVBNTcwNTJENDM2Qk",
	},
	{
		name:       "cp-kafka with ZooKeeper",
		file:       "cp-kafka-zookeeper",
		listeners:  "PLAINTEXT :29092 > kafka:29092, PLAINTEXT_HOST :9092 > localhost:9092",
		properties: "broker.id=2 auto.create.topics.enable=true",
	},
	{
		name:       "bitnami without ZooKeeper",
		file:       "bitnami",
		listeners:  "PLAINTEXT :9092 > kafka:9092, EXTERNAL :9094 > localhost:9094",
		properties: "node.id=0 auto.create.topics.enable=false kcoord.cluster.id=abcdefghijklmnopqrstuv",
	},
	{
		name:       "bitnami with ZooKeeper",
		file:       "bitnami-zookeeper",
		listeners:  "PLAINTEXT :9092 > ",
		properties: "broker.id=1 num.partitions=1",
	},
	{
		name:      "wurstmeister, one address",
		file:      "wurstmeister",
		listeners: "PLAINTEXT :9092 > localhost:9092",
		topics:    "orders:6:1,events:1:1:compact",
	},
	{
		name:       "wurstmeister, inside and outside",
		file:       "wurstmeister-two-listeners",
		listeners:  "INSIDE 0.0.0.0:9093 > kafka:9093, OUTSIDE 0.0.0.0:9092 > localhost:9092",
		properties: "log.retention.hours=24 message.max.bytes=2000000",
	},
	{
		name: "Testcontainers",
		environ: `KAFKA_LISTENERS=PLAINTEXT://0.0.0.0:9092,BROKER://0.0.0.0:9093,CONTROLLER://0.0.0.0:9094
KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
KAFKA_INTER_BROKER_LISTENER_NAME=BROKER
KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:32769,BROKER://3fe2a1bd4ad9:9093
KAFKA_PROCESS_ROLES=broker,controller
KAFKA_CONTROLLER_LISTENER_NAMES=CONTROLLER
KAFKA_NODE_ID=1
KAFKA_CONTROLLER_QUORUM_VOTERS=1@localhost:9094
KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS=1
KAFKA_LOG_FLUSH_INTERVAL_MESSAGES=9223372036854775807
KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS=0`,
		listeners:  "PLAINTEXT 0.0.0.0:9092 > localhost:32769, BROKER 0.0.0.0:9093 > 3fe2a1bd4ad9:9093",
		properties: "offsets.topic.num.partitions=1",
	},
	{
		name:      "confluent-local",
		file:      "confluent-local",
		listeners: "PLAINTEXT localhost:29092 > localhost:29092, PLAINTEXT_HOST 0.0.0.0:9092 > localhost:9092",
	},
	{
		name: "a pod beside a service called kafka",
		environ: `KAFKA_SERVICE_HOST=10.96.0.12
KAFKA_SERVICE_PORT=9092
KAFKA_SERVICE_PORT_CLIENT=9092
KAFKA_PORT=tcp://10.96.0.12:9092
KAFKA_PORT_9092_TCP=tcp://10.96.0.12:9092
KAFKA_PORT_9092_TCP_ADDR=10.96.0.12
KAFKA_LISTENERS=PLAINTEXT://:9092
KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://kafka-0.kafka.default.svc.cluster.local:9092
KAFKA_DEFAULT_REPLICATION_FACTOR=3
KAFKA_MIN_INSYNC_REPLICAS=2`,
		listeners: "PLAINTEXT :9092 > kafka-0.kafka.default.svc.cluster.local:9092",
	},
	{
		name: "mistakes",
		environ: `KAFKA_LISTENERS=PLAINTEXT://:9092
KAFKA_NUM_PARTITION=3
KAFKA_CFG_OFFSETS_TOPIC_NUM_PARTITION=3
KCOORD_DURABILTY=os
KAFKA_SOMETHING_ELSE_ENTIRELY=1
KCOORD_DURABILITY=os
NUM_PARTITIONS=9`,
		listeners:  "PLAINTEXT :9092 > ",
		properties: "num.partitions=1 kcoord.durability=os",
		warnings: []string{
			"KAFKA_CFG_OFFSETS_TOPIC_NUM_PARTITION=3: no property offsets.topic.num.partition is known; ignored (nearest: KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS)",
			"KAFKA_NUM_PARTITION=3: no property num.partition is known; ignored (nearest: KAFKA_NUM_PARTITIONS)",
			"KAFKA_SOMETHING_ELSE_ENTIRELY=1: no property something.else.entirely is known; ignored",
			"KCOORD_DURABILTY=os: no property kcoord.durabilty is known; ignored (nearest: KCOORD_DURABILITY)",
		},
	},
}

// TestComposeStyles loads each style and checks what comes out.
func TestComposeStyles(t *testing.T) {
	for _, style := range composeStyles {
		t.Run(style.name, func(t *testing.T) {
			environ := strings.Fields(style.environ)
			if style.file != "" {
				environ = composeEnvironment(t, "../../docker/styles/"+style.file+".yml")
			}
			loaded, err := Load(Sources{Environ: environ})
			if err != nil {
				t.Fatal(err)
			}
			var listeners []string
			for _, l := range loaded.Values().Listeners {
				advertised := ""
				if l.AdvertisedHost != "" {
					advertised = fmt.Sprintf("%s:%d", l.AdvertisedHost, l.AdvertisedPort)
				}
				listeners = append(listeners, l.Name+" "+l.Address()+" > "+advertised)
			}
			if got := strings.Join(listeners, ", "); got != style.listeners {
				t.Errorf("listeners\n%s, want\n%s", got, style.listeners)
			}
			for _, property := range strings.Fields(style.properties) {
				name, value, _ := strings.Cut(property, "=")
				if got := loaded.Get(name); got != value {
					t.Errorf("%s=%s, want %s", name, got, value)
				}
			}
			if loaded.Topics != style.topics {
				t.Errorf("topics %q, want %q", loaded.Topics, style.topics)
			}
			if got, want := strings.Join(loaded.Warnings, "\n"), strings.Join(style.warnings, "\n"); got != want {
				t.Errorf("warnings\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestEveryComposeFile: no file that the engine starts is missing in the table.
func TestEveryComposeFile(t *testing.T) {
	files, err := filepath.Glob("../../docker/styles/*.yml")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yml")
		inTable := slices.ContainsFunc(composeStyles, func(s composeStyle) bool { return s.file == name })
		// The start script of the image reads this one's variable, which is not of Kafka.
		if !inTable && name != "fast-data-dev" {
			t.Errorf("%s is not among the styles", file)
		}
	}
}

// composeEnvironment reads the variables of the broker in a compose file: of the
// first block that has one of Kafka's. It knows the two ways of writing them that
// such files use, and no more of YAML.
func composeEnvironment(t *testing.T, name string) []string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(content), "    environment:\n")[1:] {
		var environ []string
		for line := range strings.Lines(block) {
			entry, inside := strings.CutPrefix(line, "      ")
			if !inside {
				break
			}
			if entry = strings.TrimSpace(entry); strings.HasPrefix(entry, "#") {
				continue
			}
			variable, isList := strings.CutPrefix(entry, "- ")
			if !isList {
				key, value, _ := strings.Cut(entry, ": ")
				variable = key + "=" + strings.Trim(value, `"'`)
			}
			environ = append(environ, variable)
		}
		if strings.Contains(strings.Join(environ, "\n"), "KAFKA_") {
			return environ
		}
	}
	t.Fatalf("%s sets nothing of Kafka's", name)
	return nil
}

// TestVariableNames turns the names of all properties into variables and back.
func TestVariableNames(t *testing.T) {
	for _, p := range Properties() {
		env := FromEnvironment([]string{variableName(p.Name) + "=7"})
		if len(env.Settings) != 1 || env.Settings[0].Name != p.Name {
			if !ignoredVariables.MatchString(variableName(p.Name)) {
				t.Errorf("%s gave %+v", variableName(p.Name), env)
			}
		}
	}
}
