import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.SaslAuthenticationException;
import org.apache.kafka.common.errors.SslAuthenticationException;

/**
 * Listeners that ask who comes: what lets a client in, what does not, and what changes while records flow. Topics
 * are made where nobody is asked. A session lasts two seconds where clients are asked again.
 */
final class Security {
    private static final int AT_A_TIME = 20;
    private static final Duration STREAMS = Duration.ofSeconds(7);
    private static final Duration REFUSED = Duration.ofSeconds(40);
    private static final String MODULES = "org.apache.kafka.common.security.";

    private Security() {
    }

    /** A listener, and what a client shows there. */
    private record Door(String protocol, String ca, String mechanism, String secret) {
        String[] settings(String... more) {
            List<String> found = new ArrayList<>(List.of(
                "bootstrap.servers", of(protocol), "security.protocol", protocol,
                "ssl.truststore.type", "PEM", "ssl.truststore.location", ca,
                "delivery.timeout.ms", "15000", "request.timeout.ms", "10000", "linger.ms", "0"));
            if (!mechanism.isEmpty()) {
                found.addAll(List.of("sasl.mechanism", mechanism, "sasl.jaas.config", jaas()));
            }
            if (mechanism.equals("OAUTHBEARER")) {
                found.addAll(List.of("sasl.login.callback.handler.class", "TokenLogin"));
            }
            found.addAll(Arrays.asList(more));
            return found.toArray(String[]::new);
        }

        private String jaas() {
            if (mechanism.equals("OAUTHBEARER")) {
                return MODULES + "oauthbearer.OAuthBearerLoginModule required token=\"" + secret + "\";";
            }
            String kind = mechanism.equals("PLAIN") ? "plain.Plain" : "scram.Scram";
            return MODULES + kind + "LoginModule required username=\"" + of("USER") + "\" password=\"" + secret + "\";";
        }

        Door withSecret(String other) {
            return new Door(protocol, ca, mechanism, other);
        }
    }

    static void tls(Client client) throws Exception {
        String topic = client.freshTopic("tls");
        refused(client, topic, new Door("SSL", of("OTHER_CA"), "", ""), SslAuthenticationException.class);
        bothWays(client, topic, new Door("SSL", of("CA"), "", ""));
    }

    /** With and without TLS: what is wrong is refused, and what is right lets in after it. */
    static void sasl(Client client, String mechanism) throws Exception {
        String secret = mechanism.equals("OAUTHBEARER") ? "TOKEN" : "PASSWORD";
        for (String protocol : new String[] {"SASL_PLAINTEXT", "SASL_SSL"}) {
            String topic = client.freshTopic(mechanism);
            var right = new Door(protocol, of("CA"), mechanism, of(secret));
            var wrong = right.withSecret(of("WRONG_" + secret));
            refused(client, topic, wrong, SaslAuthenticationException.class);
            bothWays(client, topic, right);
            refused(client, topic, wrong, SaslAuthenticationException.class);
        }
    }

    /** By one of another authority: who is connected goes on, who comes anew has to trust the new one. */
    static void certificateExchanged(Client client) throws Exception {
        String topic = client.freshTopic("exchanged");
        var old = new Door("SSL", of("CA"), "", "");
        var young = new Door("SSL", of("OTHER_CA"), "", "");
        var before = some(topic, "before");
        var after = some(topic, "after");
        var more = some(topic, "more");
        try (var producer = client.producer(old.settings()); var consumer = client.consumer(old.settings())) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            Client.send(producer, before);
            Client.check(Client.read(consumer, before.size()), before, 0);
            Client.equal(ask("exchange-certificate"), "exchanged", "what the runner says");
            Client.send(producer, after);
            Client.check(Client.read(consumer, after.size()), after, before.size());
            refused(client, topic, old, SslAuthenticationException.class);
            try (var newcomer = client.producer(young.settings())) {
                Client.send(newcomer, more);
            }
            Client.check(Client.read(consumer, more.size()), more, before.size() + after.size());
        }
        before.addAll(after);
        before.addAll(more);
        reads(client, topic, young, before);
    }

    /** Who came in by the old one is cut off and stays out; with the new one a client goes on. */
    static void passwordChanged(Client client) throws Exception {
        String topic = client.freshTopic("password");
        var old = new Door("SASL_SSL", of("CA"), "SCRAM-SHA-512", of("PASSWORD"));
        var before = some(topic, "before");
        var after = some(topic, "after");
        Door young;
        try (var producer = client.producer(old.settings()); var consumer = client.consumer(old.settings())) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            Client.send(producer, before);
            Client.check(Client.read(consumer, before.size()), before, 0);
            young = old.withSecret(ask("change-password"));
            Client.refused(ApiException.class, () -> never(producer, topic));
            refused(client, topic, old, SaslAuthenticationException.class);
        }
        try (var newcomer = client.producer(young.settings())) {
            Client.send(newcomer, after);
        }
        before.addAll(after);
        reads(client, topic, young, before);
    }

    /** Records flow over several sessions; each is there once, in order. */
    static void reauthentication(Client client) throws Exception {
        String topic = client.freshTopic("again");
        var door = new Door("SASL_SSL", of("CA"), "SCRAM-SHA-512", of("PASSWORD"));
        List<ProducerRecord<byte[], byte[]>> sent = new ArrayList<>();
        List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
        try (var producer = client.producer(door.settings()); var consumer = client.consumer(door.settings())) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            long end = System.nanoTime() + STREAMS.toNanos();
            while (System.nanoTime() < end) {
                var some = some(topic, sent.size() + "");
                Client.send(producer, some);
                sent.addAll(some);
                found.addAll(Client.read(consumer, some.size()));
                Thread.sleep(50);
            }
        }
        Client.check(found, sent, 0);
        reads(client, topic, door, sent);
    }

    private static void bothWays(Client client, String topic, Door door) throws Exception {
        var records = Records.sample(topic, 100, "secured");
        try (var producer = client.producer(door.settings())) {
            Client.send(producer, records);
        }
        reads(client, topic, door, records);
    }

    /** Exactly these are there, and come to who reads through the door. */
    private static void reads(Client client, String topic, Door door, List<ProducerRecord<byte[], byte[]>> sent) {
        try (var consumer = client.consumer(door.settings())) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            Client.check(Client.read(consumer, sent.size()), sent, 0);
        }
        client.checkPartition(topic, 0, sent);
    }

    /** A producer does not come in there, and says why in bounded time. */
    private static void refused(Client client, String topic, Door door, Class<? extends Exception> why)
            throws Exception {
        long begun = System.nanoTime();
        try (var producer = client.producer(door.settings())) {
            Client.refused(why, () -> never(producer, topic));
        }
        Duration took = Duration.ofNanos(System.nanoTime() - begun);
        if (took.compareTo(REFUSED) > 0) {
            throw new AssertionError("it knew after " + took);
        }
    }

    private static Object never(KafkaProducer<byte[], byte[]> producer, String topic) throws Exception {
        return producer.send(new ProducerRecord<>(topic, 0, null, Records.bytes("never"))).get();
    }

    private static List<ProducerRecord<byte[], byte[]>> some(String topic, String label) {
        return Records.sample(topic, AT_A_TIME, label);
    }

    private static String of(String name) {
        return System.getenv("COMPAT_" + name);
    }

    /** Have the runner do it; what it says then. */
    private static String ask(String word) throws Exception {
        System.out.println(word);
        return new BufferedReader(new InputStreamReader(System.in, "UTF-8")).readLine();
    }
}
