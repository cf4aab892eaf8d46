// Package lint holds the rules of the project as tests: who may import whom,
// which calls are banned where, and how large files and functions may grow.
package lint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/kcoord/kcoord"

// imports is the package graph: an arrow is an import, and there are no others.
var imports = map[string][]string{
	"cmd/kcoord":          {"broker", "log", "log/journal", "log/vfs", "log/record", "coordinator/records", "internal/config", "internal/meta"},
	"broker":              {"netloop", "wire", "coordinator", "coordinator/records", "compaction", "log", "log/record", "log/vfs", "internal/config", "internal/meta", "internal/metrics"},
	"netloop":             {},
	"wire":                {},
	"coordinator":         {"coordinator/records"},
	"coordinator/records": {},
	"compaction":          {"log", "log/record", "log/vfs"},
	"log":                 {"log/journal", "log/record", "log/vfs"},
	"log/journal":         {"log/vfs"},
	"log/record":          {},
	"log/vfs":             {},
	"internal/config":     {},
	"internal/meta":       {},
	"internal/metrics":    {},
}

// testOnly are packages that may import anything and are imported by tests only.
var testOnly = []string{"internal/history", "internal/sim", "internal/lint", "internal/testbroker", "internal/transcript", "internal/transcript/record", "internal/mutants"}

// bannedImports maps an import path to the packages that may use it.
var bannedImports = map[string][]string{
	"log":                          {}, // the package name would be shadowed by kcoord's own
	"github.com/rs/zerolog":        {"broker", "cmd/kcoord"},
	"github.com/panjf2000/gnet/v2": {"netloop"},
	"github.com/panjf2000/gnet/v2/pkg/logging": {"netloop"},
	"github.com/panjf2000/gnet/v2/pkg/errors":  {"netloop"},
	"math/rand": {},
}

// timeless are the packages that take a Clock and an Executor.
var timeless = []string{"broker", "coordinator", "coordinator/records", "compaction", "log", "log/journal", "log/record", "wire", "internal/meta"}

// seams are the files in which a timeless package may touch the real world.
var seams = []string{"broker/goroutines.go", "broker/clock.go"}

var bannedCalls = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}

const (
	maxFileLines     = 800
	maxTestFileLines = 1000
	maxFunctionLines = 70
)

type goPackage struct {
	ImportPath  string
	Dir         string
	Imports     []string
	GoFiles     []string
	TestGoFiles []string
}

func listPackages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-pgo=off", "-json=ImportPath,Dir,Imports,GoFiles,TestGoFiles", module+"/...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var pkgs []goPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := dec.Decode(&p); err == io.EOF {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

func TestImportGraph(t *testing.T) {
	for _, p := range listPackages(t) {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		allowed, known := imports[name]
		testHelper := slices.Contains(testOnly, name)
		if !known && !testHelper {
			t.Errorf("package %s is not in the package graph: add it to ARCHITECTURE.md and to this table, or put it elsewhere", name)
		}
		for _, imp := range p.Imports {
			if who, banned := bannedImports[imp]; banned && !slices.Contains(who, name) && !testHelper {
				t.Errorf("%s imports %s; only %v may", name, imp, who)
			}
			if dep, ours := strings.CutPrefix(imp, module+"/"); ours {
				if slices.Contains(testOnly, dep) && !testHelper {
					t.Errorf("%s imports %s, which is for tests", name, dep)
				}
				if !testHelper && !slices.Contains(allowed, dep) {
					t.Errorf("%s imports %s: no such arrow in the package graph", name, dep)
				}
			}
		}
	}
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func eachGoFile(t *testing.T, f func(rel string, src []byte, file *ast.File, fset *token.FileSet)) {
	t.Helper()
	dir := root(t)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules" || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, src, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		f(filepath.ToSlash(rel), src, file, fset)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestSizes(t *testing.T) {
	eachGoFile(t, func(rel string, src []byte, file *ast.File, fset *token.FileSet) {
		lines, limit := bytes.Count(src, []byte("\n")), maxFileLines
		if strings.HasSuffix(rel, "_test.go") {
			limit = maxTestFileLines
		}
		if lines > limit {
			t.Errorf("%s has %d lines, more than %d", rel, lines, limit)
		}
		if strings.HasSuffix(rel, "_test.go") {
			return
		}
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil || isTable(fn.Body) {
				continue
			}
			n := fset.Position(fn.End()).Line - fset.Position(fn.Pos()).Line + 1
			if n > maxFunctionLines {
				t.Errorf("%s: function %s has %d lines, more than %d", rel, fn.Name.Name, n, maxFunctionLines)
			}
		}
	})
}

// isTable reports whether a body is one dispatch switch or one table literal
// (with at most three statements around it): these may be long.
func isTable(body *ast.BlockStmt) bool {
	if len(body.List) > 4 {
		return false
	}
	for _, s := range body.List {
		switch s := s.(type) {
		case *ast.SwitchStmt, *ast.TypeSwitchStmt:
			return true
		case *ast.ReturnStmt:
			for _, r := range s.Results {
				if _, ok := r.(*ast.CompositeLit); ok {
					return true
				}
			}
		}
	}
	return false
}

func TestBannedCalls(t *testing.T) {
	eachGoFile(t, func(rel string, _ []byte, file *ast.File, fset *token.FileSet) {
		if strings.HasSuffix(rel, "_test.go") {
			return
		}
		dir := filepath.ToSlash(filepath.Dir(rel))
		strict := slices.Contains(timeless, dir) && !slices.Contains(seams, rel)
		ast.Inspect(file, func(n ast.Node) bool {
			at := func() string { return fmt.Sprintf("%s:%d", rel, fset.Position(n.Pos()).Line) }
			switch n := n.(type) {
			case *ast.GoStmt:
				if strict {
					t.Errorf("%s: go statement; goroutines are started in broker/goroutines.go only", at())
				}
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); strict && ok && x.Name == "time" && slices.Contains(bannedCalls, n.Sel.Name) {
					t.Errorf("%s: time.%s; take a clock", at(), n.Sel.Name)
				}
			case *ast.FuncDecl:
				if n.Name.Name == "init" && n.Recv == nil {
					t.Errorf("%s: init function; main builds everything", at())
				}
			case *ast.AssignStmt:
				for _, l := range n.Lhs {
					if id, ok := l.(*ast.Ident); ok && id.Name == "log" && n.Tok == token.DEFINE {
						t.Errorf("%s: a variable named log shadows the package", at())
					}
				}
			case *ast.Field:
				for _, id := range n.Names {
					if id.Name == "log" {
						t.Errorf("%s: a field or parameter named log shadows the package", at())
					}
				}
			}
			return true
		})
	})
}

func TestNoLeftovers(t *testing.T) {
	marks := []string{"TO" + "DO", "FIX" + "ME", "XX" + "X"}
	skip := "t.Sk" + "ip("
	eachGoFile(t, func(rel string, src []byte, _ *ast.File, _ *token.FileSet) {
		for i, line := range strings.Split(string(src), "\n") {
			for _, m := range marks {
				if strings.Contains(line, m) {
					t.Errorf("%s:%d: leftover mark %s", rel, i+1, m)
				}
			}
			if strings.Contains(line, skip) {
				t.Errorf("%s:%d: a skipped test is no test", rel, i+1)
			}
		}
	})
}
