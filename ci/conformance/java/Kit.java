import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** What behaviours share: clients with this run's settings, and the printing of facts. */
final class Kit implements AutoCloseable {
    static final long LIMIT = 150;

    final String bootstrap;
    final String prefix;
    final String behaviour;
    private Admin admin;

    Kit(String bootstrap, String prefix, String behaviour) {
        this.bootstrap = bootstrap;
        this.prefix = prefix;
        this.behaviour = behaviour;
    }

    void fact(String name, Object value) throws Exception {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("behaviour", behaviour);
        line.put("fact", name);
        line.put("value", value);
        Client.print(line);
    }

    String name(String suffix) {
        return prefix + "-" + behaviour + (suffix.isEmpty() ? "" : "-" + suffix);
    }

    Admin admin() {
        if (admin == null) {
            admin = Admin.create(Map.of("bootstrap.servers", bootstrap, "default.api.timeout.ms", "150000"));
        }
        return admin;
    }

    /** Creates a topic with three replicas and waits until a leader is known for each partition. */
    String topic(String suffix, int partitions) throws Exception {
        String name = name(suffix);
        create(new NewTopic(name, partitions, (short) 3));
        await("leaders of " + name, () -> {
            try {
                return get(admin().describeTopics(List.of(name)).allTopicNames()).get(name).partitions().stream()
                        .filter(p -> p.leader() != null && p.isr().size() == 3).count() == partitions;
            } catch (ExecutionException e) {
                return hasNotHeard(e);
            }
        });
        return name;
    }

    /** Creates a topic. That it is there already says that the client has asked twice: names are not used twice. */
    void create(NewTopic topic) throws Exception {
        try {
            get(admin().createTopics(List.of(topic)).all());
        } catch (ExecutionException e) {
            if (!(e.getCause() instanceof TopicExistsException)) {
                throw e;
            }
        }
    }

    /** Waits until no transaction is open: markers are written a moment after the end was acknowledged. */
    void settled(String topic, int partition) throws Exception {
        await("the markers of " + topic, () -> end(topic, partition, "read_committed") == end(topic, partition, "read_uncommitted"));
    }

    /** False for what a broker says that has not heard of a topic yet; anything else is thrown. */
    static boolean hasNotHeard(ExecutionException e) throws ExecutionException {
        if (!(e.getCause() instanceof UnknownTopicOrPartitionException)) {
            throw e;
        }
        return false;
    }

    KafkaProducer<String, String> producer(String... settings) {
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("bootstrap.servers", bootstrap);
        all.put("delivery.timeout.ms", "150000");
        all.put("request.timeout.ms", "10000");
        all.put("max.block.ms", "120000");
        all.put("linger.ms", "0");
        put(all, settings);
        return new KafkaProducer<>(all, new StringSerializer(), new StringSerializer());
    }

    KafkaConsumer<String, String> consumer(String... settings) {
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("bootstrap.servers", bootstrap);
        all.put("auto.offset.reset", "earliest");
        all.put("enable.auto.commit", "false");
        all.put("session.timeout.ms", "10000");
        all.put("heartbeat.interval.ms", "500");
        put(all, settings);
        return new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer());
    }

    private static void put(Map<String, Object> all, String... settings) {
        for (int i = 0; i < settings.length; i += 2) {
            all.put(settings[i], settings[i + 1]);
        }
    }

    /** The records of a partition up to its end as this isolation level sees it, as OFFSET:VALUE. */
    List<String> read(String topic, int partition, String isolation) throws Exception {
        List<String> all = new ArrayList<>();
        for (ConsumerRecord<String, String> r : records(topic, partition, isolation)) {
            all.add(r.offset() + ":" + r.value());
        }
        return all;
    }

    List<ConsumerRecord<String, String>> records(String topic, int partition, String isolation) throws Exception {
        TopicPartition tp = new TopicPartition(topic, partition);
        List<ConsumerRecord<String, String>> all = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = consumer("isolation.level", isolation)) {
            consumer.assign(List.of(tp));
            consumer.seekToBeginning(List.of(tp));
            long end = consumer.endOffsets(List.of(tp)).get(tp);
            long deadline = deadline();
            while (consumer.position(tp) < end) {
                for (ConsumerRecord<String, String> r : consumer.poll(Duration.ofMillis(200))) {
                    all.add(r);
                }
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("at " + consumer.position(tp) + " of " + end + " of " + tp + " in " + isolation);
                }
            }
        }
        return all;
    }

    long end(String topic, int partition, String isolation) {
        TopicPartition tp = new TopicPartition(topic, partition);
        try (KafkaConsumer<String, String> consumer = consumer("isolation.level", isolation)) {
            return consumer.endOffsets(List.of(tp)).get(tp);
        }
    }

    static long deadline() {
        return System.nanoTime() + TimeUnit.SECONDS.toNanos(LIMIT);
    }

    static void await(String what, Callable<Boolean> holds) throws Exception {
        long deadline = deadline();
        while (!holds.call()) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("waited in vain for " + what);
            }
            Thread.sleep(20);
        }
    }

    static <T> T get(Future<T> future) throws Exception {
        return future.get(LIMIT, TimeUnit.SECONDS);
    }

    /** The name of the error that something ends with, or "none". */
    static String error(Callable<?> something) {
        try {
            something.call();
            return "none";
        } catch (ExecutionException e) {
            return e.getCause().getClass().getSimpleName();
        } catch (Exception e) {
            // The producer wraps what it was told into a KafkaException, sometimes.
            Throwable cause = e.getClass().getSimpleName().equals("KafkaException") && e.getCause() != null ? e.getCause() : e;
            if (cause instanceof ExecutionException && cause.getCause() != null) {
                cause = cause.getCause();
            }
            return cause.getClass().getSimpleName();
        }
    }

    @Override
    public void close() {
        if (admin != null) {
            admin.close(Duration.ofSeconds(5));
        }
    }
}
