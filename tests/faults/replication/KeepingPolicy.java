package switchbacktests;

import java.util.Map;
import org.apache.kafka.connect.mirror.DefaultReplicationPolicy;

/** A custom policy: topics of applications keep their names, internal topics have the alias in theirs. */
public class KeepingPolicy extends DefaultReplicationPolicy {
    private String source;

    @Override
    public void configure(Map<String, ?> settings) {
        super.configure(settings);
        source = (String) settings.get("source.cluster.alias");
    }

    @Override
    public String formatRemoteTopic(String alias, String topic) {
        return topic.endsWith("heartbeats") ? super.formatRemoteTopic(alias, topic) : topic;
    }

    @Override
    public String topicSource(String topic) {
        return topic.endsWith("heartbeats") ? super.topicSource(topic) : source;
    }

    @Override
    public String upstreamTopic(String topic) {
        return topic.endsWith("heartbeats") ? super.upstreamTopic(topic) : topic;
    }
}
