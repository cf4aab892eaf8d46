package mutants

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A mutant is a mistake: old, which stands in file once, is replaced by wrong.
type mutant struct {
	name       string
	file       string // from the module's root
	old, wrong string
	tests      string // of the file's package: what has to fail
}

var mutants = []mutant{
	{
		"a partition's folder is not synced", "log/checkpoint.go",
		"	if t.dir {\n", "	if false {\n",
		"TestCrash/append",
	},
	{
		"segments are not synced", "log/checkpoint.go",
		"if e := g.file.Datasync(); e != nil {", "if e := error(nil); e != nil {",
		"TestCrash/append",
	},
	{
		"the data folder is not synced after the snapshot's rename", "log/snapshot.go",
		"	if err := syncDir(s.fs, s.o.Dir); err != nil {\n		return &commitError{err}\n	}\n", "",
		"TestCrash/recycle",
	},
	{
		"journal files are freed before the snapshot is durable", "log/checkpoint.go",
		"	if err := s.writeSnapshot(s.snapshotOf(points, cut, clean)); err != nil {\n",
		"	if !clean {\n		s.j.Recycle(cut)\n		for range 8 {\n			_, _ = s.j.PrepareStep(s.o.Mono())\n		}\n	}\n	if err := s.writeSnapshot(s.snapshotOf(points, cut, clean)); err != nil {\n",
		"TestCrash/recycle",
	},
	{
		"a checkpoint passes batches that no partition log has", "log/checkpoint.go",
		"if r.held != nil && r.held.Sequence < cut.Sequence {", "if r.held != nil && false {",
		"TestSegmentWriteErrors",
	},
	{
		"a failed sync is repeated", "log/checkpoint.go",
		"	err = p.rewrite()\n", "	for _, g := range p.list() {\n		err = errors.Join(err, g.file.Datasync())\n	}\n",
		"TestSegmentSyncFails",
	},
	{
		"a round is answered before it is durable", "log/flusher.go",
		"	if err := s.writeRound(r); err != nil {\n", "	s.o.OnDurable(r.waiters)\n	if err := s.writeRound(r); err != nil {\n",
		"TestJournalFails",
	},
	{
		"journal entries are not synced", "log/journal/append.go",
		"	if err == nil && sync {\n", "	if err == nil && false {\n",
		"TestLives|TestOperations|TestSyncedFlag",
	},
	{
		"the journal's last entry is not written again at a start", "log/journal/scan.go",
		"	err := j.rewriteTail()\n", "	err := error(nil)\n",
		"TestKilledBetweenWriteAndSync",
	},
	{
		"an entry may follow any other", "log/journal/scan.go",
		"|| e != nil && e.sequence == s.at.Sequence && e.prev == s.at.Prev {", "|| e != nil && e.sequence == s.at.Sequence {",
		"TestFork",
	},
	{
		"the end of the journal is where an entry is invalid", "log/journal/tail.go",
		"		if b.place != nil {\n", "		if b.place != nil && false {\n",
		"TestDamagedEarlierEntry",
	},
	{
		"a time index is believed without a look at its log", "log/segment.go",
		"			return end == int64(e.relative) && b.MaxTimestamp() == e.timestamp && b.Count() > 0\n", "			return true\n",
		"TestDamagedIndex",
	},
	{
		"a torn tail is kept", "log/plain.go",
		"	if err := changed(g.file.Truncate(pos)); err != nil {\n		return err\n	}\n", "",
		"TestTornTail",
	},
	{
		"damage in the middle counts as a torn tail", "log/plain.go",
		"		if goesOn {\n", "		if goesOn && false {\n",
		"TestDamageInTheMiddle",
	},
	{
		"what is beyond the recovery point is trusted", "log/recover.go",
		"	if ok && have > rp.position {\n", "	if ok && false {\n",
		"TestBeyondTheRecoveryPoint",
	},
	{
		"a swap is not durable before the old segments go", "log/clean.go",
		"	if err := syncDir(fsys, p.disk.dir); err != nil {\n		return &commitError{err}\n	}\n	return nil\n}\n\n// finishReplace", "	return nil\n}\n\n// finishReplace",
		"compaction:TestCrashAtEveryOperation",
	},
	{
		"old segments are not gone for good before the new one has its name", "log/clean.go",
		"	if err := syncDir(fsys, p.disk.dir); err != nil {\n		return &commitError{err}\n	}\n	for _, suffix := range dataSuffixes {", "	for _, suffix := range dataSuffixes {",
		"compaction:TestCrashWhileSegmentsBecomeOne",
	},
	{
		"outputs are installed unsynced", "log/clean.go",
		"	if err := g.file.Sync(); err != nil {\n", "	if err := error(nil); err != nil {\n",
		"compaction:TestCrashAtEveryOperation",
	},
	{
		"a tombstone goes at once", "compaction/filter.go",
		"		return !b.HasDeleteHorizon() || f.now < b.BaseTimestamp()\n", "		return false\n",
		"TestRoundTombstones",
	},
	{
		"the delete horizon is not waited for", "compaction/filter.go",
		"		return !b.HasDeleteHorizon() || f.now < b.BaseTimestamp()\n", "		return !b.HasDeleteHorizon()\n",
		"TestRoundTombstones",
	},
	{
		"each round sets a new delete horizon", "compaction/filter.go",
		"	case b.HasDeleteHorizon():\n		horizon = b.BaseTimestamp()\n", "",
		"TestFilter|TestRoundIsIdempotent|TestRoundTombstones",
	},
	{
		"the last batch of a group is dropped", "compaction/filter.go",
		"	if !mustStay && !f.isLast(b) {\n", "	if !f.isLast(b) {\n",
		"TestRoundRemovesEverything",
	},
	{
		"a tombstone goes before the value it deletes", "compaction/round.go",
		"	r.groups = groups(r.segs, end, config)\n", "	for _, g := range groups(r.segs, end, config) {\n		r.groups = append([][]*log.CleanSegment{g}, r.groups...)\n	}\n",
		"TestCrashAtEveryOperation",
	},
	{
		"a closed segment is appended to", "log/writebehind.go",
		"if g == nil || g.base < p.disk.rpBase || p.shouldRoll", "if g == nil || p.shouldRoll",
		"TestSyncFailsBehindAnEmptySegment|TestEmptySegmentIsMissing",
	},
	{
		"any leader epoch of another program is taken over", "log/folder.go",
		"	case epoch >= 0 && epoch < newest || int64(epoch)", "	case false && int64(epoch)",
		"TestLeaderEpochOutOfOrder",
	},
	{
		"an index entry is believed although it points behind the log", "log/read.go",
		"	if from.relative >= 0 && (at < 0 || at >= end) {\n", "	if at = min(at, end); at < 0 {\n",
		"TestIndexFileLostWhileServed",
	},
	{
		"what a round replaces may be gone", "log/clean.go",
		"	if p.disk.removed || at < 0 || at+len(old) >= len(list) || !sameSegments(list[at:], old) {\n", "	if at = max(at, 0); p.disk.removed || at+len(old) >= len(list) {\n",
		"compaction:TestLogStartRisesDuringARound",
	},
	{
		"a clean folder is open before its journal begins", "log/late.go",
		"	if err := s.writeStart(); err != nil {\n		return &commitError{err} // the snapshot is open\n	}\n	return nil\n", "	return s.writeStart()\n",
		"TestLateBeginFails",
	},
	{
		"open transactions do not end a round", "compaction/scan.go",
		"		end = min(end, t.first)\n", "		_ = t\n",
		"TestFilter",
	},
}

