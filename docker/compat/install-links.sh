#!/bin/sh
# Gives kcoord the names by which tools call Kafka's scripts in a container, and its
# start script the names by which images start their broker.
set -e
mkdir -p /opt/kafka/bin /opt/bitnami/kafka/bin /opt/bitnami/scripts/kafka /usr/bin /usr/sbin /tmp /var/lib/kcoord /etc/kafka
for name in kafka-topics kafka-broker-api-versions kafka-cluster kafka-consumer-groups kafka-storage kafka-run-class \
            kafka-configs kafka-console-producer kafka-console-consumer kafka-server-start; do
  ln -sf /usr/local/bin/kcoord "/usr/bin/$name"
  ln -sf /usr/local/bin/kcoord "/usr/bin/$name.sh"
  ln -sf /usr/local/bin/kcoord "/opt/kafka/bin/$name.sh"
  ln -sf /usr/local/bin/kcoord "/opt/bitnami/kafka/bin/$name.sh"
done
ln -sf /usr/local/bin/kcoord /usr/bin/cub
for name in /etc/kafka/docker/launch /etc/confluent/docker/launch /usr/bin/start-kafka.sh /opt/bitnami/scripts/kafka/run.sh; do
  ln -sf /etc/kafka/docker/run "$name"
done
nc -h 2>&1 | grep -q -e '-[a-z]*z' || ln -sf kcoord /usr/local/bin/nc # a base whose nc has no -z
if [ ! -e /bin/bash ]; then
  printf '#!/bin/sh\nexec /bin/sh "$@"\n' > /bin/bash
  chmod 755 /bin/bash
fi
chmod 755 /etc/kafka/docker/* /etc/confluent/docker/* /opt/bitnami/scripts/kafka/*
