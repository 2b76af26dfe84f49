import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Arguments: bootstrap, topic, groups, members of each group, commits in flight of each member, seconds to warm up,
 * seconds to measure. The topic has as many partitions as a group has members.
 * Every member commits the offset of its partition over and over, without waiting for one commit before the next.
 * Standard output: commits a second.
 */
public final class BenchCommits {
    private static final AtomicLong COMMITTED = new AtomicLong();
    private static final AtomicInteger ASSIGNED = new AtomicInteger();
    private static final AtomicBoolean STOPPED = new AtomicBoolean();
    private static final AtomicReference<Exception> FAILED = new AtomicReference<>();

    private final KafkaConsumer<byte[], byte[]> consumer;
    private final int inFlight;
    private TopicPartition partition;
    private long offset;
    private int left;

    private BenchCommits(String bootstrap, String group, String topic, int inFlight) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", group);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        this.inFlight = inFlight;
        consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.subscribe(List.of(topic));
    }

    public static void main(String[] arguments) throws Exception {
        int groups = Integer.parseInt(arguments[2]);
        int members = Integer.parseInt(arguments[3]);
        List<Thread> threads = new ArrayList<>();
        for (int group = 0; group < groups; group++) {
            for (int member = 0; member < members; member++) {
                var one = new BenchCommits(arguments[0], "commits-java-" + group, arguments[1], Integer.parseInt(arguments[4]));
                threads.add(new Thread(() -> one.run(groups * members)));
            }
        }
        threads.forEach(Thread::start);
        while (COMMITTED.get() == 0 && FAILED.get() == null) {
            Thread.sleep(10);
        }
        Thread.sleep((long) (1000 * Double.parseDouble(arguments[5])));
        long before = COMMITTED.get();
        long start = System.nanoTime();
        Thread.sleep((long) (1000 * Double.parseDouble(arguments[6])));
        double rate = (COMMITTED.get() - before) / ((System.nanoTime() - start) / 1e9);
        STOPPED.set(true);
        for (Thread thread : threads) {
            thread.join();
        }
        if (FAILED.get() != null) {
            throw FAILED.get();
        }
        System.out.println(rate);
    }

    private void run(int everybody) {
        try (consumer) {
            while (consumer.assignment().size() != 1) {
                consumer.poll(Duration.ofMillis(100));
            }
            partition = consumer.assignment().iterator().next();
            consumer.pause(consumer.assignment());
            ASSIGNED.incrementAndGet();
            while (ASSIGNED.get() < everybody && FAILED.get() == null) {
                consumer.poll(Duration.ofMillis(10));
            }
            for (left = inFlight; left > 0; left--) {
                commit();
            }
            while (!STOPPED.get() && FAILED.get() == null) {
                consumer.poll(Duration.ofMillis(100));
            }
        } catch (Exception failure) {
            FAILED.compareAndSet(null, failure);
        }
    }

    private void commit() {
        consumer.commitAsync(Map.of(partition, new OffsetAndMetadata(offset++)), (offsets, failure) -> {
            if (STOPPED.get()) {
                return;
            }
            if (failure != null) {
                FAILED.compareAndSet(null, failure);
            } else {
                COMMITTED.incrementAndGet();
                commit();
            }
        });
    }
}
