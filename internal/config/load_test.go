package config

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestParseFile reads the syntax of Java's properties.
func TestParseFile(t *testing.T) {
	for _, tt := range []struct{ file, want string }{
		{"", ""},
		{"# comment\n! comment\n\n  \t\na=b\n", "5 a=b"},
		{"a = b \n  c : d\ne f\ng\th\r\n i=", "1 a=b|2 c=d|3 e=f|4 g=h|5 i="},
		{"a=b=c:d", "1 a=b=c:d"},
		{"a=b,\\\n   c,\\\n\td\ne=f", "1 a=b,c,d|4 e=f"},
		{"a=b\\\\\nc=d", `1 a=b\|2 c=d`},
		{`path=C:\\data\tx\n\u0041\:`, "1 path=C:\\data\tx\nA:"},
		{`a\ b\=c=d`, "1 a b=c=d"},
		{"a=b\\", "1 a=b"},
		{"#c \\\na=b", "2 a=b"},
		{`a=\u00g0`, `a=\u00g0: has an escape that is none, set by f:1`},
		{`a=\u00`, `a=\u00: has an escape that is none, set by f:1`},
		{"a=\xff", ": the file is not text in UTF-8, set by f"},
	} {
		settings, err := ParseFile("f", []byte(tt.file))
		var got []string
		for _, s := range settings {
			got = append(got, fmt.Sprintf("%s %s=%s", strings.TrimPrefix(s.Origin, "f:"), s.Name, s.Value))
		}
		if err != nil {
			got = []string{err.Error()}
		}
		if strings.Join(got, "|") != tt.want {
			t.Errorf("%q:\n%q, want\n%q", tt.file, strings.Join(got, "|"), tt.want)
		}
	}
}

// FuzzParseFile looks for panics and for values that do not come back.
func FuzzParseFile(f *testing.F) {
	f.Add([]byte("a=b\\\n c\n# x\n\\u0041 : y"))
	f.Fuzz(func(t *testing.T, content []byte) {
		settings, err := ParseFile("f", content)
		if err != nil {
			return
		}
		for _, s := range settings {
			line := strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "\f", `\f`, "=", `\=`, ":", `\:`, " ", `\ `, "#", `\#`, "!", `\!`)
			again, err := ParseFile("f", []byte(line.Replace(s.Name)+"="+line.Replace(s.Value)))
			if s.Name == "" && s.Value == "" {
				continue
			}
			if err != nil || len(again) != 1 || again[0].Name != s.Name || again[0].Value != s.Value {
				t.Fatalf("%q=%q came back as %+v, %v", s.Name, s.Value, again, err)
			}
		}
	})
}

// TestPrecedence sets one property everywhere.
func TestPrecedence(t *testing.T) {
	from := Sources{FileName: "server.properties", File: []byte("num.partitions=2\nnum.partitions=3\nlog.retention.hours=1")}
	check := func(want, origin string) {
		t.Helper()
		c, err := Load(from)
		if err != nil {
			t.Fatal(err)
		}
		s, _ := c.Lookup("num.partitions")
		if s.Value != want || s.Origin != origin || s.Source != StaticSource {
			t.Errorf("%+v, want %s from %s", s, want, origin)
		}
	}
	check("3", "server.properties:2")
	from.Environ = []string{"KAFKA_NUM_PARTITIONS=4"}
	check("4", "KAFKA_NUM_PARTITIONS")
	from.Environ = append(from.Environ, "KAFKA_CFG_NUM_PARTITIONS=5")
	check("5", "KAFKA_CFG_NUM_PARTITIONS")
	from.Flags = []Setting{{Name: "num.partitions", Value: "6", Origin: "--set"}}
	check("6", "--set")
	// A wrong value is told although another one is stronger.
	from.File = append(from.File, "\nnum.partitions=zero"...)
	if _, err := Load(from); err == nil || !strings.HasSuffix(err.Error(), "set by server.properties:4") {
		t.Errorf("error %v", err)
	}
}

// TestWithoutEffect lists what was set to no effect.
func TestWithoutEffect(t *testing.T) {
	c, err := Static(Setting{Name: "log.flush.interval.messages", Value: "1"}, Setting{Name: "num.io.threads", Value: "8"}, Setting{Name: "num.partitions", Value: "2"})
	if err != nil {
		t.Fatal(err)
	}
	if list := c.WithoutEffect(); len(list) != 1 || list[0].Name != "log.flush.interval.messages" {
		t.Errorf("without effect: %+v", list)
	}
}

