import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** What the admin client does to groups. */
final class GroupsAdmin {
    static void run(Kit kit) throws Exception {
        Admin admin = kit.admin();
        String topic = kit.topic("", 2);
        String group = kit.name("g");
        TopicPartition p0 = new TopicPartition(topic, 0);
        TopicPartition p1 = new TopicPartition(topic, 1);
        Map<String, Object> errors = new TreeMap<>();
        errors.put("describe unknown", Kit.error(() -> describe(admin, kit.name("x"))));
        errors.put("delete unknown", Kit.error(() -> Kit.get(admin.deleteConsumerGroups(List.of(kit.name("x"))).all())));
        errors.put("offsets of unknown", Kit.error(() -> Groups.committed(kit, topic, kit.name("x"))));
        errors.put("delete offsets of unknown", Kit.error(() -> Kit.get(admin.deleteConsumerGroupOffsets(kit.name("x"), Set.of(p0)).all())));

        // A group that has offsets alone
        Kit.get(admin.alterConsumerGroupOffsets(kit.name("offsets"), Map.of(p0, new OffsetAndMetadata(3, "here"))).all());
        kit.fact("offsets-alone", Groups.committed(kit, topic, kit.name("offsets")));
        kit.fact("described-offsets-alone", describe(admin, kit.name("offsets")));

        try (KafkaConsumer<String, String> c = kit.consumer("group.id", group, "client.id", "member", "group.instance.id", "static-1")) {
            c.subscribe(List.of(topic));
            Kit.await("the assignment", () -> {
                c.poll(Duration.ofMillis(100));
                return c.assignment().size() == 2;
            });
            c.commitSync(Map.of(p0, new OffsetAndMetadata(0, "a"), p1, new OffsetAndMetadata(0, "b")));
            kit.fact("described", describe(admin, group));
            errors.put("delete with members", Kit.error(() -> Kit.get(admin.deleteConsumerGroups(List.of(group)).all())));
            errors.put("delete subscribed offsets", Kit.error(() -> Kit.get(admin.deleteConsumerGroupOffsets(group, Set.of(p0)).all())));
            errors.put("alter offsets with members", Kit.error(() ->
                    Kit.get(admin.alterConsumerGroupOffsets(group, Map.of(p0, new OffsetAndMetadata(1))).all())));
            kit.fact("listed", listed(kit));
        }
        errors.put("remove unknown member", Kit.error(() -> Kit.get(admin.removeMembersFromConsumerGroup(group,
                new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("static-9")))).all())));
        kit.fact("removed-static", Kit.error(() -> Kit.get(admin.removeMembersFromConsumerGroup(group,
                new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("static-1")))).all())));
        Kit.await("the group to be empty", () -> describe(admin, group).get("state").equals("Empty"));
        kit.fact("described-empty", describe(admin, group));
        kit.fact("listed-empty", listed(kit));
        kit.fact("offsets-deleted", Kit.error(() -> Kit.get(admin.deleteConsumerGroupOffsets(group, Set.of(p0)).all())));
        kit.fact("committed", Groups.committed(kit, topic, group));
        kit.fact("altered", Kit.error(() -> Kit.get(admin.alterConsumerGroupOffsets(group, Map.of(p0, new OffsetAndMetadata(1, "c"))).all())));
        kit.fact("committed-altered", Groups.committed(kit, topic, group));
        kit.fact("deleted", Kit.error(() -> Kit.get(admin.deleteConsumerGroups(List.of(group, kit.name("offsets"))).all())));
        kit.fact("listed-at-the-end", listed(kit));
        errors.put("describe deleted", Kit.error(() -> describe(admin, group)));
        kit.fact("errors", errors);
    }

    private static Map<String, Object> describe(Admin admin, String group) throws Exception {
        ConsumerGroupDescription d = Kit.get(admin.describeConsumerGroups(List.of(group)).all()).get(group);
        Map<String, Object> all = new TreeMap<>();
        all.put("state", d.groupState().toString());
        all.put("type", d.type().toString());
        all.put("assignor", d.partitionAssignor());
        all.put("simple", d.isSimpleConsumerGroup());
        all.put("coordinator", d.coordinator() != null);
        all.put("members", d.members().stream().map(m -> Map.of("client", m.clientId(), "host", m.host(), "instance", m.groupInstanceId().orElse("none"),
                "partitions", m.assignment().topicPartitions().size())).toList());
        return all;
    }

    private static Object listed(Kit kit) throws Exception {
        return Kit.get(kit.admin().listGroups().all()).stream().filter(g -> g.groupId().startsWith(kit.name("")))
                .map(g -> g.groupId().substring(kit.prefix.length()) + " " + g.type() + " " + g.protocol() + " " + g.groupState()
                        .map(Object::toString).orElse("none")).sorted().toList();
    }
}
