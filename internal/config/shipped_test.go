package config

import "testing"

// TestShippedFiles loads what Kafka's own server.properties set, of a release
// without ZooKeeper and of one with it.
func TestShippedFiles(t *testing.T) {
	for name, file := range map[string]string{
		"4.x": `process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
`,
		"with ZooKeeper": `broker.id=0
listeners=PLAINTEXT://:9092
num.network.threads=3
num.io.threads=8
log.dirs=/tmp/kafka-logs
zookeeper.connect=localhost:2181
zookeeper.connection.timeout.ms=18000
group.initial.rebalance.delay.ms=0
log.flush.interval.messages=10000
`,
	} {
		loaded, err := Load(Sources{FileName: "server.properties", File: []byte(file)})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if l := loaded.Values().Listeners; len(l) != 1 || l[0].Port != 9092 {
			t.Errorf("%s: listeners %+v", name, l)
		}
	}
}
