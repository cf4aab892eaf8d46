package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// TestConsole writes lines as records and reads them back, with and without keys.
func TestConsole(t *testing.T) {
	at := start(t, t.TempDir(), nil, "--data-dir", "memory:", "--listeners", "PLAINTEXT://127.0.0.1:0", "--topics", "three:3").ready(t)["PLAINTEXT"]
	c, err := dial([]string{at}, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	keyed := map[string]string{"parse.key": "true", "key.separator": ":"}
	for _, err := range []error{
		produceLines(c, strings.NewReader("one\ntwo\n"), "made-by-it", nil),
		produceLines(c, strings.NewReader("21:a\nfoobar:b\n21:c\n"), "three", keyed),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := produceLines(c, strings.NewReader("no key\n"), "three", keyed); err == nil || !strings.Contains(err.Error(), "no key separator") {
		t.Errorf("a line without a key: %v", err)
	}
	for _, tt := range []struct {
		args   string
		code   int
		stdout string
		stderr string
	}{
		{"--topic made-by-it --from-beginning --max-messages 2", 0, "one\ntwo\n", "Processed a total of 2 messages\n"},
		{"--topic made-by-it --from-beginning --max-messages 1", 0, "one\n", "Processed a total of 1 messages\n"},
		{"--topic made-by-it --timeout-ms 1", 0, "", "Processed a total of 0 messages\n"},
		{"--topic missing --from-beginning", 1, "", "kafka-console-consumer: reading missing: error code 3\n"},
		{"--from-beginning", 1, "", "kafka-console-consumer: --topic is missing\n"},
		{"--topic made-by-it --group g", 2, "", "kafka-console-consumer: flag provided but not defined: --group; Kafka's own kafka-console-consumer works against this broker\n"},
	} {
		var stdout, stderr bytes.Buffer
		code := consumerTool(append(strings.Fields(tt.args), "--bootstrap-server", at), &stdout, &stderr)
		if code != tt.code || stdout.String() != tt.stdout || stderr.String() != tt.stderr {
			t.Errorf("%s: exit code %d\n%s%s", tt.args, code, &stdout, &stderr)
		}
	}
	// Records of one key are in one partition, in their order.
	var stdout, stderr bytes.Buffer
	consumerTool(strings.Fields("--topic three --from-beginning --max-messages 3 --property print.key=true --bootstrap-server "+at), &stdout, &stderr)
	got := stdout.String()
	if first := strings.Index(got, "21\ta\n"); first < 0 || strings.Index(got, "21\tc\n") < first || !strings.Contains(got, "foobar\tb\n") {
		t.Errorf("with keys: %s%s", got, &stderr)
	}
}

// TestMurmur2 hashes what Kafka's clients hash to the same.
func TestMurmur2(t *testing.T) {
	for text, want := range map[string]int32{"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536,
		"a-little-bit-longer-string": -1486304829, "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971, "abc": 479470107} {
		if got := int32(murmur2([]byte(text))); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
