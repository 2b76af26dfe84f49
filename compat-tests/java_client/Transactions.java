import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.InvalidTxnStateException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.utils.AppInfoParser;

/** Transactions of one and of two producers, seen by readers of either isolation level. */
final class Transactions {
    private static final int EACH = 20;
    private static final Duration POLL = Duration.ofMillis(200);

    private Transactions() {
    }

    /** Committed, aborted and open ones, over two partitions. */
    static void commitAndAbort(Client client) throws Exception {
        String topic = client.freshTopic("transactions", 2, Map.of());
        String id = id();
        List<String> committed = new ArrayList<>();
        List<String> all = new ArrayList<>();
        try (var producer = producer(client, id)) {
            producer.initTransactions();
            for (int n = 0; n < 4; n++) {
                producer.beginTransaction();
                List<String> values = values("transaction " + n);
                write(producer, topic, values);
                all.addAll(values);
                checkEpoch(client, topic, n);
                Client.equal(state(client, id), TransactionState.ONGOING, "state before its end");
                if (n % 2 == 0) {
                    producer.commitTransaction();
                    committed.addAll(values);
                } else {
                    producer.abortTransaction();
                }
            }
            producer.beginTransaction();
            List<String> open = values("open");
            write(producer, topic, open);
            all.addAll(open);
            checkRead(client, topic, "read_committed", committed);
            checkRead(client, topic, "read_uncommitted", all);
            producer.commitTransaction();
            committed.addAll(open);
        }
        checkRead(client, topic, "read_committed", committed);
        checkRead(client, topic, "read_uncommitted", all);
    }

    /** A second producer of the same transactional id aborts what the first one has open, and ends it for good. */
    static void fencing(Client client) throws Exception {
        String topic = client.freshTopic("fencing", 2, Map.of());
        String id = id();
        List<String> committed = values("of the second");
        try (var first = producer(client, id); var second = producer(client, id)) {
            first.initTransactions();
            first.beginTransaction();
            write(first, topic, values("of the first"));
            second.initTransactions();
            second.beginTransaction();
            write(second, topic, committed);
            fenced(first);
            second.commitTransaction();
        }
        checkRead(client, topic, "read_committed", committed);
    }

    /** What is open for too long is aborted, and its producer's commit refused; the next one goes on. */
    static void timeout(Client client) throws Exception {
        String topic = client.freshTopic("timeout", 2, Map.of());
        String id = id();
        List<String> committed = values("after the timeout");
        try (var slow = producer(client, id, "transaction.timeout.ms", "1000");
                var next = producer(client, id)) {
            slow.initTransactions();
            slow.beginTransaction();
            write(slow, topic, values("too slow"));
            Client.until(() -> state(client, id) == TransactionState.COMPLETE_ABORT, "the abort of " + id);
            // Kafka 4.3 as well refuses it so from transaction.version 2 on; before, the producer is fenced.
            refusedCommit(slow, List.of(ProducerFencedException.class, InvalidProducerEpochException.class,
                InvalidTxnStateException.class));
            next.initTransactions();
            next.beginTransaction();
            write(next, topic, committed);
            next.commitTransaction();
        }
        checkRead(client, topic, "read_committed", committed);
    }

    /** Consume, transform, produce: each second time aborted and done again from the offsets that are committed. */
    static void offsets(Client client) throws Exception {
        String from = client.freshTopic("from", 2, Map.of());
        String to = client.freshTopic("to", 2, Map.of());
        String group = "group-" + UUID.randomUUID();
        List<String> input = new ArrayList<>();
        for (int n = 0; n < 10; n++) {
            input.addAll(values("input " + n));
        }
        try (var producer = client.producer()) {
            write(producer, from, input);
        }
        List<String> wanted = input.stream().map(value -> "seen " + value).toList();
        try (var producer = producer(client, id());
                var consumer = client.consumer("group.id", group, "isolation.level", "read_committed",
                    "max.poll.records", "30")) {
            producer.initTransactions();
            consumer.subscribe(List.of(from));
            int done = 0;
            for (int n = 0; done < input.size(); n++) {
                var records = Client.read(consumer, 1);
                producer.beginTransaction();
                write(producer, to, records.stream().map(one -> "seen " + text(one)).toList());
                producer.sendOffsetsToTransaction(positions(records), consumer.groupMetadata());
                if (n % 2 == 0) {
                    producer.abortTransaction();
                    rewind(consumer);
                } else {
                    producer.commitTransaction();
                    done += records.size();
                }
            }
            var parts = Set.of(new TopicPartition(from, 0), new TopicPartition(from, 1));
            long committed = consumer.committed(parts).values().stream()
                .mapToLong(OffsetAndMetadata::offset).sum();
            Client.equal(committed, (long) input.size(), "sum of the offsets committed");
        }
        checkRead(client, to, "read_committed", wanted);
    }

