import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Arguments: client settings as name=value. Standard input: a record a line, fields parted by tabs:
 * topic, partition, timestamp, key, value, headers (name=value,...). Keys and values in base64, "-" for null.
 * Standard output, in the order sent: partition, offset and timestamp, or "error", its class and message.
 */
public final class Producer {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        for (String argument : arguments) {
            settings.put(argument.split("=", 2)[0], argument.split("=", 2)[1]);
        }
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            var input = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                sent.add(producer.send(parse(line.split("\t", -1))));
            }
        }
        for (Future<RecordMetadata> one : sent) {
            try {
                System.out.println(one.get().partition() + "\t" + one.get().offset() + "\t" + one.get().timestamp());
            } catch (ExecutionException failure) {
                Throwable cause = failure.getCause();
                System.out.println("error\t" + cause.getClass().getSimpleName() + "\t" + cause.getMessage());
            }
        }
    }

    private static ProducerRecord<byte[], byte[]> parse(String[] field) {
        Integer partition = field[1].equals("-") ? null : Integer.valueOf(field[1]);
        Long timestamp = field[2].equals("-") ? null : Long.valueOf(field[2]);
        var record = new ProducerRecord<>(field[0], partition, timestamp, bytes(field[3]), bytes(field[4]));
        for (String header : field[5].isEmpty() ? new String[0] : field[5].split(",")) {
            record.headers().add(header.split("=", 2)[0], bytes(header.split("=", 2)[1]));
        }
        return record;
    }

    private static byte[] bytes(String text) {
        return text.equals("-") ? null : Base64.getDecoder().decode(text);
    }
}
