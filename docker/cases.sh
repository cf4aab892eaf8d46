# The cases of docker/test.sh. Sourced, not run. Each runs alone, and says why
# before it fails.
cases=(image_case alone_case compose_case compat_case starter_case testcontainers_go_case testcontainers_java_case styles_case)
set -E
trap 'echo "line $LINENO of ${BASH_SOURCE[0]}: $BASH_COMMAND"' ERR

within() { # SECONDS COMMAND...: until it succeeds
  local end=$((SECONDS + $1)); shift
  until "$@"; do [ "$SECONDS" -lt "$end" ] || { echo "not within its time: $*"; return 1; }; sleep 0.1; done
}

is_healthy() { [ "$(docker inspect -f '{{.State.Health.Status}}' "$1")" = healthy ]; }
healthy() { # CONTAINER [SECONDS]
  within "${2:-30}" is_healthy "$1" || { docker inspect -f '{{json .State.Health}}' "$1"; docker logs "$1"; return 1; }
}

# produce and consume: the demo program on the host.
produce() { "$work/demo" produce --brokers "$1" --topic "$2" --count "$3" --every 1ms; }
consume() { timeout 60 "$work/demo" consume --brokers "$1" --topic "$2" --group "$3" --count "$4"; }
consumed() { grep -c '^consumed ' || true; }

expect() { # WANT GOT WHAT
  [ "$1" = "$2" ] || { echo "$3: $2, want $1"; return 1; }
}

compose() {
  if docker compose version >/dev/null 2>&1; then docker compose "$@"; else docker-compose "$@"; fi
}

# The image: small, not root, a folder of its user, one line of version.
image_case() {
  docker image inspect kcoord --format '{{.Size}} bytes, user {{.Config.User}}'
  expect 65532:65532 "$(docker image inspect kcoord --format '{{.Config.User}}')" user
  [ "$(docker image inspect kcoord --format '{{.Size}}')" -lt 20000000 ]
  docker run --rm kcoord version | grep '^kcoord '
  local id
  id=$(docker create kcoord)
  docker cp "$id:/var/lib/kcoord" - | tar -tv --numeric-owner | grep ' 65532/65532 .*kcoord/$'
  docker rm "$id"
  # A folder that it may not write: one line, exit code 1, at once.
  local code=0
  timeout 5 docker run --rm --tmpfs /var/lib/kcoord:mode=0555 kcoord >"$work/out" 2>&1 || code=$?
  expect 1 "$code" 'exit code with a folder that is not writable'
  expect 1 "$(wc -l <"$work/out")" 'lines'
  grep 'permission denied' "$work/out"
  # A full disk: likewise.
  code=0
  timeout 5 docker run --rm --tmpfs /var/lib/kcoord:size=64k,uid=65532 kcoord >"$work/out" 2>&1 || code=$?
  expect 1 "$code" 'exit code on a full disk'
  expect 1 "$(wc -l <"$work/out")" 'lines'
  grep 'no space left on device' "$work/out"
}

# One container and no configuration: clients on the host and in another
# container reach it by the address that they connected to.
alone_case() {
  docker network create lonely
  docker run -d --name broker --network lonely -p 9092:9092 -v lonely:/var/lib/kcoord kcoord
  healthy broker
  produce localhost:9092 t 3
  docker run --rm --network lonely kcoordtest-demo consume --brokers broker:9092 --topic t --group g --count 3
  local id
  id=$(docker run --rm --network lonely --entrypoint kafka-cluster kcoord-compat cluster-id --bootstrap-server broker:9092)
  local began=$SECONDS
  docker stop broker
  expect 0 "$(docker inspect -f '{{.State.ExitCode}}' broker)" 'exit code of a stop'
  [ $((SECONDS - began)) -lt 5 ]
  docker rm broker
  # Another container with another name on the same volume is the same broker.
  docker run -d --name again --hostname other --network lonely -p 9092:9092 -v lonely:/var/lib/kcoord kcoord
  healthy again
  expect "$id" "$(docker run --rm --network lonely --entrypoint kafka-cluster kcoord-compat cluster-id --bootstrap-server again:9092)" 'cluster id'
  produce localhost:9092 t 2
  expect 2 "$(consume localhost:9092 t g 2 | consumed)" 'records of a group that goes on'
  docker rm -f again
  docker volume rm lonely
  docker network rm lonely
}

