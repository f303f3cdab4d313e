import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

final class Transactions {
    static void run(Kit kit) throws Exception {
        String topic = kit.topic("", 2);
        String id = kit.name("id");
        KafkaProducer<String, String> p = kit.producer("transactional.id", id);
        p.initTransactions();
        for (String outcome : List.of("commit1", "abort1", "commit2", "abort2", "commit3")) {
            p.beginTransaction();
            send(p, topic, outcome);
            if (outcome.startsWith("commit")) {
                p.commitTransaction();
            } else {
                p.abortTransaction();
            }
        }
        p.beginTransaction();
        p.commitTransaction(); // an empty one
        p.beginTransaction();
        send(p, topic, "open");
        for (int partition = 0; partition < 2; partition++) {
            kit.fact("ends-while-open-" + partition, Map.of(
                    "read_committed", kit.end(topic, partition, "read_committed"), "read_uncommitted", kit.end(topic, partition, "read_uncommitted")));
            kit.fact("committed-while-open-" + partition, kit.read(topic, partition, "read_committed"));
            kit.fact("uncommitted-while-open-" + partition, kit.read(topic, partition, "read_uncommitted"));
        }
        try (KafkaProducer<String, String> second = kit.producer("transactional.id", id)) {
            second.initTransactions(); // ends the open one
            second.beginTransaction();
            send(second, topic, "second");
            kit.fact("fenced-send", Kit.error(() -> Kit.get(p.send(new ProducerRecord<>(topic, 0, "k", "zombie")))));
            kit.fact("fenced-commit", Kit.error(() -> {
                p.commitTransaction();
                return null;
            }));
            second.commitTransaction();
        }
        p.close();
        for (int partition = 0; partition < 2; partition++) {
            kit.settled(topic, partition);
            kit.fact("committed-at-the-end-" + partition, kit.read(topic, partition, "read_committed"));
            kit.fact("uncommitted-at-the-end-" + partition, kit.read(topic, partition, "read_uncommitted"));
        }
        timeout(kit);
    }

    private static void send(KafkaProducer<String, String> p, String topic, String value) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (int i = 0; i < 6; i++) {
            sent.add(p.send(new ProducerRecord<>(topic, i % 2, "k", value + "-" + i)));
        }
        for (Future<RecordMetadata> f : sent) {
            Kit.get(f);
        }
    }

    /** A transaction that runs into its timeout is aborted by the coordinator. */
    private static void timeout(Kit kit) throws Exception {
        String topic = kit.topic("late", 1);
        try (KafkaProducer<String, String> p = kit.producer("transactional.id", kit.name("late"), "transaction.timeout.ms", "4000")) {
            p.initTransactions();
            p.beginTransaction();
            Kit.get(p.send(new ProducerRecord<>(topic, 0, "k", "late")));
            // 0:late and the marker
            Kit.await("the abort by timeout", () -> kit.end(topic, 0, "read_committed") == 2);
            kit.fact("timed-out-commit", Kit.error(() -> {
                p.commitTransaction();
                return null;
            }));
            kit.fact("abort-after-timeout", Kit.error(() -> {
                p.abortTransaction();
                return null;
            }));
        }
        kit.fact("committed-after-timeout", kit.read(topic, 0, "read_committed"));
        kit.fact("too-long", Kit.error(() -> {
            try (KafkaProducer<String, String> p = kit.producer("transactional.id", kit.name("long"), "transaction.timeout.ms", "900001")) {
                p.initTransactions();
            }
            return null;
        }));
    }
}
