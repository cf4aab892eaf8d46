# The steps of .ci/run. Sourced, not run.
# A number of inputs, not a time: with a time the fuzzing engine can report its own
# deadline as a failure when it strikes while an input is handed to a worker.
: "${FUZZTIME:=50000x}"
STATICCHECK=honnef.co/go/tools/cmd/staticcheck@v0.8.2

# The profile of cmd/kcoord would have everything that it uses compiled once more for it,
# and again for each kind of test. What measures rates builds with it all the same.
export GOFLAGS="${GOFLAGS:-} -pgo=off"

step() {
  local name=$1 start=$SECONDS
  shift
  [ -z "$only" ] || [ "$only" = "$name" ] || return 0
  printf '== %s\n' "$name"
  "$@"
  printf '== %s: %ss\n' "$name" "$((SECONDS - start))"
}

check_format() {
  local files
  files=$(gofmt -l $(git ls-files '*.go'))
  [ -z "$files" ] || { printf 'gofmt wants these:\n%s\n' "$files"; return 1; }
}

run_staticcheck() {
  go run "$STATICCHECK" ./...
}

# Every nested module builds and passes its vet, so that none rots. Where a module
# has one program only, build would write it into the tree.
check_modules() {
  local mod
  for mod in $(git ls-files '*/go.mod'); do
    (cd "$(dirname "$mod")" && go build -o /dev/null ./... && go vet ./...)
  done
}

cross_build() {
  local target
  for target in linux/arm64 darwin/arm64 windows/amd64; do
    GOOS=${target%/*} GOARCH=${target#*/} CGO_ENABLED=0 go build -o /dev/null ./cmd/kcoord
    GOOS=${target%/*} GOARCH=${target#*/} CGO_ENABLED=0 go vet ./...
  done
}

# The command that README.md names, taken from there: what it says is what runs.
readme_test() {
  local command
  command=$(sed -n 's/^<!-- test: \(.*\) -->$/\1/p' README.md)
  [ -n "$command" ] || { echo 'README.md names no test command'; return 1; }
  printf '%s\n' "$command"
  bash -euo pipefail -c "$command"
}

short_fuzz() {
  local pkg target
  for pkg in $(go list ./...); do
    for target in $(go test -list '^Fuzz' "$pkg" | grep '^Fuzz' || true); do
      go test -run '^$' -fuzz "^$target\$" -fuzztime "$FUZZTIME" "$pkg"
    done
  done
}

# Every Go benchmark runs, and the table of rates can be made.
benchmarks_smoke() {
  go test -run '^$' -bench . -benchtime 20x ./...
  go -C bench test ./...
  go -C bench run ./cmd/table -smoke
  go -C bench run ./cmd/recovery -smoke
  go -C bench run ./cmd/scale -smoke
}

# Every client; and clients in Go and C without event loops.
all_clients() {
  interop/run.sh
  INTEROP_TRANSPORT=net INTEROP_INSTALL='' interop/run.sh -run 'TestFranz|TestSarama|TestKcat'
}

# What ran before has left nothing in the tree, and nothing large is tracked.
check_tree() {
  local left
  left=$(git status --porcelain)
  [ -z "$left" ] || { printf 'left behind:\n%s\n' "$left"; return 1; }
  left=$(git ls-tree -rl HEAD | awk '$4 > 1000000 { print $5 }')
  [ -z "$left" ] || { printf 'too large to be source:\n%s\n' "$left"; return 1; }
}
