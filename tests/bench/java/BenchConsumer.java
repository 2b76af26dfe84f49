import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Arguments: bootstrap, topic, partitions, records of each partition's end to read (0: all of it), passes.
 * Reads that much by assignment, once to warm up and `passes` times for the measure.
 * Standard output: "warm", then after a line of standard input records, value bytes and seconds of the measured passes;
 * it ends with its standard input, so that its processor time can be read.
 */
public final class BenchConsumer {
    private long records;
    private long bytes;

    public static void main(String[] arguments) throws IOException {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        // At the end of a pass one fetch is parked at the log's end: it must not hold up the next pass.
        settings.put("fetch.max.wait.ms", "1");
        List<TopicPartition> partitions = IntStream.range(0, Integer.parseInt(arguments[2]))
            .mapToObj(index -> new TopicPartition(arguments[1], index)).toList();
        long tail = Long.parseLong(arguments[3]);
        int passes = Integer.parseInt(arguments[4]);
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            new BenchConsumer().pass(consumer, ends, tail);
            System.out.println("warm");
            System.in.read();
            var measured = new BenchConsumer();
            long start = System.nanoTime();
            for (int pass = 0; pass < passes; pass++) {
                measured.pass(consumer, ends, tail);
            }
            double seconds = (System.nanoTime() - start) / 1e9;
            System.out.println(measured.records + " " + measured.bytes + " " + seconds);
            while (System.in.read() >= 0) {
                // Whoever measures reads /proc meanwhile.
            }
        }
    }

    private void pass(KafkaConsumer<byte[], byte[]> consumer, Map<TopicPartition, Long> ends, long tail) {
        long left = 0;
        for (var end : ends.entrySet()) {
            long start = tail == 0 ? 0 : Math.max(0, end.getValue() - tail);
            consumer.seek(end.getKey(), start);
            left += end.getValue() - start;
        }
        while (left > 0) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(10))) {
                left--;
                records++;
                bytes += record.value().length;
            }
        }
    }
}
