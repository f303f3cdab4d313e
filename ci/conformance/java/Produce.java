import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;

final class Produce {
    static void run(Kit kit) throws Exception {
        String topic = kit.topic("", 3);
        List<Long> acked = new ArrayList<>();
        try (KafkaProducer<String, String> p = kit.producer()) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int i = 0; i < 20; i++) {
                sent.add(p.send(new ProducerRecord<>(topic, 0, "k", "v" + i)));
            }
            for (Future<RecordMetadata> f : sent) {
                acked.add(Kit.get(f).offset());
            }
            kit.fact("acked", acked);
            kit.fact("too-large", Kit.error(() -> Kit.get(p.send(new ProducerRecord<>(topic, 0, "k", "x".repeat(1_100_000))))));
        }
        kit.fact("read", kit.read(topic, 0, "read_uncommitted"));
        kit.fact("end", kit.end(topic, 0, "read_uncommitted"));

        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            try (KafkaProducer<String, String> p = kit.producer("compression.type", codec)) {
                Kit.get(p.send(new ProducerRecord<>(topic, 1, null, codec.repeat(100))));
            }
        }
        List<String> codecs = new ArrayList<>();
        for (ConsumerRecord<String, String> r : kit.records(topic, 1, "read_committed")) {
            codecs.add(r.offset() + ":" + r.value().substring(0, 3) + r.value().length());
        }
        kit.fact("codecs", codecs);

        for (String acks : List.of("0", "1")) {
            try (KafkaProducer<String, String> p = kit.producer("acks", acks, "enable.idempotence", "false")) {
                Kit.get(p.send(new ProducerRecord<>(topic, 1, null, "acks" + acks)));
            }
        }
        Kit.await("the record that nobody acknowledges", () -> kit.end(topic, 1, "read_uncommitted") == 7);

        try (KafkaProducer<String, String> p = kit.producer()) {
            for (int i = 0; i < 3; i++) {
                ProducerRecord<String, String> r = new ProducerRecord<>(topic, 2, 1_000_000_000_000L + i, "key" + i, i == 1 ? null : "value" + i);
                r.headers().add("a", "1".getBytes()).add("b", null).add("a", new byte[0]);
                Kit.get(p.send(r));
            }
        }
        List<Object> whole = new ArrayList<>();
        for (ConsumerRecord<String, String> r : kit.records(topic, 2, "read_committed")) {
            List<List<String>> headers = new ArrayList<>();
            for (Header h : r.headers()) {
                headers.add(h.value() == null ? List.of(h.key()) : List.of(h.key(), new String(h.value())));
            }
            Map<String, Object> one = new LinkedHashMap<>();
            one.put("key", r.key());
            one.put("value", r.value());
            one.put("timestamp", r.timestamp());
            one.put("headers", headers);
            one.put("leaderEpoch", r.leaderEpoch().orElse(-1));
            one.put("timestampType", r.timestampType().toString());
            whole.add(one);
        }
        kit.fact("whole-records", whole);
        Map<String, Object> times = new LinkedHashMap<>();
        try (KafkaConsumer<String, String> c = kit.consumer()) {
            TopicPartition tp = new TopicPartition(topic, 2);
            for (long t : new long[] {0, 1_000_000_000_001L, 1_000_000_000_003L}) {
                OffsetAndTimestamp at = c.offsetsForTimes(Map.of(tp, t)).get(tp);
                times.put(Long.toString(t), at == null ? "none" : at.offset() + "@" + at.timestamp());
            }
        }
        kit.fact("offsets-by-time", times);
        try (KafkaProducer<String, String> p = kit.producer("max.block.ms", "1000")) {
            kit.fact("unknown-topic", Kit.error(() -> Kit.get(p.send(new ProducerRecord<>(kit.name("nowhere"), 0, "k", "v")))));
        }
    }
}
