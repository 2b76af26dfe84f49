import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Arguments: bootstrap, topic, value bytes, transactions to warm up, transactions to measure.
 * Transactions of one record that is acknowledged before it is committed. A read_committed consumer follows them.
 * Standard output: "warm"; then for each line of standard input median and 99th percentile, in microseconds. "visible":
 * from the call of commitTransaction until the consumer has the record, the next transaction after that; and of the call
 * itself. "next": from the return of commitTransaction until the first record of the next transaction is acknowledged.
 */
public final class BenchTransactionLatency {
    private static final long PATIENCE_SECONDS = 60;
    private final LinkedBlockingQueue<Long> seen = new LinkedBlockingQueue<>();
    private final KafkaProducer<byte[], byte[]> producer;
    private final ProducerRecord<byte[], byte[]> record;

    private BenchTransactionLatency(String bootstrap, String topic, int valueBytes) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", "bench-" + topic);
        settings.put("linger.ms", "0");
        producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        record = new ProducerRecord<>(topic, 0, null, new byte[valueBytes]);
        producer.initTransactions();
    }

    public static void main(String[] arguments) throws Exception {
        var bench = new BenchTransactionLatency(arguments[0], arguments[1], Integer.parseInt(arguments[2]));
        Thread reader = new Thread(() -> bench.follow(arguments[0], new TopicPartition(arguments[1], 0)));
        reader.setDaemon(true);
        reader.start();
        int warmUp = Integer.parseInt(arguments[3]);
        int transactions = Integer.parseInt(arguments[4]);
        bench.visible(warmUp);
        bench.next(warmUp);
        System.out.println("warm");
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(line.equals("visible") ? bench.visible(transactions) : bench.next(transactions));
        }
    }

    private void follow(String bootstrap, TopicPartition partition) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("isolation.level", "read_committed");
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            while (true) {
                for (ConsumerRecord<byte[], byte[]> ignored : consumer.poll(Duration.ofSeconds(1))) {
                    seen.add(System.nanoTime());
                }
            }
        }
    }

    private long awaitSeen() throws InterruptedException {
        Long at = seen.poll(PATIENCE_SECONDS, TimeUnit.SECONDS);
        if (at == null) {
            throw new IllegalStateException("what was committed did not come to the consumer");
        }
        return at;
    }

    private String visible(int transactions) throws Exception {
        double[] visible = new double[transactions];
        double[] call = new double[transactions];
        for (int n = 0; n < transactions; n++) {
            producer.beginTransaction();
            producer.send(record).get();
            long start = System.nanoTime();
            producer.commitTransaction();
            call[n] = (System.nanoTime() - start) / 1e3;
            visible[n] = (awaitSeen() - start) / 1e3;
        }
        return percentiles(visible) + " " + percentiles(call);
    }

    private String next(int transactions) throws Exception {
        double[] next = new double[transactions];
        long answered = 0;
        for (int n = -1; n < transactions; n++) {
            producer.beginTransaction();
            producer.send(record).get();
            if (n >= 0) {
                next[n] = (System.nanoTime() - answered) / 1e3;
            }
            producer.commitTransaction();
            answered = System.nanoTime();
        }
        for (int n = -1; n < transactions; n++) {
            awaitSeen();
        }
        return percentiles(next);
    }

    private static String percentiles(double[] microseconds) {
        Arrays.sort(microseconds);
        return microseconds[microseconds.length / 2] + " " + microseconds[microseconds.length * 99 / 100];
    }
}
