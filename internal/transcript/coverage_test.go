package transcript

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/kcoord/kcoord/wire"
)

// answered are the error codes that a single node gives to an API of groups and
// offsets; each has to stand in a transcript, and every version of each API has
// to be answered well and, if some code is possible at all, refused.
//
// Not here are the codes of a coordinator that loads, moves or cannot write (14,
// 15, 16), which a conversation with a healthy broker never meets, and those of
// authorization, consumer groups and transactions.
var answered = map[string][]int{
	"OffsetCommit":    {-1, 0, 3, 12, 22, 25, 27, 69, 82, 100},
	"OffsetFetch":     {0, 100},
	"FindCoordinator": {0, 15, 42},
	"JoinGroup":       {-1, 0, 23, 24, 25, 26, 79, 81, 82},
	"Heartbeat":       {0, 22, 24, 25, 27, 82},
	"LeaveGroup":      {0, 24, 25, 82},
	"SyncGroup":       {-1, 0, 22, 23, 24, 25, 27, 82},
	"DescribeGroups":  {0, 69},
	"ListGroups":      {0},
	"ApiVersions":     {0, 35, 42, 129},
	"DeleteGroups":    {0, 68, 69},
	"OffsetDelete":    {0, 3, 24, 68, 69, 86},
	"DescribeConfigs": {0, 3, 17, 42},
}

// since tells from which version on an API has error answers, where it is not
// the first.
var since = map[string]int{"ApiVersions": 3, "DescribeGroups": 6, "FindCoordinator": 1, "OffsetFetch": 10}

// A said is what the transcripts hold of one API: error codes by version.
type said map[int]map[int]bool

func (s said) note(version, code int) {
	if s[version] == nil {
		s[version] = map[int]bool{}
	}
	s[version][code] = true
}

var errorCodes = regexp.MustCompile(`ErrorCode: (-?\d+)`)

// gather notes what the answers of a script say, by API.
func gather(steps []Step, into map[string]said) error {
	due := map[string][]string{} // heads whose answers come later, by connection
	for _, s := range steps {
		words := strings.Fields(s.Command)
		if len(words) < 2 || words[0] == "let" || words[0] == "text" || words[0] == "broker" || words[0] == "sleep" {
			continue
		}
		name, head := words[0], words[1]
		switch head {
		case "close":
			delete(due, name)
			continue
		case "raw", "silent", "client":
			continue
		case "recv":
			if len(due[name]) == 0 {
				return fmt.Errorf("%s: nothing is due", s.Command)
			}
			head, due[name] = due[name][0], due[name][1:]
		default:
			if strings.HasSuffix(s.Command, "&") {
				due[name] = append(due[name], head)
				continue
			}
		}
		api, text, _ := strings.Cut(head, "/")
		version, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Command, err)
		}
		if into[api] == nil {
			into[api] = said{}
		}
		for _, m := range errorCodes.FindAllStringSubmatch(s.Want, -1) {
			code, _ := strconv.Atoi(m[1])
			into[api].note(version, code)
		}
	}
	return nil
}

func gatherAll(t *testing.T) map[string]said {
	files, err := filepath.Glob("../../testdata/transcripts/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	all := map[string]said{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		steps, err := Parse(string(text))
		if err == nil {
			err = gather(steps, all)
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	return all
}

// TestCoverage asserts that the transcripts cover every version and every error
// code of the APIs of groups and offsets.
func TestCoverage(t *testing.T) {
	all := gatherAll(t)
	served := map[string]wire.API{}
	for _, api := range wire.APIs() {
		served[api.Name] = api
	}
	pairs := 0
	for name, codes := range answered {
		api, ok := served[name]
		if !ok {
			t.Errorf("%s is not served", name)
		}
		for version := int(api.Min); version <= int(api.Max); version++ {
			got := all[name][version]
			pairs += len(got)
			if !got[0] {
				t.Errorf("%s %d: no answer without an error", name, version)
			}
			if len(codes) > 1 && version >= since[name] && !refused(got) {
				t.Errorf("%s %d: no answer with an error", name, version)
			}
		}
		for _, code := range codes {
			if !slices.ContainsFunc(versions(all[name]), func(v int) bool { return all[name][v][code] }) {
				t.Errorf("%s: no answer with error code %d", name, code)
			}
		}
		for _, v := range versions(all[name]) {
			for code := range all[name][v] {
				if !slices.Contains(codes, code) {
					t.Errorf("%s %d answered %d, which the list of codes lacks", name, v, code)
				}
			}
		}
	}
	t.Logf("%d answers that differ in API, version or error code", pairs)
}

func refused(codes map[int]bool) bool {
	for code := range codes {
		if code != 0 {
			return true
		}
	}
	return false
}

func versions(s said) []int {
	var list []int
	for v := range s {
		list = append(list, v)
	}
	sort.Ints(list)
	return list
}
