import java.time.Duration;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Arguments: client settings as name=value, and what to read as topic:partition:start:end (end exclusive).
 * Standard output, a record a line: topic, partition, offset, timestamp, its type, leader epoch, key, value, headers,
 * written as Producer reads them. Ends when every range is read; exit code 1 when nothing came for a minute.
 */
public final class AssignedConsumer {
    public static void main(String[] arguments) {
        Properties settings = new Properties();
        Map<TopicPartition, long[]> ranges = new LinkedHashMap<>();
        for (String argument : arguments) {
            String[] range = argument.split(":");
            if (argument.contains("=")) {
                settings.put(argument.split("=", 2)[0], argument.split("=", 2)[1]);
            } else {
                var partition = new TopicPartition(range[0], Integer.parseInt(range[1]));
                ranges.put(partition, new long[] {Long.parseLong(range[2]), Long.parseLong(range[3])});
            }
        }
        var output = new StringBuilder();
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(ranges.keySet());
            ranges.forEach((partition, range) -> consumer.seek(partition, range[0]));
            long lastNews = System.nanoTime();
            while (ranges.entrySet().stream().anyMatch(one -> consumer.position(one.getKey()) < one.getValue()[1])) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
                    lastNews = System.nanoTime();
                    if (record.offset() < ranges.get(new TopicPartition(record.topic(), record.partition()))[1]) {
                        print(record, output);
                    }
                }
                if (System.nanoTime() - lastNews > Duration.ofMinutes(1).toNanos()) {
                    System.err.println("nothing came for a minute");
                    System.exit(1);
                }
            }
        }
        System.out.print(output);
    }

    private static void print(ConsumerRecord<byte[], byte[]> record, StringBuilder output) {
        output.append(record.topic()).append('\t').append(record.partition()).append('\t').append(record.offset())
            .append('\t').append(record.timestamp()).append('\t').append(record.timestampType())
            .append('\t').append(record.leaderEpoch().map(String::valueOf).orElse("-"))
            .append('\t').append(text(record.key())).append('\t').append(text(record.value())).append('\t');
        String separator = "";
        for (Header header : record.headers()) {
            output.append(separator).append(header.key()).append('=').append(text(header.value()));
            separator = ",";
        }
        output.append('\n');
    }

    private static String text(byte[] bytes) {
        return bytes == null ? "-" : Base64.getEncoder().encodeToString(bytes);
    }
}
