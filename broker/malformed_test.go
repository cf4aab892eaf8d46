package broker

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// What is no request of Kafka's protocol closes its connection, is counted, and is a
// warning that says what it may have been, one per cause and minute.
func TestStrangersAreNoticed(t *testing.T) {
	out := &lines{}
	logger := zerolog.New(out)
	b, err := New(Options{Logger: &logger})
	if err != nil {
		t.Fatal(err)
	}
	startBroker(t, b)
	tests := []struct {
		sent         string
		cause, guess string
	}{
		{"GET / HTTP/1.1\r\n\r\n", "HTTP client", "HTTP client on a listener of Kafka's protocol"},
		{"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "TLS client", "TLS client on a PLAINTEXT listener"},
		{"\x7f\xff\xff\xff\x00\x00\x00\x00", "frame too long", "a request of 2147483647 bytes"},
		{"\x00\x00\x00\x0a\x03\xe7\x00\x00\x00\x00\x00\x01\xff\xff", "unknown API key", "API key 999"},
		{"\x00\x00\x00\x01\x00", "frame too short", "not Kafka's protocol"},
		{"\x00\x00\x00\x0b\x00\x0c\x00\x63\x00\x00\x00\x01\xff\xff\x00", "unsupported version", "version: 99 of API key 12"},
		{"\x00\x00\x00\x0b\x00\x0c\x00\x00\x00\x00\x00\x01\xff\xff\x00", "malformed request", ""},
	}
	for range 2 {
		for _, test := range tests {
			c, err := net.Dial("tcp", b.Addr())
			if err != nil {
				t.Fatal(err)
			}
			c.SetDeadline(time.Now().Add(10 * time.Second))
			if _, err := c.Write([]byte(test.sent)); err != nil {
				t.Fatal(err)
			}
			if answer, _ := io.ReadAll(c); len(answer) > 0 {
				t.Errorf("%s: answered with %q", test.cause, answer)
			}
			c.Close()
		}
	}
	want := fmt.Sprintf("\nkcoord_requests_malformed_total %d\n", 2*len(tests))
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(string(b.metricsPage()), want); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the metrics lack %s; the log:\n%s", want, out)
		}
	}
	for _, test := range tests {
		n := 0
		out.await(`"cause":"`+test.cause+`"`, 1)
		for _, line := range strings.Split(out.String(), "\n") {
			if strings.Contains(line, `"cause":"`+test.cause+`"`) {
				n++
				for _, part := range []string{`"level":"warn"`, `"peer":"127.0.0.1:`, `"listener":"PLAINTEXT"`, test.guess} {
					if !strings.Contains(line, part) {
						t.Errorf("%s: no %s in %s", test.cause, part, line)
					}
				}
			}
		}
		if n != 1 {
			t.Errorf("%s: %d lines", test.cause, n)
		}
	}
}

// A stop is no news of every group.
func TestStopIsNoNewsOfGroups(t *testing.T) {
	out := &lines{}
	logger := zerolog.New(out)
	b, tr := newTest(t, Options{Logger: &logger})
	startBroker(t, b)
	stableMember(t, tr.open(0), "g")
	out.await(`"to":"Stable"`, 1)
	before := out.count(`"group":"g"`)
	if err := b.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := out.count(`"group":"g"`); before == 0 || after != before {
		t.Errorf("%d lines of the group, %d after the stop:\n%s", before, after, out)
	}
}
