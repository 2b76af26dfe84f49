import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Arguments: bootstrap, topic, partitions, producers, records of a transaction, value bytes, which of a producer's
 * transactions it aborts (every so many-th; 0: none), and "rate" with seconds to warm up and to measure, or "fill" with
 * a number of transactions. A cluster whose `transaction.version` is not 2 is refused: its producers do other work.
 * Each producer, in a thread of its own, makes one transaction after the other in one partition.
 * Standard output of "rate": "warm", then after a line of standard input transactions and seconds of the measure, and
 * after another one how many there were in all; it stays until then, so that its processor time can be read. Of "fill":
 * how many it committed, and aborted.
 */
public final class BenchTransactions {
    private static final int SERVED_VERSION = 2;

    private final KafkaProducer<byte[], byte[]> producer;
    private final ProducerRecord<byte[], byte[]> record;
    private final int records;
    private final int abortEvery;
    private int committed;
    private int aborted;

    private BenchTransactions(String[] arguments, int number) {
        records = Integer.parseInt(arguments[4]);
        abortEvery = Integer.parseInt(arguments[6]);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("transactional.id", arguments[1] + "-" + number);
        settings.put("batch.size", "131072");
        // One record waits for no other; a commit sends what still waits.
        settings.put("linger.ms", records == 1 ? "0" : "5");
        producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        int partition = number % Integer.parseInt(arguments[2]);
        record = new ProducerRecord<>(arguments[1], partition, null, new byte[Integer.parseInt(arguments[5])]);
    }

    public static void main(String[] arguments) throws Exception {
        check(arguments[0]);
        int count = Integer.parseInt(arguments[3]);
        List<BenchTransactions> producers = new ArrayList<>();
        for (int n = 0; n < count; n++) {
            producers.add(new BenchTransactions(arguments, n));
        }
        ExecutorService threads = Executors.newFixedThreadPool(count);
        together(threads, producers, one -> one.producer.initTransactions());
        if (arguments[7].equals("rate")) {
            rate(threads, producers, Double.parseDouble(arguments[8]), Double.parseDouble(arguments[9]));
        } else {
            var left = new AtomicInteger(Integer.parseInt(arguments[8]));
            together(threads, producers, one -> {
                while (left.getAndDecrement() > 0) {
                    one.transaction();
                }
            });
            System.out.println(sum(producers, false) + " " + sum(producers, true));
        }
        together(threads, producers, one -> one.producer.close());
        threads.shutdown();
    }

    private static void check(String bootstrap) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        try (var admin = Admin.create(settings)) {
            var found = admin.describeFeatures().featureMetadata().get().finalizedFeatures().get("transaction.version");
            if (found == null || found.maxVersionLevel() != SERVED_VERSION) {
                throw new IllegalStateException("transaction.version is " + found + " instead of " + SERVED_VERSION);
            }
        }
    }

    private static void rate(
        ExecutorService threads, List<BenchTransactions> producers, double warmUp, double seconds
    ) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in));
        forSeconds(threads, producers, warmUp);
        System.out.println("warm");
        lines.readLine();
        int before = sum(producers, false);
        long start = System.nanoTime();
        forSeconds(threads, producers, seconds);
        double took = (System.nanoTime() - start) / 1e9;
        System.out.println((sum(producers, false) - before) + " " + took);
        lines.readLine();
        System.out.println(sum(producers, false) + sum(producers, true));
    }

    private static void forSeconds(ExecutorService threads, List<BenchTransactions> producers, double seconds)
        throws Exception {
        long until = System.nanoTime() + (long) (seconds * 1e9);
        together(threads, producers, one -> {
            while (System.nanoTime() < until) {
                one.transaction();
            }
        });
    }

    private interface Work {
        void on(BenchTransactions one) throws Exception;
    }

    private static void together(ExecutorService threads, List<BenchTransactions> all, Work work) throws Exception {
        List<Callable<Boolean>> calls = new ArrayList<>();
        for (BenchTransactions one : all) {
            calls.add(() -> {
                work.on(one);
                return true;
            });
        }
        for (Future<Boolean> future : threads.invokeAll(calls)) {
            future.get();
        }
    }

    private static int sum(List<BenchTransactions> producers, boolean isOfAborted) {
        return producers.stream().mapToInt(one -> isOfAborted ? one.aborted : one.committed).sum();
    }

    private void transaction() {
        producer.beginTransaction();
        for (int n = 0; n < records; n++) {
            producer.send(record);
        }
        if (abortEvery != 0 && (committed + aborted + 1) % abortEvery == 0) {
            producer.flush(); // what still waits were not sent at all
            producer.abortTransaction();
            aborted++;
        } else {
            producer.commitTransaction();
            committed++;
        }
    }
}
