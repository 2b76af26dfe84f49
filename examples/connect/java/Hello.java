// Sends one record and reads it back: Hello HOST:PORT TOPIC
import java.time.Duration;
import java.util.List;
import java.util.Map;

import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Hello {
    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0], topic = arguments[1];

        Map<String, Object> sending = Map.of("bootstrap.servers", bootstrap);
        try (var producer = new KafkaProducer<>(sending, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>(topic, "greeting", "hello from Java")).get();
        }

        Map<String, Object> reading = Map.of(
            "bootstrap.servers", bootstrap, "group.id", "hello-java", "auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            var records = consumer.poll(Duration.ofSeconds(1));
            while (records.isEmpty()) {
                records = consumer.poll(Duration.ofSeconds(1));
            }
            System.out.println(records.iterator().next().value());
        }
    }
}
