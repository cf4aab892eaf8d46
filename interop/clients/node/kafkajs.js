// An adapter for KafkaJS. Argument: the broker's address.
'use strict';
const { Kafka, logLevel } = require('kafkajs');
const { serve, parseOffsets, range, Feed } = require('./serve');

class Adapter {
  async open(addr) {
    const retry = { initialRetryTime: 100, maxRetryTime: 1000, retries: 100 };
    this.kafka = new Kafka({ brokers: [addr], retry, logLevel: logLevel.WARN });
    this.admin = this.kafka.admin();
    this.producer = this.kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
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
    await this.producer.send({ topic, acks: -1, messages });
  }

  async join(name, groupId, topic) {
    const consumer = this.kafka.consumer({ groupId, heartbeatInterval: 500, maxWaitTimeInMs: 200, rebalanceTimeout: 10000 });
    const feed = new Feed(topic);
    feed.owned = [];
    consumer.on(consumer.events.GROUP_JOIN, (e) => { feed.owned = e.payload.memberAssignment[topic] || []; });
    consumer.on(consumer.events.REBALANCING, () => { feed.owned = []; });
    this.consumers.set(name, { consumer, feed });
    await consumer.connect();
    await consumer.subscribe({ topics: [topic], fromBeginning: true });
    await consumer.run({ autoCommit: false, eachMessage: async (m) => feed.push(m) });
  }

  async poll(name, millis) {
    const { feed } = this.consumers.get(name);
    const records = await feed.take(Number(millis));
    return [feed.owned.join(','), ...records];
  }

  async commit(name) {
    const { consumer, feed } = this.consumers.get(name);
    await consumer.commitOffsets(feed.positions(feed.owned));
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
    return [d.state, d.members.length];
  }

  async offsets(groupId, topic) {
    const [fetched] = await this.admin.fetchOffsets({ groupId, topics: [topic] });
    return fetched.partitions.filter((p) => p.offset !== '-1').map((p) => `${p.partition}=${p.offset}`);
  }

  async setOffsets(groupId, topic, ...fields) {
    await this.admin.setOffsets({ groupId, topic, partitions: parseOffsets(fields) });
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
