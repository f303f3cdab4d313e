import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** Consume, process, produce: offsets are part of the transaction. */
final class Copy {
    static void run(Kit kit) throws Exception {
        String in = kit.topic("in", 1);
        String out = kit.topic("out", 1);
        String group = kit.name("g");
        try (KafkaProducer<String, String> p = kit.producer()) {
            for (int i = 0; i < 15; i++) {
                Kit.get(p.send(new ProducerRecord<>(in, 0, "k", "v" + i)));
            }
        }
        round(kit, in, out, group, 5, true);
        kit.fact("committed-1", Groups.committed(kit, in, group, "5m"));
        round(kit, in, out, group, 5, false);
        kit.settled(out, 0);
        kit.fact("committed-2", Groups.committed(kit, in, group, "5m"));
        round(kit, in, out, group, 5, true);
        round(kit, in, out, group, 5, true);
        kit.fact("committed-3", Groups.committed(kit, in, group, "15m"));
        kit.settled(out, 0);
        kit.fact("out-committed", kit.read(out, 0, "read_committed"));
        kit.fact("out-uncommitted", kit.read(out, 0, "read_uncommitted"));
    }

    /** One application that copies n records in one transaction, from where the group was. */
    private static void round(Kit kit, String in, String out, String group, int n, boolean commit) throws Exception {
        try (KafkaConsumer<String, String> consumer = kit.consumer("group.id", group, "isolation.level", "read_committed", "max.poll.records", "1");
                KafkaProducer<String, String> p = kit.producer("transactional.id", kit.name("id"))) {
            p.initTransactions();
            consumer.subscribe(List.of(in));
            p.beginTransaction();
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            long deadline = Kit.deadline();
            for (int i = 0; i < n; ) {
                for (ConsumerRecord<String, String> r : consumer.poll(Duration.ofMillis(200))) {
                    p.send(new ProducerRecord<>(out, 0, r.key(), r.value() + "'"));
                    offsets.put(new TopicPartition(in, 0), new OffsetAndMetadata(r.offset() + 1, "m"));
                    i++;
                }
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException(i + " of " + n + " records came");
                }
            }
            p.flush(); // an abort drops what was not sent yet
            p.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
            if (commit) {
                p.commitTransaction();
            } else {
                p.abortTransaction();
            }
        }
    }
}
