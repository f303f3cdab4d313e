import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;

final class Topics {
    static void run(Kit kit) throws Exception {
        Admin admin = kit.admin();
        String name = kit.name("");
        CreateTopicsResult created = admin.createTopics(List.of(new NewTopic(name, 3, (short) 3).configs(Map.of("retention.ms", "3600000"))));
        kit.fact("created", List.of(Kit.get(created.numPartitions(name)), Kit.get(created.replicationFactor(name)),
                Kit.get(created.config(name)).get("retention.ms").value(), Kit.get(created.config(name)).get("retention.ms").source().toString(),
                !Kit.get(created.topicId(name)).equals(Uuid.ZERO_UUID)));
        Kit.await("leaders", () -> known(admin, name, 3));

        Map<String, Object> errors = new TreeMap<>();
        errors.put("again", create(admin, new NewTopic(name, 3, (short) 3)));
        errors.put("no partitions", create(admin, new NewTopic(kit.name("x"), 0, (short) 3)));
        errors.put("negative partitions", create(admin, new NewTopic(kit.name("x"), -5, (short) 3)));
        errors.put("too many replicas", create(admin, new NewTopic(kit.name("x"), 1, (short) 9)));
        errors.put("no replicas", create(admin, new NewTopic(kit.name("x"), 1, (short) 0)));
        errors.put("bad name", create(admin, new NewTopic("bad name!", 1, (short) 1)));
        errors.put("empty name", create(admin, new NewTopic("", 1, (short) 1)));
        errors.put("dots", create(admin, new NewTopic("..", 1, (short) 1)));
        errors.put("long name", create(admin, new NewTopic("x".repeat(250), 1, (short) 1)));
        errors.put("unknown config", create(admin, new NewTopic(kit.name("x"), 1, (short) 1).configs(Map.of("no.such", "1"))));
        errors.put("bad config", create(admin, new NewTopic(kit.name("x"), 1, (short) 1).configs(Map.of("retention.ms", "soon"))));
        errors.put("assignment to unknown", create(admin, new NewTopic(kit.name("x"), Map.of(0, List.of(77)))));
        errors.put("assignment twice", create(admin, new NewTopic(kit.name("x"), Map.of(0, List.of(1, 1)))));
        errors.put("assignment uneven", create(admin, new NewTopic(kit.name("x"), Map.of(0, List.of(1, 2), 1, List.of(1)))));
        errors.put("assignment with a hole", create(admin, new NewTopic(kit.name("x"), Map.of(1, List.of(1)))));
        errors.put("describe unknown", Kit.error(() -> described(admin, kit.name("x"))));
        errors.put("delete unknown", Kit.error(() -> Kit.get(admin.deleteTopics(List.of(kit.name("x"))).all())));
        errors.put("fewer partitions", partitions(admin, name, NewPartitions.increaseTo(2)));
        errors.put("same partitions", partitions(admin, name, NewPartitions.increaseTo(3)));
        errors.put("partitions of unknown", partitions(admin, kit.name("x"), NewPartitions.increaseTo(3)));
        errors.put("partitions on unknown", partitions(admin, name, NewPartitions.increaseTo(4, List.of(List.of(1, 2, 77)))));
        errors.put("partitions too few assignments", partitions(admin, name, NewPartitions.increaseTo(5, List.of(List.of(1, 2, 3)))));
        errors.put("partitions with other replication", partitions(admin, name, NewPartitions.increaseTo(4, List.of(List.of(1, 2)))));
        kit.fact("errors", errors);

        CreateTopicsResult dry = admin.createTopics(List.of(new NewTopic(kit.name("dry"), Optional.empty(), Optional.empty())),
                new CreateTopicsOptions().validateOnly(true));
        kit.fact("validated", List.of(Kit.get(dry.numPartitions(kit.name("dry"))), Kit.get(dry.replicationFactor(kit.name("dry")))));
        kit.fact("described", shape(described(admin, name)));
        kit.fact("listed", Kit.get(admin.listTopics().names()).stream().filter(n -> n.startsWith(kit.name(""))).sorted().toList());
        Kit.get(admin.createPartitions(Map.of(name, NewPartitions.increaseTo(5, List.of(List.of(2, 3, 1), List.of(3, 1, 2))))).all());
        Kit.await("new leaders", () -> known(admin, name, 5));
        TopicDescription more = described(admin, name);
        kit.fact("more-partitions", List.of(shape(more), more.partitions().get(3).replicas().stream().map(n -> n.id()).toList(),
                more.partitions().get(4).leader().id()));
        kit.fact("elect", Kit.error(() -> {
            var result = Kit.get(admin.electLeaders(ElectionType.PREFERRED, Set.of(new TopicPartition(name, 3))).partitions());
            Optional<Throwable> e = result.get(new TopicPartition(name, 3));
            if (e.isPresent()) {
                throw (Exception) e.get();
            }
            return null;
        }));
        kit.fact("reassignments", Kit.error(() -> {
            long under = Kit.get(admin.listPartitionReassignments().reassignments()).keySet().stream().filter(tp -> tp.topic().equals(name)).count();
            if (under > 0) {
                throw new IllegalStateException(under + " of " + name);
            }
            return null;
        }));
        kit.fact("log-dirs", logDirs(admin, name));
        DescribeClusterResult cluster = admin.describeCluster();
        Collection<?> nodes = Kit.get(cluster.nodes());
        kit.fact("cluster", List.of(nodes.size(), Kit.get(cluster.controller()) != null, Kit.get(cluster.clusterId()).length()));
        kit.fact("deleted", Kit.error(() -> Kit.get(admin.deleteTopics(List.of(name)).all())));
        Kit.await("the deletion", () -> Kit.error(() -> described(admin, name)).equals("UnknownTopicOrPartitionException"));
        kit.fact("created-anew", create(admin, new NewTopic(name, 1, (short) 3)));
    }

