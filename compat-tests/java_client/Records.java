import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RecordTooLargeException;

/** Records written and read again. */
final class Records {
    private static final long T0 = 1_700_000_000_000L;
    private static final int MANY = 5000;

    private Records() {
    }

    static byte[] bytes(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }

    /** Records whose values differ and compress. */
    static List<ProducerRecord<byte[], byte[]>> sample(String topic, int count, String label) {
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (int n = 0; n < count; n++) {
            byte[] value = bytes(String.format("%s %06d ", label, n).repeat(10));
            records.add(new ProducerRecord<>(topic, 0, bytes("key " + n), value));
        }
        return records;
    }

    static void codec(Client client, String name) throws Exception {
        String topic = client.freshTopic("codec-" + name);
        var records = sample(topic, 500, name);
        try (var producer = client.producer("compression.type", name, "linger.ms", "50")) {
            Client.send(producer, records);
        }
        client.checkPartition(topic, 0, records);
        System.out.println("check-codec " + topic + " " + name);
    }

    static void headers(Client client) throws Exception {
        String topic = client.freshTopic("headers");
        var records = sample(topic, 5, "headers");
        records.get(1).headers().add("a", bytes("1"));
        records.get(2).headers().add("b", bytes("2")).add("a", bytes("1")).add("b", bytes("3"));
        records.get(3).headers().add("", new byte[0]).add("empty", new byte[0]).add("null", null);
        byte[] all = new byte[256];
        IntStream.range(0, all.length).forEach(n -> all[n] = (byte) n);
        records.get(4).headers().add("\u00e9\u4e16", all);
        try (var producer = client.producer()) {
            Client.send(producer, records);
        }
        client.checkPartition(topic, 0, records);
    }

    static void emptyValues(Client client) throws Exception {
        String topic = client.freshTopic("empty");
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (String key : new String[] {null, "", "k"}) {
            for (String value : new String[] {null, "", "v"}) {
                records.add(new ProducerRecord<>(topic, 0, bytes(key), bytes(value)));
            }
        }
        try (var producer = client.producer()) {
            Client.send(producer, records);
        }
        client.checkPartition(topic, 0, records);
    }

    static void batches(Client client) throws Exception {
        String topic = client.freshTopic("batches", 3, Map.of());
        var records = sample(topic, MANY, "batches");
        List<List<ProducerRecord<byte[], byte[]>>> parts = List.of(
            new ArrayList<>(), new ArrayList<>(), new ArrayList<>());
        List<ProducerRecord<byte[], byte[]>> all = new ArrayList<>();
        for (int n = 0; n < records.size(); n++) {
            var one = new ProducerRecord<>(topic, n % 3, records.get(n).key(), records.get(n).value());
            parts.get(n % 3).add(one);
            all.add(one);
        }
        try (var producer = client.producer("linger.ms", "20")) {
            Client.send(producer, all);
        }
        for (int partition = 0; partition < 3; partition++) {
            client.checkPartition(topic, partition, parts.get(partition));
        }
    }

    static void singleRecords(Client client) throws Exception {
        String topic = client.freshTopic("single");
        var records = sample(topic, 30, "single");
        try (var producer = client.producer("linger.ms", "0")) {
            for (int n = 0; n < records.size(); n++) {
                Client.equal(producer.send(records.get(n)).get().offset(), (long) n, "acknowledged offset");
            }
        }
        client.checkPartition(topic, 0, records);
    }

    static void largeMessages(Client client) throws Exception {
        String topic = client.freshTopic("large");
        byte[] large = new byte[1_000_000];
        IntStream.range(0, large.length).forEach(n -> large[n] = (byte) (n % 250));
        var records = sample(topic, 3, "large");
        records.set(1, new ProducerRecord<>(topic, 0, null, large));
        try (var producer = client.producer()) {
            Client.send(producer, records.subList(0, 2));
            var tooLarge = new ProducerRecord<byte[], byte[]>(topic, 0, null, new byte[2_000_000]);
            Client.refused(RecordTooLargeException.class, () -> producer.send(tooLarge).get());
            Client.send(producer, records.subList(2, 3));
        }
        client.checkPartition(topic, 0, records);
    }

    static void idempotence(Client client) throws Exception {
        String topic = client.freshTopic("idempotence");
        var records = sample(topic, 2000, "idempotence");
        try (var producer = client.producer("enable.idempotence", "true", "linger.ms", "1")) {
            List<Long> wanted = LongStream.range(0, records.size()).boxed().toList();
            Client.equal(Client.send(producer, records), wanted, "acknowledged offsets");
        }
        client.checkPartition(topic, 0, records);
    }

    static void seek(Client client) throws Exception {
        String topic = client.freshTopic("seek");
        var records = sample(topic, 100, "seek");
        var one = new TopicPartition(topic, 0);
        try (var producer = client.producer(); var consumer = client.consumer()) {
            Client.send(producer, records);
            consumer.assign(List.of(one));
            for (int offset : new int[] {42, 7, 99}) {
                consumer.seek(one, offset);
                Client.equal(consumer.position(one), (long) offset, "position");
                Client.check(Client.read(consumer, 1).subList(0, 1), records.subList(offset, offset + 1), offset);
            }
            consumer.seekToBeginning(List.of(one));
            Client.check(Client.read(consumer, 1).subList(0, 1), records.subList(0, 1), 0);
            consumer.seekToEnd(List.of(one));
            Client.equal(consumer.position(one), 100L, "position at the end");
            var more = sample(topic, 1, "behind the end");
            Client.send(producer, more);
            Client.check(Client.read(consumer, 1), more, 100);
        }
    }

    static void timestamps(Client client) throws Exception {
        String topic = client.freshTopic("timestamps", 1, Map.of("retention.ms", "-1"));
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (int n = 0; n < 50; n++) {
            records.add(new ProducerRecord<>(topic, 0, T0 + n * 1000L, null, bytes("record " + n)));
        }
        try (var producer = client.producer()) {
            Client.send(producer, records);
        }
        client.checkPartition(topic, 0, records);
        var one = new TopicPartition(topic, 0);
        var asked = Map.of(T0, 0L, T0 + 20_000, 20L, T0 + 20_001, 21L, T0 + 49_000, 49L, T0 - 5, 0L, T0 + 49_001, -1L);
        try (var consumer = client.consumer()) {
            for (var time : asked.entrySet()) {
                OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(one, time.getKey())).get(one);
                Client.equal(found == null ? -1L : found.offset(), time.getValue(), "offset at " + time.getKey());
            }
        }
    }
}