// mutantTime bounds building and running one mutant.
const mutantTime = 5 * time.Minute

// all asks for every mutant: a few minutes. Without it every twelfth one is tried, and
// of all others it is checked that they fit the sources.
var all = flag.Bool("mutants.all", false, "try every mutant")

// TestMutants fails if a mutant passes its tests.
func TestMutants(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(root, filepath.FromSlash(m.file))
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(source), m.old); n != 1 {
				t.Fatalf("%q stands %d times in %s: bring the mutant up to date", m.old, n, m.file)
			}
			if !*all && i%12 != 11 {
				return
			}
			out := runMutant(t, root, file, strings.Replace(string(source), m.old, m.wrong, 1), m)
			if !regexp.MustCompile(`(?m)^\s*--- FAIL: |^panic: `).MatchString(out) {
				t.Errorf("no test notices; output:\n%s", out)
			}
		})
	}
}

// runMutant runs the tests of a mutant and returns their output.
func runMutant(t *testing.T, root, file, source string, m mutant) string {
	t.Helper()
	dir := t.TempDir()
	wrong, overlay := filepath.Join(dir, "wrong.go"), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(wrong, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(map[string]map[string]string{"Replace": {file: wrong}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, b, 0o600); err != nil {
		t.Fatal(err)
	}
	pkg, tests, elsewhere := strings.Cut(m.tests, ":")
	if !elsewhere {
		pkg, tests = filepath.ToSlash(filepath.Dir(m.file)), m.tests
	}
	ctx, cancel := context.WithTimeout(t.Context(), mutantTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-overlay", overlay, "-vet=off", "-failfast", "-timeout", "60s", "-run", tests, "./"+pkg)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatalf("the tests %s pass:\n%s", tests, out)
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if strings.Contains(string(out), "[build failed]") || strings.Contains(string(out), "[setup failed]") {
		t.Fatalf("the mutant does not compile:\n%s", out)
	}
	return string(out)
}
