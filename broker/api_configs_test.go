package broker

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/log/vfs"
)

// describe returns a resource's properties as DescribeConfigs v4 tells them.
func describe(t *testing.T, c *testConn, typ kmsg.ConfigResourceType, name string, names ...string) kmsg.DescribeConfigsResponseResource {
	t.Helper()
	req := at(kmsg.NewPtrDescribeConfigsRequest(), 4)
	req.IncludeSynonyms = true
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.ConfigNames = typ, name, names
	req.Resources = append(req.Resources, r)
	return ask[*kmsg.DescribeConfigsResponse](t, c, req).Resources[0]
}

// one returns a property's value and source.
func one(t *testing.T, c *testConn, typ kmsg.ConfigResourceType, name, property string) (string, kmsg.ConfigSource) {
	t.Helper()
	r := describe(t, c, typ, name, property)
	if r.ErrorCode != 0 || len(r.Configs) != 1 || r.Configs[0].Value == nil {
		t.Fatalf("%s of %v %s: %+v", property, typ, name, r)
	}
	return *r.Configs[0].Value, r.Configs[0].Source
}

type change struct {
	name  string
	op    kmsg.IncrementalAlterConfigOp
	value string
}

func alterRequest(typ kmsg.ConfigResourceType, name string, changes ...change) *kmsg.IncrementalAlterConfigsRequest {
	req := at(kmsg.NewPtrIncrementalAlterConfigsRequest(), 1)
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = typ, name
	for _, ch := range changes {
		rc := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		rc.Name, rc.Op = ch.name, ch.op
		if ch.value != "" {
			rc.Value = &ch.value
		}
		r.Configs = append(r.Configs, rc)
	}
	req.Resources = append(req.Resources, r)
	return req
}

func alter(t *testing.T, c *testConn, typ kmsg.ConfigResourceType, name string, changes ...change) (int16, string) {
	t.Helper()
	resp := ask[*kmsg.IncrementalAlterConfigsResponse](t, c, alterRequest(typ, name, changes...)).Resources[0]
	if resp.ErrorMessage == nil {
		return resp.ErrorCode, ""
	}
	return resp.ErrorCode, *resp.ErrorMessage
}

const (
	opSet      = kmsg.IncrementalAlterConfigOpSet
	opDelete   = kmsg.IncrementalAlterConfigOpDelete
	opAppend   = kmsg.IncrementalAlterConfigOpAppend
	opSubtract = kmsg.IncrementalAlterConfigOpSubtract

	throttled = "leader.replication.throttled.replicas"

	onTopic  = kmsg.ConfigResourceTypeTopic
	onBroker = kmsg.ConfigResourceTypeBroker
)

func TestAlterConfigs(t *testing.T) {
	dir := t.TempDir()
	b, tr := startTest(t, Options{DataDir: dir})
	c := tr.open(0)
	createTopic(t, c, "t", 1)
	must := func(typ kmsg.ConfigResourceType, name string, changes ...change) {
		t.Helper()
		if code, message := alter(t, c, typ, name, changes...); code != 0 {
			t.Fatalf("%v %s %v: %d %s", typ, name, changes, code, message)
		}
	}
	must(onTopic, "t", change{"retention.ms", opSet, "1000"}, change{"segment.bytes", opSet, "2000000"})
	must(onTopic, "t", change{"retention.ms", opDelete, ""})
	must(onTopic, "t", change{"cleanup.policy", opAppend, "compact"})
	must(onTopic, "t", change{"cleanup.policy", opSubtract, "delete"})
	must(resourceGroup, "g", change{"consumer.session.timeout.ms", opSet, "50000"})
	must(onBroker, "", change{"log.retention.ms", opSet, "7000"})
	check := func(c *testConn) {
		t.Helper()
		for _, want := range []struct {
			typ                   kmsg.ConfigResourceType
			name, property, value string
			source                kmsg.ConfigSource
		}{
			{onTopic, "t", "segment.bytes", "2000000", 1},
			{onTopic, "t", "cleanup.policy", "compact", 1},
			{onTopic, "t", "retention.ms", "7000", 3}, // the topic's own is gone: the cluster's shows
			{resourceGroup, "g", "consumer.session.timeout.ms", "50000", 8},
			{resourceGroup, "other", "consumer.session.timeout.ms", "45000", 5},
			{onBroker, "", "log.retention.ms", "7000", 3},
		} {
			if value, source := one(t, c, want.typ, want.name, want.property); value != want.value || source != want.source {
				t.Errorf("%s of %s: %s from %v, want %s from %v", want.property, want.name, value, source, want.value, want.source)
			}
		}
	}
	check(c)
	if g := b.groupConfig.Load().Groups["g"]; g == nil || g.ConsumerSessionTimeout.Seconds() != 50 {
		t.Errorf("the coordinator was not told: %+v", g)
	}
	if err := b.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, tr = startTest(t, Options{DataDir: dir})
	check(tr.open(0))
}

