import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** Consumer groups: members are processes, so that one can be killed. */
final class Groups {
    private static final int PARTITIONS = 6;

    private Groups() {
    }

    /** Reads as a member until a line comes on standard input, and then leaves in order. */
    static void member(Client client, String topic, String group) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        try (var consumer = client.consumer("group.id", group, "enable.auto.commit", "true")) {
            consumer.subscribe(List.of(topic));
            Set<Integer> said = null;
            while (!input.ready()) {
                for (var record : consumer.poll(Duration.ofMillis(200))) {
                    System.out.println("record " + record.partition() + " " + record.offset() + " "
                        + new String(record.value(), "UTF-8"));
                }
                Set<Integer> owned = consumer.assignment().stream().map(TopicPartition::partition)
                    .collect(Collectors.toCollection(TreeSet::new));
                if (!owned.equals(said)) {
                    said = owned;
                    System.out.println("owned " + owned.stream().map(String::valueOf).collect(Collectors.joining(" ")));
                }
            }
        }
    }

    /** A member in a process of its own. */
    private static final class Member implements AutoCloseable {
        private final Process process;
        private final CompletableFuture<Void> reading;
        private Set<Integer> owned = Set.of();
        private final Map<String, String> records = new HashMap<>();

        Member(String bootstrap, String topic, String group) throws IOException {
            var self = ProcessHandle.current().info();
            List<String> command = new ArrayList<>(List.of(self.command().orElseThrow()));
            List<String> arguments = List.of(self.arguments().orElseThrow());
            command.addAll(arguments.subList(0, arguments.size() - 2));
            command.addAll(List.of("member:" + topic + ":" + group, bootstrap));
            process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
            reading = CompletableFuture.runAsync(this::listen, task -> new Thread(task).start());
        }

        synchronized Set<Integer> owned() {
            return owned;
        }

        /** By "partition offset", the values it read. */
        synchronized Map<String, String> records() {
            return new HashMap<>(records);
        }

        private void listen() {
            try (var output = process.inputReader()) {
                for (String line = output.readLine(); line != null; line = output.readLine()) {
                    take(line);
                }
            } catch (IOException ended) {
                // killed: what it had said so far counts
            }
        }

        private synchronized void take(String line) {
            String[] words = line.split(" ", 4);
            if (words[0].equals("record")) {
                records.put(words[1] + " " + words[2], words[3]);
            } else if (words[0].equals("owned")) {
                String[] numbers = line.substring("owned".length()).trim().split(" ");
                owned = new HashSet<>();
                for (String number : numbers) {
                    if (!number.isEmpty()) {
                        owned.add(Integer.valueOf(number));
                    }
                }
            }
        }

        void leave() throws Exception {
            process.getOutputStream().write('\n');
            process.getOutputStream().flush();
            Client.equal(process.waitFor(Client.PATIENCE.toSeconds(), TimeUnit.SECONDS), true, "the member has left");
            Client.equal(process.exitValue(), 0, "exit status of the member that left");
            reading.join();
        }

        /** SIGKILL: the group is told nothing. */
        @Override
        public void close() {
            process.destroyForcibly().onExit().join();
            reading.join();
        }
    }

    /** A topic, a group of it, and what was sent. */
    private static final class Group implements AutoCloseable {
        private final Client client;
        private final String topic;
        private final String group = "group-" + UUID.randomUUID();
        private final KafkaProducer<byte[], byte[]> producer;
        private final List<Member> members = new ArrayList<>();
        private final Map<String, String> sent = new HashMap<>();

        Group(Client client) throws Exception {
            this.client = client;
            topic = client.freshTopic("group", PARTITIONS, Map.of());
            producer = client.producer();
        }

        Member join() throws IOException {
            members.add(new Member(client.bootstrap, topic, group));
            return members.get(members.size() - 1);
        }

        /** Until these have all partitions between them, each has some, nobody has another's. */
        void settle(Member... these) throws InterruptedException {
            Client.until(() -> {
                List<Integer> all = new ArrayList<>();
                for (Member one : these) {
                    Set<Integer> owned = one.owned();
                    if (owned.isEmpty()) {
                        return false;
                    }
                    all.addAll(owned);
                }
                return all.stream().sorted().toList().equals(IntStream.range(0, PARTITIONS).boxed().toList());
            }, these.length + " members to share the partitions");
        }

        /** Records to every partition arrive at these members, with their contents. */
        void sendAndSee(String label, Member... these) throws Exception {
            List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
            for (int n = 0; n < PARTITIONS * 10; n++) {
                records.add(new ProducerRecord<>(topic, n % PARTITIONS, null, Records.bytes(label + " " + n)));
            }
            List<Long> offsets = Client.send(producer, records);
            Set<String> fresh = new HashSet<>();
            for (int n = 0; n < offsets.size(); n++) {
                String place = n % PARTITIONS + " " + offsets.get(n);
                sent.put(place, label + " " + n);
                fresh.add(place);
            }
            Client.until(() -> {
                Set<String> seen = new HashSet<>();
                for (Member one : these) {
                    seen.addAll(one.records().keySet());
                }
                return seen.containsAll(fresh);
            }, "records " + label + " to arrive");
            for (Member one : these) {
                one.records().forEach((place, value) -> Client.equal(value, sent.get(place), "value at " + place));
            }
        }

        void checkAllSeen() {
            Map<String, String> seen = new HashMap<>();
            members.forEach(one -> seen.putAll(one.records()));
            Client.equal(seen, sent, "all that the members read");
        }

        @Override
        public void close() {
            producer.close();
            for (Member one : members) {
                one.close();
            }
        }
    }

    static void joinLeave(Client client) throws Exception {
        try (var group = new Group(client)) {
            Member first = group.join();
            group.settle(first);
            group.sendAndSee("alone", first);
            Member second = group.join();
            group.settle(first, second);
            group.sendAndSee("shared", first, second);
            second.leave();
            group.settle(first);
            group.sendAndSee("alone again", first);
            group.checkAllSeen();
        }
    }

    static void killed(Client client) throws Exception {
        try (var group = new Group(client)) {
            Member first = group.join();
            Member second = group.join();
            group.settle(first, second);
            group.sendAndSee("shared", first, second);
            second.close();
            group.settle(first);
            group.sendAndSee("the other is gone", first);
            group.checkAllSeen();
        }
    }

    static void commits(Client client) throws Exception {
        String topic = client.freshTopic("commits");
        String group = "commits-" + UUID.randomUUID();
        var one = new TopicPartition(topic, 0);
        var records = Records.sample(topic, 100, "commits");
        try (var producer = client.producer(); var consumer = client.consumer("group.id", group)) {
            Client.send(producer, records);
            consumer.assign(List.of(one));
            Client.equal(consumer.committed(Set.of(one)).get(one) == null, true, "nothing committed in a new group");
            consumer.commitSync(Map.of(one, new OffsetAndMetadata(50, "half")));
            OffsetAndMetadata found = consumer.committed(Set.of(one)).get(one);
            Client.equal(found.offset() + found.metadata(), "50half", "committed");
            resume(client, group, one, records.subList(50, 100), 50);
            var more = Records.sample(topic, 10, "more");
            Client.send(producer, more);
            resume(client, group, one, more, 100);
        }
    }

    private static void resume(Client client, String group, TopicPartition one,
            List<ProducerRecord<byte[], byte[]>> wanted, long offset) {
        try (var consumer = client.consumer("group.id", group)) {
            consumer.subscribe(List.of(one.topic()));
            Client.check(Client.read(consumer, wanted.size()), wanted, offset);
            consumer.commitSync();
        }
        try (var consumer = client.consumer("group.id", group)) {
            Client.equal(consumer.committed(Set.of(one)).get(one).offset(), offset + wanted.size(), "committed");
        }
    }
}