// TestTopic takes a topic's values from itself, the broker and the defaults.
func TestTopic(t *testing.T) {
	c, err := Static(Setting{Name: "log.retention.hours", Value: "2"}, Setting{Name: "log.cleanup.policy", Value: "compact, delete"},
		Setting{Name: "log.message.timestamp.type", Value: "LogAppendTime"}, Setting{Name: "log.roll.jitter.hours", Value: "1"})
	if err != nil {
		t.Fatal(err)
	}
	v, err := c.Topic(map[string]string{"segment.bytes": "2000000", "retention.bytes": "-1"})
	if err != nil {
		t.Fatal(err)
	}
	if v.RetentionTime != 2*time.Hour || !v.Compact || !v.Delete || v.SegmentBytes != 2000000 || v.RetentionBytes != -1 || !v.LogAppendTime ||
		v.SegmentJitter != time.Hour || v.SegmentTime != 7*24*time.Hour || v.MaxCompactionLag != 1<<63-1 || v.TimestampAfterMax != time.Hour {
		t.Errorf("values %+v", v)
	}
	if v, err = c.Topic(map[string]string{"retention.ms": "-1", "cleanup.policy": "compact", "internal.segment.bytes": "100"}); err != nil || v.RetentionTime >= 0 || v.Delete || v.SegmentBytes != 100 {
		t.Errorf("values %+v, %v", v, err)
	}
	for _, tt := range []struct{ name, value, want string }{
		{"retention.mss", "1", "Unknown topic config name: retention.mss"},
		{"num.partitions", "1", "Unknown topic config name: num.partitions"},
		// The words of a real Kafka 4.4.0.
		{"retention.ms", "-2", "Invalid value -2 for configuration retention.ms: Value must be at least -1"},
		{"retention.ms", "abc", "Invalid value abc for configuration retention.ms: Not a number of type LONG"},
		{"segment.bytes", "99999999999", "Invalid value 99999999999 for configuration segment.bytes: Not a number of type INT"},
		{"segment.bytes", "100", "Invalid value 100 for configuration segment.bytes: Value must be at least 1048576"},
		{"compression.gzip.level", "0", "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1"},
		{"compression.zstd.level", "23", "Invalid value 23 for configuration compression.zstd.level: Value must be no more than 22"},
		{"compression.type", "zip", "Invalid value zip for configuration compression.type: String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"},
		{"preallocate", "yes", "Invalid value yes for configuration preallocate: Expected value to be either true or false"},
		{"cleanup.policy", "compact,shred", "Invalid value shred for configuration cleanup.policy: String must be one of: compact, delete"},
		{"cleanup.policy", "", ""},
		{"cleanup.policy", "compact,compact", ""},
		{"retention.bytes", "-5", ""},
		// Its own words, for what differs.
		{"leader.replication.throttled.replicas", "x", "Invalid value x for configuration leader.replication.throttled.replicas: The value must be a list of partition:broker, or *"},
		{"leader.replication.throttled.replicas", "0:1, 2:3", ""},
		{"leader.replication.throttled.replicas", "*", ""},
		{"min.compaction.lag.ms", "9223372036854775807", ""},
		{"remote.storage.enable", "true", "Invalid value true for configuration remote.storage.enable: not supported: there is no tiered storage"},
	} {
		got := ""
		if _, err := c.Topic(map[string]string{tt.name: tt.value}); err != nil {
			got = err.(*Error).Message()
		}
		if got != tt.want {
			t.Errorf("%s=%s: %s, want %s", tt.name, tt.value, got, tt.want)
		}
	}
}

// TestGroup takes a group's values from itself and the broker, within its bounds.
func TestGroup(t *testing.T) {
	c := Default()
	if v := c.Group(nil); v.ConsumerSessionTimeout != 45*time.Second || v.ConsumerHeartbeatInterval != 5*time.Second || v.ConsumerAssignmentInterval != time.Second {
		t.Errorf("values %+v", v)
	}
	set := map[string]string{"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "100000"}
	if v := c.Group(set); v.ConsumerSessionTimeout != 50*time.Second || v.ConsumerHeartbeatInterval != 15*time.Second {
		t.Errorf("values %+v", v)
	}
	for _, tt := range []struct{ settings, want string }{
		{"consumer.session.timeout.ms=50000", ""},
		{"consumer.session.timeout.ms=44999", "consumer.session.timeout.ms=44999: must be from 45000 to 60000, the bounds of the broker"},
		{"consumer.heartbeat.interval.ms=15001", "consumer.heartbeat.interval.ms=15001: must be from 5000 to 15000, the bounds of the broker"},
		{"streams.num.standby.replicas=3", "streams.num.standby.replicas=3: must be from 0 to 2, the bounds of the broker"},
		{"streams.task.offset.interval.ms=1", "streams.task.offset.interval.ms=1: must be from 15000 to 2147483647, the bounds of the broker"},
		{"share.auto.offset.reset=by_duration:P1D", ""},
		{"share.auto.offset.reset=by_duration:PT1H30M", ""},
		{"share.auto.offset.reset=by_duration:P", "share.auto.offset.reset=by_duration:P: must be latest, earliest, or by_duration: and a duration as P3DT12H30M"},
		{"share.auto.offset.reset=none", "share.auto.offset.reset=none: must be latest, earliest, or by_duration: and a duration as P3DT12H30M"},
		{"errors.deadletterqueue.topic.name=__x", "errors.deadletterqueue.topic.name=__x: must be a name that does not begin with __"},
		{"consumer.sesion.timeout.ms=1", "consumer.sesion.timeout.ms=1: unknown property (nearest: consumer.session.timeout.ms)"},
	} {
		name, value, _ := strings.Cut(tt.settings, "=")
		got := ""
		if err := c.CheckGroup(map[string]string{name: value}); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.settings, got, tt.want)
		}
	}
	tight, err := Static(Setting{Name: "group.consumer.min.session.timeout.ms", Value: "10000"}, Setting{Name: "group.consumer.max.heartbeat.interval.ms", Value: "20000"})
	if err != nil {
		t.Fatal(err)
	}
	err = tight.CheckGroup(map[string]string{"consumer.session.timeout.ms": "12000", "consumer.heartbeat.interval.ms": "12000"})
	if err == nil || err.(*Error).Message() != "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms." {
		t.Errorf("error %v", err)
	}
}

