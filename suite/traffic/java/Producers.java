import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Producers of Apache Kafka's own client that another process drives: one JSON object on each line of standard input asks,
 * one on standard output answers, with the same id. It ends with its input.
 */
public final class Producers {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream OUT = System.out;

    /** One producer and the thread that its requests take turns on, in the order in which they came. */
    private static final class Driven {
        final ExecutorService turns = Executors.newSingleThreadExecutor(task -> {
            Thread t = new Thread(task);
            t.setDaemon(true);
            return t;
        });
        KafkaProducer<byte[], byte[]> producer;
    }

    public static void main(String[] args) throws IOException {
        Map<String, Driven> all = new HashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode ask = JSON.readTree(line);
            Driven driven = all.computeIfAbsent(ask.get("producer").asText(), name -> new Driven());
            driven.turns.execute(() -> serve(driven, ask));
        }
        // Whoever asked is gone: nobody waits for what is still under way.
        Runtime.getRuntime().halt(0);
    }

    private static void serve(Driven driven, JsonNode ask) {
        long id = ask.get("id").asLong();
        try {
            switch (ask.get("do").asText()) {
                case "new" -> create(driven, ask);
                case "send" -> {
                    send(driven, ask, id);
                    return; // its callback answers
                }
                case "flush" -> driven.producer.flush();
                case "begin" -> driven.producer.beginTransaction();
                case "commit" -> driven.producer.commitTransaction();
                case "abort" -> driven.producer.abortTransaction();
                default -> throw new IllegalArgumentException("do what? " + ask);
            }
            answer(id, -1, null);
        } catch (Exception e) {
            answer(id, -1, e);
        }
    }

    private static void create(Driven driven, JsonNode ask) {
        Properties p = new Properties();
        ask.get("config").fields().forEachRemaining(f -> p.put(f.getKey(), f.getValue().asText()));
        driven.producer = new KafkaProducer<>(p, new ByteArraySerializer(), new ByteArraySerializer());
        if (p.containsKey("transactional.id")) {
            driven.producer.initTransactions();
        }
    }

    private static void send(Driven driven, JsonNode ask, long id) throws IOException {
        ProducerRecord<byte[], byte[]> r = new ProducerRecord<>(
                ask.get("topic").asText(), ask.get("partition").asInt(), bytes(ask.get("key")), bytes(ask.get("value")));
        for (JsonNode h : ask.get("headers")) {
            r.headers().add(h.get("key").asText(), bytes(h.get("value")));
        }
        driven.producer.send(r, (metadata, e) -> answer(id, e == null ? metadata.offset() : -1, e));
    }

    private static byte[] bytes(JsonNode n) throws IOException {
        return n == null || n.isNull() ? null : n.binaryValue();
    }

    private static void answer(long id, long offset, Exception e) {
        ObjectNode a = JSON.createObjectNode().put("id", id).put("offset", Long.toString(offset));
        if (e != null) {
            Throwable cause = e instanceof ExecutionException ? e.getCause() : e;
            a.put("error", cause.toString()).put("code", Errors.forException(cause).code());
        }
        synchronized (OUT) {
            OUT.println(a);
            OUT.flush();
        }
    }
}
