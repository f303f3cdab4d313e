import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.clients.admin.AlterConfigsOptions;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.common.config.ConfigResource;

final class Configs {
    static void run(Kit kit) throws Exception {
        Admin admin = kit.admin();
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, kit.topic("", 1));
        kit.fact("defaults", entries(admin, topic, new DescribeConfigsOptions()));
        alter(admin, topic, op("retention.ms", "1000", OpType.SET), op("max.message.bytes", "2000", OpType.SET), op("cleanup.policy", "compact", OpType.APPEND));
        kit.fact("set", changed(admin, topic));
        alter(admin, topic, op("retention.ms", null, OpType.DELETE), op("cleanup.policy", "delete", OpType.SUBTRACT));
        kit.fact("deleted", changed(admin, topic));
        Map<String, Object> errors = new TreeMap<>();
        errors.put("unknown name", Kit.error(() -> alter(admin, topic, op("no.such", "1", OpType.SET))));
        errors.put("bad value", Kit.error(() -> alter(admin, topic, op("segment.bytes", "many", OpType.SET))));
        errors.put("append to no list", Kit.error(() -> alter(admin, topic, op("retention.ms", "5", OpType.APPEND))));
        errors.put("twice", Kit.error(() -> alter(admin, topic, op("retention.ms", "5", OpType.SET), op("retention.ms", "6", OpType.SET))));
        ConfigResource unknown = new ConfigResource(ConfigResource.Type.TOPIC, kit.name("x"));
        errors.put("alter unknown topic", Kit.error(() -> alter(admin, unknown, op("retention.ms", "5", OpType.SET))));
        errors.put("describe unknown topic", Kit.error(() -> entries(admin, unknown, new DescribeConfigsOptions())));
        errors.put("dry run", Kit.error(() -> Kit.get(admin.incrementalAlterConfigs(
                Map.of(topic, List.of(op("retention.ms", "7", OpType.SET))), new AlterConfigsOptions().validateOnly(true)).all())));
        kit.fact("errors", errors);
        kit.fact("after-the-errors", changed(admin, topic));
        Config some = Kit.get(admin.describeConfigs(List.of(topic), new DescribeConfigsOptions().includeSynonyms(true)).all()).get(topic);
        Map<String, Object> synonyms = new TreeMap<>();
        for (ConfigEntry e : some.entries()) {
            synonyms.put(e.name(), e.synonyms().stream().map(s -> s.name() + "=" + s.value() + " " + s.source()).toList());
        }
        kit.fact("synonyms", synonyms);
        Config documented = Kit.get(admin.describeConfigs(List.of(topic), new DescribeConfigsOptions().includeDocumentation(true)).all()).get(topic);
        kit.fact("documented", documented.get("retention.ms").documentation() != null && !documented.get("retention.ms").documentation().isEmpty());
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, "1");
        Config ofBroker = Kit.get(admin.describeConfigs(List.of(broker)).all()).get(broker);
        Map<String, Object> some2 = new TreeMap<>();
        for (String name : List.of("log.retention.ms", "log.segment.bytes", "min.insync.replicas", "auto.create.topics.enable", "node.id")) {
            ConfigEntry e = ofBroker.get(name);
            some2.put(name, e == null ? "absent" : e.value() + (e.isReadOnly() ? " read-only" : ""));
        }
        kit.fact("broker", some2);
    }

    private static AlterConfigOp op(String name, String value, OpType type) {
        return new AlterConfigOp(new ConfigEntry(name, value), type);
    }

    private static Object alter(Admin admin, ConfigResource r, AlterConfigOp... ops) throws Exception {
        Collection<AlterConfigOp> all = List.of(ops);
        return Kit.get(admin.incrementalAlterConfigs(Map.of(r, all)).all());
    }

    private static Map<String, Object> entries(Admin admin, ConfigResource r, DescribeConfigsOptions o) throws Exception {
        Map<String, Object> all = new TreeMap<>();
        for (ConfigEntry e : Kit.get(admin.describeConfigs(List.of(r), o).all()).get(r).entries()) {
            all.put(e.name(), e.value() + " " + e.source() + " " + e.type() + (e.isReadOnly() ? " read-only" : "") + (e.isSensitive() ? " sensitive" : ""));
        }
        return all;
    }

    /** What the topic says itself. A change reaches brokers a moment after it was acknowledged. */
    private static Object changed(Admin admin, ConfigResource r) throws Exception {
        Thread.sleep(300);
        Map<String, Object> all = entries(admin, r, new DescribeConfigsOptions());
        all.values().removeIf(v -> !v.toString().contains("DYNAMIC_TOPIC_CONFIG"));
        return all;
    }
}
