package config

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestTables checks the tables: names are unique, defaults valid, each row has one
// sentence, an honoured one a typed value, and synonyms exist.
func TestTables(t *testing.T) {
	c := Default()
	bound := c.values.bindings()
	topic := (&TopicValues{}).bindings()
	group := (&GroupValues{}).bindings()
	synonyms := map[string]bool{}
	for _, p := range slices.Concat(TopicProperties(), GroupProperties()) {
		for _, s := range p.Synonyms {
			synonyms[s.Name] = true
			if _, ok := Find(s.Name); !ok {
				t.Errorf("%s has the synonym %s, which is in no table", p.Name, s.Name)
			}
		}
	}
	for scope, table := range map[string][]Property{"broker": Properties(), "topic": TopicProperties(), "group": GroupProperties()} {
		seen := map[string]bool{}
		for _, p := range table {
			if seen[p.Name] {
				t.Errorf("%s is there twice", p.Name)
			}
			seen[p.Name] = true
			if p.Doc == "" || !strings.HasSuffix(p.Doc, ".") || strings.Count(p.Doc, ". ") > 0 {
				t.Errorf("%s: %q is not one sentence", p.Name, p.Doc)
			}
			if allowed := p.Check(p.Default); allowed != "" {
				t.Errorf("%s: default %q is not %s", p.Name, p.Default, allowed)
			}
			if p.Null && p.Default != "" {
				t.Errorf("%s: null has the default %q", p.Name, p.Default)
			}
			made := map[string]bool{"cleanup.policy": true, "message.timestamp.type": true, "internal.segment.bytes": true}
			_, inTopic := topic[p.Name]
			_, inGroup := group[p.Name]
			_, inBroker := bound[p.Name]
			isBound := scope == "broker" && (inBroker || slices.Contains(madeOf, p.Name) || synonyms[p.Name]) ||
				scope == "topic" && (inTopic || made[p.Name]) || scope == "group" && inGroup
			if p.Stance == Honoured && !isBound {
				t.Errorf("%s is honoured and has no typed value", p.Name)
			}
		}
	}
	for name := range bound {
		if _, ok := Find(name); !ok {
			t.Errorf("%s has a typed value and no row", name)
		}
	}
}

// TestValues reads typed values of several kinds.
func TestValues(t *testing.T) {
	c, err := Static(
		Setting{Name: "num.partitions", Value: " 3 "}, Setting{Name: "offsets.retention.minutes", Value: "90"},
		Setting{Name: "auto.create.topics.enable", Value: "FALSE"}, Setting{Name: "connections.max.idle.ms", Value: "9223372036854775807"},
		Setting{Name: "group.consumer.assignors", Value: "org.apache.kafka.coordinator.group.assignor.RangeAssignor, uniform"},
		Setting{Name: "group.consumer.migration.policy", Value: "Upgrade"}, Setting{Name: "kcoord.durability", Value: "os"},
		Setting{Name: "log.dirs", Value: "/data"}, Setting{Name: "broker.id", Value: "4"}, Setting{Name: "log.cleaner.io.buffer.load.factor", Value: "0.5"},
		Setting{Name: "offsets.topic.compression.codec", Value: "4"}, Setting{Name: "kcoord.cluster.id", Value: "abc"},
	)
	if err != nil {
		t.Fatal(err)
	}
	v := c.Values()
	if v.NumPartitions != 3 || v.OffsetsRetention != 90*time.Minute || v.AutoCreateTopics || v.ConnectionsMaxIdle != 1<<63-1 ||
		strings.Join(v.ConsumerAssignors, ",") != "range,uniform" || v.ConsumerMigrationPolicy != "upgrade" || v.Durability != "os" ||
		v.LogDirs[0] != "/data" || v.NodeID != 4 || v.LogCleanerLoadFactor != 0.5 || v.OffsetsTopicCompressionCodec != 4 || v.ClusterID != "abc" {
		t.Errorf("values %+v", v)
	}
	v = Default().Values()
	if v.OffsetsTopicPartitions != 50 || v.OffsetsRetention != 7*24*time.Hour || v.Durability != "sync" || v.NodeID != 1 ||
		v.GroupMaxSize != 1<<31-1 || !v.AutoCreateTopics || v.SocketRequestMaxBytes != 100<<20 {
		t.Errorf("defaults %+v", v)
	}
}

