import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** DeleteRecords and ListOffsets. */
final class Records {
    static void run(Kit kit) throws Exception {
        Admin admin = kit.admin();
        TopicPartition tp = new TopicPartition(kit.topic("", 1), 0);
        kit.fact("offsets-when-empty", offsets(admin, tp));
        try (KafkaProducer<String, String> p = kit.producer()) {
            for (int i = 0; i < 10; i++) {
                long timestamp = 1_000_000_000_000L + (i == 6 ? 100 : i);
                Kit.get(p.send(new ProducerRecord<>(tp.topic(), 0, timestamp, "k", "v" + i)));
            }
        }
        kit.fact("offsets", offsets(admin, tp));
        kit.fact("low-watermark", delete(admin, tp, 4));
        kit.fact("offsets-after", offsets(admin, tp));
        kit.fact("read", kit.read(tp.topic(), 0, "read_committed"));
        Map<String, Object> errors = new TreeMap<>();
        errors.put("above the end", Kit.error(() -> delete(admin, tp, 11)));
        errors.put("below the start", Kit.error(() -> delete(admin, tp, 2)));
        errors.put("negative", Kit.error(() -> delete(admin, tp, -5)));
        kit.fact("errors", errors);
        kit.fact("all-deleted", delete(admin, tp, -1));
        kit.fact("offsets-at-the-end", offsets(admin, tp));
    }

    private static long delete(Admin admin, TopicPartition tp, long before) throws Exception {
        return Kit.get(admin.deleteRecords(Map.of(tp, RecordsToDelete.beforeOffset(before))).lowWatermarks().get(tp)).lowWatermark();
    }

    private static Object offsets(Admin admin, TopicPartition tp) throws Exception {
        Map<String, Object> all = new TreeMap<>();
        for (var e : Map.of("earliest", OffsetSpec.earliest(), "latest", OffsetSpec.latest(), "max-timestamp", OffsetSpec.maxTimestamp(),
                "time-5", OffsetSpec.forTimestamp(1_000_000_000_005L), "late", OffsetSpec.forTimestamp(2_000_000_000_000L),
                "earliest-local", OffsetSpec.earliestLocal(), "latest-tiered", OffsetSpec.latestTiered()).entrySet()) {
            all.put(e.getKey(), Kit.error(() -> Kit.get(admin.listOffsets(Map.of(tp, e.getValue())).all())));
            if (all.get(e.getKey()).equals("none")) {
                var info = Kit.get(admin.listOffsets(Map.of(tp, e.getValue())).all()).get(tp);
                all.put(e.getKey(), List.of(info.offset(), info.timestamp(), info.leaderEpoch().orElse(-1)));
            }
        }
        return all;
    }
}
