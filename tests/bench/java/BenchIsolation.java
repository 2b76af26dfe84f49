import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Arguments: bootstrap, topic, partitions.
 * Reads all of the topic by assignment, with the isolation level that a line of standard input names: once with each to
 * warm up, then once for each line.
 * Standard output: "warm", then for each line records, and seconds.
 */
public final class BenchIsolation {
    private static final List<String> LEVELS = List.of("read_uncommitted", "read_committed");

    public static void main(String[] arguments) throws IOException {
        List<TopicPartition> partitions = IntStream.range(0, Integer.parseInt(arguments[2]))
            .mapToObj(index -> new TopicPartition(arguments[1], index)).toList();
        Map<String, KafkaConsumer<byte[], byte[]>> consumers = new HashMap<>();
        for (String level : LEVELS) {
            Properties settings = new Properties();
            settings.put("bootstrap.servers", arguments[0]);
            settings.put("isolation.level", level);
            // At the end of a pass one fetch is parked at the log's end: it must not hold up the next pass.
            settings.put("fetch.max.wait.ms", "1");
            var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            consumer.assign(partitions);
            consumers.put(level, consumer);
            pass(consumer, partitions);
        }
        System.out.println("warm");
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String level = lines.readLine(); level != null; level = lines.readLine()) {
            System.out.println(pass(consumers.get(level), partitions));
        }
    }

    private static String pass(KafkaConsumer<byte[], byte[]> consumer, List<TopicPartition> partitions) {
        Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
        long records = 0;
        long start = System.nanoTime();
        consumer.resume(partitions);
        consumer.seekToBeginning(partitions);
        // By positions, not by records: markers and what was aborted take offsets, and are not seen.
        while (ends.entrySet().stream().anyMatch(end -> consumer.position(end.getKey()) < end.getValue())) {
            records += consumer.poll(Duration.ofSeconds(10)).count();
        }
        double seconds = (System.nanoTime() - start) / 1e9;
        consumer.pause(partitions);
        return records + " " + seconds;
    }
}
