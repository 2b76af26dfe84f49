import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.InvalidPidMappingException;
import org.apache.kafka.common.errors.InvalidTxnStateException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Transactional workers, Java's; for arguments and lines see tests/faults/transactions/clients/__init__.py. */
public final class Transactions {
    private static final String INPUTS = "inputs";
    private static final int PARTITIONS = 4;
    private static final int GROUPS = 2;
    private static final double ABORTED = 0.15;
    private static final int MOST_WRITES = 4;
    private static final int MOST_POLLED = 20;
    private static final byte[] KEY = new byte[600];
    private static final Duration POLL = Duration.ofMillis(50);

    private static volatile boolean draining;
    private static volatile boolean ending;

    public static void main(String[] arguments) throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < Integer.parseInt(arguments[3]); number++) {
            String worker = arguments[1] + "-" + number;
            String group = "g" + number % GROUPS;
            Random random = new Random(Long.parseLong(arguments[4]) * 100 + number);
            threads.add(new Thread(() -> work(arguments[0], worker, arguments[2], group, random)));
        }
        threads.forEach(Thread::start);
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            if (line.strip().equals("drain")) {
                draining = true;
                say("\"kind\":\"Event\",\"what\":\"draining\"");
            }
        }
        ending = true;
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private static void work(String bootstrap, String worker, String processLife, String group, Random random) {
        for (int number = 1; !ending; number++) {
            String life = processLife + "." + number;
            try (var one = new Life(bootstrap, worker, life, group, random)) {
                one.run();
            } catch (KafkaException failure) {
                say("\"kind\":\"Closed\",\"worker\":" + quoted(worker) + ",\"life\":" + quoted(life)
                    + ",\"fatal\":" + isFatal(failure) + ",\"why\":" + quoted("" + failure));
            }
        }
    }

    private static boolean isFatal(KafkaException failure) {
        return failure instanceof ProducerFencedException || failure instanceof AuthorizationException
            || failure instanceof OutOfOrderSequenceException || failure instanceof InvalidTxnStateException
            || failure instanceof InvalidPidMappingException || failure instanceof InvalidProducerEpochException;
    }

    private static synchronized void say(String fields) {
        System.out.println("{" + fields + ",\"at\":" + System.nanoTime() + "}");
        System.out.flush();
    }

    private static String quoted(String text) {
        return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", " ").replace("\t", " ") + '"';
    }

    private record Sent(String topic, int partition, String value) {
        String json() {
            return quoted(topic) + "," + partition + "," + quoted(value);
        }
    }

    private record Polled(int partition, long offset, String value) {}

    /** A producer and a consumer, from one loss of them to the next. */
    private static final class Life implements AutoCloseable, ConsumerRebalanceListener {
        private final String name;
        private final String group;
        private final Random random;
        private final KafkaProducer<byte[], String> producer;
        private final KafkaConsumer<byte[], String> consumer;
        private final List<String> acked = new ArrayList<>();
        private int number;
        private int readers;

        Life(String bootstrap, String worker, String life, String group, Random random) {
            this.name = worker + "/" + life;
            this.group = group;
            this.random = random;
            Properties settings = new Properties();
            settings.put("bootstrap.servers", bootstrap);
            settings.put("reconnect.backoff.max.ms", "200");
            settings.put("retry.backoff.max.ms", "200");
            settings.put("socket.connection.setup.timeout.ms", "2000");
            settings.put("metadata.max.age.ms", "5000");
            settings.put("request.timeout.ms", "10000");
            Properties producing = new Properties();
            producing.putAll(settings);
            producing.put("transactional.id", worker);
            producing.put("max.block.ms", "120000");
            producing.put("linger.ms", "2");
            Properties consuming = new Properties();
            consuming.putAll(settings);
            consuming.put("group.id", group);
            consuming.put("auto.offset.reset", "earliest");
            consuming.put("enable.auto.commit", "false");
            consuming.put("isolation.level", "read_committed");
            consuming.put("session.timeout.ms", "6000");
            consuming.put("heartbeat.interval.ms", "1500");
            consuming.put("max.poll.records", "" + MOST_POLLED);
            consuming.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor");
            producer = new KafkaProducer<>(producing, new ByteArraySerializer(), new StringSerializer());
            consumer = new KafkaConsumer<>(consuming,
                new ByteArrayDeserializer(), new StringDeserializer());
        }

        void run() {
            producer.initTransactions();
            consumer.subscribe(List.of(INPUTS), this);
            while (!ending) {
                transaction();
            }
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            readers++;
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            // What comes next says who reads.
        }

        @Override
        public void close() {
            producer.close(Duration.ZERO);
            try {
                consumer.close();
            } catch (KafkaException failure) {
                System.err.println(failure); // it leaves when its session is over
            }
        }

        private void transaction() {
            String transaction = name + "/" + ++number;
            tell("Begun", transaction, "");
            producer.beginTransaction();
            List<Polled> polled = List.of();
            int before = readers;
            try {
                send(transaction, newRecords(transaction));
                polled = poll(transaction);
                before = readers;
                send(transaction, copies(transaction, polled));
                if (random.nextDouble() < ABORTED) {
                    abort(transaction, "at random");
                    rewind(polled, before);
                    return;
                }
                sendOffsets(transaction, polled);
                commit(transaction);
            } catch (TimeoutException failure) {
                throw failure; // it may have been done
            } catch (KafkaException failure) {
                if (isFatal(failure)) {
                    throw failure;
                }
                abort(transaction, "" + failure);
                rewind(polled, before);
            }
        }

        private List<Sent> newRecords(String transaction) {
            List<Sent> records = new ArrayList<>();
            int few = Math.min(random.nextInt(1, MOST_WRITES + 1), random.nextInt(1, MOST_WRITES + 1));
            int count = draining ? 0 : Math.min(few, random.nextInt(MOST_WRITES + 1));
            for (int n = 0; n < count; n++) {
                records.add(new Sent(INPUTS, random.nextInt(PARTITIONS), transaction + "/" + n));
            }
            return records;
        }

        private List<Sent> copies(String transaction, List<Polled> polled) {
            List<Sent> records = new ArrayList<>();
            for (Polled each : polled) {
                String value = transaction + "/c" + records.size() + "<" + each.value;
                records.add(new Sent("copies-" + group, each.partition, value));
            }
            return records;
        }

        private void send(String transaction, List<Sent> records) {
            if (records.isEmpty()) {
                return;
            }
            tell("Sending", transaction, ",\"records\":" + listed(records.stream().map(Sent::json).toList()));
            for (Sent each : records) {
                producer.send(new ProducerRecord<>(each.topic, each.partition, KEY, each.value), (at, failure) -> {
                    if (failure == null) {
                        synchronized (acked) {
                            acked.add(each.json() + "," + (at.hasOffset() ? at.offset() : -1));
                        }
                    }
                });
            }
        }

        private List<Polled> poll(String transaction) {
            List<Polled> found = new ArrayList<>();
            List<String> lines = new ArrayList<>();
            for (var each : consumer.poll(POLL)) {
                found.add(new Polled(each.partition(), each.offset(), each.value()));
                lines.add(quoted(each.topic()) + "," + each.partition() + "," + each.offset() + "," + quoted(each.value()));
            }
            if (!found.isEmpty()) {
                String reader = quoted(group + "/" + name + "/" + readers);
                tell("Polled", transaction, ",\"reader\":" + reader + ",\"records\":" + listed(lines));
            }
            return found;
        }

        private void sendOffsets(String transaction, List<Polled> polled) {
            if (polled.isEmpty()) {
                return;
            }
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            for (Polled each : polled) {
                offsets.put(new TopicPartition(INPUTS, each.partition), new OffsetAndMetadata(each.offset + 1));
            }
            List<String> lines = new ArrayList<>();
            offsets.forEach((place, at) -> lines.add(quoted(INPUTS) + "," + place.partition() + "," + at.offset()));
            tell("Offsets", transaction, ",\"group\":" + quoted(group) + ",\"offsets\":" + listed(lines));
            producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        }

        private void commit(String transaction) {
            tell("Ending", transaction, ",\"commit\":true");
            try {
                producer.commitTransaction();
            } catch (KafkaException failure) {
                // Unless an abort follows that is done.
                ended(transaction, true, "unknown", "" + failure);
                throw failure;
            }
            ended(transaction, true, "ok", "");
        }

        private void abort(String transaction, String why) {
            tell("Ending", transaction, ",\"commit\":false");
            try {
                producer.abortTransaction();
            } catch (KafkaException failure) {
                ended(transaction, false, "unknown", "" + failure);
                throw failure;
            }
            ended(transaction, false, "ok", why);
        }

        private void ended(String transaction, boolean commit, String outcome, String why) {
            synchronized (acked) {
                if (!acked.isEmpty()) {
                    tell("Acked", transaction, ",\"records\":" + listed(acked));
                    acked.clear();
                }
            }
            String rest = ",\"commit\":" + commit + ",\"outcome\":" + quoted(outcome) + ",\"why\":" + quoted(why);
            tell("Ended", transaction, rest);
        }

        /** To what the aborted transaction has read, as long as nobody else may have read it meanwhile. */
        private void rewind(List<Polled> polled, int before) {
            if (before != readers || polled.isEmpty()) {
                return;
            }
            Map<Integer, Long> first = new HashMap<>();
            polled.forEach(each -> first.putIfAbsent(each.partition, each.offset));
            readers++;
            first.forEach((partition, offset) -> consumer.seek(new TopicPartition(INPUTS, partition), offset));
        }

        private static void tell(String kind, String transaction, String rest) {
            say("\"kind\":\"" + kind + "\",\"transaction\":" + quoted(transaction) + rest);
        }

        private static String listed(List<String> lines) {
            return "[" + String.join(",", lines.stream().map(line -> "[" + line + "]").toList()) + "]";
        }
    }
}
