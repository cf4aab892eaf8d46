# The engine of docker/test.sh: packages, base images, dockerd. Sourced, not run.

# why_no_engine says why none can run, or nothing.
why_no_engine() {
  [ "$(uname -s)" = Linux ] || { echo "$(uname -s) is not Linux"; return; }
  [ "$(id -u)" = 0 ] || { echo 'not root'; return; }
  unshare --net --mount --pid --fork --mount-proc true 2>/dev/null || { echo 'the kernel refuses namespaces'; return; }
}

# install_packages installs Debian's, as far as they are missing.
install_packages() {
  local missing=() p
  for p in docker.io docker-compose busybox-static iptables iproute2 tar ca-certificates "$@"; do
    dpkg -s "$p" >/dev/null 2>&1 || missing+=("$p")
  done
  [ ${#missing[@]} -eq 0 ] && return
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >"$work/apt.log" 2>&1 || { tail -20 "$work/apt.log"; return 1; }
}

# prepare does what needs the network: packages, Go modules, a filled build cache
# for the builder image (an image build without it takes minutes), the programs of
# the tests.
prepare() {
  install_packages
  local root=$work/builder cache
  cache=${XDG_CACHE_HOME:-$HOME/.cache}/kcoord-docker/$(go env GOVERSION)
  mkdir -p "$cache" "$root/usr/local" "$root/etc/ssl" "$root/go/pkg/mod"
  busybox_root "$root"
  cp -rL /etc/ssl/certs "$root/etc/ssl/" 2>/dev/null || true
  (
    # From this machine's module cache where it has them; go.sum tells what is right.
    GOPROXY="file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)"
    export GOPROXY GOFLAGS=-modcacherw CGO_ENABLED=0 GOMODCACHE=$root/go/pkg/mod GOCACHE=$cache/build
    go mod download
    go build -trimpath -o "$work/kcoord" ./cmd/kcoord
    go -C examples/demo build -trimpath -o "$work/demo" .
    mkdir -p "$root/var/cache/go-build"
    cp -r "$cache/build/." "$root/var/cache/go-build/"
  )
  CGO_ENABLED=0 go -C examples/testcontainers-go test -c -o "$work/testcontainers.test" .
  prepare_java
}

# prepare_java compiles the example for Java, with its libraries in the cache.
prepare_java() {
  command -v mvn >/dev/null && command -v javac >/dev/null || install_packages maven default-jdk-headless
  local from=examples/testcontainers-java lib
  lib=${XDG_CACHE_HOME:-$HOME/.cache}/kcoord-docker/java-$(cksum <$from/pom.xml | cut -d' ' -f1)
  if [ ! -e "$lib/complete" ]; then
    mkdir -p "$lib"
    cp $from/pom.xml "$work/pom.xml" # Maven writes beside its pom
    mvn -q -B -f "$work/pom.xml" dependency:copy-dependencies -DoutputDirectory="$lib" >"$work/mvn.log" 2>&1 || { tail -20 "$work/mvn.log"; return 1; }
    touch "$lib/complete"
  fi
  mkdir -p "$work/java"
  javac -nowarn -cp "$lib/*" -d "$work/java" $from/src/main/java/Groups.java
  ln -s "$lib" "$work/java/lib"
}

busybox_root() { # FOLDER: a root file system of busybox alone
  mkdir -p "$1/bin" "$1/etc" "$1/tmp" "$1/usr/bin"
  cp /bin/busybox "$1/bin/busybox"
  local tool
  for tool in $(/bin/busybox --list | grep -vx busybox); do ln -sf busybox "$1/bin/$tool"; done
  printf 'root:x:0:0:root:/:/bin/sh\n' > "$1/etc/passwd"
}

start_engine() {
  ip link set lo up
  export DOCKER_HOST=unix://$work/docker.sock
  # Images of a whole toolchain are many small files: in memory, if there is plenty,
  # and gone with the namespace.
  mkdir -p "$work/data"
  if [ "$(awk '/^MemAvailable/ {print $2}' /proc/meminfo)" -gt 8000000 ]; then mount -t tmpfs -o size=6g tmpfs "$work/data"; fi
  # A bridge without packet filtering rules is enough for containers that talk to
  # each other, and works where the kernel has none.
  /usr/sbin/dockerd --data-root "$work/data" --exec-root "$work/exec" --pidfile "$work/pid" -H "$DOCKER_HOST" \
    --iptables=false --ip6tables=false --userland-proxy=true >"$work/dockerd.log" 2>&1 &
  local i
  for i in $(seq 100); do docker info >/dev/null 2>&1 && break; sleep 0.2; done
  busybox_root "$work/busybox"
  tar -C "$work/busybox" -c . | docker import -c 'ENV PATH=/usr/local/bin:/usr/bin:/bin' - kcoordtest-busybox >/dev/null 2>>"$work/dockerd.log" &&
    docker run --rm kcoordtest-busybox true 2>>"$work/dockerd.log"
}

# stop_engine removes the containers, so that none leaves a control group behind.
stop_engine() {
  docker ps -aq 2>/dev/null | xargs -r docker rm -f >/dev/null 2>&1 || true
  [ ! -s "$work/pid" ] || { kill "$(cat "$work/pid")" 2>/dev/null || true; }
  local i
  for i in $(seq 50); do [ -e "$work/pid" ] || break; sleep 0.1; done
}

build_images() {
  # The toolchain goes in from where it lies.
  tar -c --exclude=testdata --exclude='*_test.go' -C "$work/builder" . -C "$(go env GOROOT)" \
    --transform 's,^\(bin\|pkg\|src\|lib\|VERSION\|go\.env\),usr/local/go/&,' bin pkg src lib VERSION go.env | docker import -c 'ENV PATH=/usr/local/go/bin:/bin' -c 'ENV HOME=/root' -c 'ENV GOPATH=/go' \
    -c 'ENV GOCACHE=/var/cache/go-build' -c 'ENV GOPROXY=off' -c 'ENV GOTOOLCHAIN=local' - kcoordtest-builder >/dev/null
  rm -rf "$work/builder"
  # The old builder, which engines without buildx have, makes every stage.
  export DOCKER_BUILDKIT=0
  local args=(--network none --build-arg BUILDER=kcoordtest-builder --build-arg COMPAT_BASE=kcoordtest-busybox)
  image "${args[@]}" -t kcoord .
  image "${args[@]}" --target compat -t kcoord-compat .
  image "${args[@]}" -t kcoordtest-demo examples/demo
}

image() { # ARGUMENT...: docker build, told only when it fails
  docker build -q "$@" >"$work/build.log" 2>&1 || { cat "$work/build.log"; return 1; }
}
