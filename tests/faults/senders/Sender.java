import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** An idempotent producer; for its arguments and lines see tests/faults/senders/__init__.py. */
public final class Sender {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("acks", "all");
        settings.put("enable.idempotence", "true");
        settings.put("delivery.timeout.ms", arguments[2]);
        settings.put("max.block.ms", arguments[2]);
        settings.put("request.timeout.ms", "10000");
        settings.put("linger.ms", "2");
        settings.put("reconnect.backoff.max.ms", "200");
        settings.put("retry.backoff.max.ms", "200");
        settings.put("socket.connection.setup.timeout.ms", "2000");
        settings.put("metadata.max.age.ms", "5000");
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                String[] field = line.split("\t", 3);
                var record = new ProducerRecord<String, String>(arguments[1], Integer.valueOf(field[1]), null, field[2]);
                producer.send(record, (at, failure) -> say(field[0], failure == null ? "" + at.offset() : "error\t" + failure));
            }
        }
    }

    private static synchronized void say(String number, String outcome) {
        System.out.println(number + "\t" + outcome.replace('\n', ' '));
    }
}
