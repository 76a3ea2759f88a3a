import java.io.FileReader;
import java.io.Reader;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/** Prints what RemoteClusterUtils makes of the checkpoints of groups: group, topic, partition and offset a line. */
public class TranslateOffsets {
    public static void main(String[] arguments) throws Exception {
        Properties file = new Properties();
        try (Reader reader = new FileReader(arguments[0])) {
            file.load(reader);
        }
        Map<String, Object> settings = new HashMap<>();
        file.forEach((name, value) -> settings.put((String) name, value));
        for (int n = 2; n < arguments.length; n++) {
            Map<TopicPartition, OffsetAndMetadata> offsets =
                RemoteClusterUtils.translateOffsets(settings, arguments[1], arguments[n], Duration.ofSeconds(30));
            for (Map.Entry<TopicPartition, OffsetAndMetadata> entry : offsets.entrySet()) {
                System.out.println(String.join("\t", arguments[n], entry.getKey().topic(),
                    String.valueOf(entry.getKey().partition()), String.valueOf(entry.getValue().offset())));
            }
        }
    }
}
