import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/** Reads a topic that was mirrored, with a barrier within and one as the last batch. */
final class Barrier {
    static void run(Kit kit) throws Exception {
        for (String isolation : List.of("read_committed", "read_uncommitted")) {
            TopicPartition tp = new TopicPartition(kit.name(isolation), 0);
            try (KafkaConsumer<String, String> c = kit.consumer("isolation.level", isolation, "fetch.max.wait.ms", "200", "client.id", kit.prefix)) {
                c.assign(List.of(tp));
                c.seekToBeginning(List.of(tp));
                long end = c.endOffsets(List.of(tp)).get(tp);
                List<String> read = new ArrayList<>();
                Kit.await("the end", () -> {
                    for (ConsumerRecord<String, String> r : c.poll(Duration.ofMillis(100))) {
                        read.add(r.offset() + ":" + r.value());
                    }
                    return c.position(tp) >= end;
                });
                kit.fact(isolation, read);
                Client.ask(kit.behaviour, isolation + " count");
                long deadline = System.nanoTime() + 1_500_000_000L;
                while (System.nanoTime() < deadline) {
                    c.poll(Duration.ofMillis(100));
                }
                kit.fact(isolation + "-fetches", Client.ask(kit.behaviour, isolation + " fetches"));
                // Whoever stands on the barrier goes on.
                Client.ask(kit.behaviour, isolation + " produce");
                Kit.await("a record after the barrier", () -> {
                    for (ConsumerRecord<String, String> r : c.poll(Duration.ofMillis(100))) {
                        read.add(r.value());
                    }
                    return !read.isEmpty() && read.get(read.size() - 1).equals("after");
                });
                kit.fact(isolation + "-goes-on", read.get(read.size() - 1));
            }
        }
    }
}
