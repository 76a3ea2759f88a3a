import java.io.BufferedReader;
import java.io.FileReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A plain consumer: one pass per line of standard input, `TOPIC OFFSET`, from that offset of every partition to its end; answers `seconds records bytes`. */
public class ConsumerPasses {
    private static final int MOST_EMPTY_POLLS = 60;

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        try (FileReader reader = new FileReader(arguments[0])) {
            settings.load(reader);
        }
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "none");
        settings.put("isolation.level", "read_uncommitted");
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] words = line.split(" ");
                long began = System.nanoTime();
                long[] read = pass(settings, words[0], Long.parseLong(words[1]));
                System.out.printf("%.3f %d %d%n", (System.nanoTime() - began) / 1e9, read[0], read[1]);
                System.out.flush();
            }
        }
    }

    private static long[] pass(Properties settings, String topic, long offset) {
        long records = 0;
        long bytes = 0;
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> places = consumer.partitionsFor(topic).stream().map(one -> new TopicPartition(topic, one.partition())).toList();
            Map<TopicPartition, Long> ends = consumer.endOffsets(places);
            consumer.assign(places);
            places.forEach(place -> consumer.seek(place, offset));
            Set<TopicPartition> open = new HashSet<>(places);
            open.removeIf(place -> ends.get(place) <= offset);
            int emptyPolls = 0;
            while (!open.isEmpty()) {
                ConsumerRecords<byte[], byte[]> came = consumer.poll(Duration.ofSeconds(1));
                emptyPolls = came.isEmpty() ? emptyPolls + 1 : 0;
                if (emptyPolls > MOST_EMPTY_POLLS) {
                    throw new IllegalStateException(open.size() + " partitions of " + topic + " were not read to their end");
                }
                for (ConsumerRecord<byte[], byte[]> record : came) {
                    records++;
                    bytes += Math.max(record.serializedKeySize(), 0) + Math.max(record.serializedValueSize(), 0);
                }
                // A transaction marker at a partition's end moves the position without a record.
                Set<TopicPartition> moved = came.isEmpty() ? Set.copyOf(open) : came.partitions();
                open.removeIf(place -> moved.contains(place) && consumer.position(place) >= ends.get(place));
            }
        }
        return new long[] {records, bytes};
    }
}
