#!/usr/bin/env bash
# Proves Dockerfile, docker-compose.yml, the compat image and the Testcontainers
# examples with a real Docker engine of its own:
#   docker/test.sh [CASE...]        the cases are the functions of docker/cases.sh
# No image is pulled: the base images are made from what is on this machine (Go
# toolchain, busybox). Needs root and, on Debian, installs what is missing. All runs
# in namespaces of its own: no port of this machine is taken, and when the script
# ends, whatever it started has ended.
set -euo pipefail
cd "$(dirname "$0")/.."
. docker/engine.sh
began=${began:-$(date +%s)}
say() { printf '== docker: %s (%ss)\n' "$1" "$(($(date +%s) - began))"; }
: "${limit:=900}" # seconds for all of it

if [ -z "${work:-}" ]; then
  no_engine=$(why_no_engine)
  if [ -n "$no_engine" ]; then
    say "NOT TESTED: no Docker engine can run here: $no_engine"
    exit 0
  fi
  # Sockets of the engine lie in it, and their paths have at most 107 bytes: a TMPDIR of up to 45.
  work=$(mktemp -d -t kcoord-docker.XXXXXX)
  trap 'rm -rf "$work"' EXIT
  prepare; say 'programs and base images prepared'
  export work began
  timeout -k 10 "$limit" unshare --net --mount --pid --fork --kill-child --mount-proc "$0" "$@"
  exit
fi

trap 'status=$?; [ $status = 0 ] || [ ! -s "$work/failed" ] || cat "$work/failed"; stop_engine' EXIT
if ! start_engine; then
  say "NOT TESTED: no Docker engine can run here: $(tail -1 "$work/dockerd.log")"
  exit 0
fi
say 'engine runs'
build_images; say 'images built'
. docker/cases.sh
if [ $# -eq 0 ]; then set -- "${cases[@]}"; fi
for name in "$@"; do
  # In the background, since a function that is asked for its result goes on after
  # a command that failed.
  "$name" >"$work/failed" 2>&1 &
  wait $! || { echo "== docker: $name FAILED"; exit 1; }
  say "$name"
done
say 'all passed'
