import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TaskMetadata;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;

/**
 * Counts words, as users of Kafka Streams write it. Arguments: bootstrap, application id, state directory, topic of
 * lines (key: the line's name), prefix of the topics with results, then NAME=VALUE of more settings. Says on standard
 * output which tasks it has.
 */
public final class WordCount {
    private static final Duration WINDOW = Duration.ofSeconds(10);
    private static final Duration GRACE = Duration.ofDays(1);
    private static final long LOOK_MILLISECONDS = 100;

    private WordCount() {
    }

    static Topology topology(String lines, String results) {
        StreamsBuilder builder = new StreamsBuilder();
        // A place is WORD@LINE: grouped by the word, it goes through a repartition topic.
        KGroupedStream<String, String> byWord = builder.<String, String>stream(lines)
            .flatMapValues((line, text) -> Arrays.stream(text.split(" ")).map(word -> word + "@" + line).toList())
            .groupBy((line, place) -> word(place), Grouped.as("by-word"));

        KTable<String, Long> counts = byWord.count(Materialized.as("counts"));
        counts.toStream().to(results + "-counts", Produced.valueSerde(Serdes.Long()));

        KTable<String, String> places = byWord.aggregate(() -> "", (word, place, known) -> with(known, place),
            Materialized.as("places"));
        places.toStream().to(results + "-places");

        byWord.windowedBy(TimeWindows.ofSizeAndGrace(WINDOW, GRACE)).count(Materialized.as("windows"))
            .toStream((window, count) -> window.key() + "@" + window.window().start())
            .to(results + "-windows", Produced.valueSerde(Serdes.Long()));

        counts.join(places, (count, known) -> count + " in " + all(known).size())
            .toStream().to(results + "-joined");
        return builder.build();
    }

    public static void main(String[] arguments) throws InterruptedException {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[2]);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        // Shorter than the defaults, so that a test sees what users see after a while.
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 500);
        settings.put(StreamsConfig.REPARTITION_PURGE_INTERVAL_MS_CONFIG, 500);
        settings.put(StreamsConfig.consumerPrefix("session.timeout.ms"), 10_000);
        settings.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), 500);
        for (String more : List.of(arguments).subList(5, arguments.length)) {
            settings.put(more.split("=", 2)[0], more.split("=", 2)[1]);
        }

        KafkaStreams streams = new KafkaStreams(topology(arguments[3], arguments[4]), settings);
        streams.setStateListener((now, before) -> System.out.println("state " + now));
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
        String told = "";
        while (streams.state() != KafkaStreams.State.ERROR) {
            String tasks = tasks(streams);
            if (!tasks.equals(told)) {
                System.out.println("tasks" + tasks);
                told = tasks;
            }
            Thread.sleep(LOOK_MILLISECONDS);
        }
        System.exit(1);
    }

    /** Those it works on, by name, a space before each. */
    private static String tasks(KafkaStreams streams) {
        return streams.metadataForLocalThreads().stream()
            .flatMap(thread -> thread.activeTasks().stream())
            .map(TaskMetadata::taskId).sorted().map(task -> " " + task).collect(Collectors.joining());
    }

    private static String word(String place) {
        return place.substring(0, place.indexOf('@'));
    }

    private static String with(String known, String place) {
        Set<String> places = all(known);
        places.add(place);
        return String.join(",", places);
    }

    private static Set<String> all(String known) {
        return new TreeSet<>(known.isEmpty() ? List.of() : List.of(known.split(",")));
    }
}
