#!/usr/bin/env bash
# Proves Dockerfile, docker-compose.yml and the compat image with a real Docker
# engine of its own: no image is pulled, the base images are made from what is on
# this machine (Go toolchain, busybox). Needs root and Debian's docker.io,
# docker-compose and busybox-static, which it installs if they are missing.
set -euo pipefail
cd "$(dirname "$0")/.."
began=$SECONDS
work=$(mktemp -d)
export DOCKER_HOST=unix://$work/docker.sock COMPOSE_PROJECT_NAME=kcoordtest
say() { printf '== docker: %s (%ss)\n' "$1" "$((SECONDS - began))"; }

cleanup() {
  docker ps -aq 2>/dev/null | xargs -r docker rm -f >/dev/null 2>&1 || true
  [ ! -s "$work/pid" ] || { kill "$(cat "$work/pid")" 2>/dev/null || true; }
  for _ in $(seq 50); do [ -e "$work/pid" ] || break; sleep 0.1; done
  umount "$work"/data/* "$work"/exec/* 2>/dev/null || true
  rm -rf "$work" 2>/dev/null || true
}
trap cleanup EXIT

install() {
  local missing=()
  for p in docker.io docker-compose busybox-static iptables; do dpkg -s "$p" >/dev/null 2>&1 || missing+=("$p"); done
  [ ${#missing[@]} -eq 0 ] && return
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

start_engine() {
  # A bridge without packet filtering rules is enough for containers that talk to
  # each other, and works where the kernel has none.
  /usr/sbin/dockerd --data-root "$work/data" --exec-root "$work/exec" --pidfile "$work/pid" -H "$DOCKER_HOST" \
    --iptables=false --ip6tables=false --userland-proxy=true >"$work/dockerd.log" 2>&1 &
  for _ in $(seq 100); do docker info >/dev/null 2>&1 && return; sleep 0.2; done
  tail -20 "$work/dockerd.log"
  return 1
}

# base_images imports the builder (busybox and Go) and the base of the compat image.
base_images() {
  local root=$work/busybox
  mkdir -p "$root/bin" "$root/etc/ssl" "$root/tmp" "$root/usr/bin"
  cp /bin/busybox "$root/bin/busybox"
  for tool in $(/bin/busybox --list | grep -vx busybox); do ln -sf busybox "$root/bin/$tool"; done
  printf 'root:x:0:0:root:/:/bin/sh\n' > "$root/etc/passwd"
  tar -C "$root" -c . | docker import -c 'ENV PATH=/usr/local/bin:/usr/bin:/bin' - kcoordtest-busybox >/dev/null
  cp -rL /etc/ssl/certs "$root/etc/ssl/" 2>/dev/null || true
  mkdir -p "$root/usr/local"
  cp -r "$(go env GOROOT)" "$root/usr/local/go"
  tar -C "$root" -c . | docker import -c 'ENV PATH=/usr/local/go/bin:/bin' -c 'ENV HOME=/tmp' -c 'ENV GOTOOLCHAIN=local' - kcoordtest-builder >/dev/null
  rm -rf "$root"
}

build() {
  # The old builder, which engines without buildx have, makes every stage.
  local args=(--network host --build-arg BUILDER=kcoordtest-builder --build-arg COMPAT_BASE=kcoordtest-busybox)
  export DOCKER_BUILDKIT=0
  docker build -q "${args[@]}" -t kcoord . >/dev/null 2>"$work/build.log" || { cat "$work/build.log"; return 1; }
  docker build -q "${args[@]}" --target compat -t kcoord-compat . >/dev/null
  docker build -q "${args[@]}" -t kcoordtest_demo examples/demo >/dev/null
  for name in demo-producer demo-consumer; do docker tag kcoordtest_demo "kcoordtest_$name"; done
}

install
start_engine; say 'engine runs'
base_images; say 'base images'
build; say 'images built'
docker image inspect kcoord --format 'image kcoord: {{.Size}} bytes, user {{.Config.User}}'
. docker/cases.sh
say 'all passed'