    /** A broker hears of a change a moment after it was acknowledged. */
    private static boolean known(Admin admin, String name, int partitions) throws Exception {
        try {
            var all = described(admin, name).partitions();
            return all.size() == partitions && all.stream().allMatch(p -> p.leader() != null && p.isr().size() == 3);
        } catch (ExecutionException e) {
            return Kit.hasNotHeard(e);
        }
    }

    private static TopicDescription described(Admin admin, String name) throws Exception {
        return Kit.get(admin.describeTopics(List.of(name)).allTopicNames()).get(name);
    }

    private static String create(Admin admin, NewTopic topic) {
        return Kit.error(() -> Kit.get(admin.createTopics(List.of(topic)).all()));
    }

    private static String partitions(Admin admin, String name, NewPartitions to) {
        return Kit.error(() -> Kit.get(admin.createPartitions(Map.of(name, to)).all()));
    }

    private static Object shape(TopicDescription d) {
        return Map.of("internal", d.isInternal(), "partitions",
                d.partitions().stream().map(p -> List.of(p.partition(), p.replicas().size(), p.isr().size(), p.leader() != null)).toList());
    }

    /** On how many brokers each partition lies, and whether any of those is a future replica. */
    private static Object logDirs(Admin admin, String name) throws Exception {
        List<Integer> ids = Kit.get(admin.describeCluster().nodes()).stream().map(n -> n.id()).toList();
        Map<String, Integer> found = new TreeMap<>();
        for (var broker : Kit.get(admin.describeLogDirs(ids).allDescriptions()).values()) {
            for (var dir : broker.values()) {
                dir.replicaInfos().forEach((tp, info) -> {
                    if (tp.topic().equals(name)) {
                        found.merge(tp.partition() + " future=" + info.isFuture() + " lag=" + info.offsetLag(), 1, Integer::sum);
                    }
                });
            }
        }
        return found;
    }
}
