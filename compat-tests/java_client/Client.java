import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Producers, consumers and the admin of one server, and comparisons that say what differs. */
final class Client implements AutoCloseable {
    /** Patience for one step on a loaded machine; nothing here waits for it. */
    static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final Duration POLL = Duration.ofMillis(200);
    private static final int LARGE_REQUEST_BYTES = 4_000_000;

    final String bootstrap;
    final Admin admin;

    Client(String bootstrap) {
        this.bootstrap = bootstrap;
        this.admin = Admin.create(settings());
    }

    @Override
    public void close() {
        admin.close();
    }

    KafkaProducer<byte[], byte[]> producer(String... more) {
        Properties settings = settings("acks", "all", "max.request.size", LARGE_REQUEST_BYTES + "");
        settings.putAll(settings(more));
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    KafkaConsumer<byte[], byte[]> consumer(String... more) {
        Properties settings = settings("auto.offset.reset", "earliest", "enable.auto.commit", "false",
            "session.timeout.ms", "6000", "heartbeat.interval.ms", "500", "auto.commit.interval.ms", "500");
        settings.putAll(settings(more));
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private Properties settings(String... more) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("reconnect.backoff.max.ms", "500");
        for (int i = 0; i < more.length; i += 2) {
            settings.put(more[i], more[i + 1]);
        }
        return settings;
    }

    /** Makes a topic, and returns once it is listed. */
    String freshTopic(String name, int partitions, Map<String, String> configs) throws Exception {
        String topic = name + "-" + UUID.randomUUID();
        admin.createTopics(List.of(new NewTopic(topic, partitions, (short) -1).configs(configs))).all().get();
        until(() -> listed(topic), topic + " to be listed");
        return topic;
    }

    String freshTopic(String name) throws Exception {
        return freshTopic(name, 1, Map.of());
    }

    boolean listed(String topic) {
        try {
            return admin.listTopics().names().get().contains(topic);
        } catch (InterruptedException | ExecutionException failure) {
            throw new AssertionError(failure);
        }
    }

    /** The offsets, once all are acknowledged. */
    static List<Long> send(
            KafkaProducer<byte[], byte[]> producer, Collection<ProducerRecord<byte[], byte[]>> records)
            throws Exception {
        List<Future<RecordMetadata>> waiting = new ArrayList<>();
        for (var record : records) {
            waiting.add(producer.send(record));
        }
        producer.flush();
        List<Long> offsets = new ArrayList<>();
        for (var one : waiting) {
            offsets.add(one.get().offset());
        }
        return offsets;
    }

    /** So many records from where it is. */
    static List<ConsumerRecord<byte[], byte[]>> read(KafkaConsumer<byte[], byte[]> consumer, int count) {
        List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        while (found.size() < count) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError(found.size() + " of " + count + " records came");
            }
            consumer.poll(POLL).forEach(found::add);
        }
        return found;
    }

    /** All of a partition with a new consumer: exactly these records. */
    void checkPartition(String topic, int partition, List<ProducerRecord<byte[], byte[]>> sent) {
        try (var consumer = consumer()) {
            var one = new TopicPartition(topic, partition);
            consumer.assign(List.of(one));
            check(read(consumer, sent.size()), sent, 0);
            equal(consumer.endOffsets(List.of(one)).get(one), (long) sent.size(), "end of the partition");
        }
    }

    /** In this order, with everything that was sent, at offsets without gaps. */
    static void check(
            List<ConsumerRecord<byte[], byte[]>> found, List<ProducerRecord<byte[], byte[]>> sent, long first) {
        for (int n = 0; n < Math.min(found.size(), sent.size()); n++) {
            var one = found.get(n);
            var wanted = sent.get(n);
            equal(one.offset(), first + n, "offset of record " + n);
            same(one.key(), wanted.key(), "key of record " + n);
            same(one.value(), wanted.value(), "value of record " + n);
            equal(List.of(one.headers().toArray()), List.of(wanted.headers().toArray()), "headers of record " + n);
            if (wanted.timestamp() != null) {
                equal(one.timestamp(), wanted.timestamp(), "timestamp of record " + n);
            }
        }
        equal(found.size(), sent.size(), "number of records");
    }

    private static void same(byte[] found, byte[] wanted, String what) {
        if (!Arrays.equals(found, wanted)) {
            throw new AssertionError(what + ": " + brief(found) + ", not " + brief(wanted));
        }
    }

    private static String brief(byte[] bytes) {
        String text = bytes == null ? "null" : new String(bytes);
        return text.substring(0, Math.min(200, text.length()));
    }

    static void equal(Object found, Object wanted, String what) {
        if (!found.equals(wanted)) {
            throw new AssertionError(what + ": " + found + ", not " + wanted);
        }
    }

    /** Look again and again. */
    static void until(BooleanSupplier isSo, String what) throws InterruptedException {
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        while (!isSo.getAsBoolean()) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError("waited " + PATIENCE + " for " + what);
            }
            Thread.sleep(50);
        }
    }

    /** What must fail with an error of this class. */
    interface Call {
        Object call() throws Exception;
    }

    static void refused(Class<? extends Exception> with, Call call) throws Exception {
        try {
            call.call();
        } catch (ExecutionException failure) {
            if (with.isInstance(failure.getCause())) {
                return;
            }
            throw failure;
        }
        throw new AssertionError("taken, where " + with.getSimpleName() + " was due");
    }
}
