import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.InvalidTxnStateException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Timer;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.BatchMetadata;
import org.apache.kafka.storage.internals.log.CompletedTxn;
import org.apache.kafka.storage.internals.log.LogOffsetMetadata;
import org.apache.kafka.storage.internals.log.ProducerAppendInfo;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.VerificationGuard;
import org.apache.kafka.storage.internals.log.VerificationStateEntry;

/**
 * Drives Apache Kafka's own producer state by lines on stdin, and says on stdout, for each line, what came of it and
 * what the whole state is. What in Kafka the log does around the class (duplicates, verification, the order of
 * updates) is done here in the log's order. Kafka has no mirror barrier: it is modelled as the contract says, by
 * completing what is open as aborted and going on with a state manager that knows nobody.
 */
public final class Oracle {
    static final TopicPartition TP = new TopicPartition("t", 0);

    /** A clock that the requests set. */
    static final class Clock implements Time {
        long now;

        @Override public long milliseconds() { return now; }
        @Override public long hiResClockMs() { return now; }
        @Override public long nanoseconds() { return now * 1_000_000; }
        @Override public void sleep(long ms) { now += ms; }
        @Override public void waitObject(Object o, Supplier<Boolean> condition, long deadline) {
            throw new UnsupportedOperationException();
        }
        @Override public Timer timer(long timeoutMs) { throw new UnsupportedOperationException(); }
    }

    record Stored(RecordBatch batch, boolean own) { }

    final Clock clock = new Clock();
    final Path root;
    Path dir;
    int dirs;
    ProducerStateManagerConfig config;
    int maxTimeout;
    ProducerStateManager psm;
    /** States from before a barrier: all that matters of them is what the high watermark has not passed. */
    final List<ProducerStateManager> past = new ArrayList<>();
    final List<Stored> log = new ArrayList<>();
    final List<VerificationGuard> guards = new ArrayList<>();
    final TreeSet<Long> verified = new TreeSet<>();
    long logStart;

