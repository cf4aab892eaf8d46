import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ConsumerGroupListing;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/**
 * An adapter for Apache Kafka's own client. The requests are described in adapter/process.go. It compiles with every
 * version of the client from 2.8 on. Arguments: the broker's address, then properties of consumers, NAME=VALUE.
 */
public final class Adapter {
    private final Properties common = new Properties();
    private final Properties consumerProperties = new Properties();
    private final AdminClient admin;
    private final KafkaProducer<String, String> producer;
    private final Map<String, KafkaConsumer<String, String>> consumers = new HashMap<>();

    private Adapter(String[] args) {
        common.put("bootstrap.servers", args[0]);
        common.put("reconnect.backoff.max.ms", "200");
        for (int i = 1; i < args.length; i++) {
            String[] property = args[i].split("=", 2);
            consumerProperties.put(property[0], property[1]);
        }
        admin = AdminClient.create(common);
        Properties p = new Properties();
        p.putAll(common);
        p.put("acks", "all");
        p.put("enable.idempotence", "true"); // not the default before 3.0
        p.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        p.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        producer = new KafkaProducer<>(p);
    }

    public static void main(String[] args) throws Exception {
        Adapter adapter = new Adapter(args);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            System.out.println(adapter.answer(line.split("\t")));
        }
        adapter.consumers.values().forEach(KafkaConsumer::close);
        adapter.producer.close();
        adapter.admin.close();
    }

    private String answer(String[] f) {
        try {
            List<String> fields = run(f);
            return fields.isEmpty() ? "ok" : "ok\t" + String.join("\t", fields);
        } catch (Exception e) {
            e.printStackTrace();
            return "error\t" + String.valueOf(e).replaceAll("\\s+", " ");
        }
    }

    private List<String> run(String[] f) throws Exception {
        switch (f[0]) {
            case "create-topic":
                admin.createTopics(List.of(new NewTopic(f[1], Integer.parseInt(f[2]), (short) 1))).all().get();
                return List.of();
            case "delete-topic":
                admin.deleteTopics(List.of(f[1])).all().get();
                return List.of();
            case "produce":
                produce(f[1], Integer.parseInt(f[2]), Integer.parseInt(f[3]));
                return List.of();
            case "join":
                join(f[1], f[2], f[3]);
                return List.of();
            case "poll":
                return poll(consumers.get(f[1]), Duration.ofMillis(Long.parseLong(f[2])));
            case "commit":
                consumers.get(f[1]).commitSync();
                return List.of();
            case "leave":
                consumers.remove(f[1]).close();
                return List.of();
            case "list-groups":
                return admin.listConsumerGroups().all().get().stream()
                    .map(ConsumerGroupListing::groupId).collect(Collectors.toList());
            case "describe-group":
                ConsumerGroupDescription d = admin.describeConsumerGroups(List.of(f[1])).all().get().get(f[1]);
                return List.of(d.state().toString(), String.valueOf(d.members().size()));
            case "offsets":
                return admin.listConsumerGroupOffsets(f[1]).partitionsToOffsetAndMetadata().get().entrySet().stream()
                    .filter(e -> e.getKey().topic().equals(f[2]) && e.getValue() != null)
                    .map(e -> e.getKey().partition() + "=" + e.getValue().offset()).collect(Collectors.toList());
            case "set-offsets":
                admin.alterConsumerGroupOffsets(f[1], offsets(f[2], List.of(f).subList(3, f.length))).all().get();
                return List.of();
            case "delete-group":
                admin.deleteConsumerGroups(List.of(f[1])).all().get();
                return List.of();
            default:
                throw new IllegalArgumentException(f[0]);
        }
    }

    private void produce(String topic, int from, int to) throws Exception {
        List<Future<?>> sent = new ArrayList<>();
        for (int i = from; i < to; i++) {
            sent.add(producer.send(new ProducerRecord<>(topic, "k" + i, "v" + i)));
        }
        producer.flush();
        for (Future<?> s : sent) {
            s.get();
        }
    }

    private void join(String name, String group, String topic) {
        Properties p = new Properties();
        p.putAll(common);
        p.put("group.id", group);
        p.put("auto.offset.reset", "earliest");
        p.put("enable.auto.commit", "false");
        p.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        p.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        p.put("heartbeat.interval.ms", "500");
        if (consumerProperties.containsKey("group.protocol")) {
            p.remove("heartbeat.interval.ms"); // the broker tells it in that protocol
        }
        p.putAll(consumerProperties);
        KafkaConsumer<String, String> c = new KafkaConsumer<>(p);
        c.subscribe(Collections.singletonList(topic));
        consumers.put(name, c);
    }

    private static List<String> poll(KafkaConsumer<String, String> c, Duration timeout) {
        List<String> records = new ArrayList<>();
        for (ConsumerRecord<String, String> r : c.poll(timeout)) {
            records.add(r.value() + ":" + r.partition() + ":" + r.offset());
        }
        records.add(0, c.assignment().stream().map(tp -> String.valueOf(tp.partition())).collect(Collectors.joining(",")));
        return records;
    }

    private static Map<TopicPartition, OffsetAndMetadata> offsets(String topic, List<String> fields) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (String field : fields) {
            String[] kv = field.split("=");
            offsets.put(new TopicPartition(topic, Integer.parseInt(kv[0])), new OffsetAndMetadata(Long.parseLong(kv[1])));
        }
        return offsets;
    }
}
