import java.io.BufferedReader;
import java.io.FileReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.regex.Pattern;
import org.apache.kafka.connect.mirror.MirrorClient;

/** Kafka's own translation: one pass per line of standard input, `pattern REGEX` or `group NAME`; answers `seconds positions`. */
public class MirrorClientPasses {
    public static void main(String[] arguments) throws Exception {
        Properties file = new Properties();
        try (FileReader reader = new FileReader(arguments[0])) {
            file.load(reader);
        }
        Map<String, Object> settings = new HashMap<>();
        file.forEach((key, value) -> settings.put((String) key, value));
        settings.put("replication.policy.class", "org.apache.kafka.connect.mirror.IdentityReplicationPolicy");
        settings.put("source.cluster.alias", arguments[1]);
        try (MirrorClient client = new MirrorClient(settings);
             BufferedReader lines = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                long began = System.nanoTime();
                long positions = pass(client, arguments[1], line);
                System.out.printf("%.3f %d%n", (System.nanoTime() - began) / 1e9, positions);
                System.out.flush();
            }
        }
    }

    private static long pass(MirrorClient client, String source, String line) throws Exception {
        String[] words = line.split(" ", 2);
        Duration limit = Duration.ofSeconds(300);
        if (words[0].equals("group")) {
            return client.remoteConsumerOffsets(words[1], source, limit).size();
        }
        return client.remoteConsumerOffsets(Pattern.compile(words[1]), source, limit).values().stream().mapToLong(Map::size).sum();
    }
}