# docker-compose.yml: up, produce from the host, consume in a container, kill, up
# again, the group goes on where it was.
compose_case() {
  export COMPOSE_PROJECT_NAME=kcoordtest
  docker tag kcoordtest-demo kcoord-demo
  compose up -d --no-build kcoord
  local id consume_in=(compose run --rm --no-deps demo-consumer consume --brokers kcoord:19092 --topic orders --group billing)
  id=$(compose ps -q kcoord)
  healthy "$id"
  produce localhost:9092 orders 20
  expect 20 "$("${consume_in[@]}" --count 20 | consumed)" 'records consumed in a container'
  docker kill "$id"
  compose up -d --no-build kcoord
  healthy "$(compose ps -q kcoord)"
  produce localhost:9092 orders 5
  expect 5 "$("${consume_in[@]}" --count 5 | consumed)" 'records consumed after the kill'
  compose --profile demo up -d --no-build
  within 30 demo_runs
  compose --profile demo down -v -t 1
}
demo_runs() { compose --profile demo logs demo-consumer 2>&1 | grep 'consumed .* from orders'; }

# The compat image answers to the names that tools call.
compat_case() {
  docker run -d --name compat -p 9092:9092 kcoord-compat
  healthy compat
  local at='--bootstrap-server localhost:9092' in_it='docker exec compat'
  $in_it kafka-topics.sh $at --create --if-not-exists --topic made --partitions 3
  $in_it /opt/kafka/bin/kafka-topics.sh $at --list | grep -x made
  $in_it /usr/bin/kafka-topics $at --describe --topic made | grep 'PartitionCount: 3'
  $in_it kafka-broker-api-versions $at | grep 'OffsetCommit(8)'
  $in_it kafka-cluster cluster-id $at
  $in_it cub kafka-ready -b localhost:9092 1 20
  $in_it cub kafka-ready 1 20 -b localhost:9092
  $in_it nc -z localhost 9092
  $in_it bash -c 'kafka-consumer-groups.sh --bootstrap-server localhost:9092 --list'
  produce localhost:9092 made 3
  expect 3 "$(consume localhost:9092 made g 3 | consumed)" records
  $in_it kafka-consumer-groups --bootstrap-server localhost:9092 --list | grep -x g
  echo typed | docker exec -i compat kafka-console-producer --bootstrap-server localhost:9092 --topic typed
  expect typed "$($in_it kafka-console-consumer --bootstrap-server localhost:9092 --topic typed --from-beginning --max-messages 1 --timeout-ms 5000)" 'what was typed'
  docker rm -f compat
}

# Test tools start the container with a shell that waits for a start script.
start_with() { # SCRIPT CONTENT
  docker run -d --name starter --entrypoint sh -e KAFKA_LISTENERS=PLAINTEXT://0.0.0.0:9092,BROKER://0.0.0.0:9093,CONTROLLER://0.0.0.0:9094 \
    -e KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT \
    -e KAFKA_INTER_BROKER_LISTENER_NAME=BROKER -e KAFKA_PROCESS_ROLES=broker,controller -e KAFKA_NODE_ID=1 \
    -e KAFKA_CONTROLLER_LISTENER_NAMES=CONTROLLER -e KAFKA_CONTROLLER_QUORUM_VOTERS=1@localhost:9094 \
    -e KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS=1 -e KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS=0 -e CLUSTER_ID=4L6g3nShT-eMCtK--X86sw \
    kcoord-compat -c "while [ ! -f $1 ]; do sleep 0.1; done; sh $1"
  printf '%b' "$2" > "$work/start.sh"
  chmod 755 "$work/start.sh"
  docker cp "$work/start.sh" "starter:$1"
  within 15 marked starter || { docker logs starter; return 1; }
  docker exec starter kafka-topics --bootstrap-server localhost:9092 --list
  docker rm -f starter
}
marked() { docker logs "$1" 2>&1 | grep -q 'Transitioning from RECOVERY to RUNNING'; }