    private static KafkaProducer<byte[], byte[]> producer(Client client, String id, String... more) {
        var settings = new ArrayList<>(List.of("transactional.id", id));
        settings.addAll(List.of(more));
        return client.producer(settings.toArray(new String[0]));
    }

    /** Each value to the partition that it always has. */
    private static void write(KafkaProducer<byte[], byte[]> producer, String topic, List<String> values)
            throws Exception {
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (String value : values) {
            records.add(new ProducerRecord<>(topic, partition(value), null, Records.bytes(value)));
        }
        Client.send(producer, records);
    }

    /**
     * Exactly these, in order in each partition, up to the end that readers of this level have; that may be a
     * moment after the commit is answered: its markers follow.
     */
    private static void checkRead(Client client, String topic, String isolation, List<String> wanted) {
        try (var consumer = client.consumer("isolation.level", isolation)) {
            for (int partition = 0; partition < 2; partition++) {
                int here = partition;
                var one = new TopicPartition(topic, partition);
                consumer.assign(List.of(one));
                consumer.seekToBeginning(List.of(one));
                List<String> due = wanted.stream().filter(value -> partition(value) == here).toList();
                List<String> found = new ArrayList<>();
                long deadline = System.nanoTime() + Client.PATIENCE.toNanos();
                // Markers, and what was aborted, have offsets as well.
                while (consumer.position(one) < consumer.endOffsets(List.of(one)).get(one)
                        || found.size() < due.size()) {
                    if (System.nanoTime() > deadline) {
                        throw new AssertionError(one + " stays at " + consumer.position(one) + " with " + found);
                    }
                    consumer.poll(POLL).forEach(record -> found.add(text(record)));
                }
                Client.equal(found, due, isolation + " of " + one);
            }
        }
    }

    /** With transaction.version 2 each end raises the epoch (EndTxn 5); a client before 4.0 knows none. */
    private static void checkEpoch(Client client, String topic, int ended) throws Exception {
        var one = new TopicPartition(topic, 0);
        var states = client.admin.describeProducers(List.of(one)).partitionResult(one).get().activeProducers();
        int epoch = AppInfoParser.getVersion().startsWith("3.") ? 0 : ended;
        Client.equal(states.get(0).producerEpoch(), epoch, "epoch after " + ended + " transactions");
    }

    /** Its commit must be refused by what tells a producer that it is over. */
    private static void fenced(KafkaProducer<byte[], byte[]> producer) {
        refusedCommit(producer, List.of(ProducerFencedException.class, InvalidProducerEpochException.class));
    }

    private static void refusedCommit(
            KafkaProducer<byte[], byte[]> producer, List<Class<? extends Exception>> due) {
        try {
            producer.commitTransaction();
        } catch (KafkaException failure) {
            if (due.stream().anyMatch(one -> one.isInstance(failure) || one.isInstance(failure.getCause()))) {
                return;
            }
            throw failure;
        }
        throw new AssertionError("committed, where it had to be refused");
    }

    private static TransactionState state(Client client, String id) {
        try {
            return client.admin.describeTransactions(List.of(id)).description(id).get().state();
        } catch (Exception failure) {
            throw new AssertionError(failure);
        }
    }

    private static Map<TopicPartition, OffsetAndMetadata> positions(List<ConsumerRecord<byte[], byte[]>> records) {
        Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
        for (var one : records) {
            found.put(new TopicPartition(one.topic(), one.partition()), new OffsetAndMetadata(one.offset() + 1));
        }
        return found;
    }

    /** Back to what is committed, as after an abort. */
    private static void rewind(KafkaConsumer<byte[], byte[]> consumer) {
        consumer.committed(consumer.assignment()).forEach((one, offset) ->
            consumer.seek(one, offset == null ? 0 : offset.offset()));
    }

    private static List<String> values(String label) {
        List<String> found = new ArrayList<>();
        for (int n = 0; n < EACH; n++) {
            found.add(label + " " + n);
        }
        return found;
    }

    private static int partition(String value) {
        return (value.charAt(value.length() - 1) - '0') % 2;
    }

    private static String text(ConsumerRecord<byte[], byte[]> record) {
        return new String(record.value());
    }

    private static String id() {
        return "id-" + UUID.randomUUID();
    }
}
