package interop

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// wrappers make programs of the snippets in README.md, by their first line: the
// imports and the function that a reader thinks around them.
var wrappers = map[string]struct {
	file string
	wrap func(snippet string) string
	run  func(t *testing.T, file string) *exec.Cmd
}{
	// Its output is a file here and would come in blocks.
	"# kcat": {"kcat.sh", func(s string) string { return strings.ReplaceAll(s, " -G ", " -u -G ") },
		func(_ *testing.T, file string) *exec.Cmd { return exec.Command("sh", file) }},
	"// franz-go": {"main.go", func(s string) string {
		return "package main\nimport (\n\"context\"\n\"fmt\"\n\"github.com/twmb/franz-go/pkg/kgo\"\n)\nfunc main() { panic(run(context.Background())) }\nfunc run(ctx context.Context) error {\n" + s + "}\n"
	}, func(_ *testing.T, file string) *exec.Cmd { return exec.Command("go", "run", file) }},
	"// Java": {"Readme.java", func(s string) string {
		return "import java.time.*; import java.util.*; import org.apache.kafka.clients.consumer.*; import org.apache.kafka.common.serialization.*;\n" +
			"public class Readme { public static void main(String[] args) {\n" + s + "}}\n"
	}, func(t *testing.T, file string) *exec.Cmd {
		return exec.Command("java", "-XX:TieredStopAtLevel=1", "-cp", filepath.Join(installed(t, "java-4.4.0"), "*"), file)
	}},
	"# Python (confluent-kafka)": {"readme.py", func(s string) string { return "from confluent_kafka import Consumer\n" + s },
		func(t *testing.T, file string) *exec.Cmd {
			return exec.Command(filepath.Join(installed(t, "python"), "bin", "python"), "-u", file)
		}},
	"// Node (kafkajs)": {"readme.js", func(s string) string {
		return "const { Kafka } = require('kafkajs')\nasync function main() {\n" + s + "}\nmain()\n"
	}, func(t *testing.T, file string) *exec.Cmd {
		cmd := exec.Command("node", file)
		cmd.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(installed(t, "node"), "node_modules"))
		return cmd
	}},
}

// TestReadme runs each client's snippet in README.md: it prints what was produced.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	b := startBroker(t)
	if err := produceHello(b.Addr); err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, block := range regexp.MustCompile("(?s)```[a-z]+\n(.*?)```").FindAllStringSubmatch(string(readme), -1) {
		first, _, _ := strings.Cut(block[1], "\n")
		w, ok := wrappers[first]
		if !ok {
			continue
		}
		tried++
		t.Run(strings.Trim(first, "#/ "), func(t *testing.T) {
			snippet := strings.NewReplacer("127.0.0.1:9092", b.Addr, "readers", "readers-of-"+w.file).Replace(block[1])
			file := filepath.Join(t.TempDir(), w.file)
			if err := os.WriteFile(file, []byte(w.wrap(snippet)), 0o600); err != nil {
				t.Fatal(err)
			}
			prints(t, w.run(t, file), "hello")
		})
	}
	if tried != len(wrappers) {
		t.Errorf("%d of %d snippets are in README.md", tried, len(wrappers))
	}
}

func produceHello(addr string) error {
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.AllowAutoTopicCreation())
	if err != nil {
		return err
	}
	defer client.Close()
	return client.ProduceSync(ctx, &kgo.Record{Topic: "greetings", Value: []byte("hello")}).FirstErr()
}

// prints runs a program that does not end until it has printed a word.
func prints(t *testing.T, cmd *exec.Cmd, word string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "output")
	out, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = ownGroup
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	defer func() {
		endGroup(cmd)
		<-ended
	}()
	for deadline := time.Now().Add(stepTimeout); ; time.Sleep(20 * time.Millisecond) {
		printed, err := os.ReadFile(name)
		if err == nil && strings.Contains(string(printed), word) {
			return
		}
		select {
		case <-ended:
			t.Fatalf("it ended:\n%s", printed)
		default:
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%q was not printed (%v):\n%s", word, err, printed)
		}
	}
}

// ownGroup starts a program with those that it starts in a group of their own
// (go run, sh), which endGroup ends.
var ownGroup = &syscall.SysProcAttr{Setpgid: true}

func endGroup(cmd *exec.Cmd) { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