// TestErrors gives settings that are wrong, alone or together.
func TestErrors(t *testing.T) {
	for _, tt := range []struct{ settings, want string }{
		{"num.partitions=x", "num.partitions=x: must be a whole number (32 bits) of at least 1"},
		{"num.partitions=2147483648", "num.partitions=2147483648: must be a whole number (32 bits) of at least 1"},
		{"auto.create.topics.enable=yes", "auto.create.topics.enable=yes: must be true or false"},
		{"log.cleaner.min.cleanable.ratio=1.5", "log.cleaner.min.cleanable.ratio=1.5: must be a number from 0 to 1"},
		{"compression.gzip.level=10", "compression.gzip.level=10: must be a whole number (32 bits) from 1 to 9 or -1"},
		{"compression.gzip.level=0", "compression.gzip.level=0: must be a whole number (32 bits) from 1 to 9 or -1"},
		{"compression.type=zip", "compression.type=zip: must be one of uncompressed, zstd, lz4, snappy, gzip, producer"},
		{"log.cleanup.policy=delete,shred", "log.cleanup.policy=delete,shred: must be a list of compact, delete"},
		{"kcoord.durability=maybe", "kcoord.durability=maybe: must be one of sync, interval, os"},
		{"group.max.sise=3", "group.max.sise=3: unknown property (nearest: group.max.size)"},
		{"log.retentionhours=3", "log.retentionhours=3: unknown property (nearest: log.retention.hours)"},
		{"completely.different=3", "completely.different=3: unknown property"},
		{"remote.log.storage.system.enable=true", "remote.log.storage.system.enable=true: not supported: there is no tiered storage"},
		{"remote.log.storage.system.enable=FALSE", ""},
		{"confluent.support.metrics.enable=false", ""},
		{"zookeeper.connect=zookeeper:2181", ""},
		{"node.id=1 broker.id=2", "broker.id=2: must be the same as node.id, which is 1"},
		{"node.id=1 broker.id=-1", ""},
		{"broker.id=-7", "broker.id=-7: must be a whole number (32 bits) of at least 0"},
		{"log.dirs=/a,/b", "log.dirs=/a,/b: must be one folder"},
		{"group.coordinator.rebalance.protocols=consumer", "group.coordinator.rebalance.protocols=consumer: must have classic"},
		{"group.consumer.assignors=sticky", "group.consumer.assignors=sticky: must be a list of uniform, range; assignors in Java cannot be loaded"},
		{"group.consumer.assignors=range,range", "group.consumer.assignors=range,range: has range twice"},
		{"group.consumer.session.timeout.ms=10000", "group.consumer.session.timeout.ms=10000: group.consumer.session.timeout.ms (10000) must be from group.consumer.min.session.timeout.ms (45000) to group.consumer.max.session.timeout.ms (60000)"},
		{"group.consumer.min.heartbeat.interval.ms=6000", "group.consumer.min.heartbeat.interval.ms=6000: group.consumer.heartbeat.interval.ms (5000) must be from group.consumer.min.heartbeat.interval.ms (6000) to group.consumer.max.heartbeat.interval.ms (15000)"},
		{"group.consumer.min.session.timeout.ms=70000", "group.consumer.min.session.timeout.ms=70000: group.consumer.min.session.timeout.ms is above group.consumer.max.session.timeout.ms"},
		{"group.consumer.session.timeout.ms=50000 group.consumer.max.heartbeat.interval.ms=60000 group.consumer.heartbeat.interval.ms=50000",
			"group.consumer.heartbeat.interval.ms=50000: group.consumer.heartbeat.interval.ms (50000) must be below group.consumer.session.timeout.ms (50000)"},
		{"log.cleaner.min.compaction.lag.ms=10 log.cleaner.max.compaction.lag.ms=9", "min.compaction.lag.ms=10: must not be above max.compaction.lag.ms, which is 9"},
	} {
		var settings []Setting
		for _, text := range strings.Fields(tt.settings) {
			s, err := ParseAssignment(text, "")
			if err != nil {
				t.Fatal(err)
			}
			settings = append(settings, s)
		}
		got := ""
		if _, err := Static(settings...); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s:\n%s, want\n%s", tt.settings, got, tt.want)
		}
	}
	long := (&Error{Setting: Setting{Name: "a", Value: "x\ny" + strings.Repeat("z", 1000)}, Problem: "is wrong"}).Error()
	if strings.Contains(long, "\n") || len(long) > 200 {
		t.Errorf("an error is %q", long)
	}
}

