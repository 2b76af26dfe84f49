import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A member of a mixed group, which says all it does: see {@code mixed_groups/members.py} for its arguments and lines.
 * SIGTERM has it commit and leave in order.
 */
public final class MixedMember implements ConsumerRebalanceListener {
    private static final Duration POLL = Duration.ofMillis(200);
    private static final Duration COMMIT_PATIENCE = Duration.ofSeconds(10);
    private static final long COMMIT_EVERY_NANOS = 300_000_000;
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "org.apache.kafka.clients.consumer.RangeAssignor",
        "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
        "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    private final String topic;
    private final String name;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final TreeSet<Integer> owned = new TreeSet<>();
    private final TreeMap<Integer, Long> positions = new TreeMap<>();
    private int generation = -1;
    private String memberId = "";
    private int commits;
    private volatile boolean leaving;

    private MixedMember(String[] arguments) {
        topic = arguments[1];
        name = arguments[3];
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[2]);
        settings.put("client.id", name);
        settings.put("partition.assignment.strategy",
            List.of(arguments[4].split(",")).stream().map(ASSIGNORS::get).collect(Collectors.joining(",")));
        settings.put("session.timeout.ms", arguments[5]);
        settings.put("max.poll.interval.ms", arguments[6]);
        settings.put("heartbeat.interval.ms", "500");
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("reconnect.backoff.max.ms", "500");
        if (!arguments[7].isEmpty()) {
            settings.put("group.instance.id", arguments[7]);
        }
        consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    public static void main(String[] arguments) {
        var member = new MixedMember(arguments);
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            member.leaving = true;
            try {
                main.join();
            } catch (InterruptedException ends) {
                // it is killed then
            }
        }));
        member.run();
    }

    private void run() {
        try (consumer) {
            consumer.subscribe(List.of(topic), this);
            long committed = System.nanoTime();
            while (!leaving) {
                for (var record : consumer.poll(POLL)) {
                    say("consumed", "\"generation\":" + generation + ",\"partition\":" + record.partition()
                        + ",\"offset\":" + record.offset() + ",\"value\":"
                        + quoted(new String(record.value(), StandardCharsets.UTF_8)));
                    positions.put(record.partition(), record.offset() + 1);
                }
                if (System.nanoTime() - committed > COMMIT_EVERY_NANOS) {
                    commit();
                    committed = System.nanoTime();
                }
            }
            commit();
        } catch (KafkaException failure) {
            say("failed", "\"error\":" + quoted(failure.toString()));
            return;
        }
        say("left", "\"generation\":" + generation);
    }

    private void commit() {
        if (positions.isEmpty()) {
            return;
        }
        learnGeneration(); // a cooperative member is asked to revoke when the next one has begun
        int number = ++commits;
        var metadata = name + "/" + generation + "/" + number;
        var offsets = positions.entrySet().stream().collect(Collectors.toMap(
            one -> new TopicPartition(topic, one.getKey()), one -> new OffsetAndMetadata(one.getValue(), metadata)));
        say("committing", "\"number\":" + number + ",\"generation\":" + generation + ",\"member\":" + quoted(memberId)
            + ",\"offsets\":" + positions.entrySet().stream().map(one -> "[" + one.getKey() + "," + one.getValue() + "]")
                .collect(Collectors.joining(",", "[", "]")));
        try {
            consumer.commitSync(offsets, COMMIT_PATIENCE);
            positions.clear();
            say("committed", "\"number\":" + number);
        } catch (KafkaException refused) {
            say("refused", "\"number\":" + number + ",\"error\":" + quoted(refused.toString()));
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> added) {
        added.forEach(one -> owned.add(one.partition()));
        learnGeneration();
        say("assigned", "\"generation\":" + generation + ",\"member\":" + quoted(memberId) + ",\"partitions\":"
            + owned.stream().map(String::valueOf).collect(Collectors.joining(",", "[", "]")));
    }

    private void learnGeneration() {
        generation = consumer.groupMetadata().generationId();
        memberId = consumer.groupMetadata().memberId();
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> revoked) {
        commit();
        take("revoked", revoked);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> lost) {
        take("lost", lost);
    }

    private void take(String event, Collection<TopicPartition> gone) {
        for (TopicPartition one : gone) {
            owned.remove(one.partition());
            positions.remove(one.partition());
        }
        say(event, "\"partitions\":" + gone.stream().map(one -> String.valueOf(one.partition()))
            .collect(Collectors.joining(",", "[", "]")));
    }

    private static void say(String event, String fields) {
        System.out.println("{\"event\":\"" + event + "\"," + fields + "}");
        System.out.flush();
    }

    private static String quoted(String text) {
        return "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", " ").replace("\t", " ") + "\"";
    }
}
