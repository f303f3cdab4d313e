import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * The script of behaviours with Kafka's own Java client: Client BOOTSTRAP PREFIX BEHAVIOUR... Every name that it makes in
 * the cluster begins with PREFIX. Results go to standard output, a JSON object on each line; docs/conformance.md has their form.
 */
public final class Client {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final BufferedReader ANSWERS = new BufferedReader(new InputStreamReader(System.in));

    interface Behaviour {
        void run(Kit kit) throws Exception;
    }

    private static final Map<String, Behaviour> ALL = new LinkedHashMap<>();

    static {
        ALL.put("produce", Produce::run);
        ALL.put("transactions", Transactions::run);
        ALL.put("group", Groups::run);
        ALL.put("copy", Copy::run);
        ALL.put("topics", Topics::run);
        ALL.put("configs", Configs::run);
        ALL.put("records", Records::run);
        ALL.put("groups-admin", GroupsAdmin::run);
        ALL.put("producers", Producers::run);
        ALL.put("leader-kill", LeaderKill::run);
        ALL.put("barrier", Barrier::run);
    }

    public static void main(String[] args) throws Exception {
        for (int i = 2; i < args.length; i++) {
            String name = args[i];
            try (Kit kit = new Kit(args[0], args[1], name)) {
                try {
                    ALL.get(name).run(kit);
                } catch (Throwable t) {
                    t.printStackTrace();
                    kit.fact("failed", t.toString());
                }
            }
            print(Map.of("behaviour", name, "done", true));
        }
        System.exit(0); // whatever thread a client left
    }

    static synchronized void print(Map<String, ?> line) throws Exception {
        System.out.println(JSON.writeValueAsString(line));
        System.out.flush();
    }

    /** Asks the runner for something that only it can do, and waits until it is done. */
    static String ask(String behaviour, String what) throws Exception {
        print(Map.of("behaviour", behaviour, "ask", what));
        return ANSWERS.readLine();
    }
}
