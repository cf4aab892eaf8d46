package wire

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// An exchange is a recorded request and its answer, without length prefixes.
type exchange struct {
	name              string // API and version
	request, response []byte
}

// exchanges reads testdata/frames: what real clients sent to a real Kafka, and what
// it answered.
func exchanges(t testing.TB) map[string][]exchange {
	t.Helper()
	files, err := filepath.Glob("../testdata/frames/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recorded frames: %v", err)
	}
	all := make(map[string][]exchange)
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var list []exchange
		for line := range strings.Lines(string(content)) {
			line = strings.TrimSpace(line)
			data, err := hex.DecodeString(strings.TrimLeft(line, "<> "))
			switch {
			case strings.HasPrefix(line, "#"):
			case !strings.HasPrefix(line, ">") && !strings.HasPrefix(line, "<"):
				list = append(list, exchange{name: line})
			case err != nil || len(list) == 0:
				t.Fatalf("%s: %v in %q", file, err, line)
			case line[0] == '>':
				list[len(list)-1].request = data
			default:
				list[len(list)-1].response = data
			}
		}
		all[strings.TrimSuffix(filepath.Base(file), ".txt")] = list
	}
	return all
}

// TestRecordedFrames decodes and encodes every recorded frame: what comes out is
// what went in, to the byte.
func TestRecordedFrames(t *testing.T) {
	covered := make(map[string]bool)
	for source, list := range exchanges(t) {
		for _, e := range list {
			h, err := ParseHeader(e.request)
			if err != nil {
				if _, ok := Lookup(h.Key); !ok {
					continue // an API that is not served
				}
				t.Errorf("%s, %s: header: %v", source, e.name, err)
				continue
			}
			api, _ := Lookup(h.Key)
			if !strings.EqualFold(fmt.Sprintf("%s %d", api.Name, h.Version), e.name) {
				t.Errorf("%s: %s is a frame of %s %d", source, e.name, api.Name, h.Version)
			}
			covered[fmt.Sprintf("%s %d", api.Name, h.Version)] = true
			req, err := Decode(h)
			if err != nil {
				t.Errorf("%s, %s: %v", source, e.name, err)
				continue
			}
			if got := req.AppendTo(nil); !bytes.Equal(got, h.Body) {
				t.Errorf("%s, %s: request\n%x came back as\n%x", source, e.name, h.Body, got)
			}
			checkRecordedResponse(t, source, api, h, req, e)
		}
	}
	// A real Kafka's answer is there for every row of the table.
	for _, api := range APIs() {
		for version := api.Min; version <= api.Max; version++ {
			if name := fmt.Sprintf("%s %d", api.Name, version); !covered[name] {
				t.Errorf("no recorded frame of %s", name)
			}
		}
	}
}

func checkRecordedResponse(t *testing.T, source string, api API, h Header, req kmsg.Request, e exchange) {
	t.Helper()
	resp := req.ResponseKind()
	frame := append([]byte{0, 0, 0, 0}, e.response...)
	frame[2], frame[3] = byte(len(e.response)>>8), byte(len(e.response))
	body := checkResponse(t, api, h.Version, frame, h.CorrelationID)
	if err := resp.ReadFrom(body); err != nil {
		t.Errorf("%s, %s: answer: %v", source, e.name, err)
		return
	}
	if got := AppendResponse(nil, h.CorrelationID, resp); !bytes.Equal(got, frame) {
		t.Errorf("%s, %s: answer\n%x came back as\n%x", source, e.name, frame, got)
	}
}
