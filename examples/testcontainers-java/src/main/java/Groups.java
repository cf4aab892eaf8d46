import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.testcontainers.kafka.ConfluentKafkaContainer;
import org.testcontainers.kafka.KafkaContainer;
import org.testcontainers.utility.DockerImageName;

/** Starts kcoord by both Kafka modules of Testcontainers, and uses a consumer group. */
public class Groups {
    /**
     * The modules copy a start script into the running container, whose shell may try to
     * run it before it is whole ("Text file busy"), with any image: then they try again.
     */
    static final int ATTEMPTS = 3;

    public static void main(String[] args) throws Exception {
        var image = DockerImageName.parse(args.length > 0 ? args[0] : "kcoord-compat:latest");
        try (var kafka = new KafkaContainer(image.asCompatibleSubstituteFor("apache/kafka"))) {
            kafka.withStartupAttempts(ATTEMPTS).start();
            group("KafkaContainer", kafka.getBootstrapServers());
        }
        try (var kafka = new ConfluentKafkaContainer(image.asCompatibleSubstituteFor("confluentinc/cp-kafka"))) {
            kafka.withStartupAttempts(ATTEMPTS).start();
            group("ConfluentKafkaContainer", kafka.getBootstrapServers());
        }
    }

    static void group(String what, String servers) throws Exception {
        var properties = new Properties();
        properties.put("bootstrap.servers", servers);
        properties.put("group.id", "readers");
        properties.put("auto.offset.reset", "earliest");
        try (var producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>("greetings", "hello")).get();
        }
        try (var consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("greetings"));
            for (long end = System.nanoTime() + Duration.ofSeconds(30).toNanos(); System.nanoTime() < end;) {
                for (var record : consumer.poll(Duration.ofMillis(200))) {
                    consumer.commitSync();
                    System.out.println(what + " read " + record.value());
                    return;
                }
            }
        }
        throw new IllegalStateException(what + ": no record within 30 s");
    }
}
