import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.OffsetOutOfRangeException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/** Topics made, described, changed, cut and deleted. */
final class Administration {
    private Administration() {
    }

    static void topics(Client client) throws Exception {
        String name = "admin-" + UUID.randomUUID();
        String other = client.freshTopic("admin");
        create(client, name, 3);
        Client.until(() -> client.listed(name), name + " to be listed");
        Client.equal(List.of(partitionCount(client, name), partitionCount(client, other)), List.of(3, 1), "partitions");
        Client.refused(TopicExistsException.class, () -> create(client, name, 3));
        Client.refused(InvalidTopicException.class, () -> create(client, "no such/name", 1));
        client.admin.deleteTopics(List.of(name)).all().get();
        Client.until(() -> !client.listed(name), name + " to be gone");
        Client.equal(client.listed(other), true, "the other is there");
        Client.refused(UnknownTopicOrPartitionException.class, () -> client.admin.deleteTopics(List.of(name)).all().get());
    }

    private static Object create(Client client, String name, int partitions) throws Exception {
        return client.admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1))).all().get();
    }

    private static int partitionCount(Client client, String topic) {
        try {
            return client.admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
        } catch (InterruptedException | ExecutionException failure) {
            throw new AssertionError(failure);
        }
    }

    static void configs(Client client) throws Exception {
        String topic = client.freshTopic("configs", 1, Map.of("retention.ms", "3600000"));
        Client.equal(config(client, topic, "retention.ms"), "3600000", "retention.ms");
        Client.equal(config(client, topic, "cleanup.policy"), "delete", "cleanup.policy");
        alter(client, topic, "retention.ms", "7200000");
        alter(client, topic, "max.message.bytes", "2000");
        Client.until(() -> config(client, topic, "retention.ms").equals("7200000"), "retention.ms");
        Client.until(() -> config(client, topic, "max.message.bytes").equals("2000"), "max.message.bytes");
        Client.refused(InvalidConfigurationException.class, () -> alter(client, topic, "retention.ms", "soon"));
        try (var producer = client.producer()) {
            var large = new ProducerRecord<byte[], byte[]>(topic, 0, null, new byte[3000]);
            Client.refused(RecordTooLargeException.class, () -> producer.send(large).get());
        }
    }

    private static String config(Client client, String topic, String name) {
        var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        try {
            return client.admin.describeConfigs(List.of(resource)).all().get().get(resource).get(name).value();
        } catch (InterruptedException | ExecutionException failure) {
            throw new AssertionError(failure);
        }
    }

    private static Object alter(Client client, String topic, String name, String value) throws Exception {
        var change = new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET);
        var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        return client.admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get();
    }

    static void partitions(Client client) throws Exception {
        String topic = client.freshTopic("partitions", 2, Map.of());
        client.admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(5))).all().get();
        Client.until(() -> partitionCount(client, topic) == 5, "five partitions");
        Client.refused(InvalidPartitionsException.class,
            () -> client.admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get());
        var records = Records.sample(topic, 10, "new").stream()
            .map(one -> new ProducerRecord<>(topic, 4, one.key(), one.value())).toList();
        try (var producer = client.producer()) {
            Client.send(producer, records);
        }
        client.checkPartition(topic, 4, records);
    }

    static void deleteRecords(Client client) throws Exception {
        String topic = client.freshTopic("delete-records");
        var one = new TopicPartition(topic, 0);
        var records = Records.sample(topic, 10, "cut");
        try (var producer = client.producer()) {
            Client.send(producer, records);
        }
        var cut = client.admin.deleteRecords(Map.of(one, RecordsToDelete.beforeOffset(6))).lowWatermarks();
        Client.equal(cut.get(one).get().lowWatermark(), 6L, "first offset that is left");
        Client.refused(OffsetOutOfRangeException.class,
            () -> client.admin.deleteRecords(Map.of(one, RecordsToDelete.beforeOffset(11))).all().get());
        try (var consumer = client.consumer()) {
            consumer.assign(List.of(one));
            Client.equal(consumer.beginningOffsets(List.of(one)).get(one), 6L, "first offset");
            Client.check(Client.read(consumer, 4), records.subList(6, 10), 6);
        }
    }
}
