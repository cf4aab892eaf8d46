"""An adapter for kafka-python. Argument: the broker's address."""

import sys

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

from serve import parse_offsets, serve

TIMEOUT = 60


class Adapter:
    def __init__(self, addr):
        self.addr = addr
        self.admin = KafkaAdminClient(bootstrap_servers=addr, reconnect_backoff_max_ms=200)
        self.producer = KafkaProducer(bootstrap_servers=addr, acks="all", reconnect_backoff_max_ms=200)
        self.consumers = {}

    def create_topic(self, topic, partitions):
        self.admin.create_topics({topic: {"num_partitions": int(partitions), "replication_factor": 1}})

    def delete_topic(self, topic):
        self.admin.delete_topics([topic])

    def produce(self, topic, first, end):
        sent = [self.producer.send(topic, key=b"k%d" % i, value=b"v%d" % i) for i in range(int(first), int(end))]
        for s in sent:
            s.get(TIMEOUT)

    def join(self, name, group, topic):
        self.consumers[name] = KafkaConsumer(
            topic, bootstrap_servers=self.addr, group_id=group, auto_offset_reset="earliest",
            enable_auto_commit=False, heartbeat_interval_ms=500, reconnect_backoff_max_ms=200)

    def poll(self, name, millis):
        consumer = self.consumers[name]
        records = [f"{r.value.decode()}:{r.partition}:{r.offset}"
                   for batch in consumer.poll(int(millis)).values() for r in batch]
        return [",".join(str(tp.partition) for tp in consumer.assignment()), *records]

    def commit(self, name):
        self.consumers[name].commit()

    def leave(self, name):
        self.consumers.pop(name).close()

    def list_groups(self):
        return [g["group_id"] for g in self.admin.list_groups()]

    def describe_group(self, group):
        d = self.admin.describe_groups([group])[group]
        return [d["group_state"], len(d["members"])]

    def offsets(self, group, topic):
        fetched = self.admin.list_group_offsets(group)[group]
        return [f"{tp.partition}={o.offset}" for tp, o in fetched.items() if tp.topic == topic and o.offset >= 0]

    def set_offsets(self, group, topic, *fields):
        self.admin.alter_group_offsets(group, {
            TopicPartition(topic, p): OffsetAndMetadata(o, "", -1) for p, o in parse_offsets(fields).items()})

    def delete_group(self, group):
        self.admin.delete_groups([group])

    def close(self):
        for c in self.consumers.values():
            c.close()
        self.producer.close()
        self.admin.close()


serve(Adapter(*sys.argv[1:]))
