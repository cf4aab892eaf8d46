#!/usr/bin/env bash
# Fetches what the tests need from the package registries, into a cache outside the repository:
#   interop/install.sh [java] [python] [node] [rust] [kcat]        (default: all)
# What is there already is left alone. Each part prints its time.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/kcoord-interop
mkdir -p "$cache"

# done_once NAME VERSION: whether this version of a part is in the cache; mark_done says so.
done_once() { [ "$(cat "$cache/$1.installed" 2>/dev/null)" = "$2" ]; }
mark_done() { echo "$2" > "$cache/$1.installed"; }

apt_install() {
  local missing=()
  for p in "$@"; do dpkg -s "$p" >/dev/null 2>&1 || missing+=("$p"); done
  [ ${#missing[@]} -eq 0 ] && return
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

jars() { # POM FOLDER [MAVEN ARGUMENT...]
  local pom=$1 folder=$2; shift 2
  cp "$here/clients/java/$pom" "$cache/$pom" # Maven writes beside its pom
  mvn -q -B -f "$cache/$pom" "$@" dependency:copy-dependencies -DoutputDirectory="$folder" >/dev/null
}

install_java() {
  for version in 4.4.0 3.9.1 2.8.2; do
    local folder=$cache/java-$version
    done_once "java-$version" 1 || jars client-pom.xml "$folder" -Dkafka.version="$version"
    mark_done "java-$version" 1
    if [ ! -e "$folder/classes/Adapter.class" ] || [ "$here/clients/java/Adapter.java" -nt "$folder/classes/Adapter.class" ]; then
      mkdir -p "$folder/classes"
      javac -nowarn -Xlint:none -cp "$folder/*" -d "$folder/classes" "$here/clients/java/Adapter.java"
    fi
  done
  done_once kafka 4.4.0 || jars kafka-pom.xml "$cache/kafka"
  mark_done kafka 4.4.0
}

install_python() {
  local version="confluent-kafka==2.16.1 kafka-python==3.0.12"
  done_once python "$version" && return
  rm -rf "$cache/python"
  python3 -m venv "$cache/python"
  # shellcheck disable=SC2086
  "$cache/python/bin/pip" install -q --disable-pip-version-check $version
  mark_done python "$version"
}

install_node() {
  local version="kafkajs@2.2.4 @confluentinc/kafka-javascript@1.10.1"
  done_once node "$version" && return
  # The second one has no binary in its package: it is built against the system's libraries.
  apt_install g++ make python3 zlib1g-dev libssl-dev libcurl4-openssl-dev libzstd-dev libsasl2-dev
  rm -rf "$cache/node"
  mkdir -p "$cache/node"
  # shellcheck disable=SC2086
  (cd "$cache/node" && echo '{}' > package.json &&
    CKJS_LINKING=dynamic npm install --no-audit --no-fund --loglevel=error $version >"$cache/node.log" 2>&1) ||
    { tail -n 40 "$cache/node.log"; return 1; }
  mark_done node "$version"
}

install_rust() {
  apt_install g++ make zlib1g-dev
  CARGO_TARGET_DIR="$cache/rust" cargo build -q --release --locked --manifest-path "$here/clients/rust/Cargo.toml"
}

install_kcat() { apt_install kcat; }

parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(java python node rust kcat)
for part in "${parts[@]}"; do
  began=$SECONDS
  "install_$part"
  echo "install $part: $((SECONDS - began)) s"
done
