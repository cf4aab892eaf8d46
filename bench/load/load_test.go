package load_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/bench/ceiling"
	"github.com/kcoord/kcoord/bench/load"
)

func TestAgainstABroker(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	addr := cluster.ListenAddrs()[0]
	for name, spec := range map[string]load.Spec{
		"heartbeats":           {Kind: load.Heartbeat, Conns: 3, Depth: 4},
		"heartbeats at a rate": {Kind: load.Heartbeat, Conns: 2, Depth: 4, Rate: 500},
		"commits":              {Kind: load.OffsetCommit, Conns: 2, Depth: 8, Groups: 5, Partitions: 3},
	} {
		t.Run(name, func(t *testing.T) {
			spec.Addr, spec.Duration, spec.PID = addr, 200*time.Millisecond, os.Getpid()
			report, err := load.Run(spec)
			if err != nil {
				t.Fatalf("%v: %+v", err, report)
			}
			if report.Answers < 20 || report.P50 <= 0 || report.P99 < report.P50 || report.Max < report.P99 {
				t.Fatalf("%+v", report)
			}
			if spec.Rate > 0 && (report.PerSecond < spec.Rate/2 || report.PerSecond > spec.Rate*1.2) {
				t.Fatalf("%.0f answers/s where %.0f requests/s were to be sent", report.PerSecond, spec.Rate)
			}
		})
	}
}

func TestErrorsAreNoSuccess(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	cluster.ControlKey(kmsg.Heartbeat.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
		resp.ErrorCode = 25
		return resp, nil, true
	})
	spec := load.Spec{Addr: cluster.ListenAddrs()[0], Kind: load.Heartbeat, Conns: 1, Depth: 1, Duration: 100 * time.Millisecond}
	report, err := load.Run(spec)
	if err == nil || report.Failed == 0 || int64(report.Codes[25]) != report.Failed {
		t.Fatalf("error %v, %+v", err, report)
	}
	spec.MaxErrorRatio = 1
	if _, err := load.Run(spec); err != nil {
		t.Fatalf("with every error allowed: %v", err)
	}
}

// misbehave answers frame after frame by f and then closes the connection.
func misbehave(t *testing.T, f func(frame []byte) []byte) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				var head [4]byte
				for {
					if _, err := io.ReadFull(c, head[:]); err != nil {
						return
					}
					frame := make([]byte, binary.BigEndian.Uint32(head[:]))
					if _, err := io.ReadFull(c, frame); err != nil {
						return
					}
					answer := f(frame)
					if _, err := c.Write(answer); err != nil || len(answer) == 0 {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

func TestMisbehavingServers(t *testing.T) {
	answer := func(frame []byte, correlationAdd uint32) []byte {
		b := []byte{0, 0, 0, 10}
		b = binary.BigEndian.AppendUint32(b, binary.BigEndian.Uint32(frame[4:])+correlationAdd)
		return append(b, make([]byte, 6)...)
	}
	for name, c := range map[string]struct {
		f    func([]byte) []byte
		want string
	}{
		"wrong order": {func(f []byte) []byte { return answer(f, 1) }, "correlation id 1 where 0 was due"},
		"closes":      {func([]byte) []byte { return nil }, "closed the connection"},
		"twice":       {func(f []byte) []byte { return append(answer(f, 0), answer(f, 1)...) }, "an answer without a request"},
		"huge":        {func([]byte) []byte { return bytes.Repeat([]byte{0xff}, 8) }, "an answer of 4294967295 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load.Run(load.Spec{Addr: misbehave(t, c.f), Kind: load.Heartbeat, Bare: true, Conns: 1, Depth: 1, Duration: 50 * time.Millisecond})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestCeilings(t *testing.T) {
	journal := filepath.Join(t.TempDir(), "journal")
	for name, o := range map[string]ceiling.Options{
		"echo":   {AnswerBytes: 8},
		"synced": {AnswerBytes: 30, JournalPath: journal},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			server, err := ceiling.New(o)
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- server.Serve(l) }()
			spec := load.Spec{Addr: l.Addr().String(), Kind: load.OffsetCommit, Bare: true,
				Conns: 5, Depth: 50, Partitions: 30, Duration: 200 * time.Millisecond}
			report, err := load.Run(spec)
			if err != nil || report.Answers < 100 {
				t.Fatalf("error %v, %+v", err, report)
			}
			l.Close()
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
		})
	}
	content, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range []string{"bench-commit-0000", "bench-commit-0004"} {
		if !bytes.Contains(content, []byte(group)) {
			t.Errorf("no commit of %s in the journal", group)
		}
	}
}
