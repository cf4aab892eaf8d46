package interop

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kcoord/kcoord/interop/broker"
	"github.com/kcoord/kcoord/interop/goclients"
)

// kafkasFiles are the checkpoint files of a data folder, lines of topic, partition
// and offset.
var kafkasFiles = []string{"recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint", "cleaner-offset-checkpoint"}

// moveLogs puts the partition logs of one data folder, all that is in them but the
// topic's id, and what the checkpoint files say of them, in the place of those of
// another.
func moveLogs(t *testing.T, from, to string, topics ...string) {
	t.Helper()
	ours := func(folder string) bool {
		i := strings.LastIndexByte(folder, '-')
		return i > 0 && slices.Contains(topics, folder[:i])
	}
	folders, err := os.ReadDir(to)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range folders {
		if !f.IsDir() || !ours(f.Name()) {
			continue
		}
		for _, dir := range []string{to, from} {
			files, err := os.ReadDir(filepath.Join(dir, f.Name()))
			if err != nil && dir == to {
				t.Fatal(err)
			}
			for _, file := range files {
				name := filepath.Join(f.Name(), file.Name())
				switch {
				case file.Name() == "partition.metadata":
				case dir == to:
					err = os.Remove(filepath.Join(to, name))
				default:
					err = copyFile(filepath.Join(from, name), filepath.Join(to, name))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, name := range kafkasFiles {
		lines := []string{}
		for _, l := range checkpointLines(filepath.Join(to, name)) {
			if !slices.Contains(topics, strings.Fields(l)[0]) {
				lines = append(lines, l)
			}
		}
		for _, l := range checkpointLines(filepath.Join(from, name)) {
			if slices.Contains(topics, strings.Fields(l)[0]) {
				lines = append(lines, l)
			}
		}
		text := "0\n" + strconv.Itoa(len(lines)) + "\n" + strings.Join(append(lines, ""), "\n")
		if err := os.WriteFile(filepath.Join(to, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}

func checkpointLines(name string) []string {
	b, err := os.ReadFile(name)
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if err != nil || len(lines) < 3 {
		return nil
	}
	return lines[2:]
}

// wantMoved reads a whole topic and a group's offsets.
func wantMoved(t *testing.T, b *broker.Broker, what string, records int, offsets map[int32]int64) {
	t.Helper()
	franz, err := goclients.NewFranz(b.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer franz.Close()
	got, err := franz.Offsets("movers", "moved")
	if err != nil {
		t.Fatal(err)
	}
	for partition, offset := range offsets {
		if got[partition] != offset {
			t.Errorf("%s: committed are %v, want %v", what, got, offsets)
		}
	}
	if err := franz.Join(what, "readers-"+what, "moved"); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	waitFor(t, what+" has all records", func() bool {
		batch, _, err := franz.Poll(what, pollMillis)
		for _, r := range batch {
			if seen[r.Value] {
				t.Errorf("%s: %s twice", what, r.Value)
			}
			seen[r.Value] = true
		}
		return err == nil && len(seen) >= records
	})
	if err := franz.Leave(what); err != nil {
		t.Fatal(err)
	}
}

// TestKafkaReadsTheLogs: an Apache Kafka is given the partition logs of a kcoord that
// was stopped in order, serves their records and committed offsets without
// recovering anything, writes on; and kcoord is given them back.
func TestKafkaReadsTheLogs(t *testing.T) {
	topics := []string{"moved", "__consumer_offsets"}
	kcoord, err := broker.StartKcoord(t.TempDir(), "--set", "offsets.topic.num.partitions=4")
	if err != nil {
		t.Fatal(err)
	}
	kafka, err := broker.StartKafka(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write := func(b *broker.Broker, make bool, from, to int, offsets map[int32]int64) {
		t.Helper()
		franz, err := goclients.NewFranz(b.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer franz.Close()
		if make {
			if err := franz.CreateTopic("moved", 2); err != nil {
				t.Fatal(err)
			}
		}
		if to > from {
			if err := franz.Produce("moved", from, to); err != nil {
				t.Fatal(err)
			}
			if err := franz.SetOffsets("movers", "moved", offsets); err != nil {
				t.Fatal(err)
			}
		}
	}
	stop := func(b *broker.Broker) {
		t.Helper()
		if err := b.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	write(kcoord, true, 0, 5000, map[int32]int64{0: 17, 1: 1900})
	write(kafka, true, 0, 0, nil)
	stop(kcoord)
	stop(kafka)

	moveLogs(t, kcoord.DataDir, kafka.DataDir, topics...)
	if err := kafka.Again(); err != nil {
		t.Fatal(err)
	}
	wantMoved(t, kafka, "kafka", 5000, map[int32]int64{0: 17, 1: 1900})
	if out := kafka.Output(); strings.Contains(out, "Recovering unflushed") || strings.Contains(out, "orrupt") {
		t.Errorf("Kafka found fault:\n%s", out)
	}
	write(kafka, false, 5000, 5500, map[int32]int64{0: 18})
	stop(kafka)

	moveLogs(t, kafka.DataDir, kcoord.DataDir, topics...)
	if err := kcoord.Again(); err != nil {
		t.Fatal(err)
	}
	// Kafka's commit names its own topic of that name, which has another id here.
	wantMoved(t, kcoord, "kcoord", 5500, map[int32]int64{1: 1900})
	expect(t, "kcoord's log", kcoord.Output(), "changed by another program")
	stop(kcoord)
}

// TestKafkaKeepsOut: while a folder's newest records are in the journal, an Apache
// Kafka does not start on it, and touches no partition of it.
func TestKafkaKeepsOut(t *testing.T) {
	kcoord, err := broker.StartKcoord(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	franz, err := goclients.NewFranz(kcoord.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer franz.Close()
	if err := franz.CreateTopic("moved", 2); err != nil {
		t.Fatal(err)
	}
	if err := franz.Produce("moved", 0, 100); err != nil {
		t.Fatal(err)
	}
	if err := kcoord.Kill(); err != nil {
		t.Fatal(err)
	}
	out, err := kcoord.KafkaOn(t.TempDir())
	if err == nil {
		t.Fatalf("Kafka has started:\n%s", out)
	}
	expect(t, "Kafka's output", out, "kcoord.unclean")
	if err := kcoord.Again(); err != nil {
		t.Fatal(err)
	}
	if err := franz.Join("a", "readers", "moved"); err != nil {
		t.Fatal(err)
	}
	polled := 0
	waitFor(t, "all records are there", func() bool {
		records, _, err := franz.Poll("a", pollMillis)
		polled += len(records)
		return err == nil && polled == 100
	})
	if err := kcoord.Stop(); err != nil {
		t.Fatal(err)
	}
}
