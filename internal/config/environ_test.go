package config

import (
	"fmt"
	"strings"
	"testing"
)

// composeStyles are environment blocks in the ways that public compose files and
// test runners write them.
var composeStyles = []struct {
	name, environ string
	// listeners are NAME bind address > advertised address.
	listeners string
	// properties are name=value lines.
	properties string
	topics     string
	warnings   []string
}{
	{
		name: "apache/kafka, one listener",
		environ: `KAFKA_NODE_ID=1
KAFKA_PROCESS_ROLES=broker,controller
KAFKA_LISTENERS=PLAINTEXT://0.0.0.0:9092,CONTROLLER://localhost:9093
KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:9092
KAFKA_CONTROLLER_LISTENER_NAMES=CONTROLLER
KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
KAFKA_CONTROLLER_QUORUM_VOTERS=1@localhost:9093
KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR=1
KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR=1
KAFKA_TRANSACTION_STATE_LOG_MIN_ISR=1
KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS=0
KAFKA_NUM_PARTITIONS=3`,
		listeners:  "PLAINTEXT 0.0.0.0:9092 > localhost:9092",
		properties: "node.id=1 num.partitions=3 group.initial.rebalance.delay.ms=0",
	},
	{
		name: "apache/kafka, host and network",
		environ: `KAFKA_NODE_ID=1
KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT
KAFKA_ADVERTISED_LISTENERS=PLAINTEXT_HOST://localhost:9092,PLAINTEXT://broker:19092
KAFKA_PROCESS_ROLES=broker,controller
KAFKA_CONTROLLER_QUORUM_VOTERS=1@broker:29093
KAFKA_LISTENERS=CONTROLLER://:29093,PLAINTEXT_HOST://:9092,PLAINTEXT://:19092
KAFKA_INTER_BROKER_LISTENER_NAME=PLAINTEXT
KAFKA_CONTROLLER_LISTENER_NAMES=CONTROLLER
CLUSTER_ID=4L6g3nShT-eMCtK--X86sw
KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR=1
KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR=1
KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR=1
KAFKA_LOG_DIRS=/tmp/kraft-combined-logs`,
		listeners:  "PLAINTEXT_HOST :9092 > localhost:9092, PLAINTEXT :19092 > broker:19092",
		properties: "kcoord.cluster.id=4L6g3nShT-eMCtK--X86sw log.dirs=/tmp/kraft-combined-logs",
	},
	{
		name: "cp-kafka without ZooKeeper",
		environ: `KAFKA_NODE_ID=1
KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT
KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://broker:29092,PLAINTEXT_HOST://localhost:9092
KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR=1
KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS=0
KAFKA_TRANSACTION_STATE_LOG_MIN_ISR=1
KAFKA_JMX_PORT=9101
KAFKA_JMX_HOSTNAME=localhost
KAFKA_PROCESS_ROLES=broker,controller
KAFKA_CONTROLLER_QUORUM_VOTERS=1@broker:29093
KAFKA_LISTENERS=PLAINTEXT://broker:29092,CONTROLLER://broker:29093,PLAINTEXT_HOST://0.0.0.0:9092
KAFKA_INTER_BROKER_LISTENER_NAME=PLAINTEXT
KAFKA_CONTROLLER_LISTENER_NAMES=CONTROLLER
KAFKA_LOG_DIRS=/tmp/kraft-combined-logs
KAFKA_LOG4J_ROOT_LOGLEVEL=WARN
KAFKA_CONFLUENT_LICENSE_TOPIC_REPLICATION_FACTOR=1
KAFKA_CONFLUENT_SCHEMA_REGISTRY_URL=http://schema-registry:8081
KAFKA_METRIC_REPORTERS=io.confluent.metrics.reporter.ConfluentMetricsReporter
CONFLUENT_METRICS_ENABLE=false
CLUSTER_ID=MkU3OEVBNTcwNTJENDM2Qk`,
		listeners:  "PLAINTEXT broker:29092 > broker:29092, PLAINTEXT_HOST 0.0.0.0:9092 > localhost:9092",
		properties: "kcoord.cluster.id=MkU3OEVBNTcwNTJENDM2Qk",
	},
	{
		name: "cp-kafka with ZooKeeper",
		environ: `KAFKA_BROKER_ID=2
KAFKA_ZOOKEEPER_CONNECT=zookeeper:2181
KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT
KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://kafka:29092,PLAINTEXT_HOST://localhost:9092
KAFKA_INTER_BROKER_LISTENER_NAME=PLAINTEXT
KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR=1
KAFKA_AUTO_CREATE_TOPICS_ENABLE="true"
KAFKA_HEAP_OPTS=-Xmx512M`,
		listeners:  "PLAINTEXT :29092 > kafka:29092, PLAINTEXT_HOST :9092 > localhost:9092",
		properties: "broker.id=2 auto.create.topics.enable=true",
	},
	{
		name: "bitnami without ZooKeeper",
		environ: `KAFKA_CFG_NODE_ID=0
KAFKA_CFG_PROCESS_ROLES=controller,broker
KAFKA_CFG_LISTENERS=PLAINTEXT://:9092,CONTROLLER://:9093,EXTERNAL://:9094
KAFKA_CFG_ADVERTISED_LISTENERS=PLAINTEXT://kafka:9092,EXTERNAL://localhost:9094
KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP=CONTROLLER:PLAINTEXT,EXTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT
KAFKA_CFG_CONTROLLER_QUORUM_VOTERS=0@kafka:9093
KAFKA_CFG_CONTROLLER_LISTENER_NAMES=CONTROLLER
KAFKA_CFG_AUTO_CREATE_TOPICS_ENABLE=false
KAFKA_KRAFT_CLUSTER_ID=abcdefghijklmnopqrstuv
KAFKA_ENABLE_KRAFT=yes
BITNAMI_DEBUG=true
ALLOW_PLAINTEXT_LISTENER=yes`,
		listeners:  "PLAINTEXT :9092 > kafka:9092, EXTERNAL :9094 > localhost:9094",
		properties: "node.id=0 auto.create.topics.enable=false kcoord.cluster.id=abcdefghijklmnopqrstuv",
	},
	{
		name: "bitnami with ZooKeeper",
		environ: `KAFKA_BROKER_ID=1
KAFKA_CFG_ZOOKEEPER_CONNECT=zookeeper:2181
KAFKA_CFG_LISTENERS=PLAINTEXT://:9092
KAFKA_LISTENERS=PLAINTEXT://:1
KAFKA_CFG_NUM_PARTITIONS=
ALLOW_PLAINTEXT_LISTENER=yes`,
		listeners:  "PLAINTEXT :9092 > ",
		properties: "broker.id=1 num.partitions=1",
	},
	{
		name: "wurstmeister, one address",
		environ: `KAFKA_ADVERTISED_HOST_NAME=192.168.99.100
KAFKA_ZOOKEEPER_CONNECT=zookeeper:2181
KAFKA_CREATE_TOPICS=orders:6:1,events:1:1:compact
KAFKA_BROKER_ID=7`,
		listeners: "PLAINTEXT :9092 > 192.168.99.100:9092",
		topics:    "orders:6:1,events:1:1:compact",
	},
	{
		name: "wurstmeister, inside and outside",
		environ: `KAFKA_ADVERTISED_LISTENERS=INSIDE://kafka:9093,OUTSIDE://localhost:9092
KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT
KAFKA_LISTENERS=INSIDE://0.0.0.0:9093,OUTSIDE://0.0.0.0:9092
KAFKA_INTER_BROKER_LISTENER_NAME=INSIDE
KAFKA_ZOOKEEPER_CONNECT=zookeeper:2181
KAFKA_LOG_RETENTION_HOURS=24
KAFKA_MESSAGE_MAX_BYTES=2000000
KAFKA_OPTS=-Dcom.sun.management.jmxremote`,
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
		name: "confluent-local",
		environ: `KAFKA_NODE_ID=1
KAFKA_LISTENERS=PLAINTEXT://localhost:29092,CONTROLLER://localhost:29093,PLAINTEXT_HOST://0.0.0.0:9092
KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:29092,PLAINTEXT_HOST://localhost:9092
KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT
KAFKA_CONTROLLER_QUORUM_VOTERS=1@localhost:29093
KAFKA_REST_HOST_NAME=rest-proxy
KAFKA_REST_LISTENERS=http://0.0.0.0:8082
KAFKA_REST_BOOTSTRAP_SERVERS=localhost:29092`,
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
			var environ []string
			for line := range strings.Lines(style.environ) {
				environ = append(environ, strings.ReplaceAll(strings.TrimSpace(line), `"`, ""))
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
