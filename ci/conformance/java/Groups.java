import java.time.Duration;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

final class Groups {
    static void run(Kit kit) throws Exception {
        String topic = kit.topic("", 4);
        String group = kit.name("g");
        produce(kit, topic, "v", 40);
        // Whoever gets a partition in a rebalance may read anew what was not committed yet.
        Set<String> read = Collections.synchronizedSet(new TreeSet<>());
        Member a = new Member(kit, topic, group, read);
        Kit.await("the first member to have all", () -> a.has(4));
        Member b = new Member(kit, topic, group, read);
        Kit.await("both members to have two each", () -> a.has(2) && b.has(2));
        kit.fact("shared", List.of(a.assigned(), b.assigned()).stream().map(Collection::size).toList());
        Kit.await("all records", () -> read.size() >= 40);
        a.leave();
        Kit.await("the other to have all", () -> b.has(4));
        b.leave();
        kit.fact("read", read);
        kit.fact("committed", committed(kit, topic, group));

        produce(kit, topic, "w", 8);
        Set<String> rest = Collections.synchronizedSet(new TreeSet<>());
        Member c = new Member(kit, topic, group, rest);
        Kit.await("the rest", () -> rest.size() >= 8);
        c.leave();
        kit.fact("resumed", rest);
        kit.fact("committed-at-the-end", committed(kit, topic, group));
    }

    static void produce(Kit kit, String topic, String value, int n) throws Exception {
        try (KafkaProducer<String, String> p = kit.producer()) {
            for (int i = 0; i < n; i++) {
                Kit.get(p.send(new ProducerRecord<>(topic, i % 4, "k", value + (10 + i))));
            }
        }
    }

    static Map<String, Object> committed(Kit kit, String topic, String group) throws Exception {
        Map<String, Object> all = new TreeMap<>();
        for (Map.Entry<TopicPartition, OffsetAndMetadata> e :
                Kit.get(kit.admin().listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata()).entrySet()) {
            all.put(Integer.toString(e.getKey().partition()), e.getValue().offset() + e.getValue().metadata());
        }
        return all;
    }

    /** The commits once the first partition's is what it is to be: those of a transaction hold a moment after its end. */
    static Map<String, Object> committed(Kit kit, String topic, String group, String first) throws Exception {
        Kit.await("commit " + first, () -> first.equals(committed(kit, topic, group).get("0")));
        return committed(kit, topic, group);
    }

    /** One consumer of the group, on a thread of its own; it commits what it read after each poll. */
    private static final class Member {
        private final AtomicBoolean leaving = new AtomicBoolean();
        private final Thread thread;
        private volatile Collection<TopicPartition> assigned = List.of();
        private volatile Throwable failure;

        Member(Kit kit, String topic, String group, Set<String> read) {
            thread = new Thread(() -> {
                try (KafkaConsumer<String, String> consumer = kit.consumer("group.id", group)) {
                    consumer.subscribe(List.of(topic));
                    while (!leaving.get()) {
                        Map<TopicPartition, OffsetAndMetadata> done = new HashMap<>();
                        for (ConsumerRecord<String, String> r : consumer.poll(Duration.ofMillis(100))) {
                            read.add(r.value());
                            done.put(new TopicPartition(r.topic(), r.partition()), new OffsetAndMetadata(r.offset() + 1, "m"));
                        }
                        assigned = consumer.assignment();
                        if (!done.isEmpty()) {
                            consumer.commitSync(done);
                        }
                    }
                } catch (Throwable t) {
                    failure = t;
                }
            });
            thread.start();
        }

        boolean has(int partitions) {
            if (failure != null) {
                throw new IllegalStateException(failure);
            }
            return assigned.size() == partitions;
        }

        Collection<TopicPartition> assigned() {
            return assigned;
        }

        void leave() throws Exception {
            leaving.set(true);
            thread.join();
            if (failure != null) {
                throw new IllegalStateException(failure);
            }
        }
    }
}
