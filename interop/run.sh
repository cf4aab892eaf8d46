#!/usr/bin/env bash
# Tries real clients against kcoord:
#   interop/run.sh [GO-TEST-ARGUMENT...]                           everything; for example -run 'TestJava|TestKcat'
#   INTEROP_BROKER=kafka interop/run.sh                            the same against Apache Kafka, to prove the tests
#   INTEROP_KCOORD=/path/to/kcoord interop/run.sh                  a program that is built already
# INTEROP_INSTALL names the parts to install (default: all; see install.sh); empty installs nothing.
set -euo pipefail
cd "$(dirname "$0")"
began=$SECONDS
if [ -n "${INTEROP_INSTALL-all}" ]; then
  parts=${INTEROP_INSTALL-}
  # shellcheck disable=SC2086
  ./install.sh ${parts/all/}
fi
go test -count=1 -timeout 30m -v "$@" . | grep -vE '^=== (RUN|PAUSE|CONT)'
echo "interop: $((SECONDS - began)) s"
