import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;

/** The server is killed while records are on their way to it and others are read. */
final class Reconnect {
    private Reconnect() {
    }

    static void reconnect(Client client) throws Exception {
        String topic = client.freshTopic("reconnect");
        var before = Records.sample(topic, 100, "before");
        var during = Records.sample(topic, 100, "during");
        var after = Records.sample(topic, 100, "after");
        try (var producer = client.producer(); var consumer = client.consumer()) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            Client.send(producer, before);
            Client.check(Client.read(consumer, before.size()), before, 0);
            System.out.println("kill-server");
            List<Future<RecordMetadata>> waiting = new ArrayList<>();
            for (var record : during) {
                waiting.add(producer.send(record));
            }
            var input = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
            Client.equal(input.readLine(), "restarted", "what the runner says");
            for (var one : waiting) {
                one.get();
            }
            Client.send(producer, after);
            List<ProducerRecord<byte[], byte[]>> later = new ArrayList<>(during);
            later.addAll(after);
            Client.check(Client.read(consumer, later.size()), later, before.size());
            before.addAll(later);
        }
        client.checkPartition(topic, 0, before);
    }
}
