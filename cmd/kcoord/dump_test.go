package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kcoord/kcoord/coordinator/records"
	"github.com/kcoord/kcoord/internal/meta"
	"github.com/kcoord/kcoord/log"
	"github.com/kcoord/kcoord/log/record"
	"github.com/kcoord/kcoord/log/vfs"
)

var update = flag.Bool("update", false, "write the golden files anew")

// dumpTopics is a metadata state for a store of the test's.
type dumpTopics struct{ *meta.State }

func (m dumpTopics) AppendRecords(dst [][]byte) [][]byte { return m.Load().AppendRecords(dst) }

func (m dumpTopics) Topics(f func(log.TopicInfo) bool) {
	for _, t := range m.Load().Topics() {
		if !f(infoOf(t)) {
			return
		}
	}
}

func (m dumpTopics) Topic(id log.TopicID) (log.TopicInfo, bool) {
	t := m.Load().TopicByID(id)
	if t == nil {
		return log.TopicInfo{}, false
	}
	return infoOf(t), true
}

func infoOf(t *meta.Topic) log.TopicInfo {
	return log.TopicInfo{ID: t.ID, Name: t.Name, Partitions: t.Partitions, Config: log.TopicConfig{
		SegmentBytes: 600, SegmentMillis: 1 << 40, SegmentIndexBytes: 1 << 20, IndexIntervalBytes: 100, MaxMessageBytes: 1 << 20,
		RetentionMillis: -1, RetentionBytes: -1, Delete: true,
	}}
}

const dumpTime = 1700000000000

// dumpStore makes a data folder with something of everything.
func dumpStore(t *testing.T, fs vfs.FS, dir string) *log.Store {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	now := time.Duration(0)
	s, err := log.Open(log.Options{
		FS: fs, Dir: dir, Metadata: dumpTopics{meta.New()},
		Now:    func() time.Time { return time.UnixMilli(dumpTime).Add(now) },
		Mono:   func() time.Duration { return now },
		Random: func(b []byte) { copy(b, bytes.Repeat([]byte{7}, len(b))) }, Version: "test", ClusterID: "cluster",
		NodeID: 1, OffsetsPartitions: 1, JournalFileBytes: 64 << 10, SegmentWriteDelay: -1,
	})
	must(err)
	step := func() {
		t.Helper()
		_, err := s.FlushStep()
		must(err)
		now += 100 * time.Millisecond
		_, err = s.WriteStep()
		must(err)
	}
	user, offsets := [16]byte{1}, [16]byte{2}
	must(s.AppendMetadata([][]byte{
		meta.AppendTopic(nil, &meta.Topic{ID: user, Name: "orders", Partitions: 1, Created: dumpTime, Configs: []meta.Config{{Name: "retention.ms", Value: "-1"}}}),
		meta.AppendTopic(nil, &meta.Topic{ID: offsets, Name: groupsTopic, Partitions: 1, Created: dumpTime}),
		meta.AppendConfigs(nil, meta.ResourceGroup, "g", []meta.Config{{Name: "consumer.session.timeout.ms", Value: "50000"}}),
		meta.AppendProducerIDs(nil, 1000),
	}, nil, false))
	step()
	p, o := s.Partition(user, 0), s.Partition(offsets, 0)
	for i := range 5 {
		var b record.Builder
		b.Reset(nil, record.Plain(0, -1))
		b.Append(dumpTime+int64(i), []byte("key"), []byte(strings.Repeat("value ", 1+5*i)))
		b.Append(dumpTime+int64(i)+1, nil, []byte{0, 1, byte(i)})
		_, _, err := p.AppendBatch(b.Close())
		must(err)
		step()
	}
	commitKey := records.AppendKey(nil, &records.Key{Type: records.OffsetCommit, Group: "g", Name: "orders"})
	commit := records.OffsetCommitValue{Offset: 42, LeaderEpoch: -1, Metadata: "note", CommitTimestamp: dumpTime, ExpireTimestamp: records.NoTimestamp, TopicID: user}
	leader, protocol := "m-1", "range"
	group := records.GroupMetadataValue{ProtocolType: "consumer", Generation: 3, Protocol: &protocol, Leader: &leader, CurrentStateTimestamp: dumpTime,
		Members: []records.GroupMetadataMember{{MemberID: "m-1", ClientID: "c", ClientHost: "/127.0.0.1", RebalanceTimeout: 1000, SessionTimeout: 2000, Subscription: []byte{1, 2}, Assignment: []byte{3}}}}
	member := records.ConsumerGroupMemberMetadataValue{ClientID: "c", ClientHost: "/h", SubscribedTopicNames: []string{"orders"}, RebalanceTimeout: 5}
	current := records.ConsumerGroupCurrentMemberAssignmentValue{MemberEpoch: 2, PreviousMemberEpoch: 1, AssignedPartitions: []records.TopicPartitions{{TopicID: user, Partitions: []int32{0}}}}
	_, err = o.AppendRecords(dumpTime, []log.Record{
		{Key: commitKey, Value: records.AppendOffsetCommitValue(nil, &commit)},
		{Key: records.AppendKey(nil, &records.Key{Type: records.GroupMetadata, Group: "g"}), Value: records.AppendGroupMetadataValue(nil, &group)},
		{Key: records.AppendKey(nil, &records.Key{Type: records.ConsumerGroupMemberMetadata, Group: "n", Name: "m"}), Value: member.Append(nil)},
		{Key: records.AppendKey(nil, &records.Key{Type: records.ConsumerGroupCurrentMemberAssignment, Group: "n", Name: "m"}), Value: current.Append(nil)},
		{Key: []byte{0, 99, 1}, Value: []byte{1}},
	})
	must(err)
	step()
	must(s.Checkpoint())
	_, err = o.AppendRecords(dumpTime+5, []log.Record{{Key: commitKey}})
	must(err)
	_, err = o.AppendMarker(dumpTime+6, log.Producer{ID: 9}, true, 3)
	must(err)
	step()
	return s
}

