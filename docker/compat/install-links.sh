#!/bin/sh
# Gives kcoord the names by which tools call Kafka's scripts in a container.
set -e
mkdir -p /opt/kafka/bin /opt/bitnami/kafka/bin /usr/bin /usr/sbin /tmp /var/lib/kcoord /etc/kafka
for name in kafka-topics kafka-broker-api-versions kafka-cluster kafka-consumer-groups kafka-storage \
            kafka-configs kafka-console-producer kafka-console-consumer kafka-server-start; do
  ln -sf /usr/local/bin/kcoord "/usr/bin/$name"
  ln -sf /usr/local/bin/kcoord "/usr/bin/$name.sh"
  ln -sf /usr/local/bin/kcoord "/opt/kafka/bin/$name.sh"
  ln -sf /usr/local/bin/kcoord "/opt/bitnami/kafka/bin/$name.sh"
done
[ -e /bin/bash ] || ln -s /bin/sh /bin/bash
chmod 755 /etc/kafka/docker/* /etc/confluent/docker/*