    Oracle(Path root) { this.root = root; }

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), false, StandardCharsets.US_ASCII);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        Path root = Files.createTempDirectory("psm-oracle");
        Oracle o = new Oracle(root);
        try {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                out.println(o.handle(line.split(" ")));
                out.flush();
            }
        } finally {
            try (var files = Files.walk(root)) {
                for (Path p : files.sorted(Comparator.reverseOrder()).toList()) Files.delete(p);
            }
        }
    }

    ProducerStateManager manager() throws IOException {
        return new ProducerStateManager(TP, dir.toFile(), maxTimeout, config, clock);
    }

    static long num(String s) { return Long.parseLong(s); }

    String handle(String[] f) throws IOException {
        String result = "0";
        switch (f[0]) {
            case "N" -> {
                config = new ProducerStateManagerConfig((int) num(f[2]), f[1].equals("1"));
                maxTimeout = (int) num(f[3]);
                dir = Files.createDirectory(root.resolve("log" + dirs++));
                past.clear();
                log.clear();
                guards.clear();
                guards.add(VerificationGuard.SENTINEL);
                verified.clear();
                logStart = 0;
                clock.now = 0;
                psm = manager();
            }
            case "C" -> clock.now = num(f[1]);
            case "A" -> result = append(f);
            case "V" -> result = verify(num(f[1]), (short) num(f[2]), (int) num(f[3]), num(f[4]) >= 2);
            case "H" -> {
                psm.onHighWatermarkUpdated(num(f[1]));
                for (ProducerStateManager p : past) p.onHighWatermarkUpdated(num(f[1]));
            }
            case "L" -> {
                logStart = num(f[1]);
                psm.onLogStartOffsetIncremented(logStart);
                for (ProducerStateManager p : past) p.onLogStartOffsetIncremented(logStart);
            }
            case "X" -> psm.removeExpiredProducers(clock.now);
            case "S" -> {
                Optional<File> file = psm.takeSnapshot(true);
                result = file.isPresent() ? HexFormat.of().formatHex(Files.readAllBytes(file.get().toPath())) : "none";
            }
            case "D" -> { // damages the newest snapshot
                OptionalLong newest = psm.latestSnapshotOffset();
                if (newest.isPresent()) {
                    Path p = psm.snapshotFileForOffset(newest.getAsLong()).get().file().toPath();
                    byte[] b = Files.readAllBytes(p);
                    b[b.length - 1] ^= 1;
                    Files.write(p, b);
                }
            }
            case "T" -> reload(num(f[1]));
            case "R" -> {
                long end = psm.mapEndOffset();
                psm = manager();
                verified.clear();
                reload(end);
            }
            default -> throw new IllegalArgumentException(f[0]);
        }
        return result + " " + state();
    }

    static AppendOrigin origin(String s) {
        return switch (s) {
            case "client" -> AppendOrigin.CLIENT;
            case "coordinator" -> AppendOrigin.COORDINATOR;
            default -> AppendOrigin.REPLICATION;
        };
    }

    /** A origin guard transactionVersion b|c (own|-):hex ... : one append; c takes the batches as one chunk. */
    String append(String[] f) throws IOException {
        AppendOrigin origin = origin(f[1]);
        VerificationGuard guard = guards.get((int) num(f[2]));
        short version = (short) num(f[3]);
        List<Stored> batches = new ArrayList<>();
        for (int i = 5; i < f.length; i++) {
            String[] p = f[i].split(":");
            byte[] bytes = HexFormat.of().parseHex(p[1]);
            batches.add(new Stored(MemoryRecords.readableRecords(ByteBuffer.wrap(bytes)).batches().iterator().next(), p[0].equals("own")));
        }
        StringBuilder done = new StringBuilder();
        try {
            for (int i = 0; i < batches.size();) {
                List<Stored> chunk = new ArrayList<>();
                chunk.add(batches.get(i++));
                while (f[4].equals("c") && !chunk.get(0).own() && i < batches.size() && !batches.get(i).own()) chunk.add(batches.get(i++));
                String dup = apply(chunk, origin, guard, version, done);
                if (dup != null) return dup;
                log.addAll(chunk);
            }
        } catch (ApiException e) {
            return Short.toString(Errors.forException(e).code());
        }
        return "0" + done;
    }

    /** What UnifiedLog does with the batches of one append. */
    String apply(List<Stored> chunk, AppendOrigin origin, VerificationGuard guard, short version, StringBuilder done) throws IOException {
        if (chunk.get(0).own()) {
            barrier(chunk.get(0).batch(), origin, done);
            return null;
        }
        Map<Long, ProducerAppendInfo> updates = new LinkedHashMap<>();
        List<CompletedTxn> completed = new ArrayList<>();
        long end = 0;
        for (Stored s : chunk) {
            RecordBatch b = s.batch();
            end = b.lastOffset() + 1;
            if (!b.hasProducerId()) continue;
            ProducerStateEntry entry = psm.activeProducers().get(b.producerId());
            if (origin == AppendOrigin.CLIENT && entry != null) {
                Optional<BatchMetadata> dup = duplicate(entry, b);
                if (dup.isPresent())
                    return "dup:" + dup.get().firstOffset() + ":" + dup.get().lastOffset() + ":" + dup.get().timestamp();
            }
            if (origin != AppendOrigin.REPLICATION && b.isTransactional() && !ongoing(entry, b.producerEpoch())) {
                if (entry != null && b.producerEpoch() < entry.producerEpoch())
                    throw new InvalidProducerEpochException("epoch");
                if (config.transactionVerificationEnabled() && !b.isControlBatch() && !guardOf(b.producerId()).verify(guard))
                    throw new InvalidTxnStateException("guard");
            }
            ProducerAppendInfo info = updates.get(b.producerId());
            if (info == null) {
                info = psm.prepareUpdate(b.producerId(), origin);
                updates.put(b.producerId(), info);
            }
            Optional<LogOffsetMetadata> first = b.isTransactional() ? Optional.of(new LogOffsetMetadata(b.baseOffset())) : Optional.empty();
            info.append(b, first, version).ifPresent(completed::add);
            if (b.isTransactional()) {
                VerificationStateEntry v = psm.verificationStateEntry(b.producerId());
                boolean next = v != null && v.supportsEpochBump() && b.isControlBatch() && b.producerEpoch() == v.epoch();
                if (!next) {
                    psm.clearVerificationStateEntry(b.producerId());
                    verified.remove(b.producerId());
                }
            }
        }
        updates.values().forEach(psm::update);
        for (CompletedTxn c : completed) {
            done.append(' ').append(show(c, psm.lastStableOffset(c)));
            psm.completeTxn(c);
        }
        psm.updateMapEndOffset(end);
        return null;
    }

    static String show(CompletedTxn c, long lso) {
        return "txn:" + c.producerId() + ":" + c.firstOffset() + ":" + c.lastOffset() + ":" + c.isAborted() + ":" + lso;
    }

    static boolean ongoing(ProducerStateEntry entry, short epoch) {
        return entry != null && entry.currentTxnFirstOffset().isPresent() && entry.producerEpoch() == epoch;
    }

    VerificationGuard guardOf(long pid) {
        VerificationStateEntry v = psm.verificationStateEntry(pid);
        return v == null ? VerificationGuard.SENTINEL : v.verificationGuard();
    }

    /** ProducerStateEntry.findDuplicateBatch is the class's own, but not public. */
    static Optional<BatchMetadata> duplicate(ProducerStateEntry entry, RecordBatch b) {
        try {
            return FIND.invoke(entry, b) instanceof Optional<?> o ? o.map(BatchMetadata.class::cast) : Optional.empty();
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    static final java.lang.reflect.Method FIND;

    static {
        try {
            FIND = ProducerStateEntry.class.getDeclaredMethod("findDuplicateBatch", RecordBatch.class);
            FIND.setAccessible(true);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    /** The barrier, from the contract: PSM-1, PSM-7, PSM-8. */
    void barrier(RecordBatch b, AppendOrigin origin, StringBuilder done) throws IOException {
        TreeMap<Long, Long> open = new TreeMap<>();
        psm.activeProducers().values().forEach(e -> e.currentTxnFirstOffset().ifPresent(o -> open.put(o, e.producerId())));
        if (!open.isEmpty() && origin == AppendOrigin.COORDINATOR) throw new InvalidTxnStateException("open");
        for (Map.Entry<Long, Long> e : open.entrySet()) {
            CompletedTxn c = new CompletedTxn(e.getValue(), e.getKey(), b.baseOffset(), true);
            done.append(' ').append(show(c, psm.lastStableOffset(c)));
            psm.completeTxn(c);
        }
        past.add(psm);
        psm = manager();
        verified.clear();
        psm.updateMapEndOffset(b.lastOffset() + 1);
    }

    String verify(long pid, short epoch, int sequence, boolean bump) {
        ProducerStateEntry entry = psm.activeProducers().get(pid);
        if (entry != null && epoch < entry.producerEpoch()) return Short.toString(Errors.INVALID_PRODUCER_EPOCH.code());
        if (ongoing(entry, epoch) || !config.transactionVerificationEnabled()) {
            guards.add(VerificationGuard.SENTINEL);
            return "0";
        }
        guards.add(psm.maybeCreateVerificationStateEntry(pid, sequence, epoch, bump).verificationGuard());
        verified.add(pid);
        return "0";
    }

    /** Truncation or start: newest snapshot, then the log, batch by batch as recovery does. */
    void reload(long target) throws IOException {
        past.clear();
        log.removeIf(s -> s.batch().lastOffset() >= target);
        psm.truncateAndReload(logStart, target, clock.now);
        for (Stored s : log) {
            if (s.batch().lastOffset() >= psm.mapEndOffset())
                apply(List.of(s), AppendOrigin.REPLICATION, VerificationGuard.SENTINEL, (short) -1, new StringBuilder());
        }
        psm.updateMapEndOffset(target);
    }

    String state() {
        long unstable = psm.firstUnstableOffset().map(o -> o.messageOffset).orElse(Long.MAX_VALUE);
        for (ProducerStateManager p : past)
            unstable = Math.min(unstable, p.firstUnstableOffset().map(o -> o.messageOffset).orElse(Long.MAX_VALUE));
        StringBuilder s = new StringBuilder("end:" + psm.mapEndOffset() + " unstable:" + (unstable == Long.MAX_VALUE ? -1 : unstable)
            + " undecided:" + psm.firstUndecidedOffset().orElse(-1) + " late:" + psm.hasLateTransaction(clock.now));
        for (ProducerStateEntry e : new TreeMap<>(psm.activeProducers()).values()) {
            s.append(" p:").append(e.producerId()).append(':').append(e.producerEpoch()).append(':').append(e.coordinatorEpoch())
                .append(':').append(e.lastTimestamp()).append(':').append(e.currentTxnFirstOffset().orElse(-1));
            for (BatchMetadata b : e.batchMetadata())
                s.append(':').append(b.firstSeq()).append('-').append(b.lastSeq()).append('@').append(b.firstOffset()).append('-')
                    .append(b.lastOffset()).append('/').append(b.timestamp());
        }
        for (long pid : verified) {
            VerificationStateEntry v = psm.verificationStateEntry(pid);
            if (v != null)
                s.append(" v:").append(pid).append(':').append(v.epoch()).append(':').append(v.lowestSequence()).append(':').append(v.supportsEpochBump());
        }
        return s.toString();
    }
}
