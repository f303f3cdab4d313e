import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** What the admin client tells of producers and transactions, and does to them. */
final class Producers {
    static void run(Kit kit) throws Exception {
        Admin admin = kit.admin();
        TopicPartition tp = new TopicPartition(kit.topic("", 1), 0);
        String id = kit.name("id");
        kit.fact("none", producers(admin, tp));
        try (KafkaProducer<String, String> p = kit.producer()) {
            for (int i = 0; i < 4; i++) {
                Kit.get(p.send(new ProducerRecord<>(tp.topic(), 0, "k", "v" + i)));
            }
            kit.fact("idempotent", producers(admin, tp));
        }
        try (KafkaProducer<String, String> p = kit.producer("transactional.id", id, "transaction.timeout.ms", "45000")) {
            p.initTransactions();
            kit.fact("transaction-empty", transaction(admin, id));
            p.beginTransaction();
            Kit.get(p.send(new ProducerRecord<>(tp.topic(), 0, "k", "t")));
            kit.fact("open", producers(admin, tp));
            kit.fact("transaction-open", transaction(admin, id));
            kit.fact("listed-open", listed(admin, kit, new ListTransactionsOptions()));
            kit.fact("listed-long", listed(admin, kit, new ListTransactionsOptions().filterOnDuration(60_000)));
            p.commitTransaction();
            kit.fact("listed-committed", settled(admin, id));
            kit.fact("closed", producers(admin, tp));
            p.beginTransaction();
            Kit.get(p.send(new ProducerRecord<>(tp.topic(), 0, "k", "u")));
            Kit.get(admin.fenceProducers(List.of(id)).all());
            kit.fact("fenced", Kit.error(() -> {
                p.commitTransaction();
                return null;
            }));
        }
        Kit.await("the fence", () -> transaction(admin, id).toString().startsWith("Empty"));
        kit.fact("after-fence", transaction(admin, id));
        kit.settled(tp.topic(), 0);
        kit.fact("committed", kit.read(tp.topic(), 0, "read_committed"));
        Map<String, Object> errors = new TreeMap<>();
        errors.put("describe unknown transaction", Kit.error(() -> transaction(admin, kit.name("x"))));
        errors.put("abort of a transaction that is not open", Kit.error(() -> Kit.get(admin.abortTransaction(
                new AbortTransactionSpec(tp, 424242, (short) 0, 0)).all())));
        kit.fact("errors", errors);
        kit.fact("committed-at-the-end", kit.read(tp.topic(), 0, "read_committed"));
    }

    private static Object producers(Admin admin, TopicPartition tp) throws Exception {
        return Kit.get(admin.describeProducers(List.of(tp)).all()).get(tp).activeProducers().stream()
                .map(Producers::state).sorted().toList();
    }

    private static String state(ProducerState s) {
        return "epoch " + s.producerEpoch() + " sequence " + s.lastSequence() + " coordinator epoch " + s.coordinatorEpoch().orElse(-1)
                + " open at " + s.currentTransactionStartOffset().orElse(-1) + (s.lastTimestamp() > 0 ? "" : " without timestamp");
    }

    private static Object transaction(Admin admin, String id) throws Exception {
        TransactionDescription d = Kit.get(admin.describeTransactions(List.of(id)).all()).get(id);
        return d.state() + " epoch " + d.producerEpoch() + " timeout " + d.transactionTimeoutMs() + " started " + d.transactionStartTimeMs().isPresent()
                + " partitions " + d.topicPartitions().size();
    }

    private static Object listed(Admin admin, Kit kit, ListTransactionsOptions o) throws Exception {
        return Kit.get(admin.listTransactions(o).all()).stream().filter(t -> t.transactionalId().startsWith(kit.name("")))
                .map(t -> t.transactionalId().substring(kit.prefix.length()) + " " + t.state()).toList();
    }

    /** A transaction is complete a moment after its end was acknowledged. */
    private static Object settled(Admin admin, String id) throws Exception {
        Kit.await("the markers", () -> transaction(admin, id).toString().startsWith("Complete"));
        return transaction(admin, id);
    }
}
