import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Arguments: bootstrap, topic, value bytes, records to warm up, records to measure.
 * Sends one record at a time and waits for its acknowledgement (acks=all, no linger).
 * Standard output: median and 99th percentile in microseconds.
 */
public final class BenchLatency {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("acks", "all");
        settings.put("linger.ms", "0");
        byte[] value = new byte[Integer.parseInt(arguments[2])];
        int warmUp = Integer.parseInt(arguments[3]);
        double[] microseconds = new double[Integer.parseInt(arguments[4])];
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int n = -warmUp; n < microseconds.length; n++) {
                long start = System.nanoTime();
                producer.send(new ProducerRecord<byte[], byte[]>(arguments[1], 0, null, value)).get();
                if (n >= 0) {
                    microseconds[n] = (System.nanoTime() - start) / 1e3;
                }
            }
        }
        Arrays.sort(microseconds);
        System.out.println(microseconds[microseconds.length / 2] + " " + microseconds[microseconds.length * 99 / 100]);
    }
}
