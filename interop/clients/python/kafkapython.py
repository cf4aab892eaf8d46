"""An adapter for kafka-python. Argument: the broker's address."""

import queue
import sys
import threading
from concurrent.futures import Future

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

from serve import parse_offsets, serve

TIMEOUT = 60


class Member:
    """A consumer that a thread of its own polls all the time, as an application's does.

    3.0.12 throws away a join that completed while nobody polled, and a leader that joins once more
    makes the whole group do so: two consumers polled in turn by one thread never come to rest.
    """

    def __init__(self, consumer):
        self.consumer = consumer
        self.calls = queue.SimpleQueue()
        self.records = queue.SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            try:
                future, f = self.calls.get_nowait()
            except queue.Empty:
                try:
                    self._poll()
                except Exception as e:
                    self.records.put(e)
                continue
            try:
                future.set_result(f())
            except Exception as e:
                future.set_exception(e)
            if f == self.consumer.close:
                return

    def _poll(self):
        for batch in self.consumer.poll(100).values():
            for record in batch:
                self.records.put(record)

    def call(self, f):
        """Has the thread call f, and gives its result."""
        future = Future()
        self.calls.put((future, f))
        return future.result(TIMEOUT)

    def take(self, millis):
        """The records so far. Waits for the first."""
        taken = []
        try:
            taken.append(self.records.get(timeout=millis / 1000))
            while True:
                taken.append(self.records.get_nowait())
        except queue.Empty:
            pass
        for r in taken:
            if isinstance(r, Exception):
                raise r
        return taken


class Adapter:
    def __init__(self, addr):
        self.addr = addr
        self.admin = KafkaAdminClient(bootstrap_servers=addr, reconnect_backoff_max_ms=200)
        self.producer = KafkaProducer(bootstrap_servers=addr, enable_idempotence=True, acks="all", reconnect_backoff_max_ms=200)
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
        consumer = KafkaConsumer(
            topic, bootstrap_servers=self.addr, group_id=group, auto_offset_reset="earliest",
            enable_auto_commit=False, heartbeat_interval_ms=500, reconnect_backoff_max_ms=200)
        # A leader that joins before its first metadata joins once more for it, and forgets to take that
        # assignment if its poll ends between JoinGroup and SyncGroup. So the metadata comes first.
        consumer.partitions_for_topic(topic)
        self.consumers[name] = Member(consumer)

    def poll(self, name, millis):
        member = self.consumers[name]
        records = [f"{r.value.decode()}:{r.partition}:{r.offset}" for r in member.take(int(millis))]
        assigned = member.call(member.consumer.assignment)
        return [",".join(str(tp.partition) for tp in assigned), *records]

    def commit(self, name):
        member = self.consumers[name]
        member.call(member.consumer.commit)

    def leave(self, name):
        member = self.consumers.pop(name)
        member.call(member.consumer.close)

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
        for name in list(self.consumers):
            self.leave(name)
        self.producer.close()
        self.admin.close()


serve(Adapter(*sys.argv[1:]))
