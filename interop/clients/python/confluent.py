"""An adapter for confluent-kafka, which is librdkafka. Arguments: the broker's address, NAME=VALUE of consumers."""

import sys
import time

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from serve import parse_offsets, serve

TIMEOUT = 60


class Adapter:
    def __init__(self, addr, *consumer_properties):
        self.common = {"bootstrap.servers": addr, "reconnect.backoff.max.ms": 200}
        self.consumer_properties = dict(p.split("=", 1) for p in consumer_properties)
        # When its only broker was down, librdkafka 2.10 and later begins again at the bootstrap servers
        # and lets the broker go, but still has it as the group's coordinator and waits for it without end
        # (confluentinc/librdkafka#5511).
        self.admin = AdminClient({**self.common, "metadata.recovery.strategy": "none"})
        self.producer = Producer({**self.common, "enable.idempotence": True, "linger.ms": 1})
        self.consumers = {}

    def create_topic(self, topic, partitions):
        self.admin.create_topics([NewTopic(topic, int(partitions), 1)])[topic].result(TIMEOUT)

    def delete_topic(self, topic):
        self.admin.delete_topics([topic])[topic].result(TIMEOUT)

    def produce(self, topic, first, end):
        failed = []
        for i in range(int(first), int(end)):
            self.producer.produce(topic, key=f"k{i}", value=f"v{i}",
                                  on_delivery=lambda err, _: failed.append(err) if err else None)
        left = self.producer.flush(TIMEOUT)
        if failed or left:
            raise RuntimeError(f"{left} records are not sent, failed: {failed[:3]}")

    def join(self, name, group, topic):
        self.consumers[name] = Consumer({
            **self.common, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False,
            "heartbeat.interval.ms": 500, **self.consumer_properties})
        self.consumers[name].subscribe([topic])

    def poll(self, name, millis):
        consumer, records, end = self.consumers[name], [], time.monotonic() + int(millis) / 1000
        while (left := end - time.monotonic()) > 0:
            for m in consumer.consume(500, left):
                if m.error():
                    raise KafkaException(m.error())
                records.append(f"{m.value().decode()}:{m.partition()}:{m.offset()}")
            if records:
                break
        return [",".join(str(tp.partition) for tp in consumer.assignment()), *records]

    def commit(self, name):
        try:
            self.consumers[name].commit(asynchronous=False)
        except KafkaException as e:
            if e.args[0].name() != "_NO_OFFSET":  # nothing new to commit
                raise

    def leave(self, name):
        self.consumers.pop(name).close()

    def list_groups(self):
        return [g.group_id for g in self.admin.list_consumer_groups().result(TIMEOUT).valid]

    def describe_group(self, group):
        d = self.admin.describe_consumer_groups([group])[group].result(TIMEOUT)
        return [d.state.name.title(), len(d.members)]

    def offsets(self, group, topic):
        request = ConsumerGroupTopicPartitions(group)
        fetched = self.admin.list_consumer_group_offsets([request])[group].result(TIMEOUT)
        return [f"{tp.partition}={tp.offset}" for tp in fetched.topic_partitions if tp.topic == topic and tp.offset >= 0]

    def set_offsets(self, group, topic, *fields):
        parts = [TopicPartition(topic, p, o) for p, o in parse_offsets(fields).items()]
        request = ConsumerGroupTopicPartitions(group, parts)
        self.admin.alter_consumer_group_offsets([request])[group].result(TIMEOUT)

    def delete_group(self, group):
        self.admin.delete_consumer_groups([group])[group].result(TIMEOUT)

    def close(self):
        for c in self.consumers.values():
            c.close()


serve(Adapter(*sys.argv[1:]))