func runDump(t *testing.T, args ...string) (string, int) {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(append([]string{"dump"}, args...), nil, &out, &errs)
	return out.String() + errs.String(), code
}

// TestDump shows the folder of a store that is in use and one that was stopped.
func TestDump(t *testing.T) {
	golden, err := filepath.Abs("testdata/dump")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	s := dumpStore(t, vfs.OS{}, "data")
	for _, state := range []string{"running", "stopped"} {
		if state == "stopped" {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		for _, form := range []string{"text", "json"} {
			args := []string{"data"}
			if form == "json" {
				args = []string{"--json", "data"}
			}
			got, code := runDump(t, args...)
			if code != exitOK {
				t.Errorf("%s: exit code %d\n%s", state, code, got)
			}
			for line := range strings.Lines(got) {
				if form == "json" && !json.Valid([]byte(line)) {
					t.Errorf("not JSON: %s", line)
				}
			}
			name := filepath.Join(golden, state+"."+form)
			if *update {
				if err := os.WriteFile(name, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s differs (go test -update writes it anew):\n%s", name, got)
			}
		}
	}
	if got, code := runDump(t, "--batches", "data/orders-0/00000000000000000000.log"); code != exitOK || strings.Contains(got, "record ") || !strings.Contains(got, "batch offset=0") {
		t.Errorf("exit code %d\n%s", code, got)
	}
	if got, code := runDump(t); code != exitUsage {
		t.Errorf("exit code %d without arguments\n%s", code, got)
	}
	if got, code := runDump(t, "missing"); code != exitFailed || !strings.Contains(got, "missing") {
		t.Errorf("exit code %d for a missing file\n%s", code, got)
	}
}

// TestDumpDamage shows files up to where they are damaged.
func TestDumpDamage(t *testing.T) {
	t.Chdir(t.TempDir())
	s := dumpStore(t, vfs.OS{}, "data")
	defer s.Close()
	for _, c := range []struct {
		file   string
		damage func(b []byte) []byte
		want   []string
	}{
		{"orders-0/00000000000000000000.log", func(b []byte) []byte { b[200] ^= 1; return b }, []string{"batch offset=0", "at byte 87", "checksum"}},
		{"orders-0/00000000000000000000.log", func(b []byte) []byte { return b[:150] }, []string{"batch offset=0", "at byte 87", "cut short"}},
		{"orders-0/00000000000000000000.index", func(b []byte) []byte { b[7]++; return b }, []string{"entry offset=5", "position 205"}},
		{"orders-0/00000000000000000000.timeindex", func(b []byte) []byte { b[7]--; return b }, []string{"entry timestamp=", "largest timestamp"}},
		{"orders-0/00000000000000000000.timeindex", func(b []byte) []byte { return b[:len(b)-5] }, []string{"7 bytes behind the last entry"}},
		{"kcoord-journal-00000001.wal", func(b []byte) []byte { b[4096+400] ^= 1; return b }, []string{"kind=start", "is damaged: at", "stands behind it"}},
		{"kcoord-journal-00000001.wal", func(b []byte) []byte { b[20] ^= 1; return b }, []string{"checksum is wrong"}},
		{"kcoord.metadata", func(b []byte) []byte { return b[:len(b)-1] }, []string{"checksum"}},
		{"orders-0/leader-epoch-checkpoint", func([]byte) []byte { return []byte("0\n2\n0 0\n") }, []string{"announces"}},
	} {
		name := filepath.Join("data", c.file)
		whole, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, c.damage(bytes.Clone(whole)), 0o600); err != nil {
			t.Fatal(err)
		}
		got, code := runDump(t, name)
		if code != exitFailed || strings.Count(got, "damaged") < 1 {
			t.Errorf("%s: exit code %d\n%s", c.file, code, got)
		}
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in\n%s", c.file, want, got)
			}
		}
		if err := os.WriteFile(name, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// FuzzDump shows files of any content: it may call them damaged, and no more.
func FuzzDump(f *testing.F) {
	names := []string{
		"__consumer_offsets-0/00000000000000000000.log", "orders-0/00000000000000000000.log", "orders-0/00000000000000000000.index",
		"orders-0/00000000000000000000.timeindex", "kcoord-journal-00000001.wal", "kcoord.metadata", "orders-0/leader-epoch-checkpoint",
		"recovery-point-offset-checkpoint", "meta.properties",
	}
	for i := range names {
		f.Add(uint8(i), []byte("0\n1\norders 0 5\n"))
	}
	t := new(testing.T)
	mem := vfs.NewMem()
	if err := mem.Mkdir("/data"); err != nil {
		f.Fatal(err)
	}
	dumpStore(t, mem, "/data")
	for i, name := range names {
		if b, err := readMem(mem, "/data/"+name); err == nil && len(b) > 0 {
			f.Add(uint8(i), b)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, content []byte) {
		mem := vfs.NewMem()
		name := "/data/" + names[int(which)%len(names)]
		if err := mem.Mkdir(filepath.Dir(name)); err != nil {
			t.Fatal(err)
		}
		file, err := mem.Open(name, vfs.Truncate)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt(content, 0); err != nil {
			t.Fatal(err)
		}
		for _, asJSON := range []bool{false, true} {
			var out bytes.Buffer
			d := dumper{fs: mem, out: bufio.NewWriter(&out), asJSON: asJSON, topics: map[log.TopicID]string{}}
			d.reader.InflateMax = 1 << 20
			d.path("/data")
			if err := d.out.Flush(); err != nil {
				t.Fatal(err)
			}
			for line := range bytes.Lines(out.Bytes()) {
				if asJSON && !json.Valid(line) {
					t.Fatalf("not JSON: %q", line)
				}
			}
		}
	})
}

func readMem(fs vfs.FS, name string) ([]byte, error) {
	f, err := fs.Open(name, vfs.ReadOnly)
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, size)
	if _, err = f.ReadAt(b, 0); err == io.EOF {
		err = nil
	}
	return b, err
}