// TestDefaultsReachTheLogs: what the cluster sets holds for the logs of topics that
// were there before, at once and after a restart.
func TestDefaultsReachTheLogs(t *testing.T) {
	dir := t.TempDir()
	b, tr := startTest(t, Options{DataDir: dir})
	c := tr.open(0)
	createTopic(t, c, "t", 1)
	deleted := func(c *testConn) int16 {
		t.Helper()
		return deleteRecords(t, c, "t", 0, 0).ErrorCode
	}
	if code := deleted(c); code != 0 {
		t.Fatalf("code %d while cleanup.policy is delete", code)
	}
	if code, message := alter(t, c, onBroker, "", change{"log.cleanup.policy", opSet, "compact"}); code != 0 {
		t.Fatalf("%d %s", code, message)
	}
	if code := deleted(c); code != 44 {
		t.Errorf("code %d although logs are compacted now", code)
	}
	if err := b.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, tr = startTest(t, Options{DataDir: dir})
	if code := deleted(tr.open(0)); code != 44 {
		t.Errorf("code %d after a restart", code)
	}
}

func TestAlterConfigsRefused(t *testing.T) {
	b, tr := startTest(t, Options{})
	c := tr.open(0)
	createTopic(t, c, "t", 1)
	for _, bad := range []struct {
		typ     kmsg.ConfigResourceType
		name    string
		changes []change
		code    int16
		message string
	}{
		{onTopic, "none", []change{{"retention.ms", opSet, "1"}}, 3, ""},
		{onTopic, "t", []change{{"no.such", opSet, "1"}}, 40, "no.such"},
		{onTopic, "t", []change{{"retention.ms", opSet, "soon"}}, 40, "soon"},
		{onTopic, "t", []change{{"retention.ms", opSet, ""}}, 42, "Null value not supported"},
		{onTopic, "t", []change{{"retention.ms", opAppend, "1"}}, 40, "Can't APPEND"},
		{onTopic, "t", []change{{"retention.ms", opSet, "1"}, {"retention.ms", opDelete, ""}}, 42, "duplicate"},
		{onTopic, "t", []change{{throttled, opSet, strings.Repeat("1:1,", 8000) + "2:2"}, {throttled + "x", opAppend, "3:3"}}, 40, "Can't APPEND"},
		{onBroker, "99", []change{{"log.retention.ms", opSet, "1"}}, 42, "Unexpected broker id"},
		{onBroker, "", []change{{"node.id", opSet, "7"}}, 42, "dynamically"},
		{resourceGroup, "", []change{{"consumer.session.timeout.ms", opSet, "50000"}}, 42, "Default group resources"},
		{resourceGroup, "g", []change{{"consumer.session.timeout.ms", opSet, "1"}}, 40, ""},
		{resourceClientMetrics, "m", []change{{"x", opSet, "1"}}, 42, "Unsupported"},
	} {
		code, message := alter(t, c, bad.typ, bad.name, bad.changes...)
		if code != bad.code || !strings.Contains(message, bad.message) {
			t.Errorf("%v %q %.60v: %d %q, want %d %q", bad.typ, bad.name, bad.changes, code, message, bad.code, bad.message)
		}
	}
	long := strings.Repeat("1", 20_000) + ":1"
	if code, message := alter(t, c, onTopic, "t", change{throttled, opSet, long}); code != 0 {
		t.Errorf("a long value: %d %s", code, message)
	}
	if code, message := alter(t, c, onTopic, "t", change{throttled, opAppend, "2" + long}); code != 40 || !strings.Contains(message, "at most") {
		t.Errorf("a value that grows too long: %d %s", code, message)
	}
	alter(t, c, onTopic, "t", change{throttled, opDelete, ""})
	twice := alterRequest(onTopic, "t", change{"retention.ms", opSet, "1"})
	twice.Resources = append(twice.Resources, twice.Resources[0])
	for _, r := range ask[*kmsg.IncrementalAlterConfigsResponse](t, c, twice).Resources {
		if r.ErrorCode != 42 {
			t.Errorf("a resource twice: %+v", r)
		}
	}
	tried := alterRequest(onTopic, "t", change{"retention.ms", opSet, "1"})
	tried.ValidateOnly = true
	if r := ask[*kmsg.IncrementalAlterConfigsResponse](t, c, tried).Resources[0]; r.ErrorCode != 0 {
		t.Errorf("only validated: %+v", r)
	}
	if set := b.meta.Load().Topic("t").Configs; len(set) != 0 || len(b.configs.mu.pending) != 0 {
		t.Errorf("something was set: %v, pending %v", set, b.configs.mu.pending)
	}
}