starter_case() {
  local advertised='export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:32768,BROKER://localhost:9093\n'
  start_with /tmp/testcontainers_start.sh "#!/bin/bash\n${advertised}/etc/kafka/docker/run \n"
  start_with /usr/sbin/testcontainers_start.sh "#!/bin/bash\nsource /etc/confluent/docker/bash-config\n$advertised"'sed -i "/KAFKA_ZOOKEEPER_CONNECT/d" /etc/confluent/docker/configure\necho "kafka-storage format --ignore-formatted -t $(kafka-storage random-uuid) -c /etc/kafka/kafka.properties" >> /etc/confluent/docker/configure\necho "" > /etc/confluent/docker/ensure\n/etc/confluent/docker/configure\n/etc/confluent/docker/launch'
}

# The Kafka modules of Testcontainers, with the image's name in the place of theirs.
# Its reaper is an image of its own, which is not at hand.
testcontainers_go_case() {
  TESTCONTAINERS_RYUK_DISABLED=true timeout 90 "$work/testcontainers.test" -test.v
}

testcontainers_java_case() {
  docker tag kcoordtest-busybox alpine:3.17 # what its checks of the engine run
  TESTCONTAINERS_RYUK_DISABLED=true timeout 120 java -XX:TieredStopAtLevel=1 -cp "$work/java:$work/java/lib/*" Groups >"$work/java.log" 2>&1 || { cat "$work/java.log"; return 1; }
  grep -x 'KafkaContainer read hello' "$work/java.log"
  grep -x 'ConfluentKafkaContainer read hello' "$work/java.log"
}

# Compose files as people have them, with only the image's name changed: each comes
# up by its own health check, a group works, and what is kept in a volume outlives
# the containers.
styles_case() {
  local file
  # No ZooKeeper is at hand, nor missed.
  printf 'FROM kcoordtest-busybox\nSTOPSIGNAL SIGKILL\nCMD ["sleep", "3600"]\n' | docker build -q -t kcoordtest-zookeeper -
  for file in docker/styles/*.yml; do
    style "$file"
  done
}

style() { # FILE
  local name at topic service
  name=$(basename "$1" .yml)
  echo "== $name"
  mkdir -p "$work/styles"
  sed -E 's#^( *image: *"?).*zookeeper[^"]*#\1kcoordtest-zookeeper#; s#^( *image: *"?)[^"]*(kafka|confluent-local|fast-data-dev)[^"]*#\1kcoord-compat#' "$1" > "$work/styles/$name.yml"
  export COMPOSE_PROJECT_NAME=style$name COMPOSE_FILE=$work/styles/$name.yml
  at=$(sed -n 's/^# from the host: //p' "$1") topic=$(sed -n 's/^# topic: //p' "$1") service=$(sed -n 's/^# broker: //p' "$1")
  : "${topic:=t}"
  compose up -d
  healthy "$(service_id "$service")" 60
  within 30 produce "$at" "$topic" 3
  expect 3 "$(consume "$at" "$topic" g 3 | consumed)" 'records of a group'
  if grep -q '^volumes:' "$1"; then
    docker ps -aq | xargs docker rm -f
    compose up -d
    healthy "$(service_id "$service")" 60
    produce "$at" "$topic" 2
    expect 2 "$(consume "$at" "$topic" g 2 | consumed)" 'records of a group whose containers were made anew'
  fi
  docker ps -aq | xargs docker rm -fv
  docker network prune -f
  docker volume ls -q | xargs -r docker volume rm
}
service_id() { docker ps -q --filter "label=com.docker.compose.service=$1"; }
