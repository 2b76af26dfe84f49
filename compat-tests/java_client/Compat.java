import java.util.Map;
import java.util.TreeMap;

/**
 * Arguments: scenario, bootstrap. Ends with 0 when it passed, 77 when the client has no such thing, else 1, with
 * words on standard error. {@code member:TOPIC:GROUP} is a role besides the scenarios: see {@link Groups}.
 */
public final class Compat {
    private static final int NOT_IN_CLIENT = 77;

    /** One scenario. */
    interface Scenario {
        void run(Client client) throws Exception;
    }

    private static final Map<String, Scenario> SCENARIOS = new TreeMap<>(Map.ofEntries(
        Map.entry("headers", Records::headers),
        Map.entry("empty-values", Records::emptyValues),
        Map.entry("batches", Records::batches),
        Map.entry("single-records", Records::singleRecords),
        Map.entry("large-messages", Records::largeMessages),
        Map.entry("idempotence", Records::idempotence),
        Map.entry("seek", Records::seek),
        Map.entry("timestamps", Records::timestamps),
        Map.entry("commits", Groups::commits),
        Map.entry("group-join-leave", Groups::joinLeave),
        Map.entry("group-killed", Groups::killed),
        Map.entry("admin-topics", Administration::topics),
        Map.entry("admin-configs", Administration::configs),
        Map.entry("admin-partitions", Administration::partitions),
        Map.entry("delete-records", Administration::deleteRecords),
        Map.entry("reconnect", Reconnect::reconnect),
        Map.entry("tls", Security::tls),
        Map.entry("certificate-exchanged", Security::certificateExchanged),
        Map.entry("password-changed", Security::passwordChanged),
        Map.entry("reauthentication", Security::reauthentication),
        Map.entry("transactions", Transactions::commitAndAbort),
        Map.entry("transactions-fencing", Transactions::fencing),
        Map.entry("transactions-offsets", Transactions::offsets),
        Map.entry("transactions-timeout", Transactions::timeout)));

    private Compat() {
    }

    public static void main(String[] arguments) {
        String name = arguments[0];
        int status = 1;
        try (Client client = new Client(arguments[1])) {
            if (name.startsWith("member:")) {
                Groups.member(client, name.split(":")[1], name.split(":")[2]);
            } else if (name.startsWith("codec-")) {
                Records.codec(client, name.substring("codec-".length()));
            } else if (name.startsWith("sasl-")) {
                Security.sasl(client, name.substring("sasl-".length()).toUpperCase());
            } else if (SCENARIOS.containsKey(name)) {
                SCENARIOS.get(name).run(client);
            } else {
                System.err.println("no scenario " + name + " in this program");
                System.exit(NOT_IN_CLIENT);
            }
            status = 0;
        } catch (Exception | AssertionError failure) {
            failure.printStackTrace();
        }
        System.exit(status);
    }
}
