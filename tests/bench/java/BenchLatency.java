import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Arguments: bootstrap, topic, value bytes, records to warm up, records to measure.
 * Sends one record at a time and waits for its acknowledgement (acks=all, no linger): those to warm up at once,
 * those to measure once for each line of standard input.
 * Standard output: "warm", then for each line median, 99th and 99.9th percentile in microseconds.
 */
public final class BenchLatency {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("acks", "all");
        settings.put("linger.ms", "0");
        var record = new ProducerRecord<byte[], byte[]>(arguments[1], 0, null, new byte[Integer.parseInt(arguments[2])]);
        int warmUp = Integer.parseInt(arguments[3]);
        int records = Integer.parseInt(arguments[4]);
        var lines = new BufferedReader(new InputStreamReader(System.in));
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            pass(producer, record, warmUp);
            System.out.println("warm");
            while (lines.readLine() != null) {
                double[] microseconds = pass(producer, record, records);
                Arrays.sort(microseconds);
                System.out.println(
                    microseconds[records / 2] + " " + microseconds[records * 99 / 100] + " " + microseconds[records * 999 / 1000]
                );
            }
        }
    }

    private static double[] pass(
        KafkaProducer<byte[], byte[]> producer, ProducerRecord<byte[], byte[]> record, int records
    ) throws Exception {
        double[] microseconds = new double[records];
        for (int n = 0; n < records; n++) {
            long start = System.nanoTime();
            producer.send(record).get();
            microseconds[n] = (System.nanoTime() - start) / 1e3;
        }
        return microseconds;
    }
}
