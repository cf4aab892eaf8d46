// An adapter for @confluentinc/kafka-javascript, which is librdkafka. Argument: the broker's address.
'use strict';
const { KafkaJS } = require('@confluentinc/kafka-javascript');
const { serve, range, Feed } = require('./serve');

class Adapter {
  async open(addr) {
    this.kafka = new KafkaJS.Kafka({ kafkaJS: { brokers: [addr], logLevel: KafkaJS.logLevel.WARN } });
    // Without this, librdkafka may wait without end for a coordinator that was killed: see clients/python/confluent.py.
    this.admin = this.kafka.admin({ 'metadata.recovery.strategy': 'none' });
    this.producer = this.kafka.producer({ kafkaJS: { acks: -1, idempotent: true } });
    this.consumers = new Map();
    await this.admin.connect();
    await this.producer.connect();
    return this;
  }

  async createTopic(topic, partitions) {
    await this.admin.createTopics({ topics: [{ topic, numPartitions: Number(partitions), replicationFactor: 1 }] });
  }

  async deleteTopic(topic) {
    await this.admin.deleteTopics({ topics: [topic] });
  }

  async produce(topic, from, to) {
    const messages = range(Number(from), Number(to)).map((i) => ({ key: `k${i}`, value: `v${i}` }));
    await this.producer.send({ topic, messages });
  }

  async join(name, groupId, topic) {
    const consumer = this.kafka.consumer({
      kafkaJS: { groupId, fromBeginning: true, autoCommit: false, heartbeatInterval: 500 },
      'js.consumer.max.cache.size.per.worker.ms': 100,
    });
    const feed = new Feed(topic);
    this.consumers.set(name, { consumer, feed });
    await consumer.connect();
    await consumer.subscribe({ topics: [topic] });
    await consumer.run({ eachMessage: async (m) => feed.push(m) });
  }

  owned(name) {
    return this.consumers.get(name).consumer.assignment().map((a) => a.partition);
  }

  async poll(name, millis) {
    const records = await this.consumers.get(name).feed.take(Number(millis));
    return [this.owned(name).join(','), ...records];
  }

  async commit(name) {
    const { consumer, feed } = this.consumers.get(name);
    await consumer.commitOffsets(feed.positions(this.owned(name)));
  }

  async leave(name) {
    const { consumer } = this.consumers.get(name);
    this.consumers.delete(name);
    await consumer.disconnect();
  }

  async listGroups() {
    return (await this.admin.listGroups()).groups.map((g) => g.groupId);
  }

  async describeGroup(group) {
    const [d] = (await this.admin.describeGroups([group])).groups;
    const name = Object.keys(KafkaJS.ConsumerGroupStates).find((k) => KafkaJS.ConsumerGroupStates[k] === d.state);
    return [name.replace(/_/g, ''), d.members.length];
  }

  async offsets(groupId, topic) {
    const fetched = (await this.admin.fetchOffsets({ groupId })).find((t) => t.topic === topic);
    return (fetched ? fetched.partitions : []).filter((p) => Number(p.offset) >= 0).map((p) => `${p.partition}=${p.offset}`);
  }

  async deleteGroup(group) {
    await this.admin.deleteGroups([group]);
  }

  async close() {
    for (const name of this.consumers.keys()) await this.leave(name);
    await this.producer.disconnect();
    await this.admin.disconnect();
  }
}

new Adapter().open(process.argv[2]).then(serve);
