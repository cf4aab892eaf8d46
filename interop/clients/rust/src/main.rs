//! An adapter for rust-rdkafka; adapter/process.go describes the requests. Argument: the broker's address.

use std::collections::HashMap;
use std::error::Error;
use std::io::{self, BufRead};
use std::time::{Duration, Instant};

use futures_executor::block_on;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};

const TIMEOUT: Duration = Duration::from_secs(60);

type Answer = Result<Vec<String>, Box<dyn Error>>;

struct Adapter {
    addr: String,
    admin: AdminClient<DefaultClientContext>,
    producer: BaseProducer,
    consumers: HashMap<String, BaseConsumer>,
}

impl Adapter {
    fn config(addr: &str) -> ClientConfig {
        let mut c = ClientConfig::new();
        c.set("bootstrap.servers", addr).set("reconnect.backoff.max.ms", "200");
        c
    }

    fn new(addr: &str) -> Result<Self, Box<dyn Error>> {
        Ok(Adapter {
            addr: addr.to_string(),
            admin: Self::config(addr).create()?,
            producer: Self::config(addr).set("enable.idempotence", "true").set("linger.ms", "1").create()?,
            consumers: HashMap::new(),
        })
    }

    fn consumer(&self, group: &str) -> Result<BaseConsumer, KafkaError> {
        Self::config(&self.addr)
            .set("group.id", group)
            .set("auto.offset.reset", "earliest")
            .set("enable.auto.commit", "false")
            .set("heartbeat.interval.ms", "500")
            .create()
    }

    /// Returns None for a request that the library has no call for.
    fn answer(&mut self, f: &[&str]) -> Option<Answer> {
        Some(match *f {
            ["create-topic", topic, partitions] => self.create_topic(topic, partitions),
            ["delete-topic", topic] => self.delete_topic(topic),
            ["produce", topic, from, to] => self.produce(topic, from, to),
            ["join", name, group, topic] => self.join(name, group, topic),
            ["poll", name, millis] => self.poll(name, millis),
            ["commit", name] => self.commit(name),
            ["leave", name] => {
                self.consumers.remove(name);
                Ok(vec![])
            }
            ["list-groups"] => self.list_groups(),
            ["describe-group", group] => self.describe_group(group),
            ["offsets", group, topic] => self.offsets(group, topic),
            ["set-offsets", group, topic, ref offsets @ ..] => self.set_offsets(group, topic, offsets),
            ["delete-group", group] => self.delete_group(group),
            _ => return None,
        })
    }

    fn create_topic(&self, topic: &str, partitions: &str) -> Answer {
        let new = NewTopic::new(topic, partitions.parse()?, TopicReplication::Fixed(1));
        for result in block_on(self.admin.create_topics([&new], &AdminOptions::new()))? {
            result.map_err(|(_, code)| code)?;
        }
        Ok(vec![])
    }

    fn delete_topic(&self, topic: &str) -> Answer {
        for result in block_on(self.admin.delete_topics(&[topic], &AdminOptions::new()))? {
            result.map_err(|(_, code)| code)?;
        }
        Ok(vec![])
    }

    fn produce(&self, topic: &str, from: &str, to: &str) -> Answer {
        for i in from.parse::<u32>()?..to.parse()? {
            let (key, value) = (format!("k{i}"), format!("v{i}"));
            self.producer.send(BaseRecord::to(topic).key(&key).payload(&value)).map_err(|(e, _)| e)?;
        }
        self.producer.flush(TIMEOUT)?;
        Ok(vec![])
    }

    fn join(&mut self, name: &str, group: &str, topic: &str) -> Answer {
        let consumer = self.consumer(group)?;
        consumer.subscribe(&[topic])?;
        self.consumers.insert(name.to_string(), consumer);
        Ok(vec![])
    }

    fn poll(&self, name: &str, millis: &str) -> Answer {
        let consumer = &self.consumers[name];
        let end = Instant::now() + Duration::from_millis(millis.parse()?);
        let mut records = vec![];
        let mut wait = end - Instant::now();
        while let Some(message) = consumer.poll(wait) {
            let m = message?;
            let value = String::from_utf8_lossy(m.payload().unwrap_or_default()).into_owned();
            records.push(format!("{value}:{}:{}", m.partition(), m.offset()));
            wait = end.saturating_duration_since(Instant::now());
        }
        let assigned: Vec<String> =
            consumer.assignment()?.elements().iter().map(|e| e.partition().to_string()).collect();
        records.insert(0, assigned.join(","));
        Ok(records)
    }

    fn commit(&self, name: &str) -> Answer {
        match self.consumers[name].commit_consumer_state(CommitMode::Sync) {
            Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::NoOffset)) => Ok(vec![]),
            other => Ok(other.map(|_| vec![])?),
        }
    }

    fn list_groups(&self) -> Answer {
        let list = self.producer.client().fetch_group_list(None, TIMEOUT)?;
        Ok(list.groups().iter().map(|g| g.name().to_string()).collect())
    }

    fn describe_group(&self, group: &str) -> Answer {
        let list = self.producer.client().fetch_group_list(Some(group), TIMEOUT)?;
        let g = list.groups().iter().find(|g| g.name() == group).ok_or("no such group")?;
        Ok(vec![g.state().to_string(), g.members().len().to_string()])
    }

    fn offsets(&self, group: &str, topic: &str) -> Answer {
        let mut wanted = TopicPartitionList::new();
        let metadata = self.producer.client().fetch_metadata(Some(topic), TIMEOUT)?;
        for p in metadata.topics()[0].partitions() {
            wanted.add_partition(topic, p.id());
        }
        let committed = self.consumer(group)?.committed_offsets(wanted, TIMEOUT)?;
        let mut answer = vec![];
        for e in committed.elements() {
            if let Offset::Offset(at) = e.offset() {
                answer.push(format!("{}={at}", e.partition()));
            }
        }
        Ok(answer)
    }

    fn set_offsets(&self, group: &str, topic: &str, offsets: &[&str]) -> Answer {
        let mut list = TopicPartitionList::new();
        for o in offsets {
            let (partition, at) = o.split_once('=').ok_or("PARTITION=OFFSET")?;
            list.add_partition_offset(topic, partition.parse()?, Offset::Offset(at.parse()?))?;
        }
        self.consumer(group)?.commit(&list, CommitMode::Sync)?;
        Ok(vec![])
    }

    fn delete_group(&self, group: &str) -> Answer {
        for result in block_on(self.admin.delete_groups(&[group], &AdminOptions::new()))? {
            result.map_err(|(_, code)| code)?;
        }
        Ok(vec![])
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let addr = std::env::args().nth(1).ok_or("the broker's address is missing")?;
    let mut adapter = Adapter::new(&addr)?;
    for line in io::stdin().lock().lines() {
        let line = line?;
        let fields: Vec<&str> = line.split('\t').collect();
        match adapter.answer(&fields) {
            None => println!("unsupported"),
            Some(Ok(answer)) => println!("{}", [vec!["ok".to_string()], answer].concat().join("\t")),
            Some(Err(e)) => println!("error\t{}", e.to_string().replace(['\t', '\n'], " ")),
        }
    }
    Ok(())
}
