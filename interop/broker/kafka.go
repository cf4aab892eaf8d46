package broker

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// KafkaJars returns the class path of Apache Kafka's broker and tools.
func KafkaJars() (string, error) {
	dir, err := CacheDir("kafka")
	if err != nil {
		return "", err
	}
	if jars, err := filepath.Glob(filepath.Join(dir, "kafka-tools-*.jar")); err != nil || len(jars) == 0 {
		return "", fmt.Errorf("no Kafka in %s: run install.sh", dir)
	}
	return filepath.Join(dir, "*"), nil
}

// Java returns a command that runs a class of Kafka's, started for a short run:
// the JVM's second compiler does not pay then.
func Java(class string, args ...string) (*exec.Cmd, error) {
	jars, err := KafkaJars()
	if err != nil {
		return nil, err
	}
	return exec.Command("java", append([]string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m",
		"-cp", jars, "-Dlog4j2.level=WARN", class}, args...)...), nil
}

const kafkaProperties = `process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:%[1]d,CONTROLLER://127.0.0.1:%[2]d
advertised.listeners=PLAINTEXT://127.0.0.1:%[1]d,CONTROLLER://127.0.0.1:%[2]d
controller.quorum.bootstrap.servers=127.0.0.1:%[2]d
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=%[3]s
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
`

// KafkaOn starts Apache Kafka on the broker's folder, which is not in use, and
// returns what it printed when it ended; nil if it did not within a minute.
func (b *Broker) KafkaOn(dir string) (string, error) {
	port, controllerPort, err := freePorts()
	if err != nil {
		return "", err
	}
	properties := filepath.Join(dir, "server.properties")
	text := fmt.Sprintf(kafkaProperties, port, controllerPort, b.DataDir) + "metadata.log.dir=" + filepath.Join(dir, "metadata") + "\n"
	if err := os.WriteFile(properties, []byte(text), 0o644); err != nil {
		return "", err
	}
	meta, err := os.ReadFile(filepath.Join(b.DataDir, "meta.properties"))
	if err != nil {
		return "", err
	}
	_, cluster, _ := strings.Cut(string(meta), "cluster.id=")
	cluster, _, _ = strings.Cut(cluster, "\n")
	format, err := Java("kafka.tools.StorageTool", "format", "--standalone", "--ignore-formatted", "--cluster-id", cluster, "--config", properties)
	if err != nil {
		return "", err
	}
	if out, err := format.CombinedOutput(); err != nil {
		return "", fmt.Errorf("formatting Kafka's folder: %w\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	kafka, err := Java("kafka.Kafka", properties)
	if err != nil {
		return "", err
	}
	kafka = exec.CommandContext(ctx, kafka.Path, kafka.Args[1:]...)
	out, err := kafka.CombinedOutput()
	if ctx.Err() != nil {
		return string(out), nil
	}
	return string(out), err
}

// useKafka formats the folder for a node that is broker and controller.
func (b *Broker) useKafka(dir string, port, controllerPort int) error {
	properties := filepath.Join(dir, "server.properties")
	text := fmt.Sprintf(kafkaProperties, port, controllerPort, b.DataDir)
	if err := os.WriteFile(properties, []byte(text), 0o644); err != nil {
		return err
	}
	format, err := Java("kafka.tools.StorageTool", "format", "--standalone",
		"--cluster-id", "AAAAAAAAAAAAAAAAAAAAAQ", "--config", properties)
	if err != nil {
		return err
	}
	if out, err := format.CombinedOutput(); err != nil {
		return fmt.Errorf("formatting Kafka's folder: %w\n%s", err, out)
	}
	jars, err := KafkaJars()
	if err != nil {
		return err
	}
	b.command = func() *exec.Cmd {
		return exec.Command("java", strings.Fields(
			"-Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dlog4j2.level=WARN -cp "+jars+" kafka.Kafka "+properties)...)
	}
	return nil
}