// Changes that are made while the first is still on its way to the disk add up.
func TestAlterConfigsTogether(t *testing.T) {
	b, tr := startTest(t, Options{})
	admin := tr.open(0)
	createTopic(t, admin, "t", 1)
	names := []string{"retention.ms", "segment.ms", "segment.bytes", "max.message.bytes", "file.delete.delay.ms"}
	conns := make([]*testConn, len(names))
	for i, name := range names {
		conns[i] = tr.open(0)
		conns[i].send(frame(alterRequest(onTopic, "t", change{name, opSet, "2000000"}), 42))
	}
	for _, c := range conns {
		if r := answer[*kmsg.IncrementalAlterConfigsResponse](t, c, alterRequest(onTopic, "t")); r.Resources[0].ErrorCode != 0 {
			t.Errorf("%+v", r)
		}
	}
	if set := b.meta.Load().Topic("t").Configs; len(set) != len(names) {
		t.Errorf("set: %v", set)
	}
}

func TestListConfigResources(t *testing.T) {
	_, tr := startTest(t, Options{})
	c := tr.open(0)
	createTopic(t, c, "t", 1)
	alter(t, c, resourceGroup, "g", change{"consumer.session.timeout.ms", opSet, "50000"})
	list := func(version int16, types ...int8) (int16, string) {
		req := at(kmsg.NewPtrListConfigResourcesRequest(), version)
		req.ResourceTypes = types
		resp := ask[*kmsg.ListConfigResourcesResponse](t, c, req)
		var names []string
		for _, r := range resp.ConfigResources {
			names = append(names, r.Name)
		}
		return resp.ErrorCode, strings.Join(names, " ")
	}
	for _, want := range []struct {
		version int16
		types   []int8
		code    int16
		names   string
	}{{0, nil, 0, ""}, {1, []int8{32}, 0, "g"}, {1, []int8{2}, 0, "__consumer_offsets t"}, {1, []int8{4, 32}, 0, "1 g"}, {1, []int8{77}, 35, ""}} {
		if code, names := list(want.version, want.types...); code != want.code || names != want.names {
			t.Errorf("v%d %v: %d %q, want %d %q", want.version, want.types, code, names, want.code, want.names)
		}
	}
}

// TestRecoveryThreads: the store is told how many partitions to have in hand at a time
// if somebody has said so, in the file or while the broker runs.
func TestRecoveryThreads(t *testing.T) {
	const name = "num.recovery.threads.per.data.dir"
	for set, want := range map[string]int{"": 0, "1": 1, "12": 12} {
		properties := map[string]string{}
		if set != "" {
			properties[name] = set
		}
		b, tr := startTest(t, Options{DataDir: "data", FS: vfs.NewMem(), Properties: properties})
		if got := b.recoveryThreads(); got != want {
			t.Errorf("%q in the file: %d, want %d", set, got, want)
		}
		if code, message := alter(t, tr.open(0), onBroker, "", change{name, opSet, "3"}); code != 0 {
			t.Fatalf("%d %s", code, message)
		}
		if got := b.recoveryThreads(); got != 3 {
			t.Errorf("changed: %d, want 3", got)
		}
	}
}
