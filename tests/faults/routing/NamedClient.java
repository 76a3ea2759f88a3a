import java.io.FileInputStream;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Reads one topic, prints what it reads, and writes its name into another; ends when its standard input does. */
public final class NamedClient {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        try (FileInputStream file = new FileInputStream(arguments[0])) {
            settings.load(file);
        }
        Thread reader = new Thread(() -> read(settings, arguments[1]));
        Thread writer = new Thread(() -> write(settings, arguments[2], arguments[3]));
        for (Thread thread : List.of(reader, writer)) {
            thread.setDaemon(true);
            thread.start();
        }
        while (System.in.read() >= 0) {
            continue;
        }
    }

    private static void read(Properties settings, String topic) {
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (true) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    System.out.println(record.value() + " " + record.offset());
                }
            }
        }
    }

    private static void write(Properties settings, String topic, String name) {
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            while (true) {
                try {
                    producer.send(new ProducerRecord<>(topic, name));
                    Thread.sleep(200);
                } catch (org.apache.kafka.common.KafkaException error) {
                    System.err.println(error);
                } catch (InterruptedException error) {
                    return;
                }
            }
        }
    }
}
