// The request loop of the Node adapters; adapter/process.go describes the requests.
'use strict';
const readline = require('readline');

// serve answers requests, one after another, with the methods of adapter until the input ends.
exports.serve = async (adapter) => {
  // Libraries log to standard output, which is for answers alone.
  const write = process.stdout.write.bind(process.stdout);
  process.stdout.write = process.stderr.write.bind(process.stderr);
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [name, ...fields] = line.split('\t');
    const method = adapter[name.replace(/-(.)/g, (_, c) => c.toUpperCase())];
    let answer;
    try {
      answer = method ? ['ok', ...((await method.apply(adapter, fields)) || [])] : ['unsupported'];
    } catch (e) {
      console.error(e);
      answer = ['error', String(e).replace(/\s+/g, ' ')];
    }
    write(answer.join('\t') + '\n');
  }
  await adapter.close();
  process.exit(0);
};

exports.parseOffsets = (fields) =>
  fields.map((f) => {
    const [partition, offset] = f.split('=');
    return { partition: Number(partition), offset };
  });

exports.range = (from, to) => Array.from({ length: to - from }, (_, i) => from + i);

// A Feed keeps what a library pushes until it is polled.
exports.Feed = class {
  constructor(topic) {
    this.topic = topic;
    this.records = [];
    this.next = new Map(); // partition to the offset behind what was polled
  }

  push({ partition, message }) {
    this.records.push({ partition, offset: message.offset, value: message.value.toString() });
  }

  // take waits at most millis for records and returns them as fields of an answer.
  async take(millis) {
    for (const end = Date.now() + millis; this.records.length === 0 && Date.now() < end; ) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    const taken = this.records.splice(0);
    for (const r of taken) this.next.set(r.partition, String(BigInt(r.offset) + 1n));
    return taken.map((r) => `${r.value}:${r.partition}:${r.offset}`);
  }

  // positions returns what to commit, of the partitions owned now.
  positions(owned) {
    return [...this.next]
      .filter(([partition]) => owned.includes(partition))
      .map(([partition, offset]) => ({ topic: this.topic, partition, offset }));
  }
};
