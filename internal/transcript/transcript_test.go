package transcript

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestScriptsRoundTrip(t *testing.T) {
	files, err := filepath.Glob("../../testdata/transcripts/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		steps, err := Parse(string(text))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if got := Format(steps); got != string(text) {
			t.Errorf("%s is not as the recorder writes it", file)
		}
	}
}

func TestFillAndFormat(t *testing.T) {
	req := kmsg.NewPtrJoinGroupRequest()
	err := fill(req, `{"Group": "g", "InstanceID": "i", "Protocols": [{"Name": "range", "Metadata": "\u0000m"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	if req.Group != "g" || *req.InstanceID != "i" || string(req.Protocols[0].Metadata) != "\x00m" {
		t.Errorf("filled: %+v", req)
	}
	resp := kmsg.NewPtrDeleteTopicsResponse()
	topic := kmsg.NewDeleteTopicsResponseTopic()
	topic.TopicID = [16]byte{1}
	resp.Topics = append(resp.Topics, topic)
	text := format(resp, func(s string) string { return s }, false)
	if want := `{Topics: [{TopicID: "AQAAAAAAAAAAAAAAAAAAAA", ErrorCode: 0}]}`; text != want {
		t.Errorf("formatted %s, want %s", text, want)
	}
	id, err := lookup(resp, "Topics[0].TopicID")
	if err != nil || !strings.HasPrefix(id, "AQAA") {
		t.Errorf("lookup: %q, %v", id, err)
	}
}

func TestFillRefuses(t *testing.T) {
	for _, text := range []string{`{"Nope": 1}`, `{"Group": 1}`, `{"Generation": "x"}`, `{"Group": null}`, `[`} {
		if err := fill(kmsg.NewPtrHeartbeatRequest(), text); err == nil {
			t.Errorf("%s was taken", text)
		}
	}
}
