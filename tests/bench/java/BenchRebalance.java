import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Arguments: bootstrap, topic, members, heartbeat interval in ms, times to warm up, times to measure. The topic has as
 * many partitions as there are members.
 * All but one are in the group; the last one comes, until everybody has one partition, and leaves again.
 * Standard output: the median of the times from its coming until then, in milliseconds.
 */
public final class BenchRebalance {
    private static final AtomicReference<Exception> FAILED = new AtomicReference<>();
    private static final long PATIENCE_NANOS = 120_000_000_000L;

    /** A member in a thread of its own; `partitions` are how many it has. */
    private static final class Member implements Runnable, ConsumerRebalanceListener {
        final Thread thread = new Thread(this);
        private final KafkaConsumer<byte[], byte[]> consumer;
        private volatile int partitions;
        private volatile boolean stopped;

        Member(String bootstrap, String topic, String heartbeat) {
            Properties settings = new Properties();
            settings.put("bootstrap.servers", bootstrap);
            settings.put("group.id", "rebalance-java");
            settings.put("enable.auto.commit", "false");
            settings.put("auto.offset.reset", "earliest");
            settings.put("heartbeat.interval.ms", heartbeat);
            settings.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor");
            consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            consumer.subscribe(List.of(topic), this);
        }

        @Override
        public void run() {
            try (consumer) {
                while (!stopped && FAILED.get() == null) {
                    consumer.poll(Duration.ofMillis(50));
                }
            } catch (Exception failure) {
                FAILED.compareAndSet(null, failure);
            }
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> revoked) {
            partitions = 0;
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
            partitions = assigned.size();
        }

        void stop() throws InterruptedException {
            stopped = true;
            thread.join();
        }
    }

    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[2]);
        int warmUp = Integer.parseInt(arguments[4]);
        double[] milliseconds = new double[Integer.parseInt(arguments[5])];
        List<Member> members = new ArrayList<>();
        for (int n = 1; n < count; n++) {
            var member = new Member(arguments[0], arguments[1], arguments[3]);
            members.add(member);
            member.thread.start();
        }
        await(members, count);
        for (int n = -warmUp; n < milliseconds.length; n++) {
            var newcomer = new Member(arguments[0], arguments[1], arguments[3]);
            members.add(newcomer);
            long start = System.nanoTime();
            newcomer.thread.start();
            await(members, count);
            if (n >= 0) {
                milliseconds[n] = (System.nanoTime() - start) / 1e6;
            }
            newcomer.stop();
            members.remove(newcomer);
            await(members, count);
        }
        for (Member member : members) {
            member.stopped = true;
        }
        for (Member member : members) {
            member.stop();
        }
        if (FAILED.get() != null) {
            throw FAILED.get();
        }
        Arrays.sort(milliseconds);
        System.out.println(milliseconds[milliseconds.length / 2]);
    }

    /** Until all of them have partitions, and together the topic's `count` ones. */
    private static void await(List<Member> members, int count) throws Exception {
        long deadline = System.nanoTime() + PATIENCE_NANOS;
        while (
            members.stream().mapToInt(member -> member.partitions).sum() != count
            || members.stream().anyMatch(member -> member.partitions == 0)
        ) {
            if (FAILED.get() != null) {
                throw FAILED.get();
            }
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("the members did not get all partitions");
            }
            Thread.sleep(1);
        }
    }
}
