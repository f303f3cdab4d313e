import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/** The leader of two partitions, node 2, is killed while one is produced to plainly and the other in transactions. */
final class LeaderKill {
    private static final int RECORDS = 3000;

    static void run(Kit kit) throws Exception {
        String plain = topic(kit, "plain");
        String transactional = topic(kit, "transactional");
        try (KafkaProducer<String, String> p = kit.producer("batch.size", "500");
                KafkaProducer<String, String> t = kit.producer("transactional.id", kit.name("id"), "transaction.timeout.ms", "600000")) {
            t.initTransactions();
            t.beginTransaction();
            for (int i = 0; i < 10; i++) {
                Kit.get(t.send(new ProducerRecord<>(transactional, 0, "k", "before" + i)));
            }
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            Thread asking = null;
            Exception[] failed = new Exception[1];
            for (int i = 0; i < RECORDS; i++) {
                sent.add(p.send(new ProducerRecord<>(plain, 0, "k", "v" + i)));
                if (i == RECORDS / 3) {
                    Kit.get(sent.get(0));
                    asking = new Thread(() -> {
                        try {
                            Client.ask(kit.behaviour, "kill-2");
                        } catch (Exception e) {
                            failed[0] = e;
                        }
                    });
                    asking.start();
                }
                if (i > RECORDS / 3 && asking.isAlive()) {
                    Thread.sleep(2);
                }
            }
            asking.join();
            if (failed[0] != null) {
                throw failed[0];
            }
            for (Future<RecordMetadata> f : sent) {
                Kit.get(f);
            }
            for (int i = 0; i < 10; i++) {
                Kit.get(t.send(new ProducerRecord<>(transactional, 0, "k", "after" + i)));
            }
            t.commitTransaction();
            t.beginTransaction();
            Kit.get(t.send(new ProducerRecord<>(transactional, 0, "k", "aborted")));
            t.abortTransaction();
        }
        int next = 0;
        int outOfPlace = 0;
        List<ConsumerRecord<String, String>> read = kit.records(plain, 0, "read_committed");
        for (ConsumerRecord<String, String> r : read) {
            if (!r.value().equals("v" + next)) {
                outOfPlace++;
            }
            next++;
        }
        kit.fact("plain", Map.of("sent", RECORDS, "read", read.size(), "out of place", outOfPlace));
        kit.settled(transactional, 0);
        List<String> values = new ArrayList<>();
        for (ConsumerRecord<String, String> r : kit.records(transactional, 0, "read_committed")) {
            values.add(r.value());
        }
        kit.fact("transactional", values);
    }

    private static String topic(Kit kit, String suffix) throws Exception {
        String name = kit.name(suffix);
        kit.create(new NewTopic(name, Map.of(0, List.of(2, 3, 1))).configs(Map.of("min.insync.replicas", "2")));
        Kit.await("the leader", () -> {
            try {
                var p = Kit.get(kit.admin().describeTopics(List.of(name)).allTopicNames()).get(name).partitions().get(0);
                return p.leader() != null && p.leader().id() == 2 && p.isr().size() == 3;
            } catch (ExecutionException e) {
                return Kit.hasNotHeard(e);
            }
        });
        return name;
    }
}
