package org.apache.kafka.storage.internals.log; // for findDuplicateBatch, as the log itself

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;

/**
 * Times Apache Kafka's producer state: for each line "kind producers batches" on stdin one line of nanoseconds for each
 * batch (or for the whole, of snapshots). Only the class's own calls are made that a log makes for each batch.
 */
public final class Bench {
    static final int HEADER = 61;

    final ProducerStateManager psm;
    final int n;
    final int[] sequences;
    final ByteBuffer buffer = ByteBuffer.allocate(HEADER);
    final RecordBatch batch;
    long end;
    long random = 1;

    Bench(int n, File dir) throws Exception {
        this.n = n;
        psm = new ProducerStateManager(new TopicPartition("t", 0), dir, 900_000, new ProducerStateManagerConfig(86_400_000, false), Time.SYSTEM);
        sequences = new int[n];
        buffer.putInt(8, HEADER - 12).put(16, (byte) 2).putInt(57, 1);
        batch = MemoryRecords.readableRecords(buffer).batches().iterator().next();
        for (int i = 0; i < 5; i++) for (int pid = 0; pid < n; pid++) append(pid, 0);
    }

    int next() {
        random = random * 6364136223846793005L + 1442695040888963407L;
        return (int) ((random >>> 33) % n);
    }

    void append(int pid, int attributes) {
        buffer.putLong(0, end).putShort(21, (short) attributes).putLong(35, end).putLong(43, pid).putInt(53, sequences[pid]++);
        Optional<ProducerStateEntry> entry = psm.lastEntry(batch.producerId());
        if (entry.flatMap(e -> e.findDuplicateBatch(batch)).isPresent()) throw new IllegalStateException("duplicate");
        ProducerAppendInfo info = psm.prepareUpdate(batch.producerId(), AppendOrigin.CLIENT);
        Optional<LogOffsetMetadata> first = batch.isTransactional() ? Optional.of(new LogOffsetMetadata(batch.baseOffset())) : Optional.empty();
        info.append(batch, first, (short) 1);
        psm.update(info);
        end++;
        psm.updateMapEndOffset(end);
    }

    void commit(int pid) {
        ProducerAppendInfo info = psm.prepareUpdate(pid, AppendOrigin.COORDINATOR);
        Optional<CompletedTxn> done = info.appendEndTxnMarker(new EndTransactionMarker(ControlRecordType.COMMIT, 0), (short) 0, end, end, (short) 1);
        psm.update(info);
        psm.lastStableOffset(done.get());
        psm.completeTxn(done.get());
        end++;
        psm.updateMapEndOffset(end);
        psm.onHighWatermarkUpdated(end);
    }

    public static void main(String[] args) throws Exception {
        Path root = Files.createTempDirectory("psm-bench");
        Map<Integer, Bench> benches = new HashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] f = line.split(" ");
            int n = Integer.parseInt(f[1]);
            int count = Integer.parseInt(f[2]);
            Bench b = benches.get(n);
            if (b == null) {
                b = new Bench(n, Files.createDirectory(root.resolve("n" + n)).toFile());
                benches.put(n, b);
            }
            File file = root.resolve("00000000000000000001.snapshot").toFile();
            long began = System.nanoTime();
            switch (f[0]) {
                case "append" -> {
                    for (int i = 0; i < count; i++) b.append(b.next(), 0);
                }
                case "txn" -> {
                    for (int i = 0; i < count; i += 5) {
                        int pid = b.next();
                        for (int k = 0; k < 4; k++) b.append(pid, 0x10);
                        b.commit(pid);
                    }
                }
                case "write" -> {
                    for (int i = 0; i < count; i++) ProducerStateManager.writeSnapshot(file, b.psm.activeProducers(), true);
                }
                case "load" -> {
                    for (int i = 0; i < count; i++) {
                        ProducerStateManager fresh = new ProducerStateManager(new TopicPartition("t", 0), root.toFile(), 900_000,
                            new ProducerStateManagerConfig(Integer.MAX_VALUE, false), Time.SYSTEM);
                        fresh.truncateAndReload(0, 1, 0);
                        if (fresh.activeProducers().size() != n) throw new IllegalStateException("not loaded");
                    }
                }
                default -> throw new IllegalArgumentException(f[0]);
            }
            System.out.println((System.nanoTime() - began) / (double) count);
        }
        try (var files = Files.walk(root)) {
            for (Path p : files.sorted(Comparator.reverseOrder()).toList()) Files.delete(p);
        }
    }
}
