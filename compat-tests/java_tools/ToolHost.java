import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command-line tools one after the other in one JVM: a start of its own costs each a second. A line of
 * standard input, {@code {"main": class, "arguments": [...], "stdin": text}}, runs a tool to its end; a line of standard
 * output, {@code {"status": n, "out": text, "err": text}}, tells what it printed and would have exited with. Whatever a
 * tool does in its shutdown hooks (some flush, or print their summary there) belongs to its run.
 */
public final class ToolHost {
    /** Stands for the end of a process. Tools that catch everything print it, and exit again. */
    private static final class Exited extends Error {
        private static final long serialVersionUID = 1L;
    }

    /** A stream whose place behind it changes with each run: Scala's Console keeps the first one that it sees. */
    private static final class Switched extends OutputStream {
        private volatile ByteArrayOutputStream behind = new ByteArrayOutputStream();

        @Override
        public void write(int b) {
            behind.write(b);
        }

        @Override
        public void write(byte[] bytes, int from, int length) {
            behind.write(bytes, from, length);
        }

        void begin() {
            behind = new ByteArrayOutputStream();
        }

        String text() {
            return behind.toString(StandardCharsets.UTF_8);
        }
    }

    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Switched OUT = new Switched();
    private static final Switched ERR = new Switched();
    private static final List<Runnable> HOOKS = new ArrayList<>();
    private static Integer status;
    private static String printed;
    private static String complained;

    private ToolHost() {
    }

    public static void main(String[] none) throws IOException {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(new PrintStream(OUT, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(ERR, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure((code, message) -> exited(code));
        Exit.setHaltProcedure((code, message) -> exited(code));
        Exit.setShutdownHookAdder((name, hook) -> HOOKS.add(hook));
        String line;
        while ((line = requests.readLine()) != null) {
            answers.println(JSON.writeValueAsString(run(JSON.readTree(line))));
        }
        Runtime.getRuntime().halt(0);
    }

    /** Only the first exit counts, and what was printed until then. */
    private static synchronized void exited(int code) {
        if (status == null) {
            status = code;
            printed = OUT.text();
            complained = ERR.text();
        }
        throw new Exited();
    }

    private static Map<String, Object> run(JsonNode request) {
        OUT.begin();
        ERR.begin();
        HOOKS.clear();
        status = null;
        System.setIn(new ByteArrayInputStream(request.get("stdin").asText().getBytes(StandardCharsets.UTF_8)));
        List<String> arguments = new ArrayList<>();
        request.get("arguments").forEach(argument -> arguments.add(argument.asText()));
        try {
            invoke(request.get("main").asText(), arguments.toArray(String[]::new));
            exited(0);
        } catch (Exited end) {
            OUT.begin();
            ERR.begin();
        }
        HOOKS.forEach(ToolHost::runHook);
        return Map.of("status", status, "out", printed + OUT.text(), "err", complained + ERR.text());
    }

    private static void invoke(String main, String[] arguments) {
        try {
            Class.forName(main).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException failure) {
            if (status == null) {
                failure.getCause().printStackTrace();
                exited(1);
            }
        } catch (ReflectiveOperationException failure) {
            throw new IllegalArgumentException(main, failure);
        }
    }

    private static void runHook(Runnable hook) {
        try {
            hook.run();
        } catch (Exited again) {
            // The first exit counted.
        }
    }
}
