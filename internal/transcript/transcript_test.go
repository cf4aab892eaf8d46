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

func TestPick(t *testing.T) {
	resp := kmsg.NewPtrDescribeConfigsResponse()
	one := kmsg.NewDescribeConfigsResponseResource()
	for _, name := range []string{"b.c", "a"} {
		c := kmsg.NewDescribeConfigsResponseResourceConfig()
		c.Name = name
		one.Configs = append(one.Configs, c)
	}
	resp.Resources = append(resp.Resources, one)
	plain := func(s string) string { return s }
	got, err := pick(resp, []string{"Resources[0].ErrorCode", "Resources[0].Configs[Name=b.c].Name", "Resources[0].Configs[Name=d]", "Resources[1]"}, plain)
	want := "Resources[0].ErrorCode: 0\n" + `Resources[0].Configs[Name=b.c].Name: "b.c"` + "\nResources[0].Configs[Name=d]: (none)\nResources[1]: (none)\n"
	if err != nil || got != want {
		t.Errorf("picked %q, %v, want %q", got, err, want)
	}
	if _, err := pick(resp, []string{"Nope"}, plain); err == nil {
		t.Error("a field that is not there was found")
	}
	if text := format(resp, plain, true); strings.Index(text, `"a"`) > strings.Index(text, `"b.c"`) {
		t.Errorf("not sorted: %s", text)
	}
}

func TestCommands(t *testing.T) {
	steps, err := Parse("broker group.max.size=2 group.min.session.timeout.ms=100\n\na Heartbeat/0\n")
	if err != nil || Settings(steps)["group.max.size"] != "2" || len(Settings(steps)) != 2 {
		t.Errorf("settings: %v, %v", Settings(steps), err)
	}
	r := NewRunner("127.0.0.1:1")
	if _, err := r.Run(`text x = 3 "éa"`); err != nil || r.show("<$x>") != "<éaéaéa>" || r.hide("éaéaéa") != "$x" {
		t.Errorf("text: %v, %q", err, r.show("<$x>"))
	}
	if _, err := r.Run("text x"); err == nil {
		t.Error("a text without a count was taken")
	}
	if command, paths := cutPaths(`a ListGroups/5 {"TypesFilter": ["x"]} | ErrorCode, Groups[0]`); command != `a ListGroups/5 {"TypesFilter": ["x"]}` || len(paths) != 2 {
		t.Errorf("cut: %q, %q", command, paths)
	}
}

func TestGatherFollowsConnections(t *testing.T) {
	steps, err := Parse("a JoinGroup/4 {} &\na Heartbeat/1 {} &\na recv\n----\n{ErrorCode: 79}\n\na recv\n----\n{ErrorCode: 25}\n\n" +
		"b SyncGroup/0 {} &\nb close\nb Heartbeat/2 {}\n----\n{ErrorCode: 0}\n")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]said{}
	if err := gather(steps, all); err != nil {
		t.Fatal(err)
	}
	if !all["JoinGroup"][4][79] || !all["Heartbeat"][1][25] || !all["Heartbeat"][2][0] || all["SyncGroup"] != nil {
		t.Errorf("gathered %v", all)
	}
}