// TestChangesAtRunTime puts layers over each other.
func TestChangesAtRunTime(t *testing.T) {
	static, err := Static(Setting{Name: "log.segment.bytes", Value: "2000000"}, Setting{Name: "message.max.bytes", Value: "1000"})
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := static.With(DynamicDefaultSource, map[string]string{"log.segment.bytes": "3000000", "log.retention.ms": "5"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.With(DynamicBrokerSource, map[string]string{"log.segment.bytes": "4000000"})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, e := range c.DescribeTopic(map[string]string{"segment.bytes": "5000000"}) {
		if e.Name == "segment.bytes" || e.Name == "retention.ms" {
			lines = append(lines, described("topic", e))
		}
	}
	for _, e := range c.DescribeBroker() {
		if e.Name == "log.segment.bytes" || e.Name == "log.retention.hours" {
			lines = append(lines, described("broker", e))
		}
	}
	for _, e := range c.DescribeCluster() {
		lines = append(lines, described("cluster", e))
	}
	want := []string{
		"topic\tretention.ms\t5\tfalse\t5\tlog.retention.ms=5(3) log.retention.hours=168(5)",
		"topic\tsegment.bytes\t5000000\tfalse\t3\tsegment.bytes=5000000(1) log.segment.bytes=4000000(2) log.segment.bytes=3000000(3) log.segment.bytes=2000000(4) log.segment.bytes=1073741824(5)",
		"broker\tlog.retention.hours\t168\ttrue\t3\tlog.retention.hours=168(5)",
		"broker\tlog.segment.bytes\t4000000\tfalse\t3\tlog.segment.bytes=4000000(2) log.segment.bytes=3000000(3) log.segment.bytes=2000000(4) log.segment.bytes=1073741824(5)",
		"cluster\tlog.retention.ms\t5\tfalse\t5\tlog.retention.ms=5(3)",
		"cluster\tlog.segment.bytes\t3000000\tfalse\t3\tlog.segment.bytes=3000000(3)",
	}
	if got := strings.Join(lines, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("entries\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	if v, _ := static.Topic(nil); v.SegmentBytes != 2000000 {
		t.Error("a change has reached the configuration before it")
	}
	for _, tt := range []struct {
		name, value string
		layer       Source
		want        string
	}{
		{"num.partitions", "3", DynamicBrokerSource, "Cannot update these configs dynamically: [num.partitions]"},
		{"listeners", "PLAINTEXT://:1", DynamicBrokerSource, "Cannot update these configs dynamically: [listeners]"},
		{"ssl.protocol", "x", DynamicDefaultSource, "Cannot update these configs at default cluster level, broker id must be specified: [ssl.protocol]"},
		{"log.segment.bytes", "x", DynamicBrokerSource, "Invalid value x for configuration log.segment.bytes: Not a number of type INT"},
	} {
		if _, err := c.With(tt.layer, map[string]string{tt.name: tt.value}); err == nil || err.(*Error).Message() != tt.want {
			t.Errorf("%s: error %v, want %s", tt.name, err, tt.want)
		}
	}
}

// BenchmarkLoad is what configuration adds to the time of a start.
func BenchmarkLoad(b *testing.B) {
	environ := strings.Split(composeStyles[1].environ, "\n")
	for b.Loop() {
		if _, err := Load(Sources{Environ: environ}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTopic is what resolving a topic's values costs.
func BenchmarkTopic(b *testing.B) {
	c, set := Default(), map[string]string{"retention.ms": "1000", "cleanup.policy": "compact"}
	for b.Loop() {
		if _, err := c.Topic(set); err != nil {
			b.Fatal(err)
		}
	}
}