// TestListeners reads addresses.
func TestListeners(t *testing.T) {
	const custom = "A:PLAINTEXT,B:PLAINTEXT"
	for _, tt := range []struct{ listeners, advertised, protocols, controller, want string }{
		{listeners: "PLAINTEXT://:9092", want: "PLAINTEXT :9092 >:0"},
		{listeners: "plaintext://localhost:0", want: "PLAINTEXT localhost:0 >localhost:0"},
		{listeners: "PLAINTEXT://[::1]:9092", want: "PLAINTEXT [::1]:9092 >::1:0"},
		{listeners: "A://:1, B://:2", protocols: custom, advertised: "B://b:3", want: "A :1 >:0, B :2 >b:3"},
		{listeners: "A://0.0.0.0:1,B://[::]:1", protocols: custom, want: "A 0.0.0.0:1 >:0, B [::]:1 >:0"},
		{listeners: "A://127.0.0.1:1,B://127.0.0.2:1", protocols: custom, want: "A 127.0.0.1:1 >127.0.0.1:0, B 127.0.0.2:1 >127.0.0.2:0"},
		{listeners: "PLAINTEXT://:1,QUORUM://:2", controller: "QUORUM", want: "PLAINTEXT :1 >:0"},
		{advertised: "PLAINTEXT://kafka:7,CONTROLLER://kafka:8", want: "PLAINTEXT :7 >kafka:7"},
		{listeners: "A://:1,B://:1", protocols: custom, want: "listeners=A://:1,B://:1: has port 1 twice"},
		{listeners: "A://:1,A://:2", protocols: custom, want: "listeners=A://:1,A://:2: names A twice"},
		{listeners: "A://:1", want: "listeners=A://:1: has listener A, which listener.security.protocol.map does not name"},
		{listeners: "CONTROLLER://:1", want: "listeners=CONTROLLER://:1: has no listener for clients"},
		{listeners: "A://:1", protocols: "A:PLAIN", want: "listener.security.protocol.map=A:PLAIN: must be NAME:PROTOCOL, with commas between several; protocols are PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"},
		{listeners: "A://:1", protocols: "A:SASL_PLAINTEXT", want: "listeners=A://:1: has listener A with protocol SASL_PLAINTEXT; only PLAINTEXT is served"},
		{listeners: ":9092", want: "listeners=:9092: must be " + listenerForm},
		{listeners: "PLAINTEXT://:x", want: "listeners=PLAINTEXT://:x: must be " + listenerForm},
		{listeners: "PLAINTEXT://:65536", want: "listeners=PLAINTEXT://:65536: must be " + listenerForm},
		{listeners: "PLAINTEXT://::1:9092", want: "listeners=PLAINTEXT://::1:9092: must be " + listenerForm},
		{listeners: "PLAINTEXT://[x]:9092", want: "listeners=PLAINTEXT://[x]:9092: must be " + listenerForm},
		{listeners: "PLAINTEXT://:1", advertised: "PLAINTEXT://0.0.0.0:1", want: "advertised.listeners=PLAINTEXT://0.0.0.0:1: cannot tell clients to connect to 0.0.0.0"},
		{listeners: "PLAINTEXT://:1", advertised: "HOST://x:1", want: "advertised.listeners=HOST://x:1: has listener HOST, which listeners does not have"},
		{listeners: "PLAINTEXT://:1", advertised: "x:1", want: "advertised.listeners=x:1: must be " + listenerForm},
	} {
		var settings []Setting
		for name, value := range map[string]string{"listeners": tt.listeners, "advertised.listeners": tt.advertised,
			"listener.security.protocol.map": tt.protocols, "controller.listener.names": tt.controller} {
			if value != "" {
				settings = append(settings, Setting{Name: name, Value: value})
			}
		}
		var got string
		if c, err := Static(settings...); err != nil {
			got = err.Error()
		} else {
			var list []string
			for _, l := range c.Values().Listeners {
				list = append(list, l.Name+" "+l.Address()+" >"+l.AdvertisedHost+":"+string('0'+rune(l.AdvertisedPort)))
			}
			got = strings.Join(list, ", ")
		}
		if got != tt.want {
			t.Errorf("%+v:\n%s", tt, got)
		}
	}
}

// TestHonouredIsTrue looks for a use of the typed value of every honoured property
// in the code of the broker: a property that nobody reads is not honoured.
func TestHonouredIsTrue(t *testing.T) {
	var code strings.Builder
	for _, dir := range []string{"broker", "cmd/kcoord"} {
		files, err := filepath.Glob("../../" + dir + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("no code in %s: %v", dir, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			code.Write(content)
		}
	}
	uses := code.String()
	check := func(values any, bindings map[string]any, find func(string) (*Property, bool)) {
		v := reflect.ValueOf(values).Elem()
		for i := range v.NumField() {
			field := v.Type().Field(i).Name
			used := regexp.MustCompile(`\.` + field + `\b`).MatchString(uses)
			for name, into := range bindings {
				if p, _ := find(name); into == v.Field(i).Addr().Interface() && p.Stance == Honoured && !used {
					t.Errorf("%s is honoured and nobody reads %s", name, field)
				}
			}
		}
	}
	var v Values
	check(&v, v.bindings(), Find)
	var topic TopicValues
	check(&topic, topic.bindings(), FindTopic)
	var group GroupValues
	check(&group, group.bindings(), FindGroup)
}
