# The cases of docker/test.sh. Sourced, not run.

demo() { # produce|consume ARGUMENT...: the demo program on the host
  go -C examples/demo run . "$@"
}

healthy() { # CONTAINER: waits until its health check passes
  for _ in $(seq 100); do
    [ "$(docker inspect -f '{{.State.Health.Status}}' "$1")" = healthy ] && return
    sleep 0.2
  done
  docker logs "$1"
  return 1
}

# Compose: up, produce from the host, consume in a container, kill, up again, the
# group goes on where it was.
compose_case() {
  docker-compose up -d --no-build kcoord >/dev/null 2>&1
  local id
  id=$(docker-compose ps -q kcoord)
  healthy "$id"
  demo produce --brokers localhost:9092 --topic orders --count 20 --every 1ms >/dev/null
  local consume=(docker-compose run --rm --no-deps demo-consumer consume --brokers kcoord:19092 --topic orders --group billing)
  [ "$("${consume[@]}" --count 20 2>/dev/null | grep -c consumed)" -ge 20 ]
  docker kill "$id" >/dev/null
  docker-compose up -d --no-build kcoord >/dev/null 2>&1
  healthy "$(docker-compose ps -q kcoord)"
  demo produce --brokers localhost:9092 --topic orders --count 5 --every 1ms >/dev/null
  local again
  again=$("${consume[@]}" --count 5 2>/dev/null | grep consumed)
  [ "$(wc -l <<<"$again")" -eq 5 ] || { echo "after the kill the group consumed:"; echo "$again"; return 1; }
  docker-compose down -v >/dev/null 2>&1
}

# The compat image answers to the names that tools call.
compat_case() {
  local id
  id=$(docker run -d -e KAFKA_LISTENERS=PLAINTEXT://0.0.0.0:9092 kcoord-compat)
  healthy "$id"
  docker exec "$id" kafka-topics.sh --bootstrap-server localhost:9092 --create --if-not-exists --topic made --partitions 3 >/dev/null
  docker exec "$id" /opt/kafka/bin/kafka-topics.sh --bootstrap-server localhost:9092 --list | grep -qx made
  docker exec "$id" kafka-broker-api-versions --bootstrap-server localhost:9092 | grep -q 'OffsetCommit(8)'
  docker exec "$id" sh -c 'nc -z localhost 9092'
  docker rm -f "$id" >/dev/null
}

# Test tools start the container with a shell that waits for a start script.
starter_case() { # SCRIPT CONTENT
  local id
  id=$(docker run -d --entrypoint sh -e KAFKA_LISTENERS=PLAINTEXT://0.0.0.0:9092,BROKER://0.0.0.0:9093,CONTROLLER://0.0.0.0:9094 \
    -e KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT \
    -e KAFKA_INTER_BROKER_LISTENER_NAME=BROKER -e KAFKA_PROCESS_ROLES=broker,controller -e KAFKA_NODE_ID=1 \
    -e KAFKA_CONTROLLER_LISTENER_NAMES=CONTROLLER -e KAFKA_CONTROLLER_QUORUM_VOTERS=1@localhost:9094 \
    -e KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS=1 -e KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS=0 -e CLUSTER_ID=4L6g3nShT-eMCtK--X86sw \
    kcoord-compat -c "while [ ! -f $1 ]; do sleep 0.1; done; sh $1")
  printf '%b' "$2" > "$work/start.sh"
  chmod 755 "$work/start.sh"
  docker cp "$work/start.sh" "$id:$1" >/dev/null
  for _ in $(seq 100); do
    docker logs "$id" 2>&1 | grep -q 'Transitioning from RECOVERY to RUNNING' && break
    sleep 0.1
  done
  docker logs "$id" 2>&1 | grep -q 'Transitioning from RECOVERY to RUNNING' || { docker logs "$id"; return 1; }
  docker exec "$id" kafka-topics --bootstrap-server localhost:9092 --list >/dev/null
  docker rm -f "$id" >/dev/null
}

compose_case; say 'compose: a group goes on after docker kill'
compat_case; say 'compat: scripts and health checks'
starter_case /tmp/testcontainers_start.sh \
  '#!/bin/bash\nexport KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:32768,BROKER://localhost:9093\n/etc/kafka/docker/run \n'; say 'compat: apache/kafka start script'
starter_case /usr/sbin/testcontainers_start.sh \
  '#!/bin/bash\nsource /etc/confluent/docker/bash-config\nexport KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:32768,BROKER://localhost:9093\nsed -i "/KAFKA_ZOOKEEPER_CONNECT/d" /etc/confluent/docker/configure\necho "kafka-storage format --ignore-formatted -t $(kafka-storage random-uuid) -c /etc/kafka/kafka.properties" >> /etc/confluent/docker/configure\necho "" > /etc/confluent/docker/ensure\n/etc/confluent/docker/configure\n/etc/confluent/docker/launch'; say 'compat: cp-kafka start script'
